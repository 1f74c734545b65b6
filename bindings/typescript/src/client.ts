/** A daemon and its branches. */

import { randomUUID } from "node:crypto";
import { inspect } from "node:util";
import { NotFound } from "./errors.js";
import { Place, type PlaceOptions } from "./place.js";
import { Result, type Statement } from "./result.js";
import type { components } from "./schema.js";
import { TIMEOUT_MS, Transport, type Request } from "./transport.js";

type Schemas = components["schemas"];
/** A branch, as the daemon describes it. */
export type BranchView = Schemas["BranchView"];
/** A source, as the daemon describes it. */
export type SourceView = Schemas["SourceView"];
/** What is known of a branch and of its source. */
export type BranchEvidence = Schemas["BranchEvidence"];

/** What a client is made with. */
export interface ClientOptions extends PlaceOptions {
  /** How long a request may take: 60,000 unless said otherwise. */
  timeoutMs?: number | undefined;
}

/** What a branch is to be like. */
export interface CreateOptions {
  /** Its name; one is made up without it. A name that is leased already gives the same branch again. */
  name?: string | undefined;
  /** What its holder may do: `read-only`, `read-write` (usual), `ddl` or `role:NAME`. */
  policy?: string | undefined;
  /** How long the lease lasts: an hour unless said otherwise; in whole seconds, rounded up. */
  ttlMs?: number | undefined;
  /** How long the daemon may wait for one to be ready: 30,000 unless said otherwise. */
  waitMs?: number | undefined;
}

/** How statements are run. */
export interface QueryOptions {
  /** How many rows come back at most: 1,000 unless said otherwise. */
  maxRows?: number | undefined;
  /** The statements' own limit: 30,000 unless said otherwise. */
  timeoutMs?: number | undefined;
}

/**
 * A daemon: by its socket on this machine, or by its URL and a token.
 *
 * Without options: `DURAMEN_URL` with `DURAMEN_TOKEN` (and `DURAMEN_CA`), else the socket of the home.
 *
 * @example
 * const client = new Client();
 * console.log((await client.sources()).map((source) => source.name));
 */
export class Client {
  readonly #place: Place;
  readonly #transport: Transport;

  constructor(options: ClientOptions = {}) {
    this.#place = new Place(options);
    this.#transport = new Transport(this.#place, options.timeoutMs ?? TIMEOUT_MS);
  }

  /** Where the daemon is: a path, or the origin of a URL. */
  get where(): string {
    return this.#place.where;
  }

  [inspect.custom](): string {
    return `Client { ${this.where} }`;
  }

  /** Closes idle connections; branches go on. A program ends without it too. */
  close(): void {
    this.#transport.close();
  }

  async #value<T>(request: Request): Promise<T> {
    return (await this.#transport.ask(request)).value as T;
  }

  async #pages<T>(path: string): Promise<T[]> {
    const found: T[] = [];
    for (let next: string | undefined = `${path}?limit=1000`; next !== undefined; ) {
      const page = await this.#transport.ask({ method: "GET", path: next, repeatable: true });
      found.push(...(page.value as T[]));
      next = page.next;
    }
    return found;
  }

  /** All sources that the token has. */
  sources(): Promise<SourceView[]> {
    return this.#pages("/v1/sources");
  }

  /** All branches that are there for the token. */
  branches(): Promise<BranchView[]> {
    return this.#pages("/v1/branches");
  }

  /** Leases a branch of a source, which need not be named if there is only one. */
  async create(source?: string, options: CreateOptions = {}): Promise<Branch> {
    const { name, policy, ttlMs = 3_600_000, waitMs } = options;
    const body: Schemas["CreateBranch"] = { ttl_s: seconds(ttlMs) };
    if (source !== undefined) body.source = source;
    if (name !== undefined) body.name = name;
    if (policy !== undefined) body.policy = policy;
    if (waitMs !== undefined) body.wait_ms = Math.ceil(waitMs);
    const timeoutMs = waitMs === undefined ? undefined : waitMs + TIMEOUT_MS;
    // Once more without a key would be one more branch, if it has no name.
    return this.#branch({ method: "POST", path: "/v1/branches", body, timeoutMs, key: randomUUID() });
  }

  /** A branch that is there. */
  branch(name: string): Promise<Branch> {
    return this.#branch({ method: "GET", path: path(name), repeatable: true });
  }

  async #branch(request: Request): Promise<Branch> {
    const view = await this.#value<BranchView>(request);
    return new Branch(view, (each) => this.#value(each), (url) => this.#place.entry(url));
  }
}

