import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { promisify } from "node:util";
import { expect, goTo, test, write } from "./fixtures";

const editor = { name: "SQL" };

test("a branch is created in two clicks, and queried", async ({ signedIn: page, house }) => {
  await goTo(page, house, "branches");
  await page.getByRole("button", { name: "Create branch" }).click();
  await expect(page.getByLabel("Source")).toHaveValue(/app|shop|traps/);
  await page.getByLabel("Source").selectOption("shop");
  await page.getByRole("button", { name: "Create", exact: true }).click();
  await expect(page.getByRole("navigation", { name: "Parts of the branch" })).toBeVisible();
  const name = decodeURIComponent(page.url().split("/branches/")[1]!);
  const view = await house.api<{ url: string }>("GET", `/v1/branches/${name}`);
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
  await page.getByRole("button", { name: "Copy: the URL" }).click();
  expect(await page.evaluate(() => navigator.clipboard.readText())).toBe(view.url);

  await page.keyboard.press("s");
  await write(page, "select id, name, 9223372036854775807 as large, null as nothing from customers order by id limit 3");
  await page.keyboard.press("Control+Enter");
  const result = page.getByRole("table", { name: "Result" });
  await expect(result.getByRole("row")).toHaveCount(4);
  await expect(result.getByRole("row").nth(1)).toContainText("Customer 1");
  // Every digit of a bigint is there.
  await expect(result.getByRole("row").nth(1)).toContainText("9223372036854775807");
  await expect(result.getByRole("row").nth(1)).toContainText("NULL");
  const download = page.waitForEvent("download");
  await page.getByRole("button", { name: "CSV" }).click();
  const csv = readFileSync((await (await download).path())!, "utf8");
  expect(csv).toBe("id,name,large,nothing\r\n1,Customer 1,9223372036854775807,\r\n2,Customer 2,9223372036854775807,\r\n3,Customer 3,9223372036854775807,\r\n");
  await expect(page.getByText("1 statement in this page's memory")).toBeVisible();
});

test("the statement at the cursor is run, or all of them in one transaction", async ({ signedIn: page, house }) => {
  const name = await house.branch("several");
  await goTo(page, house, `branches/${name}/sql`);
  await write(page, "insert into notes values (77, '{}');\nselect $$a;b$$ as odd;\nselect nonsense from notes;");
  await page.keyboard.press("Control+Shift+Enter");
  await expect(page.getByRole("alert")).toContainText('column "nonsense" does not exist');
  // All or none.
  const count = await house.api<{ results: { rows: unknown[][] }[] }>("POST", `/v1/branches/${name}/query`, { sql: "select count(*)::int from notes where id = 77" });
  expect(count.results[0]!.rows).toEqual([[0]]);
  await page.getByRole("textbox", editor).press("Control+Home");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Control+Enter");
  await expect(page.getByRole("cell", { name: "a;b" })).toBeVisible();
});

test("a statement that is wrong is marked where it is wrong", async ({ signedIn: page, house }) => {
  const name = await house.branch("mistakes");
  await goTo(page, house, `branches/${name}/sql`);
  await write(page, "select id,\n  wrong_name\nfrom customers");
  await page.keyboard.press("Control+Enter");
  await expect(page.getByRole("alert")).toContainText('column "wrong_name" does not exist');
  await expect(page.getByRole("alert")).toContainText("42703");
  await expect(page.locator(".cm-lintRange-error")).toHaveText("wrong_name");
  // The mark goes when the next one is run.
  await write(page, "select 1 as one");
  await page.keyboard.press("Control+Enter");
  await expect(page.getByRole("columnheader", { name: "one" })).toBeVisible();
  await expect(page.locator(".cm-lintRange-error")).toHaveCount(0);
});

test("names of the branch's schema are completed", async ({ signedIn: page, house }) => {
  const name = await house.branch("completes");
  await goTo(page, house, `branches/${name}/sql`);
  await page.getByRole("textbox", editor).click();
  await page.keyboard.type("select * from large_o", { delay: 30 });
  await expect(page.getByRole("option", { name: "large_orders" })).toBeVisible();
  // A list that has just come takes no key yet, so that nobody takes what he has not seen.
  await page.waitForTimeout(300);
  await page.keyboard.press("Enter");
  await expect(page.getByRole("textbox", editor)).toContainText("select * from large_orders");
});

test("a result of 5,000 rows scrolls, with few of them in the page", async ({ signedIn: page, house }) => {
  const name = await house.branch("long");
  await goTo(page, house, `branches/${name}/sql`);
  await page.getByLabel("at most").selectOption("10000");
  await write(page, "select * from orders order by id");
  await page.keyboard.press("Control+Enter");
  await expect(page.getByText("5,000 rows", { exact: true })).toBeVisible();
  const rows = page.getByRole("table", { name: "Result" }).getByRole("row");
  expect(await rows.count()).toBeLessThan(60);
  const port = page.getByRole("region", { name: "Result" });
  const took = await port.evaluate(async (node) => {
    const frames: number[] = [];
    let last = performance.now();
    for (let at = 0; at < 40; at++) {
      node.scrollTop = (node.scrollHeight * at) / 40;
      await new Promise(requestAnimationFrame);
      frames.push(performance.now() - last);
      last = performance.now();
    }
    node.scrollTop = node.scrollHeight;
    return frames.sort((a, b) => a - b)[20]!;
  });
  // The median of frames; a list that draws all of its rows takes seconds.
  expect(took).toBeLessThan(100);
  await expect(page.getByRole("button", { name: "Row 5000, in full" })).toBeVisible();
  expect(await rows.count()).toBeLessThan(60);
  await page.getByRole("button", { name: "Row 5000, in full" }).click();
  await expect(page.getByRole("dialog")).toContainText("6250.00");
});

