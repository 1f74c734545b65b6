/** Databases that run durable functions together, as the console shows them: two real ones, one of which goes. */

import AxeBuilder from "@axe-core/playwright";
import { join } from "node:path";
import { expect, goTo, test } from "./fixtures";

test("shards are shown with what waits there, and one that is silent", async ({ signedIn: page, house }) => {
  test.setTimeout(180_000);
  const urls: string[] = [];
  for (const name of ["shard-0", "shard-1"]) {
    await house.branch(name, { policy: "ddl" });
    const { url } = (await house.daemon.run("branch", "show", name)) as { url: string };
    await house.daemon.run("fn", "install", url);
    urls.push(url);
  }
  // Role and password are the same on all shards.
  const secret = (url: string) => /[?&]password=([^&]*)/.exec(url)![1]!;
  await house.query("shard-1", `alter role duramen_ddl password '${secret(urls[0]!)}'`);
  urls[1] = urls[1]!.replace(secret(urls[1]!), secret(urls[0]!));
  await house.daemon.run("attachment", "add", "jobs", "--functions", urls[0]!);
  // A database alone has no such page.
  await goTo(page, house, "attached/jobs");
  await expect(page.getByRole("navigation", { name: "Parts of the database" })).toBeVisible();
  await expect(page.getByRole("link", { name: "Shards" })).toHaveCount(0);

  await house.daemon.run("fn", "cluster", "create", ...urls);
  await house.daemon.run("fn", "start", "SELECT 1", "--shard", "1", "--url", urls[0]!);
  await page.reload();
  await page.getByRole("link", { name: "Shards" }).click();
  const row = (shard: number) => page.getByRole("region", { name: "Shards" }).getByRole("row").nth(shard + 1);
  await expect(row(0)).toContainText("this one");
  await expect(row(1)).toContainText("open");
  await expect(row(1).getByRole("cell").nth(1)).toHaveText("1");
  await expect(row(1)).toContainText("none");
  expect((await new AxeBuilder({ page }).withTags(["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]).analyze()).violations).toEqual([]);
  expect(await page.locator("main").innerText()).not.toContain(secret(urls[0]!));

  await house.daemon.run("branch", "destroy", "shard-1");
  await page.reload();
  await expect(row(1)).toContainText("silent");
  await expect(row(0)).toContainText("open");
  if (process.env.DURAMEN_LOOK !== undefined)
    for (const colorScheme of ["light", "dark"] as const)
      for (const width of [1280, 390]) {
        await page.emulateMedia({ colorScheme });
        await page.setViewportSize({ width, height: 844 });
        await page.screenshot({ path: join(process.env.DURAMEN_LOOK, `shards-${colorScheme}-${width}.png`), fullPage: true });
      }
  await page.setViewportSize({ width: 390, height: 844 });
  expect(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth)).toBe(true);
  await house.daemon.run("attachment", "remove", "jobs");
});
