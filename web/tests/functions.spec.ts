/** Durable functions of an attached database: a real one, with the schema and a worker of the program's own. */

import AxeBuilder from "@axe-core/playwright";
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import type { Page } from "@playwright/test";
import { PROGRAM } from "../../bindings/typescript/tests/daemon";
import { expect, goTo, HOSTILE, test as base, type House } from "./fixtures";

/** A database with durable functions that is attached as `orders`. */
class Orders {
  private constructor(
    readonly house: House,
    readonly url: string,
    readonly branch: string,
    readonly worker: ChildProcess,
  ) {}

  static async open(house: House): Promise<Orders> {
    const branch = await house.branch("functions", { policy: "ddl" });
    const { url } = (await house.daemon.run("branch", "show", branch)) as { url: string };
    await house.daemon.run("fn", "install", url);
    await house.query(branch, "create table gate (x int)");
    await house.daemon.run("attachment", "add", "orders", "--functions", url);
    const worker = spawn(PROGRAM, ["fn", "worker", url], { stdio: ["ignore", "pipe", "ignore"] });
    await once(createInterface(worker.stdout!), "line", { signal: AbortSignal.timeout(60_000) });
    return new Orders(house, url, branch, worker);
  }

  /** Starts an instance, and gives its id. */
  async start(graph: string, label: string, ...more: string[]): Promise<string> {
    const said = await this.house.daemon.run("fn", "start", graph, "--label", label, "--url", this.url, ...more);
    return String(said.id);
  }

  async close(): Promise<void> {
    const ended = once(this.worker, "exit", { signal: AbortSignal.timeout(60_000) });
    this.worker.kill("SIGTERM");
    await ended;
  }
}

const test = base.extend<object, { orders: Orders }>({
  orders: [
    async ({ house }, use) => {
      const orders = await Orders.open(house);
      await use(orders);
      await orders.close();
    },
    { scope: "worker", timeout: 120_000 },
  ],
});

const word = (page: Page, status: string) => page.locator("main .word", { hasText: new RegExp(`^${status}$`) }).first();

/** Nothing of it became an element, and nothing ran. */
async function unharmed(page: Page): Promise<void> {
  expect(await page.evaluate(() => (window as { hit?: number }).hit)).toBeUndefined();
  await expect(page.locator('img[src="x"]')).toHaveCount(0);
  await expect(page.locator("body script")).toHaveCount(0);
}

