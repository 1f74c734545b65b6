import { execFile } from "node:child_process";
import { copyFileSync, cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import AxeBuilder from "@axe-core/playwright";
import type { Page } from "@playwright/test";
import { asking } from "../src/api/client";
import { axis, family, line, number, percent, place, quantity } from "../src/lib/lab";
import { PROGRAM } from "../../bindings/typescript/tests/daemon";
import { expect, goTo, HOSTILE, test as base, watch, type House } from "./fixtures";

const ROOT = join(dirname(fileURLToPath(import.meta.url)), "../..");
const DOCUMENTS = join(ROOT, "crates/reports/tests/fixtures");
const LOG = join(ROOT, "docs/experiments/c1z3-read/experiments.jsonl");

interface Evidence {
  suite: string;
  started_at: string;
  finished_at: string;
  version: string;
  host: { cpu: string };
  config: Record<string, unknown>;
  command: string[];
  measurements: { name: string; unit: string; [figure: string]: unknown }[];
  checks: { name: string; passed: boolean; detail: string }[];
  findings: { rule: string; severity: string; figure: number | null; text: string }[];
  verdict: string;
}
const read = (name: string) => JSON.parse(readFileSync(join(DOCUMENTS, `${name}.json`), "utf8")) as Evidence;

/** A real document with all of its figures times something, of another minute and of a later version. */
function later(of: Evidence, minute: number, times: (name: string) => number): Evidence {
  const changed = structuredClone(of);
  changed.version = `${of.version}-next`;
  changed.started_at = new Date(Date.UTC(2026, 10, 25, 0, minute)).toISOString();
  changed.finished_at = new Date(Date.UTC(2026, 10, 25, 0, minute, 30)).toISOString();
  for (const figure of changed.measurements)
    for (const field of ["mean", "min", "p50", "p90", "p95", "p99", "max"]) figure[field] = (figure[field] as number) * times(figure.name);
  return changed;
}

/** Directories of measurements, attached under names: real documents and made ones. */
const test = base.extend<object, { measured: { folder: string; name: string; attach: (name: string, folder: string) => Promise<void> } }>({
  measured: [
    async ({ house }, use) => {
      const folder = join(house.daemon.folder, "measured");
      cpSync(DOCUMENTS, folder, { recursive: true });
      mkdirSync(join(folder, "c1z3-read"));
      copyFileSync(LOG, join(folder, "c1z3-read/experiments.jsonl"));
      // Twelve runs of one suite, the last five of which write slower and read faster.
      const packs = read("packs");
      mkdirSync(join(folder, "history"));
      for (let minute = 0; minute < 12; minute++) {
        const noise = 1 + ((minute * 7) % 5) / 200;
        const times = (name: string) => noise * (minute < 7 ? 1 : name === "write_ms/1000" ? 1.6 : name === "read_ms/1000" ? 0.5 : 1);
        writeFileSync(join(folder, `history/run-${minute}.json`), JSON.stringify(later(packs, minute, times)));
      }
      writeFileSync(join(folder, "package.json"), '{"name": "no evidence"}');
      writeFileSync(join(folder, "cut.json"), readFileSync(join(DOCUMENTS, "store.json"), "utf8").slice(0, 900));
      const attach = async (name: string, at: string) => {
        await house.daemon.run("attachment", "add", name, "--lab", at);
      };
      await attach("measured", folder);
      await use({ folder, name: "measured", attach });
    },
    { scope: "worker", auto: true },
  ],
});

async function open(page: Page, house: House, part = "", name = "measured"): Promise<void> {
  await goTo(page, house, `attached/${name}${part === "" ? "" : `/${part}`}`);
  await expect(page.getByRole("navigation", { name: "Parts of the measurements" })).toBeVisible();
}
const runs = (page: Page) => page.getByRole("table", { name: "Runs" });

test("what is attached leads to its runs, and what is none of them is told", async ({ signedIn: page, house, measured }) => {
  await goTo(page, house, "attached");
  await page.getByRole("link", { name: measured.name }).click();
  await expect(runs(page).getByRole("row")).toHaveCount(18);
  await expect(page.getByText("1 JSON file is no evidence.")).toBeVisible();
  await page.getByText("1 damaged").click();
  await expect(page.getByText("cut.json")).toBeVisible();
  await page.getByLabel("Suite").selectOption("store");
  await expect(runs(page).getByRole("row")).toHaveCount(2);
  await expect(runs(page).getByRole("row").nth(1)).toContainText("pass");
  await expect(runs(page).getByRole("row").nth(1)).toContainText("4 met");
  // By keys: the run is opened.
  await page.keyboard.press("j");
  await page.keyboard.press("Enter");
  await expect(page.getByRole("heading", { name: "store", exact: true })).toBeVisible();
});

test("a run is a report: figures with units and targets, met and missed by word", async ({ signedIn: page, house }) => {
  await open(page, house);
  await page.getByLabel("Suite").selectOption("store");
  await runs(page).getByRole("link", { name: "store" }).click();
  await expect(page.getByText("Every operation of the embedded store", { exact: false }).first()).toBeVisible();
  const document = read("store");
  const figures = page.getByRole("table", { name: "Figures" });
  await expect(figures).toHaveAttribute("aria-rowcount", String(document.measurements.length + 1));
  const one = document.measurements.find((figure) => figure.unit === "us" && (figure["count"] as number) > 1)!;
  await page.keyboard.press("/");
  await page.keyboard.type(one.name);
  const row = figures.getByRole("row").filter({ hasText: one.name }).first();
  await expect(row).toContainText(quantity(one["p50"] as number, "us"));
  await expect(row.getByRole("img")).toHaveAttribute("aria-label", /median/);
  await expect(page.getByText("DURAMEN_SEED=")).toBeVisible();
  // The figure's name leads to its course.
  await row.getByRole("link").click();
  await expect(page.getByRole("heading", { name: "Over time" })).toBeVisible();
});

test("targets are met or missed, by colour and by word", async ({ signedIn: page, house }) => {
  const { runs: all } = await house.api<{ runs: { id: string; suite: string }[] }>("GET", "/v1/attachments/measured/runs?suite=packs");
  const { targets } = await house.api<{ targets: { what: string; outcome: string; limit_words: string; measured_words: string }[] }>("GET", `/v1/attachments/measured/run?id=${all[0]!.id}`);
  expect(targets.length).toBeGreaterThan(0);
  await open(page, house, `run?id=${all[0]!.id}`);
  const table = page.getByRole("region", { name: "Targets" }).getByRole("table");
  for (const target of targets) {
    const row = table.getByRole("row").filter({ hasText: target.what });
    await expect(row.first()).toContainText(target.limit_words);
    await expect(row.first()).toContainText(target.measured_words);
    await expect(row.first().locator(target.outcome === "met" ? ".word.good" : target.outcome === "missed" ? ".word.bad" : ".word.plain")).toHaveText(target.outcome.replace("-", " "));
  }
});

test("figures over runs have bands and words for what changed, and a table of the same values", async ({ signedIn: page, house }) => {
  await open(page, house, "time?suite=packs");
  const figures = page.getByRole("table", { name: "Figures", exact: true });
  await expect(figures.getByRole("row").nth(1)).toContainText("worse");
  await expect(figures.getByRole("row").nth(1)).toContainText("write_ms/1000");
  await expect(figures.getByRole("row").nth(2)).toContainText("better");
  const chart = page.getByRole("figure");
  await expect(chart).toContainText("slower by");
  // A band for the runs before, one for the last; a circle for each run.
  await expect(chart.locator("rect.band")).toHaveCount(2);
  await expect(chart.locator("circle.point")).toHaveCount(12);
  await expect(chart.getByRole("img")).toHaveAttribute("aria-label", /write_ms\/1000 in ms over 12 runs, the oldest first: slower by/);
  await chart.locator("svg").hover();
  await expect(chart.locator(".reading a")).toBeVisible();
  await chart.getByText("Figures", { exact: true }).click();
  const table = chart.getByRole("table");
  await expect(table.getByRole("row")).toHaveCount(12 + 3);
  await expect(table.getByRole("row").filter({ hasText: "Mean of the last 5" })).toContainText("interval of");
  // Another figure, by keys and by its name.
  await page.keyboard.press("/");
  await page.keyboard.type("read_ms/1000");
  await figures.getByRole("link", { name: "read_ms/1000", exact: true }).click();
  await expect(chart).toContainText("faster by");
  // Those of another version are another series: nothing is told of them together.
  await page.getByLabel("Series").selectOption({ index: 1 });
  await expect(chart.locator("circle.point")).toHaveCount(2);
  await expect(chart).toContainText("too few runs");
});

test("runs of two variants are compared, by buttons and by keys", async ({ signedIn: page, house }) => {
  await open(page, house);
  await page.getByLabel("Suite").selectOption("packs");
  await expect(runs(page).getByRole("row")).toHaveCount(15);
  // The newest are the slow ones.
  const side = (at: number, letter: string) => runs(page).getByRole("row").nth(at).getByRole("button", { name: `Side ${letter}` });
  for (const at of [1, 2, 3]) await side(at, "B").click();
  for (const at of [8, 9, 10]) await side(at, "A").click();
  await expect(side(1, "B")).toHaveAttribute("aria-pressed", "true");
  await page.keyboard.press("x");
  await expect(page.getByRole("status").filter({ hasText: "worse" })).toBeVisible();
  const rows = page.getByRole("table", { name: "Figures compared" });
  const first = rows.getByRole("row").nth(1);
  await expect(first).toContainText("write_ms/1000");
  await expect(first).toContainText("slower by");
  await expect(first.getByRole("img")).toBeVisible();
  await expect(rows.getByRole("row").filter({ hasText: "read_ms/1000" }).first()).toContainText("better");
  // The other way round it is the other way round.
  await page.keyboard.press("x");
  await expect(rows.getByRole("row").filter({ hasText: "write_ms/1000" }).first()).toContainText("faster by");
  // All figures, too.
  await page.keyboard.press("f");
  await expect(rows).toHaveAttribute("aria-rowcount", "56");
});

test("runs that cannot be compared are told so", async ({ signedIn: page, house }) => {
  const list = await house.api<{ runs: { id: string; suite: string }[] }>("GET", "/v1/attachments/measured/runs");
  const of = (suite: string) => list.runs.find((run) => run.suite === suite)!.id;
  await open(page, house, `compare?a=${of("store")}&b=${of("packs")}`);
  await expect(page.getByRole("alert")).toContainText(/suites store and packs/);
  await open(page, house, `compare?a=${of("store")}&b=nowhere`);
  await expect(page.getByRole("alert")).toContainText(/there is no run/i);
});

test("experiments are a series of tries, kept and discarded, each with its interval and why", async ({ signedIn: page, house }) => {
  await open(page, house, "experiments");
  const tries = page.getByRole("region", { name: /^Tries of/ });
  await expect(tries.getByRole("row").filter({ hasText: "kept" }).first()).toBeVisible();
  await expect(tries.getByRole("row").filter({ hasText: "discarded" }).first()).toBeVisible();
  const chart = page.getByRole("figure");
  await expect(chart.locator("circle.try.kept").first()).toBeVisible();
  await expect(chart.locator("path.interval").first()).toBeAttached();
  await expect(chart.getByRole("img")).toHaveAttribute("aria-label", /tries, \d+ kept/);
  await tries.getByRole("button", { name: "Try 1, in full" }).click();
  const dialog = page.getByRole("dialog", { name: "Try 1" });
  await expect(dialog).toContainText("Mechanism");
  await expect(dialog).toContainText("p-value");
  await page.keyboard.press("Escape");
  await expect(dialog).toBeHidden();
});

test("a run that was just made is there", async ({ signedIn: page, house, measured }) => {
  const folder = join(house.daemon.folder, "fresh");
  mkdirSync(folder);
  await measured.attach("fresh", folder);
  await open(page, house, "", "fresh");
  await expect(page.getByText("No run is in this directory.")).toBeVisible();
  await promisify(execFile)(
    PROGRAM,
    ["--home", join(house.daemon.folder, "other"), "lab", "run", "store", "--durability", "memory", "--ops", "kv.get*", "--rows", "2000", "--seconds", "0.01", "--json", join(folder, "run.json")],
    { timeout: 80_000 },
  ).catch((error: { stdout?: string; code?: number }) => {
    // That a check does not hold on a busy machine is no matter here.
    if (error.code !== 1) throw error;
  });
  await page.reload();
  await expect(runs(page).getByRole("row")).toHaveCount(2);
  await runs(page).getByRole("link", { name: "store" }).click();
  await expect(page.getByRole("table", { name: "Figures" }).getByRole("row").nth(1)).toContainText("kv.");
  rmSync(folder, { recursive: true });
  await goTo(page, house, "attached/fresh");
  await expect(page.getByRole("alert")).toContainText(/cannot look into/i);
});

test("names, texts and figures of a document that look like code are text", async ({ signedIn: page, house, measured }) => {
  const folder = join(house.daemon.folder, "hostile");
  mkdirSync(folder);
  const trap = read("packs");
  trap.suite = HOSTILE;
  trap.version = "<script>window.hit = 1</script>";
  trap.host.cpu = HOSTILE;
  trap.command = ["/usr/bin/duramen", HOSTILE, "$(touch /tmp/hit)", "it's"];
  trap.config = { ...trap.config, [HOSTILE]: HOSTILE, seed: HOSTILE, href: "javascript:window.hit=1" };
  trap.measurements[0]!.name = HOSTILE;
  trap.measurements[0]!.unit = HOSTILE;
  trap.measurements[1]!.name = "constructor";
  trap.measurements[2]!.name = "__proto__";
  trap.checks = [{ name: HOSTILE, passed: false, detail: "<svg onload=window.hit=1>" }];
  trap.findings = [{ rule: HOSTILE, severity: "problem", figure: null, text: "[x](javascript:window.hit=1)" }];
  trap.verdict = "fail";
  for (let minute = 0; minute < 8; minute++) writeFileSync(join(folder, `${minute}.json`), JSON.stringify(later(trap, minute, () => 1 + minute / 100)));
  writeFileSync(join(folder, `${HOSTILE.replaceAll("/", "_")}.json`), JSON.stringify({ ...trap, started_at: "never" }));
  await measured.attach("hostile", folder);
  const unharmed = async () => {
    expect(await page.evaluate(() => (window as { hit?: number }).hit)).toBeUndefined();
    await expect(page.locator('img[src="x"]')).toHaveCount(0);
    await expect(page.locator("body script")).toHaveCount(0);
  };
  await open(page, house, "", "hostile");
  await expect(runs(page).getByRole("row")).toHaveCount(9);
  await expect(runs(page).getByRole("row").nth(1)).toContainText(HOSTILE);
  await page.getByText("1 damaged").click();
  await unharmed();
  await runs(page).getByRole("link").first().click();
  await expect(page.getByText("[x](javascript:window.hit=1)")).toBeVisible();
  await expect(page.getByText("<svg onload=window.hit=1>")).toBeVisible();
  await expect(page.locator("pre.command")).toContainText(`'$(touch /tmp/hit)' 'it'\\''s'`);
  await expect(page.locator('a[href^="javascript:"]')).toHaveCount(0);
  await unharmed();
  await open(page, house, `time?suite=${encodeURIComponent(HOSTILE)}&measurement=${encodeURIComponent(HOSTILE)}`, "hostile");
  await expect(page.getByRole("figure")).toContainText(HOSTILE);
  await unharmed();
  await open(page, house, "time?measurement=__proto__", "hostile");
  await expect(page.getByRole("figure")).toContainText("__proto__");
  const { runs: all } = await house.api<{ runs: { id: string }[] }>("GET", "/v1/attachments/hostile/runs");
  await open(page, house, `compare?a=${all[0]!.id},${all[1]!.id}&b=${all[6]!.id},${all[7]!.id}`, "hostile");
  await expect(page.getByRole("table", { name: "Figures compared" })).toBeVisible();
  await unharmed();
  await open(page, house, `run?id=${encodeURIComponent(HOSTILE)}`, "hostile");
  await expect(page.getByRole("alert")).toContainText(/there is no run/i);
  await unharmed();
});

test("a viewer is told that it is not for them", async ({ browser, house, measured }) => {
  const context = await browser.newContext();
  const page = await context.newPage();
  const wrong = watch(page, house.at);
  await house.enter(context, house.viewer);
  await goTo(page, house, `attached/${measured.name}`);
  await expect(page.getByText("for users and administrators")).toBeVisible();
  await expect(page.getByRole("table", { name: "Runs" })).toHaveCount(0);
  expect(wrong).toEqual([]);
  await context.close();
});

const RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"];
for (const colorScheme of ["light", "dark"] as const)
  for (const width of [1280, 390])
    test(`what was measured, ${colorScheme}, ${width} wide: axe finds nothing, and nothing sticks out`, async ({ signedIn: page, house }) => {
      test.setTimeout(200_000);
      await page.emulateMedia({ colorScheme });
      await page.setViewportSize({ width, height: 844 });
      const { runs: all } = await house.api<{ runs: { id: string; suite: string }[] }>("GET", "/v1/attachments/measured/runs");
      const store = all.find((run) => run.suite === "store")!.id;
      const packs = all.filter((run) => run.suite === "packs").map((run) => run.id);
      for (const part of ["", `run?id=${store}`, "time?suite=packs", `compare?a=${packs.slice(-3).join(",")}&b=${packs.slice(2, 5).join(",")}`, "experiments"]) {
        await open(page, house, part);
        await expect(page.getByRole("table").or(page.getByRole("figure")).first()).toBeVisible();
        await expect(page.locator(".wait")).toHaveCount(0);
        await page.waitForTimeout(300);
        const { violations } = await new AxeBuilder({ page }).withTags(RULES).analyze();
        expect(violations.map(({ id, nodes }) => `${part}: ${id}: ${nodes.map((node) => node.html.slice(0, 160)).join(" | ")}`)).toEqual([]);
        const beyond = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
        expect(beyond, part).toBeLessThanOrEqual(0);
        if (process.env.LAB_SHOTS !== undefined) await page.screenshot({ path: join(process.env.LAB_SHOTS, `${colorScheme}-${width}-${part.split("?")[0] || "runs"}.png`), fullPage: true });
      }
    });

test("a space in a parameter is one for the daemon, too", () => {
  expect(asking("/v1/x", { suite: "a b+c", none: undefined })).toBe("/v1/x?suite=a%20b%2Bc");
});

test("figures are written as the lab writes them, and axes have room", () => {
  expect([number(1234.5), number(0.01234), number(12.345), number(-3), number(Number.NaN), number(1e-12)]).toEqual(["1,235", "0.01234", "12.35", "-3", "no number", "1.00e-12"]);
  expect([quantity(12_345, "us"), quantity(6_300_000, "bytes"), quantity(1.07, "ratio"), quantity(17, "1/s"), quantity(null, "ms")]).toEqual(["12.35 ms", "6.3 MB", "1.07 x", "17/s", ""]);
  expect([percent(3.14159), percent(-0.04), percent(-12), percent(undefined)]).toEqual(["+3.1 %", "0.0 %", "\u221212.0 %", ""]);
  expect([family("put/strict"), family("kv.get.100B/memory"), family("open")]).toEqual(["put", "kv", "open"]);
  for (const values of [[], [0], [5, 5, 5], [1, 2, 3], [-4, 4], [1e300, -1e300], [1e-300, 2e-300], [1e15, 1e15 + 1]]) {
    const { low, high, ticks } = axis(values);
    expect(low).toBeLessThan(high);
    expect(ticks.length).toBeLessThan(14);
    for (const value of values) expect(place(value, { low, high })).toBeGreaterThanOrEqual(0);
  }
  // What differs by a hundredth does not look like a cliff.
  const { low, high } = axis([100, 101]);
  expect(high - low).toBeGreaterThan(20);
  expect(line([1, null, 3, 4], (at) => at, (value) => value)).toBe("M0.0 1.0M2.0 3.0L3.0 4.0");
});
