/** What can go wrong with a request. */

/** The daemon refused it: problem details (RFC 9457), with a stable word. */
export class Refused extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    detail: string,
    readonly sqlstate: string | null,
    /** Seconds after which it may be tried again, if the daemon says so. */
    readonly after: number | undefined,
    /** Where in the statement a database saw it, counted in characters from 1. */
    readonly position: number | null = null,
  ) {
    super(detail);
    this.name = "Refused";
  }
}

/** Nobody answered. */
export class Gone extends Error {
  constructor() {
    super("the daemon does not answer");
    this.name = "Gone";
  }
}

type Body = {
  detail?: unknown;
  code?: unknown;
  sqlstate?: unknown;
  position?: unknown;
  title?: unknown;
};

/** The refusal that a reply holds, whatever is in it. */
export async function refusal(reply: Response): Promise<Refused> {
  let body: Body = {};
  try {
    const read: unknown = await reply.json();
    if (typeof read === "object" && read !== null) body = read;
  } catch {
    // A proxy's page, or nothing: the status says enough.
  }
  const text = (value: unknown) => (typeof value === "string" && value !== "" ? value : null);
  const after = Number(reply.headers.get("retry-after") ?? Number.NaN);
  return new Refused(
    reply.status,
    text(body.code) ?? "unknown",
    text(body.detail) ?? text(body.title) ?? `the reply was ${reply.status}`,
    text(body.sqlstate),
    Number.isFinite(after) ? after : undefined,
    typeof body.position === "number" ? body.position : null,
  );
}

/** What an error says, for people. */
export function told(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  return text === "" ? text : text[0]!.toUpperCase() + text.slice(1);
}
