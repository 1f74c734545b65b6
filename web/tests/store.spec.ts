/** Stores, packs and access graphs that are attached. */

import AxeBuilder from "@axe-core/playwright";
import { execFileSync } from "node:child_process";
import { copyFileSync, existsSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Page } from "@playwright/test";
import { PROGRAM } from "../../bindings/typescript/tests/daemon";
import { forks } from "../src/lib/forks";
import { picture } from "../src/lib/layers";
import type { StoreBranch } from "../src/api/types";
import { expect, goTo, HOSTILE, test, type House } from "./fixtures";

/** A graph whose names look like code: the test of `crates/attachments` that reads it says how it is made. */
const GRAPH = join(dirname(fileURLToPath(import.meta.url)), "access.c1z");
const TURNED = "\u202etxt.exe";

function store(house: House, args: string[], input?: string): string {
  const at = join(house.daemon.folder, "notes");
  return execFileSync(PROGRAM, ["store", "--at", at, ...args], { input: input ?? "", encoding: "utf8" });
}

/** A store, a pack and a graph, attached once. */
async function furnish(house: House): Promise<void> {
  const { folder } = house.daemon;
  if (existsSync(join(folder, "notes"))) return;
  const lines = Array.from({ length: 1200 }, (_, at) => JSON.stringify({ key: `hits/${String(at).padStart(5, "0")}`, value: at * at }));
  lines.push(JSON.stringify({ key: HOSTILE, value: HOSTILE }), JSON.stringify({ key: { hex: "00ff5c" }, value: TURNED }));
  lines.push(JSON.stringify({ key: "settings", value: { dark: true, deep: [{ list: [1, 2, { name: HOSTILE }] }], big: "x".repeat(3000) } }));
  store(house, ["init"]);
  store(house, ["kv", "load"], lines.join("\n"));
  store(house, ["history", "keep"]);
  store(house, ["json", "set", "user:1", "$", JSON.stringify({ name: "Ada", tags: ["admin", HOSTILE] })]);
  for (const [type, user] of [["login", 1], ["logout", 1], ["login", 2]] as const) store(house, ["event", "append", type, JSON.stringify({ user, agent: HOSTILE })]);
  store(house, ["state", "init", "leader", "alice"]);
  store(house, ["tag", "create", "v1"]);
  store(house, ["branch", "fork", "try"]);
  store(house, ["branch", "fork", "deeper", "--from", "try"]);
  store(house, ["kv", "put", "settings", "none", "--branch", "try"]);
  store(house, ["kv", "put", HOSTILE, "changed", "--branch", "try"]);
  store(house, ["kv", "delete", "hits/00007", "--branch", "try"]);
  store(house, ["kv", "put", "fresh", "new", "--branch", "try"]);
  store(house, ["export", join(folder, "try.dpack"), "--branch", "try"]);
  copyFileSync(GRAPH, join(folder, "access.c1z"));
  await house.daemon.run("attachment", "add", "notes", "--store", join(folder, "notes"));
  await house.daemon.run("attachment", "add", "packed", "--pack", join(folder, "try.dpack"));
  await house.daemon.run("attachment", "add", "who", "--pack", join(folder, "access.c1z"));
}

async function unharmed(page: Page): Promise<void> {
  expect(await page.evaluate(() => (window as { hit?: number }).hit)).toBeUndefined();
  await expect(page.locator('img[src="x"]')).toHaveCount(0);
  expect(await page.locator("main").textContent()).not.toContain("\u202e");
}

test.beforeAll(async ({ house }) => furnish(house));

test("branches stand below what they were forked from, and lead to what they hold", async ({ signedIn: page, house }) => {
  await goTo(page, house, "attached");
  await page.getByRole("link", { name: "notes" }).click();
  const rows = page.getByRole("table", { name: "Branches of the store" }).getByRole("row");
  await expect(rows).toHaveCount(4);
  await expect(rows.nth(1)).toContainText("main");
  await expect(rows.nth(2)).toContainText("try");
  await expect(rows.nth(3)).toContainText("deeper");
  await expect(rows.nth(3).getByRole("link", { name: "deeper" })).toHaveAttribute("title", "deeper, forked from try");
  await rows.nth(2).getByRole("link", { name: "try", exact: true }).click();
  await expect(page.getByRole("combobox", { name: "Branch" })).toHaveValue("try");
  await expect(page.getByRole("table", { name: "Pairs" })).toContainText("fresh");
});

