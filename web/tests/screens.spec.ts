import { expect, goTo, House, test as base } from "./fixtures";
import { furnish, settled } from "./furniture";

/** Where one looks, and what is another at each run: times, sizes, and what follows from them. */
const SCREENS: Record<string, { place: string; varies: string[] }> = {
  branches: { place: "branches", varies: ["time", "[role=cell].num"] },
  sql: { place: "branches/fix-totals/sql", varies: ["time"] },
  tables: { place: "branches/fix-totals/tables", varies: ["time"] },
  definitions: { place: "branches/fix-totals/definitions", varies: ["time"] },
  rows: { place: "branches/fix-totals/rows", varies: ["time"] },
  access: { place: "access", varies: ["time", ".facts", "td.num", ".happened"] },
};

// With a daemon of their own: branches of other journeys would be in the pictures.
const test = base.extend<object, { house: House }>({
  house: [
    async ({}, use) => {
      const house = await House.open();
      await use(house);
      await house.daemon.close();
    },
    { scope: "worker", timeout: 180_000 },
  ],
});

// The page forbids styles that it did not bring, such as those by which a comparison stills what moves.
test.use({ bypassCSP: true });

for (const colorScheme of ["light", "dark"] as const)
  for (const width of [1280, 390])
    test(`pages look as they did, ${colorScheme}, ${width} wide`, async ({ page, house }) => {
      test.setTimeout(240_000);
      await furnish(house);
      await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
      await page.setViewportSize({ width, height: width === 390 ? 844 : 800 });
      const compare = async (name: string, varies: string[]) =>
        await expect(page).toHaveScreenshot([colorScheme, `${name}-${width}.png`], {
          mask: varies.map((selector) => page.locator(selector)),
          maxDiffPixelRatio: 0.01,
          animations: "disabled",
          caret: "hide",
        });
      await page.goto(house.at);
      await settled(page);
      await compare("sign-in", []);
      await house.enter(page.context());
      await page.reload();
      for (const [name, { place, varies }] of Object.entries(SCREENS)) {
        await goTo(page, house, place);
        await settled(page);
        await compare(name, varies);
      }
    });
