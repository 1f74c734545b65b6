/** What statements are, and what they give back. */

import type { components } from "./schema.js";

/** One statement, or one with parameters `$1`, `$2`, and so on. */
export type Statement = string | readonly [sql: string, params: readonly unknown[]];

/** A row by the names of its columns. */
export type Row = Record<string, unknown>;

/** What one statement gave back. */
export class Result {
  /** The names of the columns. */
  readonly columns: string[];
  /** The names of their types, as PostgreSQL has them. */
  readonly types: string[];
  readonly rows: unknown[][];
  /** How many rows there are here. */
  readonly rowCount: number;
  /** The command tag: `SELECT 2`, `INSERT 0 1`, ... */
  readonly command: string;
  /** Whether rows were left out, because there were more than `maxRows`. */
  readonly truncated: boolean;

  constructor(reply: components["schemas"]["StatementReply"]) {
    this.columns = reply.columns.map((column) => column.name);
    this.types = reply.columns.map((column) => column.type);
    this.rows = reply.rows;
    this.rowCount = reply.row_count;
    this.command = reply.command;
    this.truncated = reply.truncated;
  }

  /** How many rows it returned or changed. */
  get affected(): number {
    return Number(/ (\d+)$/.exec(this.command)?.[1] ?? 0);
  }

  /** The rows by the names of their columns. */
  objects<T extends Row = Row>(): T[] {
    return this.rows.map((row) => Object.fromEntries(this.columns.map((name, at) => [name, row[at]])) as T);
  }

  /** The first value of the first row; `undefined` if there is no row. */
  scalar<T = unknown>(): T | undefined {
    return this.rows[0]?.[0] as T | undefined;
  }
}
