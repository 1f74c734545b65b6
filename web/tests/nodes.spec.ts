/** The nodes of a fleet: two real daemons and a real etcd. The program must have been built with fleets: make test-web FLEET=1. */

import AxeBuilder from "@axe-core/playwright";
import { execFileSync, spawn, type ChildProcess } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Daemon, PROGRAM } from "../../bindings/typescript/tests/daemon";
import { expect, goTo, House, test as base, watch } from "./fixtures";

const ETCD = process.env.DURAMEN_ETCD;

async function port(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await new Promise((done) => server.once("listening", done));
  const { port } = server.address() as AddressInfo;
  await new Promise((done) => server.close(done));
  return port;
}

/** etcd with one member, and two nodes: a, whose console is looked at, and b. */
class Fleet {
  private constructor(
    readonly folder: string,
    readonly etcd: ChildProcess,
    readonly house: House,
    readonly other: Daemon,
  ) {}

  static async open(): Promise<Fleet> {
    const folder = mkdtempSync(join(tmpdir(), "dm-"));
    const [client, peer] = [`http://127.0.0.1:${await port()}`, `http://127.0.0.1:${await port()}`];
    const etcd = spawn(ETCD!, ["--data-dir", join(folder, "etcd"), "--listen-client-urls", client, "--advertise-client-urls", client,
      "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", `default=${peer}`], { stdio: "ignore" });
    const authority = join(folder, "authority");
    execFileSync(PROGRAM, ["node", "init", authority]);
    const options = async (node: string) => {
      execFileSync(PROGRAM, ["node", "certify", node, "--ca", authority, "--out", join(folder, node)]);
      return ["--fleet", client.replace("http:", "etcd:"), "--node", node, "--advertise", `127.0.0.1:${await port()}`, "--fleet-certs", join(folder, node)];
    };
    const house = await House.open(...(await options("a")));
    const other = await Daemon.open(...(await options("b")));
    return new Fleet(folder, etcd, house, other);
  }

  async close(): Promise<void> {
    await this.other.close();
    await this.house.daemon.close();
    this.etcd.kill("SIGKILL");
    rmSync(this.folder, { recursive: true });
  }
}

const test = base.extend<object, { house: House; fleet: Fleet }>({
  fleet: [
    async ({}, use) => {
      const fleet = await Fleet.open();
      await use(fleet);
      await fleet.close();
    },
    { scope: "worker", timeout: 240_000 },
  ],
  house: [async ({ fleet }, use) => await use(fleet.house), { scope: "worker" }],
});

test("nodes are shown, drained and undrained, and one that is gone is seen", async ({ signedIn: page, house, fleet }) => {
  test.setTimeout(180_000);
  await page.getByRole("navigation", { name: "Pages" }).getByRole("link", { name: "Nodes" }).click();
  await expect(page.getByRole("heading", { name: "Nodes" })).toBeVisible();
  const row = (node: string) => page.getByRole("region", { name: "Nodes" }).getByRole("row", { name: new RegExp(`^${node} `) });
  await expect(row("a")).toContainText("ready");
  await expect(row("b")).toContainText("ready");
  await expect(row("b")).toContainText("app");
  await expect(page.getByRole("region", { name: "Members of etcd" })).toContainText("leads");
  await expect(page.locator("main")).toContainText("1 of 1 member");
  expect((await new AxeBuilder({ page }).withTags(["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]).analyze()).violations).toEqual([]);

  await page.getByRole("button", { name: "Drain b" }).click();
  await page.getByRole("button", { name: "Drain it" }).click();
  await expect(row("b")).toContainText("draining");
  await page.getByRole("button", { name: "Undrain b" }).click();
  await expect(row("b")).toContainText("ready");
  const log = await house.api<{ event: string; entry: { node: string; drains: boolean; token: string } }[]>("GET", "/v1/audit?limit=50");
  expect(log.filter(({ event }) => event === "node_drained").map(({ entry }) => [entry.node, entry.drains, entry.token])).toEqual([["b", false, "ada"], ["b", true, "ada"]]);

  await fleet.other.stop();
  await expect(row("b")).toContainText("unreachable");
  await expect(row("b")).toContainText("its names are kept for it");
  if (process.env.DURAMEN_LOOK !== undefined)
    for (const colorScheme of ["light", "dark"] as const)
      for (const width of [1280, 390]) {
        await page.emulateMedia({ colorScheme });
        await page.setViewportSize({ width, height: 844 });
        await page.screenshot({ path: join(process.env.DURAMEN_LOOK, `nodes-${colorScheme}-${width}.png`), fullPage: true });
      }
  // A narrow page does not scroll sideways.
  await page.setViewportSize({ width: 390, height: 844 });
  expect(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth)).toBe(true);
  await fleet.other.start();
  await expect(row("b")).toContainText("ready");
});

test("who may not look at nodes has no such page", async ({ page, house }) => {
  const wrong = watch(page, house.at);
  await house.enter(page.context(), house.viewer);
  await page.goto(house.at);
  await expect(page.getByRole("heading", { name: "Home" })).toBeVisible();
  await expect(page.getByRole("link", { name: "Nodes" })).toHaveCount(0);
  await goTo(page, house, "nodes");
  await expect(page.getByRole("heading", { name: "Not found" })).toBeVisible();
  expect(wrong).toEqual([]);
});
