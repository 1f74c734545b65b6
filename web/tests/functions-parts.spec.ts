/** What of the pages of durable functions needs no browser. */

import { expect, test } from "@playwright/test";
import type { FunctionDetail, FunctionEdge, FunctionInstance, FunctionNode, FunctionStep } from "../src/api/types";
import { asking } from "../src/api/client";
import { flow, layout } from "../src/lib/flow";
import { bars, merged, order, said, took } from "../src/lib/functions";

const row = (id: string, created_at: string) => ({ id, created_at, status: "running" }) as FunctionInstance;
const node = (node_type: string, query?: string) => ({ node_type, id: "0", status: "pending", inferred_status: "pending", query: query === undefined ? null : { text: query, bytes: query.length, cut: false } }) as FunctionNode;
const edge = (from: number, to: number, slot: FunctionEdge["slot"]): FunctionEdge => ({ from, to, slot });

test("a space and a plus in what is asked for are told apart", () => {
  expect(asking("/v1/x", { search: "a b+c&d=\u00e9", limit: 5, none: "" })).toBe("/v1/x?search=a%20b%2Bc%26d%3D%C3%A9&limit=5");
});

test("instances are ordered by all digits of their times, and then by their ids", () => {
  const rows = [row("b", "2026-11-28T10:00:00.1Z"), row("a", "2026-11-28T10:00:00.100001Z"), row("d", "2026-11-28T10:00:01Z"), row("a1", "2026-11-28T10:00:00.100Z")];
  expect(rows.toSorted(order).map(({ id }) => id)).toEqual(["d", "a", "a1", "b"]);
});

test("a first page that is asked for again is put before what was loaded", () => {
  const at = (second: number) => row(`i${second}`, `2026-11-28T10:00:${String(second).padStart(2, "0")}Z`);
  const before = [5, 4, 3, 2, 1].map(at);
  const newer = merged(before, [7, 6, 5].map(at), false);
  expect(newer.rows.map(({ id }) => id)).toEqual(["i7", "i6", "i5", "i4", "i3", "i2", "i1"]);
  expect([newer.added, newer.gap]).toEqual([2, false]);
  // One was deleted, and one fits no more.
  expect(merged(before, [5, 3, 2].map(at), false).rows.map(({ id }) => id)).toEqual(["i5", "i3", "i2", "i1"]);
  // So many came that what is between is not known.
  expect(merged(before, [30, 29, 28].map(at), false)).toMatchObject({ gap: true, added: 3 });
  expect(merged(before, [9].map(at), true).rows.map(({ id }) => id)).toEqual(["i9"]);
  expect(merged([], [], false).rows).toEqual([]);
});

test("what a node does is said in words, whatever its text is", () => {
  expect(said("SIGNAL", '{"signal_name": "paid"}')).toBe("wait for the signal paid");
  expect(said("SQL", "SELECT\n  1")).toBe("SELECT 1");
  for (const text of [undefined, null, "", "{", "[1]", "null", '{"signal_name": {"a": 1}}']) for (const type of ["SIGNAL", "HTTP", "CALL", "X"]) expect(typeof said(type, text)).toBe("string");
  expect([took(12), took(1500), took(61_000), took(7_200_000), took(undefined)]).toEqual(["12 ms", "1.5 s", "1 min 1 s", "2 h 0 min", ""]);
});