test("keys are found by how they begin, and more come as one scrolls", async ({ signedIn: page, house }) => {
  await goTo(page, house, "attached/notes/data");
  await page.getByRole("button", { name: "Pairs" }).click();
  await page.getByRole("searchbox", { name: "Keys that begin with" }).fill("hits/");
  const list = page.getByRole("region", { name: "Pairs" });
  await expect(list.getByText("hits/00000")).toBeVisible();
  await expect(page.getByText("200 shown")).toBeVisible();
  await expect(async () => {
    await list.evaluate((element) => (element.scrollTop = element.scrollHeight));
    await expect(page.getByText("1,200 shown; that is all")).toBeVisible({ timeout: 500 });
    await expect(list.getByText("hits/01199")).toBeVisible({ timeout: 500 });
  }).toPass();
  await page.getByRole("searchbox").fill("hits/0104");
  await expect(page.getByText("10 shown; that is all")).toBeVisible();
  await page.getByRole("searchbox").fill("settings");
  await page.getByRole("button", { name: "settings" }).click();
  const dialog = page.getByRole("dialog", { name: "settings" });
  await expect(dialog.getByText("dark")).toBeVisible();
  await expect(dialog.getByText("deep")).toBeVisible();
  await dialog.getByText("deep").click();
  await expect(dialog.getByText("list")).toBeHidden();
  await dialog.getByRole("button", { name: "As text" }).click();
  await expect(dialog.locator("pre")).toContainText('"dark":true');
  await page.keyboard.press("Escape");
  await expect(dialog).toBeHidden();
});

test("keys, values and events that look like code, or turn the writing, are text", async ({ signedIn: page, house }) => {
  await goTo(page, house, "attached/notes/data?kind=kv");
  await page.getByRole("searchbox").fill("<img");
  await page.getByRole("button", { name: HOSTILE }).click();
  await expect(page.getByRole("dialog").locator("pre")).toHaveText(HOSTILE);
  await unharmed(page);
  await page.keyboard.press("Escape");
  // A key that is no text, as it is shown.
  await page.getByRole("searchbox").fill("\\x00");
  await expect(page.getByRole("button", { name: "\\x00\\xff\\\\" })).toBeVisible();
  await expect(page.getByRole("table", { name: "Pairs" })).toContainText("\\xe2\\x80\\xaetxt.exe");
  await unharmed(page);
  await page.getByRole("searchbox").fill("");
  await page.getByRole("button", { name: "Events" }).click();
  const log = page.getByRole("table", { name: "Events" });
  await expect(log.getByRole("row").nth(1)).toContainText("login");
  await expect(log.getByRole("row")).toHaveCount(4);
  await expect(log).toContainText("onerror");
  await page.getByRole("searchbox").fill("logout");
  await expect(log.getByRole("row")).toHaveCount(2);
  await page.getByRole("button", { name: "Event 1, in full" }).click();
  await expect(page.getByRole("dialog", { name: "Event 1" }).getByText(HOSTILE)).toBeVisible();
  await unharmed(page);
  await goTo(page, house, `attached/notes/data?branch=${encodeURIComponent(HOSTILE)}`);
  await expect(page.getByRole("alert").first()).toContainText("no branch");
  await unharmed(page);
});

test("what another process writes is shown when it is read again", async ({ signedIn: page, house }) => {
  await goTo(page, house, "attached/notes/data?kind=kv");
  await page.getByRole("searchbox").fill("later");
  await expect(page.getByText("No key begins with this.")).toBeVisible();
  store(house, ["kv", "put", "later", "now"]);
  await page.getByRole("button", { name: "Read again" }).click();
  await expect(page.getByRole("button", { name: "later" })).toBeVisible();
});

