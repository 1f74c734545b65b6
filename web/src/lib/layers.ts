/** A picture of who comes to what, and how: boxes in layers, from a principal over groups to what is held. */

import type { AccessPath, AccessPlace, AccessResource, AccessWhy } from "../api/types";

/** A box. */
export interface Box {
  id: string;
  kind: "principal" | "entitlement" | "gap" | "resource";
  /** What stands in it, in two lines. */
  title: string;
  below: string;
  x: number;
  y: number;
}

/** A line from one box to another. */
export interface Line {
  from: Box;
  to: Box;
  /** Whether it is a way in which nobody but direct holders go. */
  shallow: boolean;
}

export interface Picture {
  boxes: Box[];
  lines: Line[];
  width: number;
  height: number;
}

export const BOX = { width: 190, height: 44 };
const GAP = { x: 56, y: 16 };
const EDGE = 8;

const called = (resource: AccessResource): string => resource.name || resource.resource;

/** The name of an entitlement, and whose it is. */
export const words = (place: AccessPlace): { title: string; below: string } => ({
  title: place.name || place.entitlement,
  below: place.resource == null ? "" : `${place.resource.resource_type} ${called(place.resource)}`,
});

/** The picture of the paths by which somebody comes to something. */
export function picture(principal: AccessResource, why: AccessWhy): Picture {
  const boxes = new Map<string, Box>();
  const edges = new Map<string, { from: string; to: string; shallow: boolean }>();
  const box = (id: string, kind: Box["kind"], title: string, below: string): string => {
    if (!boxes.has(id)) boxes.set(id, { id, kind, title, below, x: 0, y: 0 });
    return id;
  };
  const line = (from: string, to: string, shallow = false): void => {
    // Of two lines between the same boxes, the one that more may go.
    const known = edges.get(`${from}\n${to}`);
    if (from !== to) edges.set(`${from}\n${to}`, { from, to, shallow: shallow && known?.shallow !== false });
  };
  const placed = (place: AccessPlace): string => {
    const { title, below } = words(place);
    return box(`e${place.entitlement}`, "entitlement", title, below);
  };
  const who = box("p", "principal", called(principal), principal.resource_type);
  for (const [number, path] of why.paths.entries()) {
    let at = placed(path.start);
    line(who, at);
    for (const [step, { place, shallow }] of path.steps.entries()) {
      if (path.left_out > 0 && step === path.steps.length - 1) {
        const gap = box(`g${number}`, "gap", `${path.left_out} more`, "entitlements between");
        line(at, gap);
        at = gap;
      }
      const next = placed(place);
      line(at, next, shallow);
      at = next;
    }
    const end = last(path);
    if (end.resource != null) line(at, box("r", "resource", called(end.resource), end.resource.resource_type));
  }
  return laidOut([...boxes.values()], [...edges.values()]);
}

const last = (path: AccessPath): AccessPlace => path.steps.at(-1)?.place ?? path.start;

/** Puts boxes into layers: each as far to the right as the longest way to it, ordered so that few lines cross. */
function laidOut(boxes: Box[], edges: { from: string; to: string; shallow: boolean }[]): Picture {
  const byId = new Map(boxes.map((box) => [box.id, box]));
  const after = new Map(boxes.map((box) => [box.id, edges.filter((edge) => edge.from === box.id).map((edge) => edge.to)]));
  // What leads back is drawn, and moves nothing.
  const done = new Set<string>();
  const above = new Set<string>();
  const back = new Set<string>();
  const order: string[] = [];
  const visit = (id: string): void => {
    done.add(id);
    above.add(id);
    for (const to of after.get(id)!) {
      if (above.has(to)) back.add(`${id}\n${to}`);
      else if (!done.has(to)) visit(to);
    }
    above.delete(id);
    order.push(id);
  };
  for (const box of boxes) if (!done.has(box.id)) visit(box.id);
  const layer = new Map(boxes.map((box) => [box.id, 0]));
  for (const id of order.toReversed())
    for (const to of after.get(id)!) if (!back.has(`${id}\n${to}`)) layer.set(to, Math.max(layer.get(to)!, layer.get(id)! + 1));
  const layers: string[][] = [];
  for (const [id, at] of layer) (layers[at] ??= []).push(id);

  const place = new Map<string, number>();
  const number = (ids: string[]): void => ids.forEach((id, at) => place.set(id, at - (ids.length - 1) / 2));
  layers.forEach(number);
  const middle = (id: string, others: string[]): number =>
    others.length === 0 ? place.get(id)! : others.reduce((sum, other) => sum + place.get(other)!, 0) / others.length;
  for (let round = 0; round < 4; round++) {
    const forward = round % 2 === 0;
    for (const ids of forward ? layers : layers.toReversed()) {
      const beside = (id: string) => edges.filter((edge) => (forward ? edge.to : edge.from) === id).map((edge) => (forward ? edge.from : edge.to));
      const wanted = new Map(ids.map((id) => [id, middle(id, beside(id))]));
      ids.sort((a, b) => wanted.get(a)! - wanted.get(b)!);
      number(ids);
    }
  }
  const most = Math.max(...layers.map((ids) => ids.length));
  const height = EDGE * 2 + most * BOX.height + (most - 1) * GAP.y;
  for (const [at, ids] of layers.entries())
    for (const id of ids) {
      const box = byId.get(id)!;
      box.x = EDGE + at * (BOX.width + GAP.x);
      box.y = height / 2 + place.get(id)! * (BOX.height + GAP.y) - BOX.height / 2;
    }
  return {
    boxes,
    lines: edges.map(({ from, to, shallow }) => ({ from: byId.get(from)!, to: byId.get(to)!, shallow })),
    width: EDGE * 2 + layers.length * BOX.width + (layers.length - 1) * GAP.x,
    height,
  };
}
