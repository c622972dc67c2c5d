// Workflows and their instances, with examples/order-fulfilment.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { PHONE, logIn, openBrowser } from "./browser.mjs";
import { startServer } from "./server.mjs";
import { seedWorkflows } from "./workflows.mjs";

let server;
let workflows;
let instances;
let browser;
let page;

before(async () => {
  server = await startServer();
  workflows = await seedWorkflows(server);
  instances = workflows.instances;
  browser = await openBrowser();
  page = await logIn(browser.context, server.url);
});

after(async () => {
  await browser?.close();
  await workflows?.stop();
  await server?.stop();
});

const deliver = (orderId, amount = 0) => workflows.run("orders/deliver", { orderId, items: ["KB-200"], amount });
const instance = (run) => server.request("GET", `/api/v1/ai/workflow-instances/${run.runId}`);
const graph = () => page.getByRole("group", { name: "Graph of the steps" });
const step = (name) => graph().getByRole("button", { name: new RegExp(`^${name} `) });
const inspector = () => page.getByRole("region", { name: "Inspector" });
/** The status of the instance, not of its selected step. */
const status = (name, on = page) => on.locator("main header").first().getByText(name, { exact: true });

test("workflows are found by text and state", async () => {
  await page.goto(`${server.url}/workflows`);
  await page.getByText("3 workflows").waitFor();
  await page.getByLabel("Search names and descriptions").fill("parcel");
  await page.getByRole("link", { name: /examples\/order-fulfilment/ }).waitFor({ state: "detached" });
  assert.equal(await page.getByRole("link", { name: /orders\/deliver/ }).count(), 1);
  await page.getByLabel("State").selectOption("draft");
  await page.getByText("Nothing matches these filters").waitFor();
  assert.equal(new URL(page.url()).search, "?text=parcel&status=draft");
});

test("the graph has every step, and the keyboard moves along its edges", async () => {
  await page.goto(`${server.url}/workflows/orders%2Fdeliver`);
  await step("load").focus();
  for (const name of ["pack", "paid", "route"]) {
    await page.keyboard.press("ArrowDown");
    await page.getByRole("heading", { name, exact: true, level: 2 }).waitFor();
  }
  assert.equal(new URL(page.url()).searchParams.get("step"), "route");
  assert.equal(await step("route").getAttribute("aria-pressed"), "true");
  await page.reload();
  await page.getByRole("heading", { name: "route", level: 2 }).waitFor();
  const scale = page.getByRole("group", { name: "Zoom" }).getByText("%");
  const before = await scale.textContent();
  await step("route").focus();
  await page.keyboard.press("-");
  assert.notEqual(await scale.textContent(), before);
});

test("steps stand where the layout of the definition has them", async () => {
  await page.goto(`${server.url}/workflows/examples%2Forder-fulfilment`);
  const [load, validate] = await Promise.all([step("load").boundingBox(), step("validate_orders").boundingBox()]);
  const scale = load.width / 188;
  assert.deepEqual([Math.round((validate.x - load.x) / scale), Math.round((validate.y - load.y) / scale)], [200, 0]);
});

test("a step links to the tool behind its step registration, and a condition shows its expression", async () => {
  await page.goto(`${server.url}/workflows/examples%2Forder-fulfilment?step=evaluate_exception`);
  await page.getByText("${validate.errors.length > 0}").waitFor();
  await page.getByRole("link", { name: "examples/exception-handling-agent" }).waitFor();
  await step("validate_orders").click();
  await page.getByRole("link", { name: "warehouse/validate" }).click();
  await page.getByRole("heading", { name: "warehouse/validate", level: 1 }).waitFor();
});

test("a mistake is shown at its line, and cannot be saved", async () => {
  await page.goto(`${server.url}/workflows/orders%2Fdeliver?tab=source`);
  const editor = page.getByLabel("Definition as YAML");
  const text = await editor.inputValue();
  await editor.fill(text.replace("  - load\n", "  - lode\n"));
  const problems = page.getByRole("list", { name: "Problems" });
  await problems
    .getByText("did you mean `load`", { exact: false })
    .or(problems.getByText(/did you mean/))
    .first()
    .waitFor();
  const line = text.split("\n").indexOf("  - load") + 1;
  await problems
    .getByRole("button", { name: `Line ${line}` })
    .first()
    .click();
  const selected = await editor.evaluate((field) => field.value.slice(field.selectionStart, field.selectionEnd));
  assert.equal(selected, "  - lode");
  assert.equal(await page.getByRole("button", { name: "Review and save…" }).isDisabled(), true);
  await editor.fill("steps: [");
  await problems.getByText("invalid-yaml").waitFor();
});