test("retained states and the difference of two branches are side by side", async ({ signedIn: page, house }) => {
  await goTo(page, house, "attached/notes/history?branch=main");
  const states = page.getByRole("table", { name: "Retained states" });
  const tagged = states.getByRole("row").filter({ hasText: "v1" });
  await expect(tagged).toHaveCount(1);
  await tagged.getByRole("link", { name: "data" }).click();
  await expect(page.getByRole("combobox", { name: "Branch" })).toHaveValue(/^main@\d+$/);
  await goTo(page, house, "attached/notes/difference?from=main@v1&to=try");
  const changes = page.getByRole("table", { name: "Changes" });
  await expect(changes.getByRole("row").filter({ hasText: "settings" })).toContainText("changed");
  await expect(changes.getByRole("row").filter({ hasText: "fresh" })).toContainText("added");
  await expect(changes.getByRole("row").filter({ hasText: "hits/00007" })).toContainText("removed");
  await expect(changes.locator("del", { hasText: "onerror" })).toBeVisible();
  await expect(changes.locator("ins", { hasText: "changed" })).toBeVisible();
  await unharmed(page);
  await page.getByRole("textbox", { name: "that begin with" }).fill("fresh");
  await page.getByRole("button", { name: "Compare" }).click();
  await expect(page.getByText("1 change; that is all")).toBeVisible();
});

test("the branch of a pack is shown like that of a store", async ({ signedIn: page, house }) => {
  await goTo(page, house, "attached/packed");
  await expect(page.getByText("The branch of a store")).toBeVisible();
  await expect(page.getByRole("link", { name: "History" })).toHaveCount(0);
  await page.getByRole("link", { name: "try", exact: true }).click();
  await expect(page.getByRole("table", { name: "Pairs" })).toContainText("fresh");
});

test("who has what in an access graph, and why, is a picture and a table", async ({ signedIn: page, house }) => {
  await goTo(page, house, "attached/who");
  await page.getByRole("searchbox", { name: "A person" }).fill("ada");
  const found = page.getByRole("table", { name: "Found" });
  await expect(found).toContainText("ada <img src=x");
  await found.getByRole("link", { name: "what it has" }).click();
  const held = page.getByRole("table", { name: "Who has what" });
  const admin = held.getByRole("row").filter({ hasText: "admin of shop" });
  await expect(admin).toContainText("through group:staff:member");
  await admin.getByRole("button").click();
  await expect(page.getByText("In one way.")).toBeVisible();
  await expect(page.getByRole("img", { name: /How ada/ }).locator("g.box")).toHaveCount(5);
  const ways = page.getByRole("region", { name: "Ways" });
  await expect(ways).toContainText("member of staff (group staff)");
  await expect(ways.getByRole("row")).toHaveCount(4);
  await unharmed(page);
  await page.getByRole("searchbox", { name: "A person" }).fill("shop");
  await found.getByRole("row").filter({ hasText: "app" }).getByRole("link", { name: "who has it" }).first().click();
  await expect(page.getByRole("heading", { name: "Who has shop" })).toBeVisible();
  await expect(held).toContainText("bob");
  await unharmed(page);
});

test("a store that is damaged says so, and the page goes on", async ({ signedIn: page, house }) => {
  const at = join(house.daemon.folder, "broken");
  execFileSync(PROGRAM, ["store", "--at", at, "--create", "kv", "put", "a", "b"]);
  await house.daemon.run("attachment", "add", "broken", "--store", at);
  for (const part of readdirSync(join(at, "nodes"))) writeFileSync(join(at, "nodes", part), "no nodes at all");
  await goTo(page, house, "attached/broken");
  await expect(page.getByRole("alert")).toBeVisible();
  rmSync(at, { recursive: true });
  await page.getByRole("button", { name: "Try again" }).click();
  await expect(page.getByRole("alert")).toContainText("put it back");
  await house.daemon.run("attachment", "remove", "broken");
  await goTo(page, house, "attached/notes");
  await expect(page.getByRole("table", { name: "Branches of the store" })).toBeVisible();
});

