/** What a program does with branches, by the socket and with a token. */

import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { inspect } from "node:util";
import * as duramen from "duramen";
import pg from "pg";
import { afterAll, beforeAll, beforeEach, expect, test, vi } from "vitest";
import { Daemon, PROGRAM } from "./daemon.js";

let daemon: Daemon;
beforeAll(async () => {
  daemon = await Daemon.open();
});
afterAll(() => daemon.close());
beforeEach(() => {
  for (const name of ["DURAMEN_URL", "DURAMEN_TOKEN", "DURAMEN_CA"]) vi.stubEnv(name, undefined);
  vi.stubEnv("DURAMEN_HOME", daemon.home);
});

/** What a statement gives another client of PostgreSQL. */
async function asked(url: string, sql: string): Promise<unknown[]> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 10_000, query_timeout: 10_000 });
  await client.connect();
  try {
    return (await client.query(sql)).rows;
  } finally {
    await client.end();
  }
}

async function caught(action: Promise<unknown>): Promise<duramen.Refused> {
  const error: unknown = await action.then(() => undefined, (error: unknown) => error);
  expect(error).toBeInstanceOf(duramen.Refused);
  return error as duramen.Refused;
}

async function names(client = new duramen.Client()): Promise<string[]> {
  return (await client.branches()).map((branch) => branch.name);
}

test("what is generated is up to date", () => {
  const input = execFileSync(PROGRAM, ["openapi"]);
  const made = execFileSync(process.execPath, ["generate.js"], { input, encoding: "utf8" });
  expect(made).toBe(readFileSync("src/schema.ts", "utf8"));
});

test("a branch is there for a while", async () => {
  let name;
  {
    await using branch = await duramen.branch("app");
    name = branch.name;
    const rows = (await branch.query("select x, name from t order by x")).objects<{ x: number; name: string | null }>();
    expect(rows).toEqual([{ x: 1, name: "a" }, { x: 2, name: null }]);
    const [inserted, counted] = await branch.transaction([
      ["insert into t values ($1, $2)", [3, "'; drop table t; --"]],
      "select count(*) from t",
    ]);
    expect([inserted?.affected, counted?.scalar()]).toEqual([1, 3]);
    expect(await asked(branch.url, "select name from t where x = 3")).toEqual([{ name: "'; drop table t; --" }]);
    const some = await branch.query("select generate_series(1, 5)", [], { maxRows: 2 });
    expect([some.rows, some.rowCount, some.truncated]).toEqual([[[1], [2]], 2, true]);
    await branch.reset();
    expect((await branch.query("select count(*) from t")).scalar()).toBe(2);
    expect((await branch.evidence()).branch.name).toBe(branch.name);
    const before = branch.view.expires_at;
    await branch.renew(7_200_000);
    expect(branch.view.expires_at > before).toBe(true);
    const failed = await caught(branch.query("select nothing from nowhere"));
    expect(failed).toBeInstanceOf(duramen.StatementFailed);
    expect(failed).toMatchObject({ name: "StatementFailed", status: 422, code: "sql_error", sqlstate: "42P01" });
    const slow = branch.query("select pg_sleep(20)", [], { timeoutMs: 200 });
    expect((await caught(slow)).status).toBe(504);
  }
  expect(await caught(new duramen.Client().branch(name))).toBeInstanceOf(duramen.NotFound);
});

test("a branch is given back when its block fails, and may have ended", async () => {
  const failing = async (): Promise<void> => {
    await using branch = await duramen.branch("app", { name: "failing" });
    throw new RangeError(branch.name);
  };
  await expect(failing()).rejects.toThrow(RangeError);
  expect(await names()).not.toContain("failing");
  await using gone = await new duramen.Client().create("app", { name: "gone" });
  await gone.destroy();
  expect(await caught(gone.destroy())).toBeInstanceOf(duramen.NotFound);
});

test("a name that is leased gives the same branch, and names are only names", async () => {
  await using one = await duramen.branch("app", { name: "same" });
  const other = await duramen.branch("app", { name: "same" });
  expect([other.view.id, other.view.existing]).toEqual([one.view.id, true]);
  for (const name of ["../sources", "a/b", "a?limit=1", "%2e%2e", "a b", ""]) {
    expect((await caught(new duramen.Client().branch(name))).status).toBeGreaterThanOrEqual(400);
  }
});

