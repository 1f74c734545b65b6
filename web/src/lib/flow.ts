/** The graph of an instance as it is gone through, and where its boxes stand. */

import type { FunctionEdge, FunctionNode, FunctionSlot } from "../api/types";
import { said } from "./functions";

export interface Box {
  /** The node, by its place. */
  node: number;
  label: string;
}
export type LineKind = "flow" | "back" | "fails" | "undo";
export interface Line {
  from: number;
  to: number;
  kind: LineKind;
  label: string;
}
export interface Flow {
  boxes: Box[];
  lines: Line[];
}

/** Nodes that are drawn at most: more are no picture. */
export const DRAWN_MAX = 400;
/** How deep nodes may lie: workers run none that lie deeper. */
const DEPTH_MAX = 256;

interface Ends {
  in: number[];
  out: number[];
}
const NOTHING: Ends = { in: [], out: [] };

/** How a graph is gone through. `undefined`: it is too large to be drawn, or is none. */
export function flow(nodes: readonly FunctionNode[], edges: readonly FunctionEdge[]): Flow | undefined {
  if (nodes.length === 0 || nodes.length > DRAWN_MAX) return undefined;
  const below: Partial<Record<FunctionSlot, number[]>>[] = nodes.map(() => ({}));
  const depth = new Array<number>(nodes.length).fill(0);
  for (const { from, to, slot } of edges) {
    if (nodes[from] === undefined || nodes[to] === undefined || to <= from) return undefined;
    (below[from]![slot] ??= []).push(to);
    depth[to] = depth[from]! + 1;
    if (depth[to]! > DEPTH_MAX) return undefined;
  }
  const boxes: Box[] = [];
  const lines: Line[] = [];
  /** Where the loops around go on behind them, the innermost last. */
  const breaks: number[][] = [];
  const box = (node: number): number => boxes.push({ node, label: said(nodes[node]!.node_type, nodes[node]!.query?.text) }) - 1;
  const join = (from: readonly number[], to: readonly number[], kind: LineKind = "flow", label = ""): void => {
    for (const a of from) for (const b of to) lines.push({ from: a, to: b, kind, label });
  };
  const go = (node: number | undefined): Ends => {
    if (node === undefined) return NOTHING;
    const { condition = [], left = [], right = [], extra = [] } = below[node]!;
    const type = nodes[node]!.node_type;
    switch (type) {
      case "THEN": {
        const [a, b] = [go(left[0]), go(right[0])];
        join(a.out, b.in);
        return { in: a.in.length > 0 ? a.in : b.in, out: b.in.length > 0 ? b.out : a.out };
      }
      case "IF": {
        const asked = go(condition[0]);
        const at = box(node);
        join(asked.out, [at]);
        const [yes, no] = [go(left[0]), go(right[0])];
        join([at], yes.in, "flow", "yes");
        join([at], no.in, "flow", "no");
        return { in: asked.in.length > 0 ? asked.in : [at], out: [...yes.out, ...no.out] };
      }
      case "LOOP": {
        const at = box(node);
        breaks.push([]);
        const body = go(left[0]);
        join([at], body.in);
        const asked = go(condition[0]);
        join(body.out, asked.in);
        const last = asked.in.length > 0 ? asked.out : body.out;
        join(last, [at], "back");
        return { in: [at], out: [...(asked.in.length > 0 ? last : []), ...breaks.pop()!] };
      }
      case "BREAK": {
        const at = box(node);
        breaks.at(-1)?.push(at);
        return { in: [at], out: [] };
      }
      case "CATCH": {
        const [body, handler] = [go(left[0]), go(right[0])];
        join(body.out, handler.in, "fails", "fails");
        return { in: body.in, out: [...body.out, ...handler.out] };
      }
      case "STEP": {
        const body = go(left[0]);
        join(body.out, go(right[0]).in, "undo", "undo");
        return body;
      }
      case "MAP": {
        const items = go(condition[0]);
        const at = box(node);
        join(items.out, [at]);
        const body = go(left[0]);
        join([at], body.in);
        return { in: items.in.length > 0 ? items.in : [at], out: body.out.length > 0 ? body.out : [at] };
      }
      default: {
        const at = box(node);
        const parts = [...condition, ...left, ...right, ...extra].map(go);
        for (const part of parts) join([at], part.in);
        const out = parts.flatMap((part) => part.out);
        return { in: [at], out: out.length > 0 ? out : [at] };
      }
    }
  };
  go(0);
  return { boxes, lines };
}

/** The sizes of a picture, in pixels. */
export const BOX = { width: 176, height: 44, gap: 22, rise: 46, margin: 14 } as const;

export interface Placed {
  boxes: { x: number; y: number }[];
  /** The path of each line, as SVG writes it, and where its label stands. */
  lines: { path: string; x: number; y: number }[];
  width: number;
  height: number;
}

/** Points of lines in the layers that they pass, at most: beyond, lines are straight. */
const POINTS_MAX = 4000;