/**
 * A leased branch. `await using` destroys it at the end of its block.
 *
 * @example
 * await using branch = await new Client().create("flights");
 * (await branch.query("select count(*) from flights")).scalar(); // 336776
 */
export class Branch {
  #view: BranchView;
  readonly #ask: <T>(request: Request) => Promise<T>;
  readonly #entry: (url: string) => string;

  /** @internal */
  constructor(view: BranchView, ask: <T>(request: Request) => Promise<T>, entry: (url: string) => string) {
    this.#view = view;
    this.#ask = ask;
    this.#entry = entry;
  }

  /** As the daemon described it last. Its `url` may hold a secret. */
  get view(): BranchView {
    return this.#view;
  }

  /** Its name. */
  get name(): string {
    return this.#view.name;
  }

  /** For PostgreSQL clients, with the password: do not log it. */
  get url(): string {
    return this.#entry(this.#view.url);
  }

  [inspect.custom](): string {
    return `Branch { ${this.name} of ${this.#view.source} }`;
  }

  /** Gives it back, unless it has ended already. */
  async [Symbol.asyncDispose](): Promise<void> {
    try {
      await this.destroy();
    } catch (error) {
      if (!(error instanceof NotFound)) throw error;
    }
  }

  /** Runs one statement; parameters are `$1`, `$2`, and so on. */
  async query(sql: string, params: readonly unknown[] = [], options: QueryOptions = {}): Promise<Result> {
    const [result] = await this.transaction([[sql, params]], options);
    return result as Result;
  }

  /** Runs several statements in one transaction. */
  async transaction(statements: readonly Statement[], options: QueryOptions = {}): Promise<Result[]> {
    const list = statements.map((each) => (typeof each === "string" ? { sql: each } : { sql: each[0], params: [...each[1]] }));
    const body: Schemas["QueryRequest"] = { statements: list };
    if (options.maxRows !== undefined) body.max_rows = options.maxRows;
    if (options.timeoutMs !== undefined) body.timeout_ms = Math.max(1, Math.ceil(options.timeoutMs));
    const timeoutMs = options.timeoutMs === undefined ? undefined : options.timeoutMs + TIMEOUT_MS;
    const reply = await this.#ask<Schemas["QueryReply"]>({ method: "POST", path: path(this.name, "query"), body, timeoutMs });
    return reply.results.map((each) => new Result(each));
  }

  /** Puts it back to its snapshot, under the same name and URL. */
  async reset(): Promise<void> {
    this.#view = await this.#ask({ method: "POST", path: path(this.name, "reset") });
  }

  /** Moves the end of its lease: to an hour from now, unless said otherwise. */
  async renew(ttlMs = 3_600_000): Promise<void> {
    const body: Schemas["RenewBranch"] = { ttl_s: seconds(ttlMs) };
    this.#view = await this.#ask({ method: "POST", path: path(this.name, "renew"), body });
  }

  /** What is known of it and of its source, for keeping. */
  evidence(): Promise<BranchEvidence> {
    return this.#ask({ method: "GET", path: path(this.name, "evidence"), repeatable: true });
  }

  /** Gives it back. */
  async destroy(): Promise<void> {
    await this.#ask({ method: "DELETE", path: path(this.name) });
  }
}

function path(name: string, ...more: string[]): string {
  return ["/v1/branches", encodeURIComponent(name), ...more].join("/");
}

function seconds(ms: number): number {
  return Math.max(1, Math.ceil(ms / 1000));
}
