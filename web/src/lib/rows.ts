/** The lines of a comparison of rows, put together. */

import type { DataDiff, DiffCounts, DiffRow, DiffSequence, DiffSummary, DiffTable } from "../api/types";

export interface Compared {
  table: DiffTable;
  rows: DiffRow[];
  counts: DiffCounts | undefined;
}

export interface Found {
  tables: Compared[];
  sequences: DiffSequence[];
  summary: DiffSummary | undefined;
  failed: string | undefined;
}

export const nothing = (): Found => ({ tables: [], sequences: [], summary: undefined, failed: undefined });

/** Takes one line more. */
export function take(found: Found, line: DataDiff): void {
  if ("table" in line) found.tables.push({ table: line.table, rows: [], counts: undefined });
  else if ("row" in line) found.tables.at(-1)?.rows.push(line.row);
  else if ("ending" in line) {
    const last = found.tables.at(-1);
    if (last !== undefined) last.counts = line.ending;
  } else if ("sequence" in line) found.sequences.push(line.sequence);
  else if ("summary" in line) found.summary = line.summary;
  else if ("failed" in line) found.failed = line.failed.message;
}

/** What was found so far, in objects of their own: a page that shows them sees that they are others than before. */
export const soFar = (found: Found): Found => ({
  ...found,
  tables: found.tables.map((each) => ({ ...each, rows: [...each.rows] })),
  sequences: [...found.sequences],
});

/** What became of a row. */
export type How = "added" | "removed" | "changed";
export const how = (row: DiffRow): How => (row.old == null ? "added" : row.new == null ? "removed" : "changed");

/** A cell: its value now, or the last that it had, and the one before if that is another one. */
export interface Cell {
  value: string | null;
  before: string | null | undefined;
}

export function cells(row: DiffRow): Cell[] {
  const shown = row.new ?? row.old ?? [];
  return shown.map((value, at) => {
    const before = row.new != null && row.old != null ? row.old[at] : undefined;
    return { value: written(value), before: before === undefined || before === value ? undefined : written(before) };
  });
}
const written = (value: unknown): string | null => (value == null ? null : typeof value === "object" ? JSON.stringify(value) : String(value));
