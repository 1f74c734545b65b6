/** Who is signed in, who is in a branch, and what was written down. */

import type { Token } from "./types";

/** `GET /v1/session` */
export interface SessionView {
  token: Token;
  signed_in_at?: string | null;
  ends_at?: string | null;
  /** Whether data that is not masked is shown where the holder is. */
  sees_unmasked: boolean;
  /** The requests that it may make, by their names in the OpenAPI document. */
  operations: string[];
  version: string;
}

/** `GET /v1/branches/{name}/sessions` */
export interface BranchSession {
  process: number;
  role: string;
  database: string;
  application?: string | null;
  address?: string | null;
  state?: string | null;
  waits_for?: string | null;
  began_at: string;
  since?: string | null;
  statement?: string | null;
}

/** `GET /v1/audit` */
export interface AuditEntry {
  position: string;
  event: string;
  entry: Record<string, unknown>;
}
