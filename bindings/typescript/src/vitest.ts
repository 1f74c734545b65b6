/**
 * A branch a test, for Vitest.
 *
 * @example
 * import { test } from "duramen/vitest";
 *
 * test("an import", async ({ duramenBranch, duramenDatabaseUrl }) => {
 *   await duramenBranch.query("truncate flights");
 * });
 *
 * @module
 */

import { test as base } from "vitest";
import { Client, type Branch } from "./client.js";

/** Which branch a test gets. */
export interface DuramenOptions {
  /** The source, if the daemon has several. */
  source?: string;
  /** What tests may do in it. */
  policy?: string;
  /** A branch that a run which was killed has left ends by itself: after a quarter of an hour unless said otherwise. */
  ttlMs?: number;
}

declare module "vitest" {
  interface ProvidedContext {
    /** Which branch tests get that do not say otherwise: `provide: { duramen: { source: "app" } }` in the configuration. */
    duramen?: DuramenOptions;
  }
}

/** What tests of {@link test} are given. */
export interface DuramenFixtures {
  /** Which branch: for a group of tests by `test.override`, for all by `provide` in the configuration. */
  duramen: DuramenOptions;
  /** A branch of the test's own, destroyed after it, whatever happened. */
  duramenBranch: Branch;
  /** The URL of the test's branch, for any client of PostgreSQL. */
  duramenDatabaseUrl: string;
}

/** Vitest's `test`, with a branch for each test that asks for one. */
export const test = base.extend<DuramenFixtures>({
  duramen: [{}, { injected: true }],
  duramenBranch: async ({ duramen }, use) => {
    const { source, policy, ttlMs = 900_000 } = duramen;
    await using branch = await new Client().create(source, { policy, ttlMs });
    await use(branch);
  },
  duramenDatabaseUrl: async ({ duramenBranch }, use) => use(duramenBranch.url),
});