test("what was changed is told: definitions as DDL, rows as cells", async ({ signedIn: page, house }) => {
  const name = await house.branch("changes", { policy: "ddl" });
  await house.query(
    name,
    "alter table customers add column phone text",
    "update orders set total = 1000 where id = 7",
    "delete from notes where id = 3",
    "insert into notes values (900, '{\"new\": true}')",
  );
  await goTo(page, house, `branches/${name}/definitions`);
  await expect(page.getByText("1 change from")).toBeVisible();
  await expect(page.getByRole("region", { name: "The script" })).toContainText("alter table public.customers add column phone text");
  await page.getByRole("link", { name: "Data diff" }).click();
  const orders = page.getByRole("region", { name: "Rows of public.orders" });
  await expect(orders.locator("del")).toHaveText(["8.75"]);
  await expect(orders.locator("ins")).toHaveText(["1000.00"]);
  const notes = page.getByRole("region", { name: "Rows of public.notes" });
  await expect(notes.getByRole("row", { name: /added 900/ })).toBeVisible();
  await expect(notes.getByRole("row", { name: /removed 3/ })).toBeVisible();
});

test("a reset is undone", async ({ signedIn: page, house }) => {
  const name = await house.branch("back-and-forth");
  const left = async () => {
    const reply = await house.api<{ results: { rows: unknown[][] }[] }>("POST", `/v1/branches/${name}/query`, { sql: "select count(*)::int from notes" });
    return reply.results[0]!.rows[0]![0];
  };
  await house.query(name, "delete from notes where id > 5");
  await goTo(page, house, `branches/${name}`);
  await page.getByRole("button", { name: "Reset", exact: true }).click();
  await expect(page.getByRole("status")).toContainText("was reset");
  expect(await left()).toBe(20);
  await page.getByRole("status").getByRole("button", { name: "Undo" }).click();
  await expect(page.getByRole("status")).toContainText("what it was before");
  expect(await left()).toBe(5);
});

test("a snapshot, a branch of it, protection, a longer lease, and the end", async ({ signedIn: page, house }) => {
  const name = await house.branch("whole-life");
  await goTo(page, house, `branches/${name}`);
  await page.getByRole("button", { name: "Take snapshot" }).click();
  await page.getByRole("dialog").getByLabel(/Name/).fill("first");
  await page.getByRole("button", { name: "Take it" }).click();
  await expect(page.getByRole("rowheader", { name: "first" })).toBeVisible();
  await page.getByRole("row", { name: /first/ }).getByRole("button", { name: "Branch" }).click();
  await page.getByRole("dialog").getByLabel(/Name/).fill("whole-life-child");
  await page.getByRole("button", { name: "Create", exact: true }).click();
  await expect(page.getByRole("heading", { name: "whole-life-child" })).toBeVisible();

  await goTo(page, house, `branches/${name}`);
  await page.getByRole("button", { name: "Extend" }).click();
  await page.getByRole("dialog").getByRole("textbox").fill("soon");
  await page.getByRole("dialog").getByRole("button", { name: "Extend" }).click();
  await expect(page.getByRole("alert")).toContainText("90m, 2h or 7d");
  await page.getByRole("dialog").getByRole("textbox").fill("2d");
  await page.getByRole("dialog").getByRole("button", { name: "Extend" }).click();
  await expect(page.getByText("1 d", { exact: true })).toBeVisible();

  await page.getByRole("button", { name: "Protect", exact: true }).click();
  await expect(page.getByRole("button", { name: "Destroy" })).toBeDisabled();
  await page.getByRole("button", { name: "Protected" }).click();
  await page.getByRole("button", { name: "Destroy" }).click();
  const last = page.getByRole("dialog").getByRole("button", { name: "Destroy" });
  await expect(last).toBeDisabled();
  await page.getByRole("dialog").getByRole("textbox").fill(name);
  await last.click();
  await expect(page.getByRole("heading", { name: "Branches" })).toBeVisible();
  await expect(page.getByRole("link", { name: "whole-life-child" })).toBeVisible();
  await expect(page.getByRole("link", { name, exact: true })).toBeHidden();
});

