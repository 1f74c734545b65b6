/** Where in statements an error lies, if its words say so: at what they quote. */
export function placeOf(sql: string, message: string): { from: number; to: number } | undefined {
  const [, near] = /at or near "((?:[^"]|"")+)"/.exec(message) ?? /"((?:[^"]|"")+)"/.exec(message) ?? [];
  if (near === undefined) return undefined;
  // `relation "public.t"` and `column "t.c"` are written with quotes around each part, or without.
  for (const wanted of [near, near.split(".").pop()!]) {
    const word = wanted.replaceAll(/[.*+?^${}()|[\]\\]/g, "\\$&");
    const found = new RegExp(`(?<![\\w"])${word}(?!\\w)|"${word}"`, "i").exec(sql);
    if (found !== null) return { from: found.index, to: found.index + found[0].length };
    const anywhere = sql.toLowerCase().indexOf(wanted.toLowerCase());
    if (anywhere >= 0) return { from: anywhere, to: anywhere + wanted.length };
  }
  return undefined;
}
