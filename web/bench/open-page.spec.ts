// What an open page costs the daemon: its processor time with one, and without. `make bench-web` runs it.
import { readFileSync } from "node:fs";
import { expect, test } from "../tests/fixtures";

const SECONDS = 40;
/** Of a core, at most. */
const SHARE = 0.01;
/** Ticks of the kernel's clock in a second, on every Linux that we know. */
const TICKS = 100;

function cpuSeconds(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").replace(/^.*\) /, "").split(" ");
  return (Number(fields[11]) + Number(fields[12])) / TICKS;
}

test("an open page costs the daemon little", async ({ page, house }) => {
  test.setTimeout(SECONDS * 3000 + 60_000);
  const { pid } = house.daemon;
  const over = async () => {
    const before = cpuSeconds(pid);
    await page.waitForTimeout(SECONDS * 1000);
    return (cpuSeconds(pid) - before) / SECONDS;
  };
  for (let branch = 0; branch < 20; branch += 1) await house.branch(`b${branch}`, { wait_ms: 60_000 });
  await page.waitForTimeout(10_000);
  const without = await over();
  await house.enter(page.context());
  await page.goto(house.at);
  await expect(page.getByRole("heading", { name: "Sources" })).toBeVisible();
  await page.waitForTimeout(2000);
  const withOne = await over();
  await page.goto(`${house.at}#/branches`);
  await page.waitForTimeout(2000);
  const list = await over();
  const percent = (share: number) => `${(share * 100).toFixed(2)} %`;
  console.log(`of a core: ${percent(without)} without a page, ${percent(withOne)} with Home, ${percent(list)} with the list of branches`);
  expect(Math.max(withOne, list) - without).toBeLessThanOrEqual(SHARE);
});
