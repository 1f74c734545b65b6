/** Numbers and times, for people. */

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];

/** Bytes with three digits: `48.6 MiB`. */
export function bytes(value: number | null | undefined): string {
  if (value === null || value === undefined) return "";
  let unit = 0;
  let left = value;
  while (left >= 1024 && unit < UNITS.length - 1) {
    left /= 1024;
    unit += 1;
  }
  const digits = unit === 0 || left >= 100 ? 0 : left >= 10 ? 1 : 2;
  return `${left.toFixed(digits)} ${UNITS[unit]}`;
}

const whole = new Intl.NumberFormat("en");

/** A number with its thousands set apart. */
export const count = (value: number): string => whole.format(value);

/** A number with its word: `1 branch`, `3 branches`. */
export function several(value: number, one: string, more = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : more}`;
}

/** A span, by its largest unit: `42 s`, `3 min`, `5 h`, `12 d`. */
export function span(ms: number): string {
  const s = Math.max(0, Math.round(ms / 1000));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min`;
  if (s < 86_400) {
    const hours = Math.floor(s / 3600);
    const minutes = Math.floor((s % 3600) / 60);
    return hours < 10 && minutes > 0 ? `${hours} h ${minutes} min` : `${hours} h`;
  }
  return `${Math.floor(s / 86_400)} d`;
}

/** Milliseconds with as many digits as mean something. */
export function ms(value: number): string {
  if (value >= 10_000) return `${(value / 1000).toFixed(1)} s`;
  return `${value >= 100 ? value.toFixed(0) : value.toFixed(1)} ms`;
}

const full = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "long" });

/** A time in full, by the clock of the reader. */
export function moment(at: string): string {
  const time = new Date(at);
  return Number.isNaN(time.getTime()) ? at : full.format(time);
}

/** Seconds of what people write: `90m`, `2h`, `7d`, or seconds. */
export function seconds(text: string): number | undefined {
  const found = /^\s*(\d+)\s*(s|m|min|h|d|w)?\s*$/.exec(text);
  if (found === null) return undefined;
  const by: Record<string, number> = { s: 1, m: 60, min: 60, h: 3600, d: 86_400, w: 604_800 };
  const value = Number(found[1]) * by[found[2] ?? "s"]!;
  return value > 0 && Number.isSafeInteger(value) ? value : undefined;
}

/** Seconds as people write them. */
export function spoken(value: number): string {
  for (const [unit, size] of [["d", 86_400], ["h", 3600], ["m", 60]] as const)
    if (value % size === 0) return `${value / size}${unit}`;
  return `${value}s`;
}

/** The first digits of a digest. */
export const short = (digest: string): string => (digest === "" ? "not taken" : digest.slice(0, 12));
