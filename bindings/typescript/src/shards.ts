/** Durable functions over several databases: where an instance is, where one is started, and what all of them have. */

import { Conflict, DuramenError, NotFound, Unreachable } from "./errors.js";

/** How long a shard may take to answer, connecting included. */
const TIMEOUT_MS = 10_000;
/** So many shards are asked at once, at most. */
const AT_ONCE = 16;
/** The most instances that a page may have. */
const PAGE_MAX = 1000;

const ALL = "SELECT shard, place, state, here FROM df.shards() WHERE state <> 'removed'";
const ROUTE = "SELECT shard, place, state, here FROM df.route($1)";
const HOME = "SELECT s.shard, s.place, s.state, s.here FROM df.shards() s WHERE s.shard = df.home($1)";
const PAGE = `
  SELECT f.instance_id AS id, f.label, f.status, f.queue, f.role, f.output, f.next_cursor, df._cursor(f.created_at, f.instance_id) AS cursor,
    to_char(f.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS at
  FROM df.find_instances(status => $1, label => $2, label_like => $3, queue => $4,
    limit_count => least($5::int, coalesce(nullif(current_setting('df.list_instances_max_limit', true), '')::int, $5::int)),
    after_cursor => $6) f`;
const COUNT = `
  SELECT c.status, c.queue, c.role, c.count::text AS count
  FROM df.count_instances(status => $1, label => $2, label_like => $3, queue => $4) c`;
const HERE = "SELECT df.shard() AS shard, current_setting('transaction_read_only') AS read_only";

/** A database of a cluster. */
export class Shard {
  /** Leads there, with the role and the password that the list was read with. Not shown when the shard is printed. */
  readonly url!: string;

  constructor(
    readonly number: number,
    /** `open` for new instances, `draining`, or `removed`. */
    readonly state: string,
    url: string,
  ) {
    Object.defineProperty(this, "url", { value: url, enumerable: false });
  }
}

/** Which instances are listed: those that fit all that is given. */
export interface Wanted {
  status?: "pending" | "running" | "completed" | "failed" | "cancelled";
  label?: string;
  /** A pattern of `LIKE`. */
  labelLike?: string;
  queue?: string;
}

/** An instance, and where it is. */
export interface Found {
  shard: number;
  id: string;
  label: string | null;
  status: string;
  queue: string | null;
  role: string | null;
  /** When it was started, by its shard's clock: ISO 8601 with microseconds. */
  createdAt: string;
  /** Its result as JSON, or why it failed. */
  output: string | null;
}

/** A shard that gave nothing, and why: what it has is not in the answer. */
export interface Missing {
  shard: number;
  error: string;
}

/** Instances of all shards, the newest first; of one time, by id. */
export interface ShardPage {
  instances: Found[];
  /** Where the next page begins; absent: there is none. */
  next?: string;
  missing: Missing[];
}

/** How many there are of one kind, on all shards together. */
export interface Group {
  status: string;
  queue: string | null;
  role: string;
  count: number;
}

/** The database of a shard, as the list has it. */
interface Entry {
  shard: number;
  place: string | null;
  state: string;
  here: boolean;
}

type Row = Record<string, unknown>;

/**
 * The databases that run durable functions together with this one. The list is read each time, and from this database alone: give the
 * URL of shard 0, and only its owner says where your password goes. Needs the package `pg`.
 *
 * @example
 * const shards = new Shards("postgres://app@a/jobs");
 * const client = new pg.Client((await shards.pick()).url);
 * const { number } = await shards.of(id);
 */
export class Shards {
  readonly #url: string;
  readonly #timeoutMs: number;

  constructor(url: string, options: { timeoutMs?: number } = {}) {
    parsed(url);
    this.#url = url;
    this.#timeoutMs = options.timeoutMs ?? TIMEOUT_MS;
  }

