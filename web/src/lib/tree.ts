/** Branches in the order of their lineage. */

import type { BranchView, TreeNode } from "../api/types";

/** A branch, with what is known of it, at its place in the list. */
export interface Leaf {
  branch: BranchView;
  node: TreeNode | undefined;
  /** How many branches it was made of, one after another. */
  depth: number;
}

/** Every branch after the one that it was made of; those of a source together, otherwise by name. */
export function lineage(branches: readonly BranchView[], nodes: readonly TreeNode[]): Leaf[] {
  const byId = new Map(nodes.map((node) => [node.id, node]));
  const there = new Set(branches.map((branch) => branch.id));
  const below = new Map<string, BranchView[]>();
  for (const branch of branches) {
    const parent = branch.parent?.id;
    // A branch whose parent is gone stands by itself.
    const at = parent !== undefined && parent !== branch.id && there.has(parent) ? parent : "";
    const some = below.get(at);
    if (some === undefined) below.set(at, [branch]);
    else some.push(branch);
  }
  for (const some of below.values())
    some.sort((a, b) => (a.source === b.source ? compare(a.name, b.name) : compare(a.source, b.source)));
  const found: Leaf[] = [];
  const wanted = (below.get("") ?? []).map((branch) => ({ branch, depth: 0 })).reverse();
  for (let next = wanted.pop(); next !== undefined; next = wanted.pop()) {
    const { branch, depth } = next;
    found.push({ branch, node: byId.get(branch.id), depth });
    const children = below.get(branch.id) ?? [];
    below.delete(branch.id);
    for (const child of children.toReversed()) wanted.push({ branch: child, depth: depth + 1 });
  }
  return found;
}

const order = new Intl.Collator("en", { numeric: true });
const compare = (a: string, b: string) => order.compare(a, b);

/** Those in which each word stands somewhere. */
export function matching(leaves: readonly Leaf[], search: string): Leaf[] {
  const words = search.toLowerCase().split(/\s+/).filter((word) => word !== "");
  if (words.length === 0) return [...leaves];
  return leaves.filter(({ branch }) => {
    const text = `${branch.name} ${branch.source} ${branch.policy} ${branch.state} ${branch.parent?.name ?? ""}`.toLowerCase();
    return words.every((word) => text.includes(word));
  });
}
