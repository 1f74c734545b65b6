/** What is shown of durable functions, in words and bars. */

import type { FunctionAt, FunctionDetail, FunctionInstance, FunctionStep } from "../api/types";

/** The tone of a status. */
export function tone(status: string): "good" | "bad" | "doubt" | "chosen" | "plain" {
  if (status === "completed") return "good";
  if (status === "failed") return "bad";
  if (status === "cancelled") return "doubt";
  return status === "running" ? "chosen" : "plain";
}

/** Types of nodes that do something themselves; the others hold these together. */
const LEAVES = new Set(["SQL", "SLEEP", "WAIT_SCHEDULE", "HTTP", "HTTP_MULTIPART", "SIGNAL", "TASK", "CALL", "BREAK"]);
/** Those that wait. */
const WAITS = new Set(["SIGNAL", "SLEEP", "WAIT_SCHEDULE"]);
export const isLeaf = (type: string): boolean => LEAVES.has(type);

/** The settings of a node, if its text is some. */
function settings(query: string | null | undefined): Record<string, unknown> {
  try {
    const read: unknown = JSON.parse(query ?? "");
    return typeof read === "object" && read !== null ? (read as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}
const text = (value: unknown): string => (typeof value === "string" ? value : value === undefined || value === null ? "" : JSON.stringify(value));
const line = (value: string): string => value.replace(/\s+/g, " ").trim();

/** What a node does, in a few words. */
export function said(type: string, query: string | null | undefined): string {
  const of = settings(query);
  switch (type) {
    case "SQL":
      return line(query ?? "");
    case "SLEEP":
      return `sleep ${query ?? ""} s`;
    case "WAIT_SCHEDULE":
      return `wait for ${text(of.cron)} ${text(of.time_zone)}`.trim();
    case "SIGNAL":
      return `wait for the signal ${text(of.signal_name)}`;
    case "HTTP":
    case "HTTP_MULTIPART":
      return `${text(of.method) || "POST"} ${text(of.url)}`;
    case "TASK":
      return `task ${text(of.task)}`;
    case "CALL":
      return text(of.label) === "" ? "call" : `call ${text(of.label)}`;
    case "BREAK":
      return "break";
    case "THEN":
      return "then";
    case "IF":
      return text(of.condition_type) === "result_has_rows" ? `if ${text(of.result_name)} has rows` : "if";
    case "LOOP":
      return "loop";
    case "JOIN":
      return "all of";
    case "RACE":
      return "the first of";
    case "RETRY":
      return `retry, at most ${text(of.max_attempts) || "3"} attempts`;
    case "CATCH":
      return "catch";
    case "TIMEOUT":
      return `at most ${text(of.seconds)} s`;
    case "STEP":
      return "with undo";
    case "MAP":
      return `for each ${text(of.item) || "item"}`;
    default:
      return line(`${type} ${query ?? ""}`);
  }
}

/** The signal for which a node waits. */
export const signalOf = (query: string | null | undefined): string => text(settings(query).signal_name);

/** Where an instance is, in a few words. */
export function place(at: FunctionAt): string {
  const what = said(at.node_type, at.query);
  if (at.attempt !== null && at.attempt !== undefined) return `${what}, attempt ${at.attempt}`;
  return what;
}

const ms = (at: string | null | undefined): number | undefined => {
  if (at === null || at === undefined) return undefined;
  const time = new Date(at).getTime();
  return Number.isNaN(time) ? undefined : time;
};

/** A span of milliseconds between two times. */
export function between(from: string | null | undefined, to: string | null | undefined): number | undefined {
  const [a, b] = [ms(from), ms(to)];
  return a === undefined || b === undefined ? undefined : Math.max(0, b - a);
}

/** A span as people read it, also a short one. */
export function took(value: number | undefined): string {
  if (value === undefined) return "";
  if (value < 1000) return `${Math.round(value)} ms`;
  if (value < 60_000) return `${(value / 1000).toFixed(1)} s`;
  if (value < 3_600_000) return `${Math.floor(value / 60_000)} min ${Math.floor((value % 60_000) / 1000)} s`;
  if (value < 172_800_000) return `${Math.floor(value / 3_600_000)} h ${Math.floor((value % 3_600_000) / 60_000)} min`;
  return `${Math.floor(value / 86_400_000)} d`;
}

/** A bar of a timeline. Places are parts of the whole, from 0 to 1. */
export interface Bar {
  key: string;
  /** The node, by its place; -1: it is the instance itself. */
  node: number;
  label: string;
  kind: "step" | "wait" | "frame";
  status: string;
  /** Absent: when it began is not kept, and there is only an end. */
  from: number | undefined;
  to: number;
  /** It goes on. */
  open: boolean;
  /** When its timer fires, if that is on the scale. */
  due: number | undefined;
  ms: number | undefined;
  note: string;
}

/** The bars of an instance: what its steps did when. With `frames`, also what holds steps together. */
export function bars(of: FunctionDetail, frames: boolean): Bar[] {
  const begin = ms(of.created_at) ?? 0;
  const now = ms(of.at) ?? begin;
  const end = Math.max(ms(of.ended_at) ?? now, begin + 1);
  const part = (time: number): number => Math.max(0, Math.min(1, (time - begin) / (end - begin)));
  const found: Bar[] = [];
  const begun = ms(of.begun_at);
  const waited = begun ?? end;
  if (waited - begin > (end - begin) / 1000)
    found.push({
      key: "start", node: -1, label: of.queue === null || of.queue === undefined ? "waits for a worker" : `waits in queue ${of.queue}`, kind: "wait",
      status: begun === undefined ? "running" : "completed", from: 0, to: part(waited), open: begun === undefined && of.ended_at == null, due: undefined,
      ms: waited - begin, note: of.delayed_until ? `not before ${of.delayed_until}` : "",
    });
  for (const step of of.steps) {
    const node = of.nodes[step.node];
    if (node === undefined) continue;
    const due = ms(step.due_at);
    const waitsToRetry = node.node_type === "RETRY" && due !== undefined;
    if (!isLeaf(node.node_type) && !frames && !waitsToRetry) continue;
    const open = step.status === "running";
    // What it waits for began with the failure of its last attempt.
    const failed = waitsToRetry && !frames ? ended(of, step) : undefined;
    const from = failed ?? ms(step.begun_at);
    const to = open ? end : (ms(step.ended_at) ?? end);
    found.push({
      key: step.cell, node: step.node, label: said(node.node_type, node.query?.text),
      kind: WAITS.has(node.node_type) || (waitsToRetry && !frames) ? "wait" : isLeaf(node.node_type) ? "step" : "frame",
      status: step.status, from: from === undefined ? undefined : part(from), to: part(to), open,
      due: due === undefined || due > end ? undefined : part(due), ms: from === undefined ? undefined : to - from,
      note: notes(of, step).join(", "),
    });
  }
  return found;
}

/** When what stands below a step ended last. */
function ended(of: FunctionDetail, above: FunctionStep): number | undefined {
  const below = new Set(of.edges.filter((edge) => edge.from === above.node).map((edge) => edge.to));
  const times = of.steps.filter((step) => below.has(step.node) && step.items === above.items).map((step) => ms(step.ended_at));
  return times.reduce((last, time) => (time === undefined || (last !== undefined && last > time) ? last : time), undefined);
}

/** What else there is to say of a step. */
export function notes(of: FunctionDetail, step: FunctionStep): string[] {
  const found: string[] = [];
  if (step.items) found.push(`item ${step.items}`);
  if (step.round && step.round !== "1") found.push(`round ${step.round}`);
  if (step.attempt) found.push(`attempt ${step.attempt}`);
  if (step.iteration && step.iteration > 1) found.push(`round ${step.iteration} of the loop`);
  if (step.items_begun != null) found.push(`${step.items_begun} items begun, ${step.items_running ?? 0} run`);
  const [left, right] = [ms(step.due_at), ms(of.at)];
  if (left !== undefined && right !== undefined && step.status === "running") found.push(left > right ? `due in ${took(left - right)}` : "due now");
  for (const activity of of.activities)
    if (activity.cell.split("#")[0] === step.cell) {
      if (activity.kind === "task") found.push(activity.worker ? `claimed by ${activity.worker}, attempt ${activity.attempt} of ${activity.attempts_max ?? 0}` : "waits to be claimed");
      else found.push(activity.taken_at ? `runs on a worker, attempt ${activity.attempt}` : "waits for a place on a worker");
    }
  if (step.sqlstate) found.push(`SQLSTATE ${step.sqlstate}`);
  return found;
}

/** The order of lists: the newest first, and what was started at once by its id. Times are compared with all their digits. */
export function order(a: FunctionInstance, b: FunctionInstance): number {
  const [x, y] = [digits(a.created_at), digits(b.created_at)];
  if (x !== y) return x < y ? 1 : -1;
  return a.id < b.id ? -1 : a.id > b.id ? 1 : 0;
}
function digits(time: string): string {
  const [, whole = time, fraction = ""] = /^([^.Z]*)(?:\.(\d+))?Z$/.exec(time) ?? [];
  return `${whole}.${fraction.padEnd(9, "0")}`;
}

/** A list after its first page was asked for again. */
export interface Merged {
  rows: FunctionInstance[];
  /** How many came before what was the first one. */
  added: number;
  /** There is more between the page and what was there: the page is all that is known. */
  gap: boolean;
}

/** Puts a first page before what was loaded behind it. What is behind the page stays, but for those that are on it now. */
export function merged(before: readonly FunctionInstance[], page: readonly FunctionInstance[], isAll: boolean): Merged {
  const last = page.at(-1);
  if (isAll || last === undefined || before.length === 0) return { rows: [...page], added: Math.max(0, page.length - before.length), gap: false };
  const fresh = new Set(page.map(({ id }) => id));
  const first = before[0]!;
  if (order(first, last) > 0) return { rows: [...page], added: page.length, gap: true };
  const rest = before.filter((row) => !fresh.has(row.id) && order(row, last) > 0);
  const added = page.filter((row) => order(row, first) < 0).length;
  return { rows: [...page, ...rest], added, gap: false };
}