test("a statement that runs is seen, and cancelled", async ({ signedIn: page, house }) => {
  const name = await house.branch("busy");
  const [token, secret] = house.admin.split(":");
  const url = `postgresql://${house.daemon.router}/${name}`;
  const psql = promisify(execFile)("psql", [url, "-c", "select pg_sleep(60)"], { env: { ...process.env, PGUSER: token, PGPASSWORD: secret, PGAPPNAME: "sleeper" } });
  const ended = psql.then(() => "done", (error: Error) => error.message);
  await goTo(page, house, `branches/${name}/sessions`);
  const row = page.getByRole("row", { name: /sleeper/ });
  await expect(row).toContainText("pg_sleep(60)");
  await row.getByRole("button", { name: /Cancel/ }).click();
  expect(await ended).toContain("canceling statement due to user request");
  await expect(row).toHaveCount(0);
  await expect(page.getByText("Nobody is in the branch.").or(page.getByRole("region", { name: "Sessions" }))).toBeVisible();
});

test("what was done is in the log, and the log is whole", async ({ signedIn: page, house }) => {
  await house.branch("written-down");
  await goTo(page, house, "access");
  await expect(page.getByText("leased").first()).toBeVisible();
  await page.getByRole("button", { name: "Verify" }).click();
  await expect(page.getByText("The log is whole.")).toBeVisible();
});

test("evidence says in words what is proved", async ({ signedIn: page, house }) => {
  const name = await house.branch("proved");
  await house.query(name, "delete from notes where id = 1");
  await goTo(page, house, `branches/${name}/evidence`);
  await expect(page.getByText("The snapshot is as it was imported.")).toBeVisible();
  await expect(page.getByText("The live source is as it was imported.")).toBeVisible();
  await page.getByLabel(/digest of what the branch changed/).check();
  await page.getByRole("button", { name: "Look again" }).click();
  await expect(page.getByText(/0 statements, 0 rows added, 1 removed, 0 changed/)).toBeVisible();
});

test("what happens elsewhere is seen here, and a page that is hidden asks for nothing", async ({ signedIn: page, house }) => {
  await goTo(page, house, "branches");
  await expect(page.getByRole("heading", { name: "Branches" })).toBeVisible();
  await house.branch("from-elsewhere");
  await expect(page.getByRole("link", { name: "from-elsewhere" })).toBeVisible({ timeout: 6000 });
  await page.evaluate(() => {
    Object.defineProperty(document, "hidden", { value: true, configurable: true });
    document.dispatchEvent(new Event("visibilitychange"));
  });
  await page.waitForTimeout(500);
  const asked: string[] = [];
  page.on("request", (request) => asked.push(request.url()));
  await house.branch("unseen");
  await page.waitForTimeout(6500);
  expect(asked).toEqual([]);
  await page.evaluate(() => {
    Object.defineProperty(document, "hidden", { value: false, configurable: true });
    document.dispatchEvent(new Event("visibilitychange"));
  });
  await expect(page.getByRole("link", { name: "unseen" })).toBeVisible();
});

test("what a branch changed is tried, merged, and becomes the next generation", async ({ signedIn: page, house }) => {
  const parent = await house.branch("carry-parent");
  const child = await house.branch("carry-child", { from: parent, source: undefined });
  await house.query(child, "update customers set name = 'Ada' where id = 7", "insert into notes values (100, '{}')");
  await house.query(parent, "update customers set name = 'Grace' where id = 7");
  await goTo(page, house, `branches/${child}/carry`);
  await expect(page.getByRole("combobox", { name: /^Into/ })).toHaveValue(parent);
  const merge = page.getByRole("button", { name: "Merge", exact: true });
  await expect(merge).toBeDisabled();
  await page.getByRole("button", { name: "Try", exact: true }).click();
  await expect(page.getByText("There are conflicts. Nothing was written.")).toBeVisible();
  const conflict = page.getByRole("region", { name: "Conflict 1" });
  await expect(conflict.getByRole("row", { name: /name/ })).toContainText("Customer 7");
  await expect(conflict.getByRole("row", { name: /name/ })).toContainText("Grace");
  await expect(conflict.getByRole("row", { name: /name/ })).toContainText("Ada");
  await expect(merge).toBeDisabled();
  await page.getByRole("combobox", { name: /^Conflicts/ }).selectOption("theirs");
  await page.getByRole("button", { name: "Try", exact: true }).click();
  await expect(page.getByText("It can be merged. Nothing was written yet.")).toBeVisible();
  // What was not tried is not merged.
  await page.getByRole("combobox", { name: /^Conflicts/ }).selectOption("ours");
  await expect(merge).toBeDisabled();
  await page.getByRole("combobox", { name: /^Conflicts/ }).selectOption("theirs");
  await merge.click();
  await expect(page.getByText("It is merged.")).toBeVisible();
  const reply = await house.api<{ results: { rows: unknown[][] }[] }>("POST", `/v1/branches/${parent}/query`, { sql: "select name from customers where id = 7" });
  expect(JSON.stringify(reply)).toContain("Ada");

  await page.getByRole("button", { name: "Promote" }).click();
  await page.getByRole("dialog").getByRole("textbox").fill(child);
  await page.getByRole("dialog").getByRole("button", { name: "Promote" }).click();
  await expect(page.getByText(/It is generation \d+ of shop/)).toBeVisible({ timeout: 60_000 });
});