test("a change is reviewed as a difference of steps and edges, and saved as a new version", async () => {
  await page.goto(`${server.url}/workflows/orders%2Flook-up?tab=source`);
  const editor = page.getByLabel("Definition as YAML");
  const text = await editor.inputValue();
  await editor.fill(text.replace("- name: count\n", "- name: report\n  handlerRef: echo\n  dependsOn: [read]\n- name: count\n"));
  await page.getByRole("button", { name: "Review and save…" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText("added", { exact: true }).first().waitFor();
  await dialog.getByText("/version").waitFor();
  assert.equal(await dialog.getByRole("listitem").filter({ hasText: "report" }).count(), 2);
  await dialog.getByRole("button", { name: "Save version 1.1.0" }).click();
  await step("report").waitFor();
  const { items } = await server.request("GET", "/api/v1/ai/workflows/orders%2Flook-up/versions");
  assert.deepEqual(
    items.map((one) => [one.version, one.steps.length]),
    [
      ["1.1.0", 3],
      ["1.0.0", 2],
    ],
  );
  await page.getByRole("tab", { name: "Versions" }).click();
  await page.getByRole("link", { name: /1\.0\.0/ }).click();
  await step("read").waitFor();
  assert.equal(await step("report").count(), 0);
});

test("a save after another change is refused", async () => {
  await page.goto(`${server.url}/workflows/orders%2Flook-up?tab=source`);
  const editor = page.getByLabel("Definition as YAML");
  await page.route(/\/api\/v1\/ai\/events/, (route) => route.abort());
  await page.reload();
  const text = await editor.inputValue();
  await server.request("PATCH", "/api/v1/ai/workflows/orders%2Flook-up", { description: "Changed by somebody else." });
  await editor.fill(`${text}# a comment\n`);
  await page.getByRole("button", { name: "Review and save…" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Save version" }).click();
  await page.getByRole("dialog").getByRole("alert").waitFor();
  await page.unroute(/\/api\/v1\/ai\/events/);
});

test("a workflow is written, created, run with a form, and continued with a signal", async () => {
  await page.goto(`${server.url}/new-workflow`);
  await page.getByRole("button", { name: "Create" }).click();
  await page.getByRole("heading", { name: "example/greet", level: 1 }).waitFor();
  await page.getByRole("link", { name: "Run", exact: true }).click();
  await page.getByRole("textbox", { name: "name" }).fill("Ada");
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await page.getByText("It waits for the signal").waitFor();
  await page.getByRole("button", { name: "Send it…" }).click();
  const dialog = page.getByRole("dialog");
  assert.equal(await dialog.getByLabel("Name").inputValue(), "answer");
  await dialog.getByLabel("Data").fill('{"text": "Hello back"}');
  await dialog.getByRole("button", { name: "Send", exact: true }).click();
  await status("Completed").waitFor();
  await page.getByRole("tab", { name: "Input and output" }).click();
  await page.getByLabel("output of the instance", { exact: true }).getByText("Hello Ada").waitFor();
});

test("an input that does not match the schema is refused with its fields", async () => {
  await page.goto(`${server.url}/workflows/orders%2Fdeliver?tab=run`);
  await page.getByRole("button", { name: "JSON" }).click();
  await page.getByLabel("Input as JSON").fill('{"orderId": 3}');
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await page.getByRole("alert").getByText("/input/orderId").waitFor();
});

test("instances are filtered by status and workflow, also by those that wait or are paused", async () => {
  await page.goto(`${server.url}/instances`);
  const rows = page.getByRole("region", { name: "Instances" }).getByRole("listitem");
  await page.getByLabel("Status").selectOption({ label: "Paused" });
  await rows.first().getByText("Paused").waitFor();
  assert.equal(await rows.count(), 1);
  await page.getByLabel("Status").selectOption({ label: "Waiting" });
  await rows.first().getByText("Waiting").waitFor();
  await page.getByLabel("Workflow").selectOption("examples/order-fulfilment");
  await page.getByText("Nothing matches these filters").waitFor();
  assert.equal(new URL(page.url()).search, "?workflowRef=examples%2Forder-fulfilment&status=WAITING");
});

test("the inbox names an approval of a workflow by its message, and leads to the instance", async () => {
  await page.goto(`${server.url}/inbox?call=${instances.approval.approvals[0].callId}`);
  const detail = page.getByRole("article");
  await detail.getByRole("heading", { name: "Ship orders of 155700 cents?" }).waitFor();
  await detail.getByText("A step of the workflow examples/order-fulfilment asks for a decision.").waitFor();
  assert.equal(await detail.getByRole("button", { name: "Always allow calls like this" }).isDisabled(), true);
  await detail.getByRole("link", { name: "Open the workflow instance" }).click();
  await step("approve_large").waitFor();
});

test("an approval is decided in the instance, and the graph follows live", async () => {
  await page.goto(`${server.url}/instances/${instances.approval.runId}`);
  await step("approve_large").getByText("Waiting").waitFor({ state: "attached" });
  await inspector().getByText("Ship orders of 155700 cents?").waitFor();
  await inspector().getByRole("button", { name: "Approve" }).click();
  await step("ship").getByText("Completed").waitFor({ state: "attached" });
  await status("Completed").waitFor();
  await step("ship").click();
  const items = inspector().getByRole("list", { name: "Items" });
  assert.equal(await items.getByRole("listitem").count(), 3);
  await items.getByText("2 attempts").click();
  const attempts = inspector().locator("details", { hasText: "warehouse/ship" });
  await attempts.first().getByText("503 Service Unavailable").waitFor();
  await attempts.nth(1).getByText("succeeded").waitFor();
  await attempts.first().click();
  await inspector().getByLabel("envelope", { exact: true }).getByText("the packing line is busy").waitFor();
  await inspector()
    .getByRole("link", { name: /Entry \d+ in the run microscope/ })
    .click();
  await page.getByRole("listbox", { name: "Journal of the run" }).waitFor();
  await page.getByRole("link", { name: "Graph" }).click();
  await step("ship").waitFor();
});

test("a signal from elsewhere appears without a reload", async () => {
  const run = await deliver("ord-1001", 5000);
  await page.goto(`${server.url}/instances/${run.runId}`);
  await step("paid").getByText("Waiting").waitFor({ state: "attached" });
  await server.request("POST", `/api/v1/ai/workflow-instances/${run.runId}/signals/payment`, { amount: 5000 });
  await step("insure").getByText("Completed").waitFor({ state: "attached" });
  await step("send").getByText("Skipped").waitFor({ state: "attached" });
  await status("Completed").waitFor();
});

test("an instance is paused, resumed and cancelled", async () => {
  const run = await deliver("ord-1001");
  await page.goto(`${server.url}/instances/${run.runId}`);
  await page.getByRole("button", { name: "Pause" }).click();
  await status("Paused").waitFor();
  await page.getByText("No step starts until the instance is resumed.").waitFor();
  await page.getByRole("button", { name: "Resume" }).click();
  await status("Waiting").waitFor();
  await page.getByRole("button", { name: "Cancel", exact: true }).click();
  await status("Cancelled").waitFor();
  assert.equal((await instance(run)).status, "CANCELLED");
});

test("a failed item shows its error and its code, and the failed items run again", async () => {
  await page.goto(`${server.url}/instances/${instances.failed.runId}`);
  await page.getByRole("alert").getByText("1 of 3 items failed").waitFor();
  await inspector().getByRole("list", { name: "Items" }).getByText("PROVIDER_ERROR").click();
  await inspector()
    .getByRole("heading", { name: /Item 1/ })
    .waitFor();
  await inspector().getByLabel("input", { exact: true }).getByText('"ord-9999"').waitFor();
  assert.equal(new URL(page.url()).searchParams.get("item"), "1");
  await page.getByRole("button", { name: "Run again…" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Run again" }).click();
  await page.waitForURL((url) => url.pathname.startsWith("/instances/") && !url.pathname.endsWith(instances.failed.runId));
  await page.getByRole("link", { name: /Runs run_….* again/ }).waitFor();
  await page.getByRole("alert").getByText("1 of 3 items failed").waitFor();
  const { steps } = await server.request("GET", `/api/v1/ai/workflow-instances/${new URL(page.url()).pathname.split("/").at(-1)}`);
  assert.deepEqual(
    steps.read.items.map((item) => item.attempts),
    [0, 1, 0],
  );
});

test("one step of an ended instance runs again alone", async () => {
  await page.goto(`${server.url}/instances/${instances.completed.runId}?step=validate_orders`);
  await page.getByRole("button", { name: "Run again…" }).click();
  const dialog = page.getByRole("dialog");
  assert.equal(
    await dialog
      .getByRole("radio", { name: /What failed or did not run/ })
      .first()
      .isDisabled(),
    true,
  );
  await dialog.getByRole("radio", { name: /One step only/ }).check();
  assert.equal(await dialog.getByLabel("Step", { exact: true }).inputValue(), "validate_orders");
  await dialog.getByRole("button", { name: "Run again" }).click();
  await page.waitForURL((url) => url.pathname.startsWith("/instances/") && !url.pathname.endsWith(instances.completed.runId));
  await status("Completed").waitFor();
  await step("ship").click();
  await inspector().getByText("result of the earlier instance").waitFor();
});

test("an instance that does not exist says so", async () => {
  await page.goto(`${server.url}/instances/run_01AAAAAAAAAAAAAAAAAAAAAAAA`);
  await page.getByRole("alert").getByText("Not found").waitFor();
});

test("an instance is read and continued on a phone", async () => {
  const run = await deliver("ord-1002");
  const phone = await openBrowser({ viewport: PHONE });
  try {
    const small = await logIn(phone.context, server.url);
    await small.goto(`${server.url}/instances/${run.runId}`);
    await small.getByRole("button", { name: "List" }).click();
    await small.getByRole("button", { name: /^Waiting paid/ }).click();
    await small.getByRole("button", { name: "Send it…" }).click();
    await small.getByRole("dialog").getByRole("button", { name: "Send", exact: true }).click();
    await status("Completed", small).waitFor();
  } finally {
    await phone.close();
  }
});
