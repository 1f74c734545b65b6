/** Branches of a store in the order of their forks. */

import type { StoreBranch } from "../api/types";

/** A branch at its place in the list. */
export interface Fork {
  branch: StoreBranch;
  /** How many branches it was forked from, one after another. */
  depth: number;
}

const order = new Intl.Collator("en", { numeric: true });

/** Every branch after the one that it was forked from; one whose parent is gone stands by itself. */
export function forks(branches: readonly StoreBranch[]): Fork[] {
  const there = new Set(branches.map((branch) => branch.name));
  const below = new Map<string | undefined, StoreBranch[]>();
  for (const branch of branches) {
    const parent = branch.parent ?? undefined;
    const at = parent !== undefined && parent !== branch.name && there.has(parent) ? parent : undefined;
    const some = below.get(at);
    if (some === undefined) below.set(at, [branch]);
    else some.push(branch);
  }
  for (const some of below.values()) some.sort((a, b) => order.compare(a.name, b.name));
  const found: Fork[] = [];
  const wanted = (below.get(undefined) ?? []).map((branch) => ({ branch, depth: 0 })).reverse();
  for (let next = wanted.pop(); next !== undefined; next = wanted.pop()) {
    found.push(next);
    const children = below.get(next.branch.name) ?? [];
    below.delete(next.branch.name);
    for (const child of children.toReversed()) wanted.push({ branch: child, depth: next.depth + 1 });
  }
  return found;
}