test.each(["http", "https"])("with a token over %s, and its end", async (scheme) => {
  const name = `ci-${scheme}`;
  const roles = ["--role", "user", "--source", "app", "--policy", "read-write", "--max-branches", "2"];
  vi.stubEnv("DURAMEN_TOKEN", await daemon.token(name, ...roles));
  vi.stubEnv("DURAMEN_URL", `${scheme}://${daemon.http}`);
  vi.stubEnv("DURAMEN_CA", daemon.certificate);
  const client = new duramen.Client();
  const branch = await client.create(undefined, { ttlMs: 60_000 });
  expect(await asked(branch.url, "select count(*)::int from t")).toEqual([{ count: 2 }]);
  expect(await caught(client.create("app", { policy: "ddl" }))).toBeInstanceOf(duramen.NotAllowed);
  const second = await client.create();
  const later = await caught(client.create());
  expect(later).toBeInstanceOf(duramen.Later);
  expect(later.retryAfterMs).toBeGreaterThan(0);
  await daemon.run("token", "revoke", name);
  expect(await caught(branch.query("select 1"))).toBeInstanceOf(duramen.NotAuthenticated);
  const wrong = new duramen.Client({ token: `${name}:wrong` });
  expect(await caught(wrong.sources())).toBeInstanceOf(duramen.NotAuthenticated);
  // Revoked, it leaves its branches, which the machine's own gives back.
  const own = new duramen.Client({ home: daemon.home });
  for (const left of [branch, second]) await (await own.branch(left.name)).destroy();
});

test("a certificate that nobody vouches for is refused", async () => {
  const token = await daemon.token("tls");
  const client = new duramen.Client({ url: `https://${daemon.http}`, token });
  await expect(client.sources()).rejects.toThrow(/self-signed|unable to verify/);
  const trusting = new duramen.Client({ url: `https://${daemon.http}`, token, ca: daemon.certificate });
  expect((await trusting.sources()).map((source) => source.name)).toEqual(["app"]);
  expect(() => new duramen.Client({ url: "https://a", token, ca: "/nowhere.pem" })).toThrow("cannot be read");
});

test("secrets are told to nobody", async () => {
  const token = await daemon.token("quiet");
  const secret = token.slice("quiet:".length);
  const client = new duramen.Client({ url: `http://${daemon.http}`, token });
  await using branch = await client.create("app");
  await using here = await new duramen.Client().create("app");
  const said = [client, branch].map((each) => inspect(each, { showHidden: true, depth: 9 }) + JSON.stringify(each));
  for (const failing of [() => branch.query("select 1/0"), () => client.branch("no such")]) {
    said.push(inspect(await caught(failing()), { showHidden: true, depth: 9 }));
  }
  const away = new duramen.Client({ url: "http://127.0.0.1:9", token });
  const unreached: unknown = await away.sources().catch((error: unknown) => error);
  expect(unreached).toBeInstanceOf(duramen.Unreachable);
  said.push(inspect(unreached, { showHidden: true, depth: 9 }));
  expect(branch.url).toContain(encodeURIComponent(secret));
  expect(said).toHaveLength(5);
  for (const each of said) expect(each).not.toContain(secret);
  // The URL on this machine holds a secret of the branch's own.
  const own = /password=([^&]{8,})|:([^:@/]{8,})@/.exec(here.url)?.slice(1).join("") ?? here.url;
  expect(here.url).toContain(own);
  expect(inspect(here, { showHidden: true, depth: 9 }) + JSON.stringify(here)).not.toContain(own);
  expect(() => new duramen.Client({ url: "http://db.example:6433", token })).toThrow("use https");
  expect(() => new duramen.Client({ url: "http://127.0.0.1:6433" })).toThrow("needs a token");
  for (const url of ["127.0.0.1:6433", "ftp://x", "nonsense"]) {
    expect(() => new duramen.Client({ url, token })).toThrow("is like https://");
  }
});

test("a daemon that restarts is found again", async () => {
  const client = new duramen.Client();
  const branch = await client.create("app", { name: "stays" });
  await branch.query("insert into t values (9)");
  await daemon.stop();
  const began = Date.now();
  await expect(branch.query("select 1")).rejects.toThrow(duramen.Unreachable);
  expect(Date.now() - began).toBeLessThan(5_000);
  await daemon.start();
  expect((await branch.query("select count(*) from t")).scalar()).toBe(3);
  await branch.destroy();
});
