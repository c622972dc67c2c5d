// The list of runs, the microscope, and effects.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { logIn, openBrowser } from "./browser.mjs";
import { seed } from "./seed.mjs";
import { startServer } from "./server.mjs";

let server;
let browser;
let runs;
let page;

before(async () => {
  server = await startServer();
  runs = await seed(server);
  browser = await openBrowser();
  page = await logIn(browser.context, server.url);
});

after(async () => {
  await browser?.close();
  await server?.stop();
});

const journal = () => page.getByRole("listbox", { name: "Journal of the run" });

test("filters are in the address and survive a reload", async () => {
  await page.goto(`${server.url}/runs`);
  await page.getByLabel("Status").selectOption({ label: "Failed" });
  await page.getByText("2 runs", { exact: true }).waitFor();
  await page.reload();
  await page.getByText("2 runs", { exact: true }).waitFor();
  await page.getByLabel("Search names and messages").fill("nothing like this");
  await page.getByText("Nothing matches these filters").waitFor();
  await page.getByRole("button", { name: "Clear the filters" }).click();
  await page.getByText("Which deals are in negotiation?").waitFor();
});

test("a failed run opens at its failure", async () => {
  await page.goto(`${server.url}/runs/${runs.failed.runId}`);
  await journal().locator('[aria-selected="true"]', { hasText: "Model failed" }).waitFor();
  await page.getByRole("alert").getByText("no rule of the script matches the request").waitFor();
});

test("the arrow keys move through the journal, and the state follows", async () => {
  await page.goto(`${server.url}/runs/${runs.moved.runId}?tab=state`);
  await journal().locator('[aria-selected="true"]').waitFor();
  await journal().focus();
  await page.keyboard.press("Home");
  await page.getByText("After entry 1.").waitFor();
  await page.getByText("2 messages").waitFor();
  await page.keyboard.press("ArrowDown");
  await page.getByText("After entry 2.").waitFor();
  assert.equal(new URL(page.url()).searchParams.get("at"), "2");
});

test("the journal of an ended run is verified", async () => {
  await page.goto(`${server.url}/runs/${runs.moved.runId}`);
  await page.getByRole("img", { name: /The hash chain of 9 entries is intact/ }).waitFor();
});

test("a child run is one click away", async () => {
  await page.goto(`${server.url}/runs/${runs.delegated.runId}?at=4`);
  await page.getByRole("link", { name: /order-specialist completed/ }).click();
  await page.getByRole("link", { name: "Parent run" }).waitFor();
});

test("a fork with another result continues differently, and the comparison marks the divergence", async () => {
  await page.goto(`${server.url}/runs/${runs.delegated.runId}?at=4`);
  await page.getByRole("button", { name: "Fork here" }).click();
  await page.getByLabel("Another result of order-specialist").fill('{"responseText": "nobody owns it"}');
  await page.getByRole("button", { name: "Start the fork" }).click();
  await page.getByText("at entry 4").waitFor();
  await page.getByRole("tab", { name: "Result" }).click();
  await page.getByText("The specialist says: nobody owns it.").first().waitFor();
  await page.getByRole("button", { name: "Compare" }).click();
  await page
    .getByRole("dialog")
    .getByRole("button", { name: /ord-1001/ })
    .first()
    .click();
  await page.getByText("First divergence").waitFor();
  await page.getByText("Different from entry 4").waitFor();
});

test("a replay with other instructions reuses what was recorded", async () => {
  await page.goto(`${server.url}/runs/${runs.moved.runId}`);
  await page.getByRole("button", { name: "Replay" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Instructions").fill("You move deals, quickly.");
  await dialog.getByRole("button", { name: "Replay" }).click();
  await dialog.getByText(/recorded and \d+ new model replies/).waitFor();
  await dialog.getByRole("link", { name: "Compare with the original" }).click();
  await page.getByRole("heading", { name: "Compare two runs" }).waitFor();
});

test("a run is copied as a command", async () => {
  await page.goto(`${server.url}/runs/${runs.moved.runId}`);
  await page.getByRole("button", { name: "More actions" }).click();
  await page.getByRole("menuitem", { name: "Copy this run as a command" }).click();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), "toolwright agents run deal-mover 101");
});

test("a waiting run shows what happens, live", async () => {
  await page.goto(`${server.url}/runs/${runs.cancel.runId}`);
  await page.getByText("The call of orders/cancel waits for an approval.").waitFor();
  const [{ callId }] = runs.cancel.approvals;
  await server.request("POST", `/api/v1/ai/runs/${runs.cancel.runId}/approvals/${callId}`, { decision: "approve" });
  await journal().getByText("Approved by admin").waitFor();
  await page.getByText("Completed", { exact: true }).first().waitFor();
});

test("a run can be cancelled", async () => {
  await page.goto(`${server.url}/runs/${runs.create.runId}`);
  await page.getByRole("button", { name: "Cancel" }).click();
  await page.getByText("Cancelled", { exact: true }).first().waitFor();
});

test("selected effects are undone after a dry run", async () => {
  await page.goto(`${server.url}/effects?toolRef=orders%2Fcreate`);
  const boxes = page.getByRole("checkbox", { name: "Select orders/create" });
  await boxes.first().waitFor();
  assert.equal(await boxes.count(), 2);
  await boxes.nth(0).check();
  await page.getByRole("button", { name: "Undo 1…" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText("will be undone with orders/undo-create").waitFor();
  await dialog.getByRole("button", { name: "Undo 1 write now" }).click();
  await dialog.getByText("undone by").waitFor();
  await dialog.getByRole("button", { name: "Close" }).first().click();
  await page.getByText("Undone", { exact: true }).nth(1).waitFor();
});

test("an unknown outcome is resolved by a person", async () => {
  await page.goto(`${server.url}/effects?outcome=unknown`);
  await page.getByRole("button", { name: /orders\/create-fast/ }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("What you found").fill("There is no such order.");
  await dialog.getByRole("button", { name: "It did not" }).click();
  await dialog.waitFor({ state: "detached" });
  await page.getByText("Nothing matches these filters").waitFor();
});
