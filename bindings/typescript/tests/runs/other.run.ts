/** A second file, which Vitest runs in a process of its own. */

import { test } from "duramen/vitest";
import { expect } from "vitest";

test.for([1, 2, 3, 4])("is alone here too: %i", async (_, { duramenBranch }) => {
  expect((await duramenBranch.query("delete from t")).affected).toBe(2);
});
