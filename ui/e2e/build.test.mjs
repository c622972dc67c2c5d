// Tools, integrations, agents and the playground.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
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

const OPENAPI = {
  openapi: "3.1.0",
  info: { title: "Tickets", version: "1.0.0" },
  servers: [{ url: "https://tickets.example.com" }],
  paths: {
    "/tickets": { get: { operationId: "list", responses: { 200: { description: "The tickets." } } } },
    "/tickets/{id}/close": {
      post: {
        operationId: "close",
        parameters: [{ name: "id", in: "path", required: true, schema: { type: "integer" } }],
        responses: { 200: { description: "The ticket." } },
      },
    },
  },
};

test("tools are found by text and category", async () => {
  await page.goto(`${server.url}/tools`);
  await page.getByLabel("Search names and descriptions").fill("cancel");
  await page.getByRole("link", { name: /orders\/cancel/ }).waitFor();
  await page.getByRole("link", { name: /count_customers/ }).waitFor({ state: "detached" });
  assert.equal(new URL(page.url()).searchParams.get("text"), "cancel");
});

test("form and JSON edit one value, and a read is called", async () => {
  await page.goto(`${server.url}/tools/hubspot%2Fget-deal?tab=try`);
  await page.getByRole("textbox", { name: "dealId" }).fill("102");
  await page.getByRole("button", { name: "JSON" }).click();
  const json = page.getByLabel("Input as JSON");
  assert.deepEqual(JSON.parse(await json.inputValue()), { dealId: "102" });
  await json.fill('{"dealId": "101"}');
  await page.getByRole("button", { name: "Form" }).click();
  assert.equal(await page.getByRole("textbox", { name: "dealId" }).inputValue(), "101");
  await page.getByRole("button", { name: "Call" }).click();
  await page.getByLabel("output", { exact: true }).getByText("Acme Corp - Platform License").waitFor();
});

test("a write must be confirmed before it is called", async () => {
  await page.goto(`${server.url}/tools/orders%2Fcancel?tab=try`);
  const call = page.getByRole("button", { name: "Call", exact: true });
  assert.equal(await call.isDisabled(), true);
  await page.getByRole("checkbox", { name: /really changes/ }).check();
  assert.equal(await call.isEnabled(), true);
});

test("a changed definition is a revision with a difference", async () => {
  await page.goto(`${server.url}/tools/hubspot%2Fdeal-stages?tab=source`);
  const editor = page.getByLabel("Definition as JSON");
  const definition = JSON.parse(await editor.inputValue());
  await editor.fill(JSON.stringify({ ...definition, description: "Lists the stages." }));
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByText("Lists the stages.", { exact: true }).first().waitFor();
  await page.getByRole("tab", { name: "Versions" }).click();
  await page.getByText("+ Lists the stages.").waitFor();
});

test("an invalid definition is refused with the field and the reason", async () => {
  await page.goto(`${server.url}/new-tool`);
  await page.getByRole("button", { name: "HTTP request" }).click();
  await page.getByLabel("Definition as JSON").fill('{"refName": "bad name!", "toolType": "FUNCTION"}');
  await page.getByRole("button", { name: "Create and try it" }).click();
  await page
    .getByRole("alert")
    .getByText(/refName/)
    .first()
    .waitFor();
});

test("a Python function is created and tried", async () => {
  await page.goto(`${server.url}/new-tool`);
  await page.getByRole("button", { name: "Python function" }).click();
  await page.getByRole("button", { name: "Create and try it" }).click();
  await page.getByRole("heading", { name: "example/total" }).waitFor();
  await page.getByRole("textbox", { name: "amounts" }).fill("[1, 2, 39]");
  await page.getByRole("button", { name: "Call", exact: true }).click();
  await page.getByLabel("output", { exact: true }).getByText("42").waitFor();
});

test("only the selected operations of an OpenAPI document are imported", async () => {
  await page.goto(`${server.url}/new-tool`);
  await page.getByLabel("Or the document itself").fill(JSON.stringify(OPENAPI));
  await page.getByRole("button", { name: "Preview" }).click();
  await page.getByRole("checkbox", { name: /close$/ }).uncheck();
  await page.getByRole("button", { name: "Import 1 tool" }).click();
  await page.getByRole("heading", { name: "Tools", level: 1 }).waitFor();
  const { items } = await server.request("GET", "/api/v1/ai-tools?text=tickets&limit=100");
  assert.deepEqual(
    items.map((tool) => tool.slug).filter((slug) => slug.startsWith("tickets")),
    ["tickets/list"],
  );
});

