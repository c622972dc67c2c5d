// Creates agents and real runs on a server with the demo: answered, waiting, failed, denied, with child runs and writes.

const api = "/api/v1/ai";

function scripted(model, rules) {
  return { provider: "scripted", model, extraParams: { script: { rules } } };
}

const TOOLS = [
  {
    refName: "editor/open-file",
    description: "Open a text file on the user's machine and return its text.",
    toolType: "FUNCTION",
    category: "editor",
    isToolFullyExecutedOnServer: false,
    inputSchema: { path: { type: "string", required: true, description: "The path of the file." } },
    invocation: { bodyTemplate: { open: "${param.path}" } },
    outputJsonSchema: { type: "object", required: ["text"], properties: { text: { type: "string" } } },
  },
  {
    refName: "orders/undo-create",
    description: "Cancels an order that a call has created.",
    toolType: "EXTERNAL_REST",
    category: "undo",
    providerRef: "orders-api",
    sideEffects: "writes",
    idempotent: true,
    inputJsonSchema: { type: "object" },
    invocation: { method: "POST", path: "/orders/${input.output.id}/cancel", bodyTemplate: {} },
  },
  {
    refName: "orders/create-fast",
    description: "Creates an order, but gives up after a millisecond. Its outcome is then unknown.",
    toolType: "EXTERNAL_REST",
    category: "orders.test",
    providerRef: "orders-api",
    sideEffects: "writes",
    timeoutMs: 1,
    inputJsonSchema: { type: "object" },
    invocation: { method: "POST", path: "/orders" },
  },
  ...["revenue", "churn"].map((name) => ({
    refName: `forecast/${name}`,
    description: `Computes a forecast of the ${name}.`,
    toolType: "FUNCTION",
    category: "forecast",
    sideEffects: "none",
    inputJsonSchema: { type: "object", properties: { months: { type: "integer", description: "How many months." } }, required: ["months"] },
    invocation: {
      path: "python",
      code: `total = sum(i % 7 for i in range(months * ${name === "churn" ? 14000 : 24000}))\n{"months": months, "${name}": total}`,
    },
  })),
];

