/** A daemon with real branches, and a page that tells what it must not do. */

import { expect, test as base, type BrowserContext, type Page } from "@playwright/test";
import { chmodSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Daemon } from "../../bindings/typescript/tests/daemon";

const SHOP = `
create table customers (id int primary key, name text not null, email text, since date default current_date);
create table orders (id serial primary key, customer int references customers, total numeric(10,2) not null, placed date);
create table notes (id int primary key, body jsonb);
comment on table orders is 'what was ordered, by whom';
create index on orders (placed);
create view large_orders as select * from orders where total > 500;
insert into customers select g, 'Customer ' || g, 'c' || g || '@example.com', date '2026-01-01' from generate_series(1, 500) g;
insert into orders (customer, total, placed) select 1 + g % 500, g * 1.25, date '2026-01-01' + g % 300 from generate_series(1, 5000) g;
insert into notes select g, jsonb_build_object('n', g) from generate_series(1, 20) g;
`;

/** What would run if a page made code of it. */
export const HOSTILE = `<img src=x onerror="window.hit=1">`;
const SQL_HOSTILE = HOSTILE.replaceAll('"', '""');
const TRAPS = `
create table "${SQL_HOSTILE}" (id int primary key, "${SQL_HOSTILE}" text default '${HOSTILE}');
comment on table "${SQL_HOSTILE}" is '<script>window.hit = 1</script>';
insert into "${SQL_HOSTILE}" values (1, '${HOSTILE}'), (2, 'javascript:window.hit=1');
`;

/** A daemon, the sources shop and traps besides its own, and a token of each role. */
export class House {
  private constructor(
    readonly daemon: Daemon,
    /** The console's address, up to the last stroke. */
    readonly at: string,
    readonly admin: string,
    readonly viewer: string,
  ) {}

  static async open(...options: string[]): Promise<House> {
    const daemon = await Daemon.open(...options);
    for (const [name, script, hot] of [["shop", SHOP, "3"], ["traps", TRAPS, "1"]] as const) {
      const file = join(daemon.folder, `${name}.sql`);
      writeFileSync(file, script);
      chmodSync(file, 0o644);
      await daemon.run("source", "add", name, "--script", file, "--hot", hot);
    }
    const admin = await daemon.token("ada", "--role", "admin", "--max-branches", "10000");
    const viewer = await daemon.token("vera", "--role", "viewer");
    const at = `http://${daemon.http}/`;
    return new House(daemon, at, admin, viewer);
  }

  /** A request by a token, past the page. */
  async api<T>(method: string, path: string, body?: unknown, token = this.admin): Promise<T> {
    const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
    const reply = await fetch(`http://${this.daemon.http}${path}`, { method, headers, body: body === undefined ? null : JSON.stringify(body) });
    const text = await reply.text();
    if (!reply.ok) throw new Error(`${method} ${path}: ${reply.status} ${text}`);
    return (text === "" ? undefined : JSON.parse(text)) as T;
  }

  /** A new branch, whose lease nobody waits for. */
  async branch(name: string, more: Record<string, unknown> = {}): Promise<string> {
    await this.api("POST", "/v1/branches", { name, source: "shop", ttl_s: 7200, ...more });
    return name;
  }

  /** Runs statements in a branch, in one transaction. */
  async query(name: string, ...statements: string[]): Promise<void> {
    await this.api("POST", `/v1/branches/${name}/query`, { statements: statements.map((sql) => ({ sql })) });
  }

  /** A session in the browser, without the page for it. */
  async enter(context: BrowserContext, token = this.admin): Promise<void> {
    const [name, secret] = token.split(":");
    const reply = await context.request.post(`${this.at}v1/session`, { data: { name, secret }, headers: { "x-duramen-console": "1" } });
    expect(reply.status()).toBe(204);
  }
}

interface Fixtures {
  /** A page on which an error, a breach of the policy or a dialog fails the test. */
  page: Page;
  /** The same, signed in as an administrator. */
  signedIn: Page;
}

/** What a page said that it must not say: breaches of the policy, errors of scripts, requests to other hosts. */
export function watch(page: Page, at: string): string[] {
  const wrong: string[] = [];
  page.on("console", (message) => {
    // The browser tells of each reply that is a refusal; the page tells of those that matter.
    if (message.type() === "error" && !/Failed to load resource/.test(message.text())) wrong.push(message.text());
  });
  page.on("pageerror", (error) => wrong.push(error.message));
  page.on("dialog", (dialog) => {
    wrong.push(`a dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on("request", (request) => {
    const { origin, protocol } = new URL(request.url());
    if (origin !== new URL(at).origin && protocol !== "blob:") wrong.push(`a request to ${request.url()}`);
  });
  return wrong;
}

export const test = base.extend<Fixtures, { house: House }>({
  house: [
    async ({}, use) => {
      const house = await House.open();
      await use(house);
      await house.daemon.close();
    },
    { scope: "worker", timeout: 180_000 },
  ],
  page: async ({ page, house }, use) => {
    const wrong = watch(page, house.at);
    await use(page);
    expect(wrong).toEqual([]);
  },
  signedIn: async ({ page, house }, use) => {
    await house.enter(page.context());
    await page.goto(house.at);
    await expect(page.getByRole("heading", { name: "Home" })).toBeVisible();
    await use(page);
  },
});

export { expect };

/** Goes to a place of the console. */
export async function goTo(page: Page, house: House, place: string): Promise<void> {
  await page.goto(`${house.at}#/${place}`);
}

/** Writes into the editor, as by keys: what was there is deleted first. (Over text that is marked, the browser itself would write a
 * style into the page, which the policy refuses.) */
export async function write(page: Page, text: string): Promise<void> {
  const editor = page.getByRole("textbox", { name: "SQL" });
  await editor.press("Control+a");
  await editor.press("Delete");
  await page.keyboard.insertText(text);
}