/** Where the boxes stand: in layers by the longest way to them, and in each layer near what they are connected with. */
export function layout({ boxes, lines }: Flow): Placed {
  // Lines lead from boxes that were made earlier to later ones, but for those back: so one pass is enough.
  const layer = new Array<number>(boxes.length).fill(0);
  const forward = lines.filter(({ from, to, kind }) => kind !== "back" && from < to);
  for (const { from, to } of forward.toSorted((a, b) => a.from - b.from)) layer[to] = Math.max(layer[to]!, layer[from]! + 1);
  // The points where a line passes a layer are placed as boxes are.
  const spots: { layer: number; width: number }[] = boxes.map((_, at) => ({ layer: layer[at]!, width: BOX.width }));
  const chains = new Map<Line, number[]>();
  const passes = forward.reduce((sum, { from, to }) => sum + layer[to]! - layer[from]! - 1, 0);
  for (const each of forward) {
    const chain = [each.from];
    for (let at = layer[each.from]! + 1; passes <= POINTS_MAX && at < layer[each.to]!; at++) chain.push(spots.push({ layer: at, width: BOX.gap }) - 1);
    chain.push(each.to);
    chains.set(each, chain);
  }
  const layers: number[][] = [];
  spots.forEach((spot, at) => (layers[spot.layer] ??= []).push(at));
  const above: number[][] = spots.map(() => []);
  const under: number[][] = spots.map(() => []);
  for (const chain of chains.values())
    for (let at = 1; at < chain.length; at++) {
      above[chain[at]!]!.push(chain[at - 1]!);
      under[chain[at - 1]!]!.push(chain[at]!);
    }
  // Near their neighbours, in turn those above and those below.
  const x = new Array<number>(spots.length).fill(0);
  const spread = (row: number[], wanted: (at: number) => number): void => {
    const goal = new Map(row.map((at) => [at, wanted(at)]));
    row.sort((a, b) => goal.get(a)! - goal.get(b)! || a - b);
    let edge = Number.NEGATIVE_INFINITY;
    let shift = 0;
    for (const at of row) {
      const half = spots[at]!.width / 2;
      const place = Math.max(goal.get(at)!, edge + BOX.gap + half);
      shift += goal.get(at)! - place;
      x[at] = place;
      edge = place + half;
    }
    // What was pushed aside is pushed to both sides.
    for (const at of row) x[at]! += shift / row.length;
  };
  layers.forEach((row) => row.forEach((at, place) => (x[at] = place * (BOX.width + BOX.gap))));
  const mean = (of: readonly number[], at: number): number => (of.length === 0 ? x[at]! : of.reduce((sum, each) => sum + x[each]!, 0) / of.length);
  for (let sweep = 0; sweep < 6; sweep++) {
    for (const row of layers) spread(row, (at) => mean(above[at]!, at));
    for (const row of layers.toReversed()) spread(row, (at) => mean(under[at]!, at));
  }
  for (const row of layers) spread(row, (at) => mean([...above[at]!, ...under[at]!], at));
  const least = Math.min(...spots.map((spot, at) => x[at]! - spot.width / 2));
  const most = Math.max(...spots.map((spot, at) => x[at]! + spot.width / 2));
  const backs = lines.filter((each) => !chains.has(each)).length;
  const left = BOX.margin - least;
  const y = (at: number): number => BOX.margin + spots[at]!.layer * (BOX.height + BOX.rise);
  const points = (each: Line): { path: string; x: number; y: number } => {
    const chain = chains.get(each);
    if (chain === undefined) {
      // Back to the loop, around the right side.
      const [sx, sy, tx, ty] = [x[each.from]! + left + BOX.width / 2, y(each.from) + BOX.height / 2, x[each.to]! + left + BOX.width / 2, y(each.to) + BOX.height / 2];
      const out = Math.max(sx, tx) + 18;
      return { path: `M${round(sx)} ${round(sy)}C${round(out)} ${round(sy)} ${round(out)} ${round(ty)} ${round(tx)} ${round(ty)}`, x: out, y: (sy + ty) / 2 };
    }
    let path = "";
    for (let at = 1; at < chain.length; at++) {
      const [a, b] = [chain[at - 1]!, chain[at]!];
      const [ax, ay] = [x[a]! + left, y(a) + (at === 1 ? BOX.height : BOX.height / 2)];
      const [bx, by] = [x[b]! + left, y(b) + (at === chain.length - 1 ? 0 : BOX.height / 2)];
      const middle = (ay + by) / 2;
      path += `${at === 1 ? `M${round(ax)} ${round(ay)}` : ""}C${round(ax)} ${round(middle)} ${round(bx)} ${round(middle)} ${round(bx)} ${round(by)}`;
    }
    const [a, b] = [chain[0]!, chain[1]!];
    return { path, x: (x[a]! + x[b]!) / 2 + left, y: y(a) + BOX.height + BOX.rise / 2 };
  };
  return {
    boxes: boxes.map((_, at) => ({ x: round(x[at]! + left - BOX.width / 2), y: y(at) })),
    lines: lines.map(points),
    width: Math.ceil(most - least + 2 * BOX.margin + (backs > 0 ? 30 : 0)),
    height: Math.ceil(Math.max(...spots.map((_, at) => y(at))) + BOX.height + BOX.margin),
  };
}
const round = (value: number): number => Math.round(value * 10) / 10;