test("an instance that fails is found, understood and resumed", async ({ signedIn: page, house, orders }) => {
  const id = await orders.start("'SELECT 1 AS one' ~> 'SELECT 1 / (SELECT count(*) FROM gate)'", "fails once");
  await goTo(page, house, "attached");
  await page.getByRole("link", { name: "orders" }).click();
  await expect(page.getByRole("list", { name: "Instances by status" })).toContainText("failed");
  await page.getByRole("combobox", { name: "Status" }).selectOption("failed");
  await expect(page.getByRole("row", { name: /fails once/ })).toContainText("division by zero");
  await page.getByRole("link", { name: "fails once" }).click();
  await expect(word(page, "failed")).toBeVisible();
  await expect(page.locator(".reason")).toContainText("division by zero");
  await expect(page.getByRole("row", { name: /1 \/ \(SELECT/ })).toContainText("SQLSTATE 22012");

  await page.getByRole("link", { name: "Graph" }).click();
  await page.getByRole("link", { name: /SELECT 1 \/ .*failed/ }).click();
  await expect(page.getByRole("region", { name: "the result of the step" })).toContainText("division by zero");
  await expect(page.getByRole("region", { name: "what the step does" })).toContainText("SELECT count(*) FROM gate");

  await house.query(orders.branch, "insert into gate values (1)");
  await page.getByRole("button", { name: "Resume" }).click();
  await expect(page.getByRole("dialog")).toContainText("What completed is not done again");
  await page.getByRole("dialog").getByRole("button", { name: "Resume" }).click();
  await expect(page.getByText(`Instance ${id} resumed`)).toBeVisible();
  await expect(word(page, "completed")).toBeVisible();
  await expect(page.getByRole("button", { name: "Resume" })).toHaveCount(0);
  // Who did it stands in the log, before it was done.
  const log = await house.api<{ event: string; entry: Record<string, unknown> }[]>("GET", "/v1/audit?limit=50");
  const entry = log.find(({ event }) => event === "function_controlled")!.entry;
  expect(entry).toMatchObject({ attachment: "orders", instance: id, action: "resume", token_name: "ada" });
});

test("one that waits for a signal shows it, and gets it", async ({ signedIn: page, house, orders }) => {
  const id = await orders.start("(df.wait_for_signal('paid', 86400) |=> 'paid') ~> 'SELECT $paid.data AS said'", "waits", "--input", '{"customer": 7}');
  await goTo(page, house, `attached/orders/instance/${id}`);
  await expect(page.getByRole("row", { name: /wait for the signal paid/ })).toBeVisible();
  await expect(page.getByRole("region", { name: "the input" })).toContainText('{"customer": 7}');
  await goTo(page, house, "attached/orders?status=running");
  await expect(page.getByRole("row", { name: /waits/ })).toContainText("wait for the signal paid");
  await page.getByRole("link", { name: "waits" }).click();
  await expect(page.getByRole("button", { name: "Signal" })).toBeVisible();
  await page.keyboard.press("n");
  const dialog = page.getByRole("dialog");
  await expect(dialog.getByRole("combobox", { name: "Signal" }).or(dialog.getByRole("textbox", { name: "Signal" }))).toHaveValue("paid");
  await dialog.getByRole("textbox", { name: /Data/ }).fill('{"by": "Ada"}');
  await dialog.getByRole("button", { name: "Send" }).click();
  await expect(word(page, "completed")).toBeVisible();
  await expect(page.getByRole("region", { name: "the result" })).toContainText("Ada");
});

test("one is paused, resumed, cancelled with a reason, forked and deleted", async ({ signedIn: page, house, orders }) => {
  const id = await orders.start("'SELECT 1' ~> df.sleep(600)", "sleeps");
  await goTo(page, house, `attached/orders/instance/${id}`);
  await expect(page.getByRole("row", { name: /sleep 600 s/ })).toBeVisible();
  await page.getByRole("button", { name: "Pause" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Pause" }).click();
  await expect(word(page, "paused")).toBeVisible();
  await page.getByRole("button", { name: "Resume" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Resume" }).click();
  await expect(page.getByRole("button", { name: "Pause" })).toBeVisible();
  await page.keyboard.press("x");
  await page.getByRole("dialog").getByRole("textbox", { name: /Why/ }).fill("no longer needed");
  await page.getByRole("dialog").getByRole("button", { name: "Cancel it" }).click();
  await expect(word(page, "cancelled")).toBeVisible();
  await expect(page.locator(".reason")).toHaveText("no longer needed");
  await expect(page.getByRole("button", { name: "Delete" })).toBeVisible();
  await page.getByRole("button", { name: "Fork" }).click();
  await page.getByRole("dialog").getByRole("textbox", { name: /Label/ }).fill("sleeps again");
  await page.getByRole("dialog").getByRole("button", { name: "Fork" }).click();
  await expect(page.getByRole("heading", { name: "sleeps again" })).toBeVisible();
  await page.getByRole("button", { name: "Cancel" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Cancel it" }).click();
  await expect(page.getByRole("button", { name: "Delete" })).toBeVisible();
  await page.getByRole("button", { name: "Delete" }).click();
  await expect(page.getByRole("dialog")).toContainText("cannot be undone");
  await page.getByRole("dialog").getByRole("button", { name: "Delete it" }).click();
  await expect(page.getByRole("combobox", { name: "Status" })).toBeVisible();
});

test("who may not act has no buttons, and who may not see is told so", async ({ page, house, orders }) => {
  const id = await orders.start("df.sleep(600)", "looked at");
  const user = await house.daemon.token("uma", "--role", "user");
  await house.enter(page.context(), user);
  await page.goto(house.at);
  await goTo(page, house, `attached/orders/instance/${id}`);
  await expect(word(page, "running")).toBeVisible();
  await expect(page.getByRole("row", { name: /sleep 600 s/ })).toBeVisible();
  for (const name of ["Signal", "Pause", "Cancel", "Resume", "Fork", "Delete"]) await expect(page.getByRole("button", { name, exact: true })).toHaveCount(0);
  await page.keyboard.press("x");
  await expect(page.getByRole("dialog")).toHaveCount(0);
  await page.getByRole("button", { name: "Sign out" }).click();
  await expect(page.getByRole("button", { name: /Sign in/ }).first()).toBeVisible();
  await house.enter(page.context(), house.viewer);
  await page.reload();
  await goTo(page, house, "attached/orders");
  await expect(page.getByText("for users and administrators whose token is for all sources")).toBeVisible();
  await expect(page.getByRole("combobox", { name: "Status" })).toHaveCount(0);
});

test("labels, steps, inputs and signals that look like code are text", async ({ signedIn: page, house, orders }) => {
  const quoted = HOSTILE.replaceAll("'", "''");
  const id = await orders.start(`('SELECT ''${quoted.replaceAll("'", "''")}'' AS x' |=> 'x') ~> df.wait_for_signal('${quoted}')`, HOSTILE, "--input", JSON.stringify({ [HOSTILE]: HOSTILE }));
  await goTo(page, house, `attached/orders?search=${encodeURIComponent(HOSTILE)}`);
  await expect(page.getByRole("link", { name: HOSTILE })).toBeVisible();
  await unharmed(page);
  await page.getByRole("link", { name: HOSTILE }).click();
  await expect(page.getByRole("heading", { name: HOSTILE })).toBeVisible();
  await expect(page.getByRole("row", { name: /wait for the signal <img/ })).toBeVisible();
  await unharmed(page);
  await page.getByRole("link", { name: "Graph" }).click();
  await page.getByRole("link", { name: /SELECT .*completed/ }).click();
  await expect(page.getByRole("region", { name: "the result of the step" })).toContainText("onerror");
  await unharmed(page);
  await page.getByRole("button", { name: "Signal", exact: true }).click();
  await page.getByRole("dialog").getByRole("textbox", { name: /Data/ }).fill(HOSTILE);
  await page.getByRole("dialog").getByRole("button", { name: "Send" }).click();
  await expect(page.getByText(`was sent to ${id}`)).toBeVisible();
  await expect(word(page, "completed")).toBeVisible();
  await unharmed(page);
  for (const wrong of [`instance/${encodeURIComponent(HOSTILE)}`, "instance/00000000"]) {
    await goTo(page, house, `attached/orders/${wrong}`);
    await expect(page.getByRole("alert")).toContainText("There is no instance");
    await unharmed(page);
  }
});

/** How many instances are scrolled through. */
const MANY = Number(process.env.DURAMEN_INSTANCES ?? 3000);

test(`${MANY} instances scroll, and new ones come by themselves`, async ({ signedIn: page, house, orders }) => {
  test.setTimeout(90_000 + 10 * MANY);
  await house.query(orders.branch, `select count(*) from df.start_many(array(select 'SELECT ' || n from generate_series(1, ${MANY}) n), 'many')`);
  await goTo(page, house, "attached/orders?search=many");
  const table = page.getByRole("region", { name: "Instances" });
  await expect(page.getByText("200+ found")).toBeVisible();
  expect(await table.getByRole("row").count()).toBeLessThan(80);
  for (let pages = 2; pages <= MANY / 200; pages++) {
    await table.evaluate((port) => port.scrollTo(0, port.scrollHeight));
    await expect(page.getByText(pages === MANY / 200 ? `${MANY.toLocaleString("en")} found` : `${(pages * 200).toLocaleString("en")}+ found`)).toBeVisible();
  }
  await table.evaluate((port) => port.scrollTo(0, port.scrollHeight));
  expect(await table.getByRole("row").count()).toBeLessThan(80);
  await table.evaluate((port) => port.scrollTo(0, 0));
  const id = await orders.start("SELECT 1", "many, and one more");
  await expect(table.getByRole("link", { name: "many, and one more" })).toBeVisible();
  await page.getByRole("searchbox").fill(id);
  await expect(page.getByText("1 found")).toBeVisible();
  await page.getByRole("searchbox").fill("nothing is called so");
  await expect(page.getByText("No instance fits.")).toBeVisible();
});

test("queues, schedules and workers are there, and a database that is down says so", async ({ signedIn: page, house, orders }) => {
  await house.daemon.run("fn", "queue", "set", "mail", "--concurrency", "2", "--rate", "10", "--per", "1m", "--url", orders.url);
  await house.daemon.run("fn", "schedule", "set", "nightly", "SELECT 1", "--cron", "0 3 * * *", "--time-zone", "Europe/Berlin", "--url", orders.url);
  await orders.start("SELECT 1", "queued", "--queue", "mail");
  await goTo(page, house, "attached/orders/queues");
  await expect(page.getByRole("row", { name: /mail/ })).toContainText("2 at once");
  await page.getByRole("link", { name: "mail" }).click();
  await expect(page.getByRole("link", { name: "queued", exact: true })).toBeVisible();
  await page.getByRole("link", { name: "Schedules" }).click();
  await expect(page.getByRole("row", { name: /nightly/ })).toContainText("Europe/Berlin");
  await page.getByRole("navigation", { name: "Parts of the database" }).getByRole("link", { name: "Workers" }).click();
  await expect(page.getByRole("region", { name: "Workers" }).getByRole("row")).toHaveCount(2);
  await house.daemon.run("attachment", "add", "down", "--functions", "postgresql://127.0.0.1:1/none");
  await goTo(page, house, "attached/down");
  await expect(page.getByRole("alert").first()).toContainText("127.0.0.1");
});

for (const colorScheme of ["light", "dark"] as const)
  for (const width of [1280, 390])
    test(`each page of functions, ${colorScheme}, ${width} wide: axe finds nothing, and nothing sticks out`, async ({ signedIn: page, house, orders }) => {
      test.setTimeout(200_000);
      const id = await orders.start("df.map('SELECT n FROM generate_series(1, 3) n', 'SELECT $item.n') ~> df.retry('SELECT 1/0', 5, 600, 600) ~> ('SELECT true' ?> 'SELECT 1' !> 'SELECT 2')", "looked over");
      await page.emulateMedia({ colorScheme });
      await page.setViewportSize({ width, height: 844 });
      for (const place of ["", "/queues", "/schedules", "/workers", `/instance/${id}`, `/instance/${id}/graph`, `/instance/${id}/steps?node=1`]) {
        await goTo(page, house, `attached/orders${place}`);
        await expect(page.getByRole("heading").first()).toBeVisible();
        await expect(page.locator(".wait")).toHaveCount(0);
        const { violations } = await new AxeBuilder({ page }).withTags(["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]).analyze();
        expect(violations.map(({ id: rule, nodes }) => `${place}: ${rule}: ${nodes.map((node) => node.html.slice(0, 160)).join(" | ")}`)).toEqual([]);
        const beyond = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
        expect(beyond, place).toBeLessThanOrEqual(0);
      }
      await expect(page.getByRole("button", { name: "Signal" })).toBeVisible();
      await page.keyboard.press("n");
      await expect(page.getByRole("dialog")).toBeVisible();
      const { violations } = await new AxeBuilder({ page }).analyze();
      expect(violations.filter(({ tags }) => tags.includes("wcag2a") || tags.includes("wcag2aa")).map(({ id: rule }) => rule)).toEqual([]);
    });
