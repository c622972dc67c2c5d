// Every screen with the data of `seed` and `seedWorkflows`: its name, its path, and a text that shows that it is complete. `act` does
// something on it first.

export function screens(runs, instances) {
  const call = (run) => run.approvals[0].callId;
  return [
    { name: "home", path: "/", ready: "Completed last" },
    { name: "inbox", path: `/inbox?call=${call(runs.create)}`, ready: "What led to it" },
    { name: "inbox-client", path: `/inbox?tab=client&call=${runs.client.clientActions[0].callId}`, ready: "What to do" },
    { name: "inbox-decided", path: "/inbox?tab=decided", ready: "orders/cancel" },
    { name: "runs", path: "/runs", ready: "Read the bill of October." },
    { name: "run", path: `/runs/${runs.analysis.runId}?at=5`, ready: "The whole entry as JSON" },
    { name: "run-state", path: `/runs/${runs.analysis.runId}?at=6&tab=state`, ready: "What the model sees" },
    { name: "run-failed", path: `/runs/${runs.failed.runId}`, ready: "The whole entry as JSON" },
    { name: "run-result", path: `/runs/${runs.moved.runId}?tab=result`, ready: "Tool calls" },
    { name: "compare", path: `/runs/${runs.moved.runId}/compare/${runs.missing.runId}`, ready: "First divergence" },
    { name: "effects", path: "/effects", ready: "orders/create-fast" },
    { name: "tools", path: "/tools", ready: "count_customers" },
    { name: "tool", path: "/tools/hubspot%2Fsearch-deals", ready: "Runs that called it" },
    { name: "tool-try", path: "/tools/hubspot%2Fupdate-deal?tab=try", ready: "Not called yet" },
    { name: "tool-schema", path: "/tools/hubspot%2Fupdate-deal?tab=schema", ready: "dealstage" },
    { name: "tool-versions", path: "/tools/orders%2Fcreate?tab=versions", ready: "compensateToolRef" },
    { name: "tool-uses", path: "/tools/hubspot%2Fget-deal?tab=uses", ready: "deal-mover" },
    { name: "tool-export", path: "/tools/hubspot%2Fget-deal?tab=export", ready: "function" },
    { name: "tool-source", path: "/tools/hubspot%2Fget-deal?tab=source", ready: "Save" },
    { name: "new-tool", path: "/new-tool", ready: "Document" },
    { name: "integrations", path: "/integrations", ready: "hubspot" },
    { name: "integration", path: "/integrations/hubspot", ready: "Qualified To Buy" },
    { name: "agents", path: "/agents", ready: "Revenue analyst" },
    { name: "new-agent", path: "/new-agent", ready: "count_customers" },
    { name: "agent", path: "/agents/analyst", ready: "Recent runs" },
    { name: "agent-settings", path: "/agents/analyst?tab=settings", ready: "count_customers" },
    { name: "agent-tools", path: "/agents/analyst?tab=tools", ready: "forecast/churn" },
    { name: "agent-limits", path: "/agents/analyst?tab=limits", ready: "Assumptions" },
    { name: "agent-source", path: "/agents/analyst?tab=source", ready: "Apply" },
    {
      name: "playground",
      path: `/agents/analyst/playground?conversation=${runs.analysis.conversationId}&run=${runs.analysis.runId}`,
      ready: "Details in the inbox",
    },
    { name: "reach", path: "/reach", ready: "deal-mover" },
    { name: "reach-node", path: "/reach?node=provider%3Aorders-api", ready: "Clear the selection" },
    { name: "workflows", path: "/workflows", ready: "examples/order-fulfilment" },
    { name: "workflow", path: "/workflows/orders%2Fdeliver", ready: "The check finds" },
    { name: "workflow-step", path: "/workflows/examples%2Forder-fulfilment?step=ship", ready: "Input in the definition" },
    { name: "workflow-run", path: "/workflows/orders%2Fdeliver?tab=run", ready: "Recent instances" },
    { name: "workflow-versions", path: "/workflows/orders%2Fdeliver?tab=versions", ready: "Edges" },
    { name: "workflow-source", path: "/workflows/orders%2Fdeliver?tab=source", ready: "The check finds" },
    { name: "workflow-problem", path: "/workflows/orders%2Fdeliver?tab=source", act: writeMistake, ready: "unknown_step" },
    { name: "new-workflow", path: "/new-workflow", ready: "steps:" },
    { name: "instances", path: "/instances", ready: "orders/look-up" },
    { name: "instance", path: `/instances/${instances.approval.runId}`, ready: "A person must decide" },
    { name: "instance-waiting", path: `/instances/${instances.delivery.runId}`, ready: "Waits for signal" },
    { name: "instance-paused", path: `/instances/${instances.paused.runId}?tab=result`, ready: "No step starts" },
    { name: "instance-failed", path: `/instances/${instances.failed.runId}?step=read&item=1`, ready: "Item 1" },
    { name: "instance-items", path: `/instances/${instances.completed.runId}?step=ship`, ready: "Items" },
  ];
}

/** Writes the name of a step wrong. */
async function writeMistake(page) {
  const editor = page.getByLabel("Definition as YAML");
  const text = await editor.inputValue();
  await editor.fill(text.replace("  - load\n", "  - lode\n"));
  await page
    .getByRole("button", { name: /^Line \d+$/ })
    .first()
    .click();
}

/** Opens a screen and waits until it is complete. */
export async function openScreen(page, url, screen) {
  await page.goto(url + screen.path);
  await screen.act?.(page);
  await page.getByText(screen.ready).first().waitFor({ state: "attached" });
  await page.waitForLoadState("load");
  await page.evaluate(() => document.fonts.ready);
}
