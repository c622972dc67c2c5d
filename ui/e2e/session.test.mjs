// Login by key and by link, logout, and what stands in the way of other sites.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { KEY, startServer } from "./server.mjs";
import { PHONE, logIn, openBrowser } from "./browser.mjs";

let server;
let browser;

before(async () => {
  server = await startServer();
  browser = await openBrowser();
});

after(async () => {
  await browser?.close();
  await server?.stop();
});

test("the link of the server's start logs in once and leaves no token in the address", async () => {
  const page = await browser.context.newPage();
  await page.goto(server.link());
  await page.getByRole("heading", { name: "Home", level: 1 }).waitFor();
  assert.equal(new URL(page.url()).hash, "");
  const [cookie] = await browser.context.cookies();
  assert.deepEqual([cookie.httpOnly, cookie.sameSite, cookie.path], [true, "Strict", "/api"]);
  await browser.context.clearCookies();
  await page.goto("about:blank");
  await page.goto(server.link());
  await page.getByRole("alert").waitFor();
  await page.close();
});

test("a wrong key is refused with a reason, and a right one returns to the wanted page", async () => {
  const page = await browser.context.newPage();
  await page.goto(`${server.url}/runs?status=ERROR`);
  await page.getByLabel("API key").fill("wrong-key-wrong-key");
  await page.getByRole("button", { name: "Log in" }).click();
  await page.getByRole("alert").waitFor();
  await page.getByLabel("API key").fill(KEY);
  await page.getByRole("button", { name: "Log in" }).click();
  await page.getByRole("heading", { name: "Runs", level: 1 }).waitFor();
  assert.equal(new URL(page.url()).searchParams.get("status"), "ERROR");
  await page.close();
});

test("a session that ends elsewhere leads to the login", async () => {
  const page = await logIn(browser.context, server.url);
  await page.evaluate(() => fetch("/api/v1/ai/session", { method: "DELETE", headers: { "X-Toolwright-UI": "1" } }));
  await page.goto(`${server.url}/tools`);
  await page.getByLabel("API key").waitFor();
  await page.close();
});

test("log out ends the session", async () => {
  const page = await logIn(browser.context, server.url);
  await page.getByRole("button", { name: "admin" }).click();
  await page.getByRole("menuitem", { name: "Log out" }).click();
  await page.getByLabel("API key").waitFor();
  assert.deepEqual(await browser.context.cookies(), []);
  await page.close();
});

test("the realm can be changed, and its data is separate", async () => {
  await server.request("POST", "/api/v1/ai/realms", { name: "sales" });
  const page = await logIn(browser.context, server.url);
  await page.getByRole("button", { name: "Realm default" }).click();
  await page.getByRole("menuitemradio", { name: "sales" }).click();
  await page.getByRole("button", { name: "Realm sales" }).waitFor();
  await page.getByRole("link", { name: "Agents" }).click();
  await page.getByText("No agent yet").waitFor();
  await page.close();
});

test("the theme is kept", async () => {
  const page = await logIn(browser.context, server.url);
  await page.getByRole("button", { name: "admin" }).click();
  await page.getByRole("menuitemradio", { name: "Dark" }).click();
  await page.reload();
  await page.getByRole("heading", { name: "Home", level: 1 }).waitFor();
  assert.equal(await page.evaluate(() => getComputedStyle(document.documentElement).colorScheme), "dark");
  await page.close();
});

test("the keyboard reaches every screen, and the palette finds agents", async () => {
  const page = await logIn(browser.context, server.url);
  await page.evaluate(() => localStorage.clear());
  await page.reload();
  await page.getByRole("heading", { name: "Home", level: 1 }).waitFor();
  await page.keyboard.press("g");
  await page.keyboard.press("r");
  await page.getByRole("heading", { name: "Runs", level: 1 }).waitFor();
  await page.keyboard.press("Control+k");
  await page.getByPlaceholder("Search agents, workflows, tools and runs, or type a command").fill("sales assis");
  await page.getByRole("option", { name: /^Sales assistant/ }).waitFor();
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "Sales assistant", level: 1 }).waitFor();
  await page.close();
});

test("a phone has the same navigation in a drawer", async () => {
  const phone = await openBrowser({ viewport: PHONE });
  try {
    const page = await logIn(phone.context, server.url);
    await page.getByRole("button", { name: "Menu" }).click();
    await page.getByRole("dialog").getByRole("link", { name: "Workflows" }).click();
    await page.getByRole("heading", { name: "Workflows", level: 1 }).waitFor();
    await page.getByRole("dialog").waitFor({ state: "detached" });
  } finally {
    await phone.close();
  }
});

test("a lost connection is shown", async () => {
  const other = await startServer();
  const page = await logIn(browser.context, other.url);
  await page.getByRole("status").getByText("Live: changes appear by themselves").waitFor({ state: "attached" });
  await other.stop();
  await page.getByText("The connection to the server is lost.").waitFor();
  await page.getByRole("button", { name: "Try now" }).click();
  await page.getByText("The connection to the server is lost.").waitFor();
  await page.close();
});
