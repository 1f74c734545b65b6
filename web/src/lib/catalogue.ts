/** What a branch defines, out of the system catalogue: for the browser of tables, and for completion. */

import { branchPath, post } from "../api/client";
import type { QueryReply } from "../api/types";

export interface Column {
  name: string;
  type: string;
  required: boolean;
  value: string | null;
  key: boolean;
}
export interface Relation {
  schema: string;
  name: string;
  kind: "table" | "partitioned table" | "view" | "materialised view" | "foreign table";
  /** As the planner knows it; less than 0 where it does not. */
  rows: number;
  bytes: number;
  comment: string | null;
  columns: Column[];
  indexes: string[];
  constraints: { name: string; text: string }[];
}

const KINDS: Record<string, Relation["kind"]> = {
  r: "table",
  p: "partitioned table",
  v: "view",
  m: "materialised view",
  f: "foreign table",
};
// All names are qualified: the branch's own functions and operators are not called.
const FROM = `from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid OPERATOR(pg_catalog.=) c.relnamespace`;
const WHERE = `where c.relkind::pg_catalog.text OPERATOR(pg_catalog.=) any(array['r','p','v','m','f'])
  and n.nspname OPERATOR(pg_catalog.!~) '^(pg_.*|information_schema)$'`;
const STATEMENTS = [
  `select n.nspname, c.relname, c.relkind::pg_catalog.text, c.reltuples::pg_catalog.int8, pg_catalog.pg_total_relation_size(c.oid),
  pg_catalog.obj_description(c.oid, 'pg_class') ${FROM} ${WHERE} order by 1, 2`,
  `select n.nspname, c.relname, a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod), a.attnotnull,
  pg_catalog.pg_get_expr(d.adbin, d.adrelid), exists (select from pg_catalog.pg_index i where i.indrelid OPERATOR(pg_catalog.=) c.oid
  and i.indisprimary and a.attnum OPERATOR(pg_catalog.=) any(i.indkey))
  ${FROM} join pg_catalog.pg_attribute a on a.attrelid OPERATOR(pg_catalog.=) c.oid and a.attnum OPERATOR(pg_catalog.>) 0 and not a.attisdropped
  left join pg_catalog.pg_attrdef d on d.adrelid OPERATOR(pg_catalog.=) c.oid and d.adnum OPERATOR(pg_catalog.=) a.attnum
  ${WHERE} order by 1, 2, a.attnum`,
  `select n.nspname, c.relname, pg_catalog.pg_get_indexdef(i.indexrelid) ${FROM}
  join pg_catalog.pg_index i on i.indrelid OPERATOR(pg_catalog.=) c.oid ${WHERE} order by 1, 2, 3`,
  `select n.nspname, c.relname, k.conname, pg_catalog.pg_get_constraintdef(k.oid) ${FROM}
  join pg_catalog.pg_constraint k on k.conrelid OPERATOR(pg_catalog.=) c.oid ${WHERE} order by 1, 2, 3`,
];

const known = new Map<string, Relation[]>();

/** What a branch defines; as it was known before, unless it is wanted anew. */
export async function catalogue(id: string, name: string, anew = false): Promise<Relation[]> {
  const before = known.get(id);
  if (before !== undefined && !anew) return before;
  const statements = STATEMENTS.map((sql) => ({ sql }));
  const { results } = await post<QueryReply>(branchPath(name, "/query"), { statements, max_rows: 100_000 });
  const [relations, columns, indexes, constraints] = results.map(({ rows }) => rows);
  const found = new Map<string, Relation>();
  const of = (row: unknown[]) => found.get(JSON.stringify([row[0], row[1]]));
  for (const row of relations ?? []) {
    const [schema, name, kind, rows, bytes, comment] = row as [string, string, string, number, number, string | null];
    const relation: Relation = {
      schema, name, kind: KINDS[kind] ?? "table", rows: Number(rows), bytes: Number(bytes), comment, columns: [], indexes: [], constraints: [],
    };
    found.set(JSON.stringify([schema, name]), relation);
  }
  for (const row of columns ?? []) {
    const [, , name, type, required, value, key] = row as [string, string, string, string, boolean, string | null, boolean];
    of(row)?.columns.push({ name, type, required, value, key });
  }
  for (const row of indexes ?? []) of(row)?.indexes.push(String(row[2]));
  for (const row of constraints ?? []) of(row)?.constraints.push({ name: String(row[2]), text: String(row[3]) });
  const all = [...found.values()];
  known.set(id, all);
  return all;
}

/** A name as SQL writes it. */
export const quoted = (name: string): string =>
  /^[a-z_][a-z0-9_]*$/.test(name) ? name : `"${name.replaceAll('"', '""')}"`;

/** Tables and their columns, as the editor completes them. */
export function completions(relations: readonly Relation[]): Record<string, Record<string, string[]>> {
  const found: Record<string, Record<string, string[]>> = {};
  for (const { schema, name, columns } of relations) (found[schema] ??= {})[name] = columns.map((column) => column.name);
  return found;
}
