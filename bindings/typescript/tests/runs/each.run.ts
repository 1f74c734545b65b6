/** Run by ../vitest.test.ts: one of these fails. */

import { StatementFailed } from "duramen";
import { test } from "duramen/vitest";
import pg from "pg";
import { describe, expect } from "vitest";

test.for([1, 2, 3, 4])("is alone: %i", async (_, { duramenBranch }) => {
  expect((await duramenBranch.query("delete from t")).affected).toBe(2);
});

test("has a URL", async ({ duramenDatabaseUrl }) => {
  const client = new pg.Client(duramenDatabaseUrl);
  await client.connect();
  expect((await client.query("select count(*)::int from t")).rows).toEqual([{ count: 2 }]);
  await client.end();
});

test("may not create tables", async ({ duramenBranch }) => {
  await expect(duramenBranch.query("create table u (y int)")).rejects.toThrow(StatementFailed);
});

describe("with another policy", () => {
  test.override({ duramen: { source: "app", policy: "ddl" } });

  test("may create tables", async ({ duramenBranch }) => {
    await duramenBranch.query("create table u (y int)");
  });
});

test("ends its branch", async ({ duramenBranch }) => {
  await duramenBranch.destroy();
});

test("needs none", () => undefined);

test("fails", async ({ duramenBranch }) => {
  expect(duramenBranch.name).toBe("wrong");
});
