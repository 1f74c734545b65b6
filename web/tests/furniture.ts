/** What pages are looked at with. */

import type { Page } from "@playwright/test";
import { expect, type House } from "./fixtures";

/** A branch that differs from its source, others of it, and some of other kinds; once for each daemon. */
export async function furnish(house: House): Promise<void> {
  const { length } = await house.api<{ name: string }[]>("GET", "/v1/branches").then((all) => all.filter(({ name }) => name === "fix-totals"));
  if (length > 0) return;
  await house.branch("fix-totals", { policy: "ddl" });
  await house.query("fix-totals", "alter table customers add column phone text", "update orders set total = round(total * 1.19, 2) where id between 40 and 46", "delete from notes where id = 4");
  await house.api("POST", "/v1/branches/fix-totals/snapshots", { name: "before-rounding" });
  await house.branch("fix-totals-review", { from: "fix-totals", source: undefined });
  await house.branch("fix-totals-ci", { from: "fix-totals", source: undefined });
  await house.branch("nightly-report", { policy: "read-only" });
  await house.branch("pr-1204");
  await house.api("POST", "/v1/branches/nightly-report/protect", { protected: true });
}

/** Waits until the page has what it asked for. */
export async function settled(page: Page): Promise<void> {
  await expect(page.getByRole("heading").first()).toBeVisible();
  await expect(page.locator(".wait")).toHaveCount(0);
  await page.waitForTimeout(300);
}