test("a graph is gone through from above to below, and no two boxes of a layer lie on each other", () => {
  // (a & b) ~> (c ?> d !> loop(e))
  const nodes = ["THEN", "JOIN", "SQL", "SQL", "IF", "SQL", "SQL", "LOOP", "SQL"].map((type) => node(type, "x"));
  const edges = [edge(0, 1, "left"), edge(0, 4, "right"), edge(1, 2, "left"), edge(1, 3, "right"), edge(4, 5, "condition"), edge(4, 6, "left"), edge(4, 7, "right"), edge(7, 8, "left")];
  const found = flow(nodes, edges)!;
  expect(found.boxes.map((box) => box.node)).toEqual([1, 2, 3, 5, 4, 6, 7, 8]);
  const line = (from: number, to: number) => found.lines.find((each) => found.boxes[each.from]!.node === from && found.boxes[each.to]!.node === to);
  expect([line(2, 5)?.kind, line(3, 5)?.kind, line(4, 6)?.label, line(4, 7)?.label, line(8, 7)?.kind]).toEqual(["flow", "flow", "yes", "no", "back"]);
  const placed = layout(found);
  for (const [at, a] of placed.boxes.entries()) {
    expect(a.x).toBeGreaterThanOrEqual(0);
    expect(a.x + 176).toBeLessThanOrEqual(placed.width);
    for (const b of placed.boxes.slice(at + 1)) expect(a.y !== b.y || Math.abs(a.x - b.x) >= 176).toBe(true);
  }
  expect(placed.lines.every(({ path }) => /^M[-\d. ]+(C[-\d. ]+)+$/.test(path))).toBe(true);
});

test("a large or a broken graph is not drawn, and a wide one soon", () => {
  expect(flow([], [])).toBeUndefined();
  expect(flow(Array.from({ length: 500 }, () => node("SQL")), [])).toBeUndefined();
  expect(flow([node("THEN"), node("SQL")], [edge(1, 0, "left")])).toBeUndefined();
  expect(flow([node("THEN")], [edge(0, 7, "left")])).toBeUndefined();
  const deep = Array.from({ length: 390 }, () => node("THEN"));
  expect(flow(deep, deep.slice(1).map((_, at) => edge(at, at + 1, "left")))).toBeUndefined();
  const wide = [node("JOIN"), ...Array.from({ length: 399 }, () => node("SQL", "x"))];
  const began = performance.now();
  const placed = layout(flow(wide, wide.slice(1).map((_, at) => edge(0, at + 1, at < 2 ? (at === 0 ? "left" : "right") : "extra")))!);
  expect(placed.boxes.length).toBe(400);
  expect(performance.now() - began).toBeLessThan(2000);
});

test("bars lie on the scale, and what is not kept is an end alone", () => {
  const step = (cell: string, node: number, more: Partial<FunctionStep>) => ({ cell, node, status: "completed", ...more }) as FunctionStep;
  const of = {
    created_at: "2026-11-28T10:00:00Z", begun_at: "2026-11-28T10:00:01Z", ended_at: null, at: "2026-11-28T10:00:10Z", queue: "mail", activities: [],
    nodes: [node("THEN"), node("SQL", "a"), node("SIGNAL", '{"signal_name":"go"}'), node("RETRY", "{}"), node("SQL", "b")],
    edges: [edge(0, 1, "left"), edge(0, 2, "right"), edge(3, 4, "left")],
    steps: [
      step("0", 0, { status: "running", begun_at: "2026-11-28T10:00:01Z" }),
      step("1", 1, { ended_at: "2026-11-28T10:00:05Z" }),
      step("2", 2, { status: "running", begun_at: "2026-11-28T10:00:05Z", due_at: "2026-11-28T10:01:00Z" }),
      step("3", 3, { status: "running", begun_at: "2026-11-28T10:00:02Z", due_at: "2026-11-28T10:00:20Z", attempt: 2 }),
      step("4", 4, { status: "failed", ended_at: "2026-11-28T10:00:08Z" }),
      step("9", 9, {}),
    ],
  } as unknown as FunctionDetail;
  const found = bars(of, false);
  expect(found.map(({ key, kind }) => `${key} ${kind}`)).toEqual(["start wait", "1 step", "2 wait", "3 wait", "4 step"]);
  expect(found.map(({ from, to }) => [from, to])).toEqual([[0, 0.1], [undefined, 0.5], [0.5, 1], [0.8, 1], [undefined, 0.8]]);
  expect(found[2]!.note).toBe("due in 50.0 s");
  expect(found[3]!.note).toContain("attempt 2");
  expect(bars(of, true).map(({ key }) => key)).toEqual(["start", "0", "1", "2", "3", "4"]);
});
