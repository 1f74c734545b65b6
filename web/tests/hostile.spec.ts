import { expect, goTo, HOSTILE, test, write } from "./fixtures";
import type { Page } from "@playwright/test";

/** Nothing of it became an element, and nothing ran. */
async function unharmed(page: Page): Promise<void> {
  expect(await page.evaluate(() => (window as { hit?: number }).hit)).toBeUndefined();
  await expect(page.locator('img[src="x"]')).toHaveCount(0);
  await expect(page.locator("body script")).toHaveCount(0);
}

test("names, values, comments and errors that look like code are text", async ({ signedIn: page, house }) => {
  const name = await house.branch("trapped", { source: "traps", policy: "ddl" });
  const table = `"${HOSTILE.replaceAll('"', '""')}"`;
  await goTo(page, house, `branches/${name}/tables`);
  await expect(page.getByText("<script>window.hit = 1</script>")).toBeVisible();
  await unharmed(page);

  await goTo(page, house, `branches/${name}/sql`);
  await write(page, `select * from ${table}`);
  await page.keyboard.press("Control+Enter");
  await expect(page.getByRole("cell", { name: HOSTILE })).toBeVisible();
  await expect(page.getByRole("columnheader", { name: HOSTILE })).toBeVisible();
  await page.getByRole("button", { name: "Row 1, in full" }).click();
  await unharmed(page);
  await page.keyboard.press("Escape");
  await write(page, `select "${HOSTILE.replaceAll('"', '""')}" from nowhere`);
  await page.keyboard.press("Control+Enter");
  await expect(page.getByRole("alert")).toContainText("nowhere");
  await write(page, `select missing."${HOSTILE.replaceAll('"', '""')}"() `);
  await page.keyboard.press("Control+Enter");
  await expect(page.getByRole("alert")).toContainText("does not exist");
  await unharmed(page);

  await house.query(name, `alter table ${table} add column "<svg onload=window.hit=1>" text`, `insert into ${table} values (9, '${HOSTILE}')`, `delete from ${table} where id = 1`);
  for (const part of ["definitions", "rows", "evidence"]) {
    await goTo(page, house, `branches/${name}/${part}`);
    await expect(page.getByText("onload=").or(page.getByText("onerror=")).or(page.getByText("as it was imported")).first()).toBeVisible();
    await unharmed(page);
  }
});

test("an address that looks like code leads nowhere", async ({ signedIn: page, house }) => {
  await goTo(page, house, `branches/${encodeURIComponent(HOSTILE)}`);
  await expect(page.getByRole("alert")).toBeVisible();
  await unharmed(page);
  await goTo(page, house, "javascript:window.hit=1");
  await expect(page.getByRole("heading", { name: "Not found" })).toBeVisible();
  await unharmed(page);
});

test("the policy of the page forbids what is inline, and every other host", async ({ browser, house }) => {
  // Not the page of the others, which must not break it.
  const page = await browser.newPage();
  const reply = await page.goto(house.at);
  const policy = reply!.headers()["content-security-policy"] ?? "";
  expect(policy).toContain("default-src 'none'");
  expect(policy).toContain("frame-ancestors 'none'");
  expect(policy).not.toContain("unsafe");
  // It is not only said: what breaks it does not run.
  const ran = await page.evaluate(async () => {
    const script = document.createElement("script");
    script.textContent = "window.hit = 1";
    const broken = new Promise((done) => document.addEventListener("securitypolicyviolation", () => done(true), { once: true }));
    document.body.append(script);
    script.remove();
    return { broken: await broken, hit: (window as { hit?: number }).hit };
  });
  expect(ran).toEqual({ broken: true, hit: undefined });
  await page.close();
});
