/** Values as text, and tables as CSV (RFC 4180). */

/** A value as PostgreSQL would write it. */
export function text(value: unknown): string {
  if (value === null || value === undefined) return "";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

const cell = (value: unknown): string => {
  // An empty text and no value are told apart as COPY does: the first is quoted.
  if (value === null || value === undefined) return "";
  const written = text(value);
  return written === "" || /[",\r\n]/.test(written) ? `"${written.replaceAll('"', '""')}"` : written;
};

/** A table with its head. */
export function csv(head: readonly string[], rows: readonly (readonly unknown[])[]): string {
  return [head, ...rows].map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";
}

/** Gives a file to whoever looks at the page. */
export function download(name: string, type: string, content: string): void {
  const url = URL.createObjectURL(new Blob([content], { type }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
