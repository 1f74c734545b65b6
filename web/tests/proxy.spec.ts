import { createServer, request, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, test as base, watch } from "./fixtures";

/** Where the proxy has the console. */
const PREFIX = "/tools/duramen";

interface Fixtures {
  /** The address of a proxy that has the console below a prefix, up to the last stroke. */
  behind: string;
}

// What a proxy does: it takes the prefix away, passes on what was asked with the host that was asked for, and streams the reply.
const test = base.extend<Fixtures>({
  behind: async ({ house }, use) => {
    const door = new URL(house.at);
    const proxy: Server = createServer((asked, reply) => {
      if (!asked.url?.startsWith(`${PREFIX}/`)) {
        reply.writeHead(404).end();
        return;
      }
      const passed = request({ host: door.hostname, port: door.port, method: asked.method, path: asked.url.slice(PREFIX.length), headers: asked.headers }, (answer) => {
        reply.writeHead(answer.statusCode ?? 502, answer.headers);
        answer.pipe(reply);
      });
      passed.on("error", () => reply.destroy());
      reply.on("close", () => passed.destroy());
      asked.pipe(passed);
    });
    await new Promise<void>((done) => proxy.listen(0, "127.0.0.1", done));
    await use(`http://127.0.0.1:${(proxy.address() as AddressInfo).port}${PREFIX}/`);
    proxy.closeAllConnections();
    await new Promise((done) => proxy.close(done));
  },
});

test("behind a proxy and below a prefix it is the same", async ({ browser, house, behind }) => {
  const name = await house.branch("behind-a-proxy");
  const context = await browser.newContext();
  const page = await context.newPage();
  const wrong = watch(page, behind);
  await page.goto(behind);
  await page.getByLabel("Token").fill(house.admin);
  await page.getByRole("button", { name: "Sign in" }).click();
  await expect(page.getByRole("heading", { name: "Home" })).toBeVisible();
  await page.getByRole("link", { name: "Branches" }).click();
  await page.getByRole("link", { name }).click();
  await page.getByRole("link", { name: "SQL" }).click();
  await page.getByRole("textbox", { name: "SQL" }).press("Control+a");
  await page.keyboard.insertText("select 40 + 2 as answer");
  await page.keyboard.press("Control+Enter");
  await expect(page.getByRole("cell", { name: "42" })).toBeVisible();
  // Events come through it as they happen.
  await page.getByRole("link", { name: "Branches" }).first().click();
  await house.branch("came-through");
  await expect(page.getByRole("link", { name: "came-through" })).toBeVisible({ timeout: 6000 });
  await page.reload();
  await expect(page.getByRole("heading", { name: "Branches" })).toBeVisible();
  expect(new URL(page.url()).pathname).toBe(`${PREFIX}/`);
  expect(wrong).toEqual([]);
  await context.close();
});
