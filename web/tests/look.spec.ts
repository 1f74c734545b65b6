import AxeBuilder from "@axe-core/playwright";
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import type { Page } from "@playwright/test";
import { expect, goTo, test } from "./fixtures";
import { furnish, settled } from "./furniture";

const ROOT = join(dirname(fileURLToPath(import.meta.url)), "..");
const RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"];
const PLACES = ["", "branches", "branches/fix-totals", "branches/fix-totals/sql", "branches/fix-totals/tables",
  "branches/fix-totals/definitions", "branches/fix-totals/rows", "branches/fix-totals/carry", "branches/fix-totals/evidence", "branches/fix-totals/sessions", "attached", "access"];

async function noViolation(page: Page, what: string): Promise<void> {
  const { violations } = await new AxeBuilder({ page }).withTags(RULES).analyze();
  expect(violations.map(({ id, nodes }) => `${what}: ${id}: ${nodes.map((node) => node.html.slice(0, 160)).join(" | ")}`)).toEqual([]);
}

for (const colorScheme of ["light", "dark"] as const)
  for (const width of [1280, 390])
    test(`each page, ${colorScheme}, ${width} wide: axe finds nothing, and nothing sticks out`, async ({ page, house }) => {
      test.setTimeout(400_000);
      await furnish(house);
      await page.emulateMedia({ colorScheme });
      await page.setViewportSize({ width, height: 844 });
      await page.goto(house.at);
      await settled(page);
      await noViolation(page, "sign in");
      await house.enter(page.context());
      await page.reload();
      for (const place of PLACES) {
        await goTo(page, house, place);
        await settled(page);
        await noViolation(page, `${place || "home"}`);
        const beyond = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
        expect(beyond, place).toBeLessThanOrEqual(0);
      }
      await goTo(page, house, "branches");
      await page.getByRole("button", { name: "Create branch" }).click();
      await noViolation(page, "create");
      await page.keyboard.press("Escape");
      await page.keyboard.press("?");
      await expect(page.getByRole("dialog", { name: "Keys" })).toBeVisible();
      await noViolation(page, "keys");
    });

test("everything is reached by keys alone", async ({ signedIn: page, house }) => {
  await furnish(house);
  await page.keyboard.press("g");
  await page.keyboard.press("b");
  await expect(page.getByRole("heading", { name: "Branches" })).toBeVisible();
  await page.keyboard.press("/");
  await page.keyboard.type("nightly");
  await page.keyboard.press("Enter");
  await expect(page.getByRole("heading", { name: "nightly-report" })).toBeVisible();
  await page.keyboard.press("s");
  await expect(page.getByRole("textbox", { name: "SQL" })).toBeFocused();
  await page.keyboard.type("select 41 + 1 as answer");
  await page.keyboard.press("Control+Enter");
  await expect(page.getByRole("cell", { name: "42" })).toBeVisible();
  // Tab leads out of the editor.
  await page.keyboard.press("Tab");
  await expect(page.getByRole("button", { name: "Run", exact: true })).toBeFocused();
  await page.keyboard.press("Escape");
  await page.keyboard.press("g");
  await page.keyboard.press("a");
  await expect(page.getByRole("heading", { name: "Access", exact: true })).toBeVisible();
});

test("the first view is at most 200 KB, compressed", async ({ page, house }) => {
  await house.enter(page.context());
  const files = new Set<string>();
  page.on("response", (reply) => {
    const { pathname } = new URL(reply.url());
    if (!pathname.startsWith("/v1/") && pathname !== "/metrics") files.add(pathname.endsWith("/") ? `${pathname}index.html` : pathname);
  });
  await page.goto(house.at);
  await expect(page.getByRole("heading", { name: "Sources" })).toBeVisible();
  await page.waitForLoadState("load");
  const sizes = [...files].map((file) => gzipSync(readFileSync(join(ROOT, "dist", file))).length);
  expect(sizes.length).toBeGreaterThan(2);
  expect(sizes.reduce((a, b) => a + b, 0)).toBeLessThan(200_000);
  // The editor, the largest of all, is not among them.
  const editor = readdirSync(join(ROOT, "dist/assets")).filter((name) => name.startsWith("editor-"));
  expect(editor.length).toBe(1);
  expect([...files].some((file) => file.includes(editor[0]!))).toBe(false);
});

// Only when it is asked for: it changes a file of the repository.
if (process.env.DURAMEN_PICTURES !== undefined)
  test("a picture for the README", async ({ signedIn: page, house }) => {
    await furnish(house);
    await page.setViewportSize({ width: 1280, height: 760 });
    await goTo(page, house, "branches/fix-totals/rows");
    await expect(page.getByRole("region", { name: "Rows of public.orders" })).toBeVisible();
    await settled(page);
    await page.screenshot({ path: join(ROOT, "../docs/pictures/console.png") });
  });