const AGENTS = [
  {
    refName: "analyst",
    displayName: "Revenue analyst",
    description: "Computes forecasts, then records them as a deal after an approval.",
    systemPrompt: "You are a careful analyst.\nCompute the forecasts first. Create a deal only with figures that you have computed.",
    toolRefs: ["forecast/revenue", "forecast/churn", "hubspot/search-deals", "hubspot/create-deal"],
    requiresApproval: true,
    policy: { maxToolCalls: 12, maxCostUsd: 0.5 },
    llmConfig: scripted("analyst", [
      {
        when: { turn: 0 },
        reply: {
          text: "I compute both forecasts and look for open deals.",
          toolCalls: [
            { name: "forecast/revenue", arguments: { months: 12 } },
            { name: "forecast/churn", arguments: { months: 12 } },
            { name: "hubspot/search-deals", arguments: { filters: [{ propertyName: "dealstage", operator: "EQ", value: "negotiation" }], limit: 3 } },
          ],
        },
      },
      {
        when: { afterTool: "hubspot/search-deals" },
        reply: {
          text: "The figures are plausible. I record them as a deal.",
          toolCalls: [
            { name: "hubspot/create-deal", arguments: { properties: { dealname: "Forecast 2027", company: "Acme Corp", amount: 128000 } } },
          ],
        },
      },
      { when: { afterTool: "hubspot/create-deal", failed: true }, reply: { text: "I did not record the forecast: {{result/error/message}}" } },
      { when: { afterTool: "hubspot/create-deal" }, reply: { text: "I recorded the forecast as deal {{result/id}}." } },
    ]),
  },
  {
    refName: "cancel-clerk",
    displayName: "Cancellation clerk",
    description: "Cancels orders after a person has approved it.",
    systemPrompt: "You cancel orders. The user's message is the id of the order.",
    toolRefs: ["orders/cancel", "orders/get"],
    requiresApproval: true,
    policy: { maxToolCalls: 5 },
    llmConfig: scripted("cancel-clerk", [
      {
        when: { turn: 0 },
        reply: { text: "I am about to cancel order {{user}}.", toolCalls: [{ name: "orders/cancel", arguments: { orderId: "{{user}}" } }] },
      },
      { when: { afterTool: "orders/cancel", failed: true }, reply: { text: "The order stays as it is. The tool says: {{result/error/message}}" } },
      { when: { afterTool: "orders/cancel" }, reply: { text: "Order {{result/id}} is {{result/status}}." } },
    ]),
  },
  {
    refName: "order-specialist",
    displayName: "Order specialist",
    description: "Knows orders. Give it an order id as the task.",
    systemPrompt: "You look up orders.",
    toolRefs: ["orders/get"],
    policy: { sideEffects: "reads" },
    llmConfig: scripted("order-specialist", [
      { when: { turn: 0 }, reply: { toolCalls: [{ name: "orders/get", arguments: { orderId: "{{user}}" } }] } },
      { when: { afterTool: "orders/get" }, reply: { text: "{{result/id}} belongs to {{result/customerId}} and is {{result/status}}" } },
    ]),
  },
  {
    refName: "front-desk",
    displayName: "Front desk",
    description: "Answers customers, with the help of a specialist.",
    systemPrompt: "You answer customers. Ask the specialist about orders.",
    delegateAgentRefs: ["order-specialist"],
    policy: { maxToolCalls: 5 },
    llmConfig: scripted("front-desk", [
      { when: { turn: 0 }, reply: { text: "I ask the specialist.", toolCalls: [{ name: "order-specialist", arguments: { task: "{{user}}" } }] } },
      { when: { afterTool: "order-specialist" }, reply: { text: "The specialist says: {{result/responseText}}." } },
    ]),
  },
  {
    refName: "reader",
    displayName: "File reader",
    description: "Answers from files on the user's machine.",
    systemPrompt: "Read the file that the user names, then answer.",
    toolRefs: ["editor/open-file"],
    llmConfig: scripted("reader", [
      { when: { turn: 0 }, reply: { text: "I need that file.", toolCalls: [{ name: "editor/open-file", arguments: { path: "{{user}}" } }] } },
      { when: { afterTool: "editor/open-file" }, reply: { text: "The file says: {{result/text}}" } },
    ]),
  },
  {
    refName: "deal-mover",
    displayName: "Deal mover",
    description: "Moves deals between stages. Works without approval.",
    systemPrompt: "You move deals. The user names the id of the deal.",
    toolRefs: ["hubspot/get-deal", "hubspot/update-deal", "hubspot/send-email"],
    policy: { maxToolCalls: 10, maxTokens: 50000 },
    llmConfig: scripted("deal-mover", [
      {
        when: { turn: 0 },
        reply: { text: "Let me look at the deal.", toolCalls: [{ name: "hubspot/get-deal", arguments: { dealId: "{{user}}" } }] },
      },
      {
        when: { afterTool: "hubspot/get-deal" },
        reply: {
          text: "I move it to negotiation.",
          toolCalls: [{ name: "hubspot/update-deal", arguments: { dealId: "{{result/id}}", properties: { dealstage: "negotiation" } } }],
        },
      },
      { when: { afterTool: "hubspot/update-deal" }, reply: { text: "The deal {{result/id}} is in negotiation now." } },
    ]),
  },
  {
    refName: "bill-reader",
    displayName: "Bill reader",
    description: "Needs a model that is not configured, so its runs fail.",
    systemPrompt: "You read bills.",
    llmConfig: scripted("bill-reader", [{ when: { user: "never" }, reply: { text: "never" } }]),
  },
];

export async function seed(server) {
  for (const tool of TOOLS) await server.request("POST", `${api}/tools`, tool);
  for (const agent of AGENTS) await server.request("POST", `${api}/agents`, agent);
  const ask = (agent, userMessage, more = {}) =>
    server.request("POST", `${api}/agents/${encodeURIComponent(agent)}/execute`, { userMessage, ...more });
  const call = (tool, input) => server.request("POST", `${api}/tools/${encodeURIComponent(tool)}/execute`, { input });
  const decide = (run, decision) => server.request("POST", `${api}/runs/${run.runId}/approvals/${run.approvals[0].callId}`, decision);
  const order = async () =>
    (await call("orders/create", { customerId: "cus-1", items: [{ sku: "KB-200", quantity: 1, unitPriceCents: 8900 }] })).output.id;

  await server.request("PATCH", `${api}/tools/${encodeURIComponent("orders/create")}`, { compensateToolRef: "orders/undo-create" });

  const runs = {};
  await ask("assistant", "Which deals are in negotiation?");
  await ask("assistant", "What about my orders?");
  runs.delegated = await ask("front-desk", "ord-1001");
  runs.moved = await ask("deal-mover", "101");
  runs.failed = await ask("bill-reader", "Read the bill of October.");
  runs.missing = await ask("deal-mover", "999999");
  await decide(await ask("cancel-clerk", await order()), { decision: "approve", reason: "The customer asked for it." });
  await decide(await ask("cancel-clerk", await order()), { decision: "deny", reason: "The parcel has left." });
  await ask("assistant", "How many open orders above 500 for Acme?");
  runs.cancel = await ask("cancel-clerk", "ord-1002");
  runs.create = await ask("assistant", "Please create a deal.");
  await call("orders/create-fast", { customerId: "cus-1", items: [{ sku: "KB-200", quantity: 1, unitPriceCents: 8900 }] });
  runs.analysis = await ask("analyst", "Forecast the revenue of next year and record it.");
  runs.client = await ask("reader", "notes/today.md");
  return runs;
}
