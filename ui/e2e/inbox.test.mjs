// Approvals and client actions.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { PHONE, logIn, openBrowser } from "./browser.mjs";
import { seed } from "./seed.mjs";
import { startServer } from "./server.mjs";

let server;
let browser;
let runs;

before(async () => {
  server = await startServer();
  runs = await seed(server);
  browser = await openBrowser();
});

after(async () => {
  await browser?.close();
  await server?.stop();
});

const ask = (agent, userMessage) => server.request("POST", `/api/v1/ai/agents/${agent}/execute`, { userMessage });
const status = async (run) => (await server.request("GET", `/api/v1/ai/runs/${run.runId}`)).status;
const waitingList = (page) => page.getByRole("list", { name: "Calls that wait for an approval" });

async function untilStatus(run, expected) {
  for (let attempt = 0; attempt < 100; attempt++) {
    if ((await status(run)) === expected) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  assert.equal(await status(run), expected);
}

test("shows the exact arguments and the difference to the last approved call, and approves by key", async () => {
  const page = await logIn(browser.context, server.url);
  await page.goto(`${server.url}/inbox?call=${runs.cancel.approvals[0].callId}`);
  const detail = page.getByRole("article", { name: "Approval of orders/cancel" });
  await detail.getByText("ord-1002", { exact: true }).waitFor();
  await detail.getByText("changed").waitFor();
  await detail.getByText("Cannot be undone", { exact: true }).waitFor();
  await page.keyboard.press("a");
  await detail.waitFor({ state: "detached" });
  await untilStatus(runs.cancel, "COMPLETED");
  await page.close();
});

test("a new call appears without a reload, and a denial reaches the model", async () => {
  const page = await logIn(browser.context, server.url);
  await page.goto(`${server.url}/inbox`);
  await waitingList(page).waitFor();
  const run = await ask("cancel-clerk", "ord-1004");
  await waitingList(page).getByText('{"orderId":"ord-1004"}').click();
  const detail = page.getByRole("article", { name: "Approval of orders/cancel" });
  await detail.getByRole("button", { name: "Deny" }).click();
  await page.getByLabel("Reason, which the model sees").fill("The customer called back.");
  await page.getByRole("button", { name: "Deny the call" }).click();
  await untilStatus(run, "COMPLETED");
  const { responseText } = await server.request("GET", `/api/v1/ai/runs/${run.runId}`);
  assert.match(responseText, /The customer called back\./);
  await page.getByRole("button", { name: "Decided" }).click();
  await page.getByRole("list", { name: "Decided calls" }).getByText('{"orderId":"ord-1004"}').click();
  await page.getByText("The customer called back.").waitFor();
  await page.close();
});

test("an edited call is made with the new arguments", async () => {
  const run = await ask("cancel-clerk", "ord-1006");
  const page = await logIn(browser.context, server.url);
  await page.goto(`${server.url}/inbox?call=${run.approvals[0].callId}`);
  await page.getByRole("button", { name: "Edit" }).click();
  await page.getByLabel("Arguments as JSON").fill('{"orderId": "ord-1006", "reason": "as agreed"}');
  await page.getByRole("button", { name: "Approve the edited call" }).click();
  await untilStatus(run, "COMPLETED");
  const { toolCalls } = await server.request("GET", `/api/v1/ai/runs/${run.runId}`);
  assert.deepEqual(toolCalls.at(-1).input, { orderId: "ord-1006", reason: "as agreed" });
  await page.close();
});

test("several calls are decided at once", async () => {
  const both = [await ask("cancel-clerk", "ord-1001"), await ask("cancel-clerk", "ord-1003")];
  const page = await logIn(browser.context, server.url);
  await page.goto(`${server.url}/inbox`);
  for (const order of ["ord-1001", "ord-1003"]) await waitingList(page).locator("li", { hasText: order }).getByRole("checkbox").check();
  await page.getByText("2 calls selected").waitFor();
  await page.getByRole("group", { name: "Selected calls" }).getByRole("button", { name: "Deny" }).click();
  for (const run of both) await untilStatus(run, "COMPLETED");
  await page.close();
});

test("a standing rule shows the change, makes the call, and is written", async () => {
  const run = await ask("cancel-clerk", "ord-1005");
  const page = await logIn(browser.context, server.url);
  await page.goto(`${server.url}/inbox?call=${run.approvals[0].callId}`);
  await page.getByRole("button", { name: "Always allow calls like this" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText('{"requiresConfirmation":false}').waitFor();
  await dialog.getByText('{"requiresApproval":false}').waitFor();
  await dialog.getByRole("button", { name: "Approve and write the rule" }).click();
  await dialog.waitFor({ state: "detached" });
  await untilStatus(run, "COMPLETED");
  const { toolCalls } = await server.request("GET", `/api/v1/ai/runs/${run.runId}`);
  assert.notEqual(toolCalls.at(-1).status, "SKIPPED");
  assert.equal((await server.request("GET", "/api/v1/ai/agents/cancel-clerk")).requiresApproval, false);
  assert.equal((await server.request("GET", "/api/v1/ai/tools/orders%2Fcancel")).requiresConfirmation, false);
  await page.close();
});

test("a person answers for a client, on a phone", async () => {
  const phone = await openBrowser({ viewport: PHONE });
  try {
    const page = await logIn(phone.context, server.url);
    await page.goto(`${server.url}/inbox?tab=client`);
    await page.getByText("editor/open-file").click();
    await page.getByLabel("Output as JSON").fill('{"text": "Milk and bread"}');
    await page.getByRole("button", { name: "Return the result" }).click();
    await untilStatus(runs.client, "COMPLETED");
    await page.getByText("No run waits for a client").waitFor();
  } finally {
    await phone.close();
  }
});

test("a call is approved on a phone within three taps", async () => {
  const phone = await openBrowser({ viewport: PHONE });
  try {
    const page = await logIn(phone.context, server.url);
    await page
      .getByRole("link", { name: /hubspot\/create-deal.*assistant/s })
      .first()
      .click();
    await page.getByRole("button", { name: "Approve" }).click();
    await untilStatus(runs.create, "COMPLETED");
  } finally {
    await phone.close();
  }
});
