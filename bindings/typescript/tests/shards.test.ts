/** Durable functions over two databases of one branch's server. */

import { execFile } from "node:child_process";
import { createServer } from "node:net";
import { promisify, inspect } from "node:util";
import * as duramen from "duramen";
import pg from "pg";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { urlsOf } from "../src/shards.js";
import { Daemon, PROGRAM } from "./daemon.js";

let daemon: Daemon;
let branch: duramen.Branch;
let urls: [string, string];

async function fn(...args: string[]): Promise<string> {
  return (await promisify(execFile)(PROGRAM, ["--home", daemon.home, ...args], { timeout: 120_000 })).stdout.trim();
}

async function sql(url: string, text: string, values: unknown[] = []): Promise<Record<string, unknown>[]> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 10_000, query_timeout: 10_000 });
  await client.connect();
  try {
    return (await client.query(text, values)).rows as Record<string, unknown>[];
  } finally {
    await client.end();
  }
}

async function start(shard: duramen.Shard, label: string): Promise<string> {
  return String((await sql(shard.url, "SELECT df.start('SELECT 1', label => $1) AS id", [label]))[0]!.id);
}

async function thrown(action: Promise<unknown>): Promise<unknown> {
  return action.then(() => undefined, (error: unknown) => error);
}

beforeAll(async () => {
  daemon = await Daemon.open();
  vi.stubEnv("DURAMEN_HOME", daemon.home);
  branch = await new duramen.Client().create("app", { policy: "ddl" });
  const first = await fn("branch", "url", "--administrator", branch.name);
  await sql(first, "CREATE DATABASE second");
  urls = [first, first.replace(/\/[^/?]+(\?|$)/, "/second$1")];
  for (const url of urls) {
    await fn("fn", "install", url);
    await sql(url, "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET df.enable_superuser_instances = on', current_database()); END $$");
  }
  expect(await new duramen.Shards(first).all()).toEqual([]);
  await fn("fn", "cluster", "create", ...urls);
}, 180_000);

afterAll(async () => {
  await branch.destroy();
  await daemon.close();
});

test("an instance is found by its id from any shard", async () => {
  const ids: string[] = [];
  for (const shard of await new duramen.Shards(urls[0]).all()) {
    const id = await start(shard, "found");
    ids.push(id);
    for (const url of urls) {
      const its = await new duramen.Shards(url).of(id);
      expect([its.number, its.state]).toEqual([shard.number, "open"]);
      expect(await sql(its.url, "SELECT df.status($1) AS status", [id])).toEqual([{ status: "pending" }]);
    }
  }
  const shards = new duramen.Shards(urls[0]);
  expect(await thrown(shards.of("order 7"))).toBeInstanceOf(duramen.NotFound);
  expect(String(await thrown(shards.of("0070000000000001")))).toContain("is of shard 7");
  // What spans shards is refused with both.
  const refused = (await thrown(shards.of(ids[0]!, ids[1]!))) as duramen.Conflict;
  expect([refused.code, refused.status]).toEqual(["spans_shards", 409]);
  expect(refused.message).toContain(`${ids[1]} on shard 1`);
  expect((await shards.of(ids[1]!, ids[1]!)).number).toBe(1);
});

test("a key has one shard and others are spread", async () => {
  const [zero, one] = [new duramen.Shards(urls[0]), new duramen.Shards(urls[1])];
  const homes = new Set<number>();
  for (let number = 0; number < 20; number++) {
    const home = (await zero.pick(`order ${number}`)).number;
    expect((await one.pick(`order ${number}`)).number).toBe(home);
    homes.add(home);
  }
  expect(homes).toEqual(new Set([0, 1]));
  const chosen = new Set<number>();
  for (let many = 0; many < 40; many++) chosen.add((await one.pick()).number);
  expect(chosen).toEqual(new Set([0, 1]));
  // No password is shown.
  const shard = await zero.pick();
  expect(inspect(shard) + JSON.stringify(shard)).not.toContain("postgres");
});

test("instances of all shards are listed in one order, page by page", async () => {
  const shards = new duramen.Shards(urls[0]);
  const all = await shards.all();
  const started: string[] = [];
  for (let number = 0; number < 7; number++) started.push(await start(all[number % 2]!, "listed"));
  const seen: string[] = [];
  let after: string | undefined;
  do {
    const page: duramen.ShardPage = await shards.list({ label: "listed", limit: 3, ...(after === undefined ? {} : { after }) });
    expect(page.missing).toEqual([]);
    seen.push(...page.instances.map((instance) => instance.id));
    after = page.next;
  } while (after !== undefined);
  expect(seen).toEqual(started.reverse());
  const { groups, missing } = await shards.count({ label: "listed" });
  expect([groups.map((group) => [group.status, group.count]), missing]).toEqual([[["pending", 7]], []]);
});

test("a shard that does not answer is named, and hinders no other", async () => {
  // Whoever connects waits for ever.
  const silent = createServer(() => undefined).listen(0, "127.0.0.1");
  await new Promise((resolve) => silent.once("listening", resolve));
  const { port } = silent.address() as { port: number };
  const [before] = await sql(urls[0], "SELECT place FROM df._shard WHERE shard = 1");
  await sql(urls[0], "UPDATE df._shard SET place = $1 WHERE shard = 1", [`host='127.0.0.1' port='${port}' dbname='second'`]);
  try {
    const began = Date.now();
    const page = await new duramen.Shards(urls[0], { timeoutMs: 2_000 }).list();
    expect(Date.now() - began).toBeLessThan(6_000);
    expect(page.missing.map((missing) => missing.shard)).toEqual([1]);
    expect(page.instances.length).toBeGreaterThan(0);
    expect(page.instances.every((instance) => instance.shard === 0)).toBe(true);
  } finally {
    await sql(urls[0], "UPDATE df._shard SET place = $1 WHERE shard = 1", [before!.place]);
    silent.close();
  }
});

test("of a place nothing counts but where it is", () => {
  // SH-10.
  const url = "postgresql://app:s%40cret@a:6000/shop?sslmode=verify-full&application_name=x";
  const place = "host='b' port='6001' dbname='jobs' user='eve' password='x' sslmode='disable' options='-c role=eve' target_session_attrs='read-write'";
  expect(urlsOf(url, place)).toEqual(["postgresql://app:s%40cret@b:6001/jobs?sslmode=verify-full&application_name=x"]);
  expect(urlsOf("postgresql://app@a/shop", "host='b,c' port='1,2' dbname='it\\'s' sslmode='require'")).toEqual([
    "postgresql://app@b:1/it's?sslmode=require",
    "postgresql://app@c:2/it's?sslmode=require",
  ]);
  expect(urlsOf("postgresql://app@/shop?host=%2Fa", "host='/run/b' port='5433' dbname='jobs' sslmode='prefer'")).toEqual([
    "postgresql://app@/jobs?host=%2Frun%2Fb&port=5433",
  ]);
});
