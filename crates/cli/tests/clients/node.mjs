// Each PostgreSQL client of Node does the same work with nothing but a URL, through the router.
//
// Usage: node.mjs CLIENT postgresql://TOKEN:SECRET@HOST:PORT SOURCE
import assert from "node:assert/strict";
import { createRequire } from "node:module";

const [client, base, source] = process.argv.slice(2);
const require = createRequire(`${process.cwd()}/`);
const branch = `js-${client}`;
const create = `${base}/${source}@${branch}`;
const again = `${base}/${branch}`;

const clients = {
  async pg() {
    const { Client, Pool } = require("pg");
    const first = new Client({ connectionString: create, ssl: { rejectUnauthorized: false } });
    await first.connect();
    assert.equal((await first.query("select sum(x)::int from t where x > 0")).rows[0].sum, 5050);
    await first.query("insert into t values ($1, $2)", [-1, "by pg"]);
    const pool = new Pool({ connectionString: again, max: 3 });
    const found = await Promise.all(Array.from({ length: 9 }, () => pool.query("select count(*)::int from t")));
    assert.deepEqual(found.map(({ rows }) => rows[0].count), Array(9).fill(101));
    await pool.end();
    await first.end();
  },
  async postgres() {
    const postgres = require("postgres");
    const first = postgres(create, { max: 1, ssl: { rejectUnauthorized: false } });
    await first`insert into t values (-1, ${"by postgres"})`;
    const pool = postgres(again, { max: 3 });
    const found = await Promise.all(Array.from({ length: 9 }, () => pool`select count(*)::int from t`));
    assert.deepEqual(found.map(([row]) => row.count), Array(9).fill(101));
    await pool.end();
    await first.end();
  },
  async knex() {
    const database = require("knex")({ client: "pg", connection: create, pool: { min: 0, max: 3 } });
    const { count } = await database("t").count("* as count").first();
    assert.equal(Number(count), 100);
    await database.transaction((trx) => trx("t").insert({ x: -1, y: "by knex" }));
    assert.equal(Number((await database("t").count("* as count").first()).count), 101);
    await database.destroy();
  },
};

await clients[client]();
console.log(`${client}: ok`);