  /** Those that are served. Outside of a cluster, none. */
  async all(): Promise<Shard[]> {
    const entries = (await this.#ask(ALL, [])) as unknown as Entry[];
    return Promise.all(entries.map((entry) => this.#shard(entry)));
  }

  /**
   * That of an instance; of several, the one that has all of them: nothing is done over shards, and instances of different ones are
   * refused with {@link Conflict}. Outside of a cluster it is this database, as shard 0.
   */
  async of(id: string, ...more: string[]): Promise<Shard> {
    const entry = await this.#route(id);
    for (const other of more) {
      const its = await this.#route(other);
      if (its.shard !== entry.shard) {
        const detail = `instance ${id} is on shard ${entry.shard}, and ${other} on shard ${its.shard}: nothing is done over shards`;
        throw new Conflict({ status: 409, code: "spans_shards", detail });
      }
    }
    return this.#shard(entry);
  }

  /** One on which to start an instance: of those that are open, by chance; with an idempotency key, the key's own, always. */
  async pick(key?: string): Promise<Shard> {
    if (key !== undefined) {
      const [home] = (await this.#ask(HOME, [key])) as unknown as Entry[];
      if (home !== undefined) return this.#shard(home);
      const detail = "this database belongs to no cluster: `duramen fn cluster create URL URL ...` makes one";
      throw new NotFound({ status: 404, code: "no_cluster", detail });
    }
    const open = ((await this.#ask(ALL, [])) as unknown as Entry[]).filter((entry) => entry.state === "open");
    const chosen = open[Math.floor(Math.random() * open.length)];
    if (chosen !== undefined) return this.#shard(chosen);
    const detail = "no shard takes new instances: SELECT * FROM df.shards() has the list";
    throw new NotFound({ status: 404, code: "no_open_shard", detail });
  }

  /**
   * A page of the instances of all shards, of at most `limit` (100; 1000 at most): from the beginning, or behind the page whose `next` is
   * `after`. It has fewer where a shard's owner allows fewer. A shard that does not answer in time is among `missing`.
   */
  async list(wanted: Wanted & { limit?: number; after?: string } = {}): Promise<ShardPage> {
    const limit = Math.min(Math.max(1, Math.trunc(wanted.limit ?? 100)), PAGE_MAX);
    const { answers, missing } = await this.#all(PAGE, [...filter(wanted), limit, wanted.after ?? null]);
    let knownTo: Place | undefined;
    const all: (Place & { found: Found })[] = [];
    for (const { shard, rows } of answers) {
      for (const row of rows) all.push({ at: String(row.at), id: String(row.id), cursor: String(row.cursor), found: found(shard, row) });
      // What comes behind the last row of a shard that has more is not known yet to be next.
      const last = rows.at(-1);
      if (last === undefined || last.next_cursor === null) continue;
      const place = { at: String(last.at), id: String(last.id), cursor: String(last.cursor) };
      if (knownTo === undefined || order(place, knownTo) < 0) knownTo = place;
    }
    all.sort(order);
    const shown = all.filter((row) => knownTo === undefined || order(row, knownTo) <= 0).slice(0, limit);
    const next = shown.length < all.length || knownTo !== undefined ? shown.at(-1)?.cursor : undefined;
    return { instances: shown.map((row) => row.found), ...(next === undefined ? {} : { next }), missing };
  }

  /** How many instances all shards have, by status, queue and role. */
  async count(wanted: Wanted = {}): Promise<{ groups: Group[]; missing: Missing[] }> {
    const { answers, missing } = await this.#all(COUNT, filter(wanted));
    const groups = new Map<string, Group>();
    for (const row of answers.flatMap((answer) => answer.rows)) {
      const { status, queue, role } = row as { status: string; queue: string | null; role: string };
      const key = JSON.stringify([status, queue, role]);
      const group = groups.get(key) ?? { status, queue, role, count: 0 };
      group.count += Number(row.count);
      groups.set(key, group);
    }
    return { groups: [...groups.entries()].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, group]) => group), missing };
  }

  async #route(id: string): Promise<Entry> {
    try {
      const [entry] = (await this.#ask(ROUTE, [id])) as unknown as Entry[];
      if (entry !== undefined) return entry;
    } catch (error) {
      // No data found; an invalid parameter value.
      if (!["P0002", "22023"].includes(sqlstate(error) ?? "")) throw error;
      throw new NotFound({ status: 404, code: "unknown_instance", detail: (error as Error).message });
    }
    throw new NotFound({ status: 404, code: "unknown_instance", detail: `${id} has no shard` });
  }

  /** What every shard answers to one question. */
  async #all(sql: string, values: unknown[]): Promise<{ answers: { shard: number; rows: Row[] }[]; missing: Missing[] }> {
    const entries = (await this.#ask(ALL, [])) as unknown as Entry[];
    if (entries.length === 0) entries.push({ shard: 0, place: null, state: "open", here: true });
    const answers: { shard: number; rows: Row[] }[] = [];
    const missing: Missing[] = [];
    const queue = entries.values();
    const one = async (): Promise<void> => {
      for (const entry of queue) {
        try {
          const { url } = await this.#shard(entry);
          answers.push({ shard: entry.shard, rows: await within(this.#timeoutMs, asked(url, sql, values, this.#timeoutMs, entry)) });
        } catch (error) {
          missing.push({ shard: entry.shard, error: (error as Error).message });
        }
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, one));
    if (answers.length === 0) throw new Unreachable(`no shard answered: ${missing[0]?.error ?? "there is none"}`);
    missing.sort((a, b) => a.shard - b.shard);
    return { answers, missing };
  }

  #ask(sql: string, values: unknown[]): Promise<Row[]> {
    return within(this.#timeoutMs, asked(this.#url, sql, values, this.#timeoutMs));
  }

  /** The shard of an entry. Of several hosts, the one that takes writes: `pg` knows no more than one. */
  async #shard(entry: Entry): Promise<Shard> {
    if (entry.here || entry.place === null) return new Shard(entry.shard, entry.state, this.#url);
    const urls = urlsOf(this.#url, entry.place);
    if (urls.length === 1) return new Shard(entry.shard, entry.state, urls[0]!);
    const why: string[] = [];
    for (const url of urls) {
      const share = Math.ceil(this.#timeoutMs / urls.length);
      try {
        const [row] = await within(share, asked(url, HERE, [], share));
        if (row?.read_only === "off") return new Shard(entry.shard, entry.state, url);
        why.push("it takes no writes");
      } catch (error) {
        why.push((error as Error).message);
      }
    }
    throw new Unreachable(`no host of shard ${entry.shard} takes writes: ${why.join("; ")}`);
  }
}

/** Where an instance stands in the order of all. */
interface Place {
  at: string;
  id: string;
  cursor: string;
}

function order(a: Place, b: Place): number {
  if (a.at !== b.at) return a.at < b.at ? 1 : -1;
  return a.id === b.id ? 0 : a.id < b.id ? -1 : 1;
}

function filter(wanted: Wanted): (string | null)[] {
  return [wanted.status ?? null, wanted.label ?? null, wanted.labelLike ?? null, wanted.queue ?? null];
}

function found(shard: number, row: Row): Found {
  const { id, label, status, queue, role, at, output } = row as Record<string, string> & { label: string | null };
  return { shard, id: id!, label, status: status!, queue: queue ?? null, role: role ?? null, createdAt: at!, output: output ?? null };
}

/** Rejects after so many milliseconds. */
async function within<T>(timeoutMs: number, answer: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Unreachable(`no answer within ${timeoutMs} ms`)), timeoutMs);
  });
  answer.catch(() => undefined);
  try {
    return await Promise.race([answer, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** The rows of one query on a connection of its own; of an entry, if it is that shard. */
async function asked(url: string, sql: string, values: unknown[], timeoutMs: number, entry?: Entry): Promise<Row[]> {
  const { default: pg } = await driver();
  const client = new pg.Client({
    connectionString: url,
    connectionTimeoutMillis: timeoutMs,
    query_timeout: timeoutMs,
    statement_timeout: timeoutMs,
    application_name: "duramen shards",
  });
  // A connection that breaks rejects what waits for it; without a listener it would end the program.
  client.on("error", () => undefined);
  try {
    await client.connect();
    if (entry !== undefined && entry.place !== null) {
      const here = (await client.query(HERE)).rows[0] as Row;
      if (here.shard !== entry.shard) throw new DuramenError(`where shard ${entry.shard} should be is another database`);
    }
    return (await client.query(sql, values)).rows as Row[];
  } catch (error) {
    if (error instanceof DuramenError || sqlstate(error) !== undefined) throw error;
    throw new Unreachable(`the database was not reached: ${(error as Error).message}`, { cause: error });
  } finally {
    // Not waited for: a server that hangs would hold it up.
    client.end().catch(() => undefined);
  }
}

async function driver(): Promise<typeof import("pg")> {
  try {
    return await import("pg");
  } catch (error) {
    throw new DuramenError("shards need the package pg: npm install pg", { cause: error });
  }
}

function sqlstate(error: unknown): string | undefined {
  const { code, severity } = error as { code?: unknown; severity?: unknown };
  return typeof code === "string" && severity !== undefined ? code : undefined;
}

/** A connection URL, taken apart. WHATWG's parser knows no URL with a role and without a host. */
interface Parts {
  login: string;
  parameters: URLSearchParams;
}

function parsed(url: string): Parts {
  const parts = /^postgres(?:ql)?:\/\/(?:([^@/?#]*)@)?[^/?#]*(?:\/[^?#]*)?(?:\?(.*))?$/.exec(url);
  if (parts === null) throw new DuramenError("a database is named as postgres://ROLE@HOST/DATABASE");
  return { login: parts[1] ?? "", parameters: new URLSearchParams(parts[2] ?? "") };
}

/** What a place says, of all that it could say: who wrote it decides on no role, no password and no file. */
function wordsOf(place: string): Map<string, string> {
  const words = new Map<string, string>();
  for (const [, key, quoted, plain] of place.matchAll(/(\w+)\s*=\s*(?:'((?:[^'\\]|\\.)*)'|(\S+))/g)) {
    words.set(key!, quoted === undefined ? plain! : quoted.replace(/\\(.)/g, "$1"));
  }
  return words;
}

/** The URLs of the hosts of a place, with the login of a URL. Encryption is the URL's, and more if the place demands it. */
export function urlsOf(url: string, place: string): string[] {
  const { login, parameters } = parsed(url);
  const words = wordsOf(place);
  const hosts = (words.get("host") ?? "").split(",");
  const addresses = (words.get("hostaddr") ?? "").split(",");
  const ports = (words.get("port") ?? "5432").split(",");
  for (const name of ["host", "hostaddr", "port", "dbname", "database", "target_session_attrs"]) parameters.delete(name);
  const demands = ["require", "verify-ca", "verify-full", "no-verify"];
  if (words.get("sslmode") === "require" && !demands.includes(parameters.get("sslmode") ?? "")) parameters.set("sslmode", "require");
  return hosts.map((name, index) => {
    const host = name === "" ? (addresses[index] ?? "localhost") : name;
    const port = ports[index] ?? ports[0] ?? "5432";
    const its = new URLSearchParams(parameters);
    let where = `${host.includes(":") ? `[${host}]` : encodeURIComponent(host)}:${port}`;
    if (host.startsWith("/")) {
      its.set("host", host);
      its.set("port", port);
      where = "";
    }
    const query = its.size === 0 ? "" : `?${its.toString().replaceAll("+", "%20")}`;
    return `postgresql://${login === "" ? "" : `${login}@`}${where}/${encodeURIComponent(words.get("dbname") ?? "")}${query}`;
  });
}
