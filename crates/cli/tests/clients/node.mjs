// Each PostgreSQL client of Node does the same work with nothing but a URL, through the router.
//
// Usage: node.mjs CLIENT postgresql://TOKEN:SECRET@HOST:PORT SOURCE CERTIFICATE
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { setTimeout } from "node:timers/promises";

const [client, base, source, certificate] = process.argv.slice(2);
const require = createRequire(`${process.cwd()}/`);
const branch = `js-${client}`;
const create = `${base}/${source}@${branch}`;
const again = `${base}/${branch}`;
// The certificate and the server's name are held to be right.
const trusted = { ca: readFileSync(certificate) };
const others = `select count(pg_terminate_backend(pid, 5000))::int from pg_stat_activity
  where usename = current_user and pid <> pg_backend_pid()`;

const clients = {
  async pg() {
    const { Client, Pool } = require("pg");
    const first = new Client({ connectionString: create });
    await first.connect();
    assert.equal((await first.query("select sum(x)::int from t where x > 0")).rows[0].sum, 5050);
    await first.query("insert into t values ($1, $2)", [-1, "by pg"]);
    await assert.rejects(first.query("insert into t values ($1, $2)", [-1, "again"]), { code: "23505" });
    await assert.rejects(new Client({ connectionString: again, ssl: true }).connect(), /self-signed certificate/);
    const pool = new Pool({ connectionString: again, max: 3, ssl: trusted });
    // Sessions that end beneath the pool are replaced.
    pool.on("error", () => {});
    const found = await Promise.all(Array.from({ length: 9 }, () => pool.query("select count(*)::int from t")));
    assert.deepEqual(found.map(({ rows }) => rows[0].count), Array(9).fill(101));
    assert.ok((await first.query(others)).rows[0].count >= 3);
    await setTimeout(300);
    assert.equal((await pool.query("select count(*)::int from t")).rows[0].count, 101);
    await pool.end();
    await first.end();
  },
  async postgres() {
    const postgres = require("postgres");
    const first = postgres(create, { max: 1 });
    await first`insert into t values (-1, ${"by postgres"})`;
    await assert.rejects(first`insert into t values (-1, ${"again"})`, { code: "23505" });
    const sleep = first`select pg_sleep(50)`.execute();
    await setTimeout(300);
    sleep.cancel();
    await assert.rejects(sleep, { code: "57014" });
    const copied = await first`copy (select x from t where x < 0) to stdout`.readable();
    assert.equal(Buffer.concat(await copied.toArray()).toString(), "-1\n");
    const stranger = postgres(again, { max: 1, ssl: "verify-full" });
    await assert.rejects(stranger`select 1`, { code: "DEPTH_ZERO_SELF_SIGNED_CERT" });
    await stranger.end();
    const pool = postgres(again, { max: 3, ssl: trusted });
    const found = await Promise.all(Array.from({ length: 9 }, () => pool`select count(*)::int from t`));
    assert.deepEqual(found.map(([row]) => row.count), Array(9).fill(101));
    // Sessions that end beneath the pool are replaced.
    assert.ok((await first.unsafe(others))[0].count >= 3);
    await setTimeout(300);
    assert.equal((await pool`select count(*)::int from t`)[0].count, 101);
    await pool.end();
    await first.end();
  },
  async knex() {
    const database = require("knex")({ client: "pg", connection: create, pool: { min: 0, max: 3 } });
    const { count } = await database("t").count("* as count").first();
    assert.equal(Number(count), 100);
    await database.transaction((trx) => trx("t").insert({ x: -1, y: "by knex" }));
    await assert.rejects(database("t").insert({ x: -1 }), { code: "23505" });
    const failed = database.transaction(async (trx) => {
      await trx("t").delete();
      throw new Error("no");
    });
    await assert.rejects(failed, /no/);
    assert.equal(Number((await database("t").count("* as count").first()).count), 101);
    await database.destroy();
  },
};

await clients[client]();
console.log(`${client}: ok`);
