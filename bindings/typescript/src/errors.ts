/** What can go wrong, in the caller's terms. */

/** Anything that this package throws. */
export class DuramenError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** The daemon was not reached, or the connection broke, or the deadline passed: whether the request was done is not known. */
export class Unreachable extends DuramenError {}

/** The daemon refused, with problem details (RFC 9457). */
export class Refused extends DuramenError {
  /** The status of the reply. */
  readonly status: number;
  /** A stable word for programs. */
  readonly code: string;
  /** What happened, and what to do next. */
  readonly detail: string;
  /** Why the database refused, if it did. */
  readonly sqlstate: string | undefined;
  /** After how many milliseconds it may go better. */
  readonly retryAfterMs: number | undefined;

  constructor(refusal: Refusal) {
    super(refusal.detail);
    this.status = refusal.status;
    this.code = refusal.code;
    this.detail = refusal.detail;
    this.sqlstate = refusal.sqlstate;
    this.retryAfterMs = refusal.retryAfterMs;
  }
}

/** What a refusal says. */
export interface Refusal {
  status: number;
  code: string;
  detail: string;
  sqlstate?: string | undefined;
  retryAfterMs?: number | undefined;
}

/** No token that is alive was shown. */
export class NotAuthenticated extends Refused {}

/** The token may not do this. */
export class NotAllowed extends Refused {}

/** There is none of that name for this token. */
export class NotFound extends Refused {}

/** It clashes with what is there. */
export class Conflict extends Refused {}

/** Not now: try again after `retryAfterMs`, or make room. */
export class Later extends Refused {}

/** The database refused the statement; `sqlstate` says why. */
export class StatementFailed extends Refused {}

const KINDS: Record<number, typeof Refused> = {
  401: NotAuthenticated,
  403: NotAllowed,
  404: NotFound,
  409: Conflict,
  422: StatementFailed,
  429: Later,
  503: Later,
};

/** The error for a refusal. */
export function refused(refusal: Refusal): Refused {
  return new (KINDS[refusal.status] ?? Refused)(refusal);
}
