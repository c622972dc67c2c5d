// What agents can reach.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { logIn, openBrowser } from "./browser.mjs";
import { seed } from "./seed.mjs";
import { startServer } from "./server.mjs";

let server;
let browser;
let page;

before(async () => {
  server = await startServer();
  await seed(server);
  browser = await openBrowser();
  page = await logIn(browser.context, server.url);
});

after(async () => {
  await browser?.close();
  await server?.stop();
});

const column = (name) => page.getByRole("region", { name, exact: true }).getByRole("listitem");

test("a selected agent leaves what it reaches, down to the hosts", async () => {
  await page.goto(`${server.url}/reach`);
  await column("Agents").filter({ hasText: "deal-mover" }).getByRole("button").click();
  await column("Tools").filter({ hasText: "orders/cancel" }).waitFor({ state: "detached" });
  assert.deepEqual(await column("Tools").locator(".font-medium.block").allTextContents(), [
    "hubspot/get-deal",
    "hubspot/send-email",
    "hubspot/update-deal",
  ]);
  assert.equal(await column("Hosts and databases").count(), 1);
  await page.reload();
  await page.getByRole("link", { name: "deal-mover" }).waitFor();
});

test("writes without an approval are those that neither the agent nor the tool asks for", async () => {
  await page.goto(`${server.url}/reach?tools=unapproved`);
  await column("Tools").first().waitFor();
  assert.deepEqual(await column("Tools").locator(".font-medium.block").allTextContents(), ["hubspot/send-email", "hubspot/update-deal"]);
  await server.request("PATCH", "/api/v1/ai/agents/deal-mover", { requiresApproval: true });
  await column("Tools").first().waitFor({ state: "detached" });
});
