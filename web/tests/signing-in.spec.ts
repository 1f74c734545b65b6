import { expect, goTo, test, write } from "./fixtures";

test("a first visit by a link: one command, and one is in; the link is nowhere any more", async ({ page, house }) => {
  const { url: link } = (await house.daemon.run("console", "--no-open")) as { url: string };
  const secret = link.split("#link=")[1]!;
  const seen: string[] = [];
  page.on("request", (request) => seen.push(`${request.method()} ${request.url()}`));
  await page.goto(link);
  await expect(page.getByRole("heading", { name: "Home" })).toBeVisible();
  expect(page.url()).toBe(`${house.at}#/`);
  expect(seen.filter((each) => each.includes(secret))).toEqual([]);
  // No script sees what the session is proved by.
  expect(await page.evaluate(() => document.cookie)).toBe("");
  expect(await page.evaluate(() => localStorage.length + sessionStorage.length)).toBe(0);
  // The way back leads out, to what was there before.
  await page.goBack();
  expect(page.url()).toBe("about:blank");
});

test("a link is good once", async ({ page, house, browser }) => {
  const { url: link } = (await house.daemon.run("console", "--no-open")) as { url: string };
  await page.goto(link);
  await expect(page.getByRole("heading", { name: "Home" })).toBeVisible();
  const other = await browser.newContext();
  const second = await other.newPage();
  await second.goto(link);
  await expect(second.getByRole("alert")).toContainText("was used already");
  expect(second.url()).not.toContain("link=");
  await other.close();
});

test("a wrong secret is refused in words, and nothing of it stays", async ({ page, house }) => {
  await page.goto(house.at);
  await page.getByLabel("Token").fill("ada:wrong");
  await page.keyboard.press("Enter");
  await expect(page.getByRole("alert")).toContainText("no token of that name with that secret");
  await expect(page.getByLabel("Token")).toHaveValue("");
  await page.getByLabel("Token").fill("nonsense");
  await page.keyboard.press("Enter");
  await expect(page.getByRole("alert")).toContainText("NAME:SECRET");
});

test("a token signs in and out", async ({ page, house }) => {
  await page.goto(house.at);
  await page.getByLabel("Token").fill(house.admin);
  await page.getByRole("button", { name: "Sign in" }).click();
  await expect(page.getByRole("heading", { name: "Home" })).toBeVisible();
  await page.getByRole("button", { name: "Sign out" }).click();
  await expect(page.getByText("You are signed out.")).toBeVisible();
  expect(await page.context().cookies()).toEqual([]);
  await page.reload();
  await expect(page.getByLabel("Token")).toBeVisible();
});

test("a session that is over leads to the sign-in, and from there back to the place", async ({ signedIn: page, house }) => {
  const name = await house.branch("kept-place");
  await goTo(page, house, `branches/${name}/sql`);
  await expect(page.getByRole("textbox", { name: "SQL" })).toBeVisible();
  await write(page, "select 'not lost'");
  await page.context().clearCookies();
  await page.keyboard.press("Control+Enter");
  await expect(page.getByText("Your session has ended")).toBeVisible();
  await page.getByLabel("Token").fill(house.admin);
  await page.keyboard.press("Enter");
  await expect(page.getByRole("heading", { name })).toBeVisible();
  expect(page.url()).toBe(`${house.at}#/branches/${name}/sql`);
  // What was written is there too.
  await expect(page.getByRole("textbox", { name: "SQL" })).toContainText("not lost");
});

test("a token that is revoked while its page is open ends the session at once", async ({ page, house }) => {
  const token = await house.daemon.token("leaving", "--role", "admin");
  await house.enter(page.context(), token);
  await page.goto(house.at);
  await expect(page.getByRole("heading", { name: "Home" })).toBeVisible();
  await house.daemon.run("token", "revoke", "leaving");
  await expect(page.getByText("Your session has ended")).toBeVisible({ timeout: 8000 });
});

test("a daemon that is started again: the page says so, waits, and goes on", async ({ signedIn: page, house }) => {
  const name = await house.branch("outlives");
  await goTo(page, house, "branches");
  await expect(page.getByRole("link", { name })).toBeVisible();
  await house.daemon.stop();
  await expect(page.getByText("Duramen does not answer")).toBeVisible({ timeout: 15_000 });
  // What was known is still shown.
  await expect(page.getByRole("link", { name })).toBeVisible();
  await house.daemon.start();
  await expect(page.getByText("Duramen does not answer")).toBeHidden({ timeout: 30_000 });
  await expect(page.getByRole("link", { name })).toBeVisible();
  await house.branch("came-after");
  await expect(page.getByRole("link", { name: "came-after" })).toBeVisible();
});

test("a viewer has no button that would be refused", async ({ page, house }) => {
  const name = await house.branch("looked-at");
  await house.enter(page.context(), house.viewer);
  const refused: string[] = [];
  page.on("response", (reply) => {
    if (reply.status() === 403) refused.push(`${reply.request().method()} ${reply.url()}`);
  });
  await page.goto(house.at);
  await expect(page.getByRole("heading", { name: "Home" })).toBeVisible();
  await expect(page.getByRole("link", { name: "shop" })).toBeVisible();
  await goTo(page, house, "branches");
  await expect(page.getByRole("link", { name })).toBeVisible();
  await page.getByRole("link", { name }).click();
  await expect(page.getByRole("heading", { name })).toBeVisible();
  const buttons = await page.getByRole("main").getByRole("button").allTextContents();
  expect(buttons.filter((label) => label !== "Copy")).toEqual([]);
  await expect(page.getByRole("navigation", { name: "Parts of the branch" }).getByRole("link")).toHaveText(["Overview"]);
  await page.keyboard.press("c");
  await expect(page.getByRole("dialog")).toBeHidden();
  await goTo(page, house, "access");
  await expect(page.getByText("lists of sources and of branches")).toBeVisible();
  expect(refused).toEqual([]);
});
