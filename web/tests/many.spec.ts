import { expect, goTo, House, test as base } from "./fixtures";

/** How many branches there are. */
const MANY = Number(process.env.DURAMEN_BRANCHES ?? 200);
/** What waits in the pool for a name. */
const AT_ONCE = 8;

// Branches that nobody is in sleep, so that there can be more than the memory would hold.
const test = base.extend<object, { house: House }>({
  house: [
    async ({}, use) => {
      const house = await House.open("--sleep-after", "1s", "--volume-size", `${3 + Math.ceil(MANY / 500)}G`);
      await use(house);
      await house.daemon.close();
    },
    { scope: "worker", timeout: 600_000 },
  ],
});

test(`${MANY} branches: few in the page, found by a word, walked by keys`, async ({ signedIn: page, house }) => {
  test.setTimeout(240_000 + 1000 * MANY);
  const digits = String(MANY - 1).length;
  const nameOf = (at: number) => `many-${String(at).padStart(digits, "0")}`;
  const left = Array.from({ length: MANY }, (_, at) => nameOf(at));
  await Promise.all(
    Array.from({ length: AT_ONCE }, async () => {
      for (let name = left.pop(); name !== undefined; name = left.pop()) await house.branch(name, { wait_ms: 120_000 });
    }),
  );
  await goTo(page, house, "branches");
  await expect(page.getByText(`${MANY.toLocaleString("en")} branches`)).toBeVisible();
  const rows = page.getByRole("table", { name: "Branches" }).getByRole("row");
  expect(await rows.count()).toBeLessThan(50);
  // The last ten.
  const word = nameOf(MANY - 1).slice(0, -1);
  await page.keyboard.press("/");
  await page.keyboard.type(word);
  await expect(page.getByText(`10 of ${MANY.toLocaleString("en")} branches`)).toBeVisible();
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  await expect(page.getByRole("heading", { name: `${word}1` })).toBeVisible();
  await page.keyboard.press("Escape");
  await expect(page.getByRole("heading", { name: "Branches" })).toBeVisible();

  // From end to end in a hundred steps, a frame each: what is in the page stays little, and what is in sight is there in each.
  const region = page.getByRole("region", { name: "Branches" });
  const seen = await region.evaluate(async (node) => {
    const frame = () => new Promise<number>((done) => requestAnimationFrame(done));
    const took: number[] = [];
    let rows = 0;
    let empty = 0;
    for (let step = 1, before = await frame(); step <= 100; step += 1) {
      node.scrollTop = ((node.scrollHeight - node.clientHeight) * step) / 100;
      took.push((await frame()) - before);
      // The rows come with the frame after it.
      before = await frame();
      const all = [...node.querySelectorAll("[role=row]")];
      rows = Math.max(rows, all.length);
      const { top, bottom } = node.getBoundingClientRect();
      if (!all.slice(1).some((row) => row.getBoundingClientRect().bottom >= (top + bottom) / 2 && row.getBoundingClientRect().top <= (top + bottom) / 2)) empty += 1;
    }
    took.sort((a, b) => a - b);
    return { rows, empty, median: took[50]!, slowest: took[99]! };
  });
  console.log(`${MANY} branches: a step of scrolling took ${seen.median.toFixed(1)} ms in the median, and ${seen.slowest.toFixed(1)} ms at most`);
  expect(seen.rows).toBeLessThan(60);
  expect(seen.empty).toBe(0);
  await expect(page.getByRole("link", { name: nameOf(MANY - 1) })).toBeVisible();
});
