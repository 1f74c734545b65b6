/** What the lab measured, for people: figures with their units, and axes. */

import type { LabCourse, LabDifference, LabOutcome, LabTrend, LabVerdict } from "../api/types";

/** A tone of the style, and a word: colour is never alone. */
export type Said = readonly [tone: "good" | "bad" | "doubt" | "plain" | "chosen", word: string];

export const VERDICTS: Record<LabVerdict, Said> = { pass: ["good", "pass"], fail: ["bad", "fail"], invalid: ["doubt", "invalid"] };
export const OUTCOMES: Record<LabOutcome, Said> = {
  met: ["good", "met"],
  missed: ["bad", "missed"],
  "other-load": ["plain", "other load"],
  "other-size": ["plain", "other size"],
  "not-measured": ["plain", "not measured"],
};
export const TRENDS: Record<LabTrend, Said> = {
  worse: ["bad", "worse"],
  changed: ["doubt", "changed"],
  better: ["good", "better"],
  "no-change": ["plain", "no change"],
  "too-few": ["plain", "too few runs"],
};
export const DIFFERENCES: Record<LabDifference, Said> = {
  better: ["good", "better"],
  worse: ["bad", "worse"],
  different: ["doubt", "different"],
  "no-difference": ["plain", "no difference"],
  undecidable: ["plain", "not decidable"],
  "not-comparable": ["plain", "not comparable"],
};

/** The verdict on a try. */
export function ofTry(verdict: string | null | undefined): Said {
  if (verdict === null || verdict === undefined) return ["plain", "open"];
  const tones: Record<string, Said[0]> = { keep: "good", discard: "plain", inconclusive: "doubt", suspicious: "doubt", invalid: "bad", crash: "bad", "checks failed": "bad" };
  return [tones[verdict] ?? "plain", verdict === "keep" ? "kept" : verdict === "discard" ? "discarded" : verdict];
}

const grouped = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

/** A number with about four digits that mean something, as the lab writes it. */
export function number(value: number): string {
  if (!Number.isFinite(value)) return "no number";
  const size = Math.abs(value);
  if (size >= 1e15) return value.toExponential(2);
  if (size >= 1000 || Number.isInteger(value)) return grouped.format(Math.round(value) + 0);
  if (size < 1e-9) return value.toExponential(2);
  const digits = size >= 100 ? 1 : size >= 10 ? 2 : size >= 1 ? 3 : 3 - Math.floor(Math.log10(size));
  return value.toFixed(digits).replace(/\.?0+$/, "");
}

/** A figure with its unit, in the unit that people would choose. */
export function quantity(value: number | null | undefined, unit: string): string {
  if (value === null || value === undefined) return "";
  const size = Math.abs(value);
  const [shown, word] =
    unit === "us" && size >= 1e3 ? [value / 1e3, "ms"]
    : unit === "ms" && size >= 1e3 ? [value / 1e3, "s"]
    : unit === "bytes" && size >= 1e9 ? [value / 1e9, "GB"]
    : unit === "bytes" && size >= 1e6 ? [value / 1e6, "MB"]
    : unit === "bytes" && size >= 1e3 ? [value / 1e3, "kB"]
    : unit === "ratio" ? [value, "x"]
    : [value, unit];
  if (word === "1/s") return `${number(shown)}/s`;
  return word === "" ? number(shown) : `${number(shown)} ${word}`;
}

/** A change in percent, with its sign: `+3.1 %`. */
export function percent(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return "";
  const rounded = Math.round(value * 10) / 10;
  return rounded === 0 ? "0.0 %" : `${rounded > 0 ? "+" : "\u2212"}${Math.abs(rounded).toFixed(1)} %`;
}

/** The first word of a figure's name, by which figures stand together. */
export const family = (name: string): string => name.split(/[/.]/, 1)[0] ?? name;

/** An axis: from where to where, and where its lines are. */
export interface Axis {
  low: number;
  high: number;
  ticks: number[];
}

/** An axis that has all of the values on it, with round numbers as lines. It begins at zero unless that would hide what differs. */
export function axis(values: readonly number[], lines = 4): Axis {
  const known = values.filter(Number.isFinite);
  if (known.length === 0) return { low: 0, high: 1, ticks: [0, 1] };
  let low = Math.min(...known);
  let high = Math.max(...known);
  // Noise does not look like a cliff: the axis covers a quarter of the largest value at least.
  const least = Math.max(Math.abs(high), Math.abs(low)) / 4;
  if (high - low < least) {
    const middle = (high + low) / 2;
    low = middle - least / 2;
    high = middle + least / 2;
  }
  if (low > 0 && low < (high - low) / 2) low = 0;
  if (low === high) high = low + 1;
  const rough = (high - low) / lines;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= rough) ?? rough;
  const first = Math.floor(low / step + 1e-9);
  const last = Math.ceil(high / step - 1e-9);
  // A step that vanishes beside the values has no lines.
  if (!Number.isFinite(first) || !Number.isFinite(last) || last - first > 3 * lines) return { low, high, ticks: [low, high] };
  const ticks = Array.from({ length: last - first + 1 }, (_, at) => (first + at) * step);
  return { low: ticks[0]!, high: ticks.at(-1)!, ticks };
}

/** Where a value lies on an axis, from 0 to 1. */
export const place = (value: number, { low, high }: Pick<Axis, "low" | "high">): number =>
  Math.max(0, Math.min(1, (value - low) / (high - low || 1)));

/** The points of a line through the values that are there, in parts where some are not: `M0 1L2 3`. */
export function line(values: readonly (number | null)[], x: (at: number) => number, y: (value: number) => number): string {
  let path = "";
  let broken = true;
  for (const [at, value] of values.entries()) {
    if (value === null) broken = true;
    else {
      path += `${broken ? "M" : "L"}${x(at).toFixed(1)} ${y(value).toFixed(1)}`;
      broken = false;
    }
  }
  return path;
}

/** The places, among the runs, of the values that are held against those before, and of those before. */
export function halves(course: LabCourse): { before: number[]; last: number[] } {
  const known = course.values.flatMap((value, at) => (value === null ? [] : [at]));
  return { before: known.slice(0, course.before_count), last: known.slice(known.length - course.last_count) };
}