test("the tools of an MCP server are listed, then imported", async () => {
  const program = fileURLToPath(new URL("../../examples/mcp-import/server.py", import.meta.url));
  await page.goto(`${server.url}/new-tool`);
  await page.getByRole("button", { name: "Import MCP" }).click();
  await page.getByRole("button", { name: "Command" }).click();
  await page.getByRole("textbox", { name: "Command" }).fill(`python3 ${program}`);
  await page.getByRole("textbox", { name: "Prefix of the tools" }).fill("peer");
  await page.getByRole("button", { name: "Preview" }).click();
  await page.getByRole("button", { name: /^Import \d+ tools?$/ }).click();
  await page
    .getByRole("heading", { name: "Readiness" })
    .or(page.getByRole("heading", { name: /eady$/ }))
    .first()
    .waitFor();
  const { items } = await server.request("GET", "/api/v1/ai-tools?text=peer&limit=100");
  assert.ok(items.some((tool) => tool.toolType === "EXTERNAL_MCP"));
});

test("an integration is tested and its reference data is synced", async () => {
  await page.goto(`${server.url}/integrations/hubspot`);
  await page.getByRole("button", { name: "Test the connection" }).click();
  await page.getByText(/Answered in/).waitFor();
  await page.getByRole("button", { name: "Sync" }).click();
  await page.getByText("Qualified To Buy").waitFor();
});

test("an agent is made and answers in the playground", async () => {
  await page.goto(`${server.url}/new-agent`);
  await page.getByRole("textbox", { name: "Name", exact: true }).fill("Deal helper");
  await page.getByLabel("System prompt").fill("You know the deals.");
  await page.getByLabel("Find tools").fill("deal");
  await page.getByRole("checkbox", { name: /^hubspot\/search-deals/ }).check();
  await page.getByRole("checkbox", { name: /^hubspot\/deal-stages/ }).check();
  await page.getByRole("button", { name: "Create and talk to it" }).click();
  await page.getByText("Talk to Deal helper").waitFor();
  await page.getByLabel("Message", { exact: true }).fill("Which deals are in negotiation?");
  await page.keyboard.press("Enter");
  await page.getByText(/deals are in negotiation; the largest is/).waitFor();
  await page.getByRole("log").getByText("hubspot/deal-stages").waitFor();
  const agent = await server.request("GET", "/api/v1/ai/agents/deal-helper");
  assert.deepEqual([agent.toolRefs, agent.requiresApproval], [["hubspot/search-deals", "hubspot/deal-stages"], true]);
});

test("a setting of an agent is saved", async () => {
  await page.goto(`${server.url}/agents/deal-mover?tab=settings`);
  await page.getByLabel("Tool calls").fill("7");
  const saved = page.waitForResponse((response) => response.request().method() === "PATCH");
  await page.getByRole("button", { name: "Save" }).click();
  assert.equal((await saved).status(), 200);
  const { policy } = await server.request("GET", "/api/v1/ai/agents/deal-mover");
  assert.deepEqual([policy.maxToolCalls, policy.maxTokens], [7, 50000]);
});

test("the gram source shows an error while it is typed", async () => {
  await page.goto(`${server.url}/agents/deal-mover?tab=source`);
  const editor = page.getByLabel("The agent in gram notation");
  const text = await editor.inputValue();
  await editor.fill(text.slice(0, -3));
  await page.getByRole("alert").waitFor();
  await page.getByRole("button", { name: "Discard the changes" }).click();
  assert.equal(await editor.inputValue(), text);
});

test("an approval is decided in the chat, also after a reload", async () => {
  await page.goto(`${server.url}/agents/assistant/playground`);
  await page.getByLabel("Message", { exact: true }).fill("Please create a deal.");
  await page.keyboard.press("Enter");
  await page.getByRole("button", { name: "Approve" }).waitFor();
  await page.waitForURL(/run=run_.*/);
  await page.reload();
  await page.getByText("Please create a deal.", { exact: true }).last().waitFor();
  await page.getByRole("button", { name: "Approve" }).click();
  await page.getByText(/^Done: deal/).waitFor();
});

test("a client tool is answered in the chat", async () => {
  await page.goto(`${server.url}/agents/reader/playground`);
  await page.getByLabel("Message", { exact: true }).fill("notes.md");
  await page.keyboard.press("Enter");
  await page.getByLabel("Output as JSON").fill('{"text": "buy milk"}');
  await page.getByRole("button", { name: "Return the result" }).click();
  await page.getByText("The file says: buy milk").waitFor();
});

test("a run is stopped from the chat", async () => {
  await page.goto(`${server.url}/agents/assistant/playground`);
  await page.getByLabel("Message", { exact: true }).fill("Please create a deal.");
  await page.keyboard.press("Enter");
  await page.getByRole("button", { name: "Approve" }).waitFor();
  await page.getByRole("button", { name: "Stop" }).click();
  await page.getByRole("log").getByText("Cancelled", { exact: true }).waitFor();
});