test("who may not look is told so, and asks for nothing", async ({ page, house }) => {
  await house.enter(page.context(), house.viewer);
  const asked: string[] = [];
  page.on("request", (request) => asked.push(request.url()));
  await goTo(page, house, "attached/notes");
  await expect(page.getByText("for users and administrators whose token is for all sources")).toBeVisible();
  expect(asked.filter((url) => url.includes("store-branches"))).toEqual([]);
});

for (const colorScheme of ["light", "dark"] as const)
  for (const width of [1280, 390])
    test(`stores and packs, ${colorScheme}, ${width} wide: axe finds nothing, and nothing sticks out`, async ({ signedIn: page, house }) => {
      await page.emulateMedia({ colorScheme });
      await page.setViewportSize({ width, height: 844 });
      for (const place of ["attached/notes", "attached/notes/data?kind=kv", "attached/notes/data?kind=events", "attached/notes/history?branch=main",
        "attached/notes/difference?from=main&to=try", "attached/who?search=ada&type=user&principal=ada"]) {
        await goTo(page, house, place);
        await expect(page.getByRole("table").first()).toBeVisible();
        await expect(page.locator(".wait")).toHaveCount(0);
        if (place.includes("principal")) {
          await page.getByRole("button", { name: /^Why/ }).first().click();
          await expect(page.getByRole("region", { name: "Ways" })).toBeVisible();
        }
        const { violations } = await new AxeBuilder({ page }).withTags(["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]).analyze();
        expect(violations.map(({ id, nodes }) => `${place}: ${id}: ${nodes.map((node) => node.html.slice(0, 200)).join(" | ")}`)).toEqual([]);
        const beyond = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
        expect(beyond, place).toBeLessThanOrEqual(0);
      }
    });

test("forks of forks are put into order, whatever their parents say", () => {
  const branch = (name: string, parent?: string) => ({ name, parent: parent ?? null }) as StoreBranch;
  const all = [branch("b10", "main"), branch("b9", "main"), branch("main"), branch("deep", "b9"), branch("lost", "gone"), branch("self", "self")];
  expect(forks(all).map(({ branch: { name }, depth }) => `${"-".repeat(depth)}${name}`)).toEqual(["lost", "main", "-b9", "--deep", "-b10", "self"]);
  const chain = Array.from({ length: 5000 }, (_, at) => branch(`n${at}`, at === 0 ? undefined : `n${at - 1}`));
  expect(forks(chain).at(-1)!.depth).toBe(4999);
});

test("a picture has each box once, in layers, whatever leads back", () => {
  const place = (entitlement: string) => ({ entitlement, name: "", resource: { resource_type: "group", resource: entitlement, name: "" } });
  const path = (start: string, ...steps: string[]) => ({
    start: place(start),
    grant: "g",
    direct: true,
    sources: [],
    left_out: 0,
    steps: steps.map((step) => ({ place: place(step), grant: "g", by: { resource_type: "group", resource: "x", name: "" }, shallow: false })),
  });
  const paths = [path("a", "b", "z"), path("b", "a", "z"), path("a", "c", "d", "z"), path("z")];
  const { boxes, lines, width, height } = picture({ resource_type: "user", resource: "ada", name: "" }, { paths, all: 4 });
  expect(boxes.map((box) => box.id).sort()).toEqual(["ea", "eb", "ec", "ed", "ez", "p", "r"]);
  expect(new Set(boxes.map((box) => `${box.x} ${box.y}`)).size).toBe(7);
  expect(boxes.every((box) => box.x >= 0 && box.y >= 0 && box.x < width && box.y < height)).toBe(true);
  expect(lines.length).toBe(11);
  const x = (id: string) => boxes.find((box) => box.id === id)!.x;
  expect([x("p") < x("ea"), x("ec") < x("ed"), x("ed") < x("ez"), x("ez") < x("r")]).toEqual([true, true, true, true]);
});
