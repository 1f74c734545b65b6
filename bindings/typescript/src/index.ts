/**
 * Branches of PostgreSQL databases, for programs and tests.
 *
 * @example
 * import * as duramen from "duramen";
 *
 * await using branch = await duramen.branch("flights");
 * await branch.query("delete from flights");
 * await connect(branch.url);
 *
 * @module
 */

import { Client, type Branch, type CreateOptions } from "./client.js";

export { Client } from "./client.js";
export type { Branch, BranchEvidence, BranchView, ClientOptions, CreateOptions, QueryOptions, SourceView } from "./client.js";
export {
  Conflict,
  DuramenError,
  Later,
  NotAllowed,
  NotAuthenticated,
  NotFound,
  Refused,
  StatementFailed,
  Unreachable,
} from "./errors.js";
export { Result } from "./result.js";
export type { Row, Statement } from "./result.js";
export { Shard, Shards } from "./shards.js";
export type { Found, Group, Missing, ShardPage, Wanted } from "./shards.js";

/** Leases a branch of the daemon that the environment names (see {@link Client}). */
export function branch(source?: string, options?: CreateOptions): Promise<Branch> {
  return new Client().create(source, options);
}
