// The client against a real server.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { after, before, test } from "node:test";
import { approve, Client, ClientToolError, deny, edit, outputOf, ToolwrightError } from "toolwright-client";
import { KEY, startServer, type Server } from "./server.js";

let server: Server;
let client: Client;

before(async () => {
  server = await startServer();
  client = new Client({ url: server.url, apiKey: KEY });
});

after(() => server.stop());

async function rejected(promise: Promise<unknown>): Promise<ToolwrightError> {
  const error: unknown = await promise.then(
    () => assert.fail("the promise must be rejected"),
    (reason: unknown) => reason,
  );
  assert(error instanceof ToolwrightError, String(error));
  return error;
}

async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const item of items) found.push(item);
  return found;
}

test("a tool call returns the envelope", async () => {
  const envelope = await client.tools.call("hubspot/get-deal", { dealId: "101" });
  assert.equal(envelope.name, "hubspot/get-deal");
  assert.equal((outputOf(envelope) as { id: string }).id, "101");
});

test("a failed call returns an envelope, and outputOf throws", async () => {
  const envelope = await client.tools.call("hubspot/get-deal", { deal: "101" });
  const error = await rejected(Promise.resolve().then(() => outputOf(envelope)));
  assert.deepEqual([error.code, error.reason], ["VALIDATION_ERROR", "input_schema"]);
  assert(error.errors.length > 0);
  assert.match(error.remedy, /^change the input/);
});

test("a rejected request throws code, detail and remedy", async () => {
  const error = await rejected(client.tools.call("no-such-tool"));
  assert.deepEqual([error.code, error.status], ["not-found", 404]);
  assert.match(error.detail, /no-such-tool/);
  assert.match(error.remedy, /\/errors\/not-found$/);
});

test("a wrong key is rejected", async () => {
  const stranger = new Client({ url: server.url, apiKey: "not-a-valid-key-0000" });
  assert.equal((await rejected(stranger.request("GET", "/api/v1/ai/whoami"))).code, "unauthenticated");
});

test("a missing key is an error of the client", () => {
  delete process.env["TOOLWRIGHT_API_KEY"];
  assert.throws(() => new Client(), { code: "no-api-key" });
});

test("settings come from the environment", async () => {
  process.env["TOOLWRIGHT_URL"] = server.url;
  process.env["TOOLWRIGHT_API_KEY"] = KEY;
  try {
    assert.equal((await new Client().request("GET", "/api/v1/ai/whoami")).principal, "admin");
  } finally {
    delete process.env["TOOLWRIGHT_URL"];
    delete process.env["TOOLWRIGHT_API_KEY"];
  }
});

test("the realm is sent with each request", async () => {
  const elsewhere = new Client({ url: server.url, apiKey: KEY, realm: "no-such-realm" });
  const { status } = await rejected(elsewhere.request("GET", "/api/v1/ai/whoami"));
  assert(status === 403 || status === 404, String(status));
});

test("an unreachable server is a connection error", async () => {
  const unreachable = new Client({ url: "http://127.0.0.1:1", apiKey: KEY });
  assert.equal((await rejected(unreachable.request("GET", "/api/v1/ai/whoami"))).code, "connection");
});

test("an abort by the caller remains an abort", async () => {
  const signal = AbortSignal.abort();
  await assert.rejects(client.agents.run("assistant", "hello", { signal }), { name: "AbortError" });
});

test("iteration reads all pages", async () => {
  const first = await client.request("GET", "/api/v1/ai/tools", { query: { limit: "2" } });
  assert.equal(first.items.length, 2);
  assert(first.nextCursor);
  const small = (await all(client.tools.list({ limit: 2 }))).map((tool) => tool.refName);
  const large = (await all(client.tools.list({ limit: 100 }))).map((tool) => tool.refName);
  assert.deepEqual(small, large);
  assert(small.includes("hubspot/get-deal"));
  const functions = await all(client.tools.list({ toolType: "FUNCTION" }));
  assert(functions.length > 0 && functions.every((tool) => tool.toolType === "FUNCTION"));
});

test("a run completes without questions", async () => {
  const run = await client.agents.run("assistant", "Which deals are in negotiation?");
  run.throwForStatus();
  assert.match(run.text, /deals are in negotiation/);
  assert.equal((await client.runs.get(run.id)).text, run.text);
  const runs = await all(client.runs.list({ agentRef: "assistant" }));
  assert(runs.some((each) => each.id === run.id));
});

test("a waiting run is approved", async () => {
  let run = await client.agents.run("assistant", "Create a deal.");
  assert.equal(run.status, "AWAITING_APPROVAL");
  assert.throws(() => run.throwForStatus(), { code: "AWAITING_APPROVAL" });
  const listed = await all(client.approvals.list(run.id));
  assert.deepEqual(
    listed.map((approval) => approval.view.callId),
    run.approvals.map((approval) => approval.view.callId),
  );
  for (const approval of run.approvals) run = await approval.approve();
  assert.equal(run.status, "COMPLETED");
  assert.match(run.text, /^Done: deal /);
});

test("a waiting run is denied", async () => {
  const run = await client.agents.run("assistant", "Create a deal.");
  const denied = await run.approvals[0]?.deny("not this week");
  assert.equal(denied?.status, "COMPLETED");
  assert.match(denied.text, /That did not work/);
});

test("a waiting run is edited", async () => {
  const run = await client.agents.run("assistant", "Create a deal.");
  const edited = await run.approvals[0]?.edit({ properties: { dealname: "Edited", amount: 7 } });
  const envelopes = Object.values(edited?.response.outputs.tools_by_id ?? {});
  assert.deepEqual(
    envelopes.map((envelope) => envelope.input),
    [{ properties: { dealname: "Edited", amount: 7 } }],
  );
});

for (const [decision, status] of [
  [approve(), "SUCCESS"],
  [deny("no"), "SKIPPED"],
  [edit({ properties: { dealname: "E" } }), "SUCCESS"],
] as const) {
  test(`a callback decides: ${decision.decision}`, async () => {
    const asked: string[] = [];
    const run = await client.agents.run("assistant", "Create a deal.", {
      onApproval: (approval) => {
        asked.push(approval.toolRef);
        return decision;
      },
    });
    assert.equal(run.status, "COMPLETED");
    assert.deepEqual(asked, ["hubspot/create-deal"]);
    assert.equal(run.response.toolCalls[0]?.status, status);
  });
}

test("a callback without a decision leaves the run waiting", async () => {
  const run = await client.agents.run("assistant", "Create a deal.", { onApproval: () => undefined });
  assert.equal(run.status, "AWAITING_APPROVAL");
  assert.equal((await run.cancel()).status, "CANCELLED");
  assert.equal((await run.refresh()).status, "CANCELLED");
  assert.equal((await rejected(run.approvals[0]?.approve() ?? Promise.resolve())).code, "run-ended");
});

test("a client tool of an agent is performed", async () => {
  const payloads: unknown[] = [];
  const openFile = async (payload: unknown): Promise<unknown> => {
    payloads.push(payload);
    return { lines: 12 };
  };
  const run = await client.agents.run("editor", "open", { tools: { open_file: openFile } });
  assert.equal(run.text, "The file has 12 lines.");
  assert.deepEqual(payloads, [{ open: "notes.md" }]);
});

test("a client tool reports its failure to the run", async () => {
  const openFile = (): never => {
    throw new ClientToolError("no editor is open");
  };
  const run = await client.agents.run("editor", "open", { tools: { open_file: openFile } });
  assert.equal(run.text, "It failed: no editor is open");
});

test("another error of a client tool reaches the caller", async () => {
  const openFile = (): never => {
    throw new RangeError("a bug");
  };
  await assert.rejects(client.agents.run("editor", "open", { tools: { open_file: openFile } }), RangeError);
});

test("a client tool without a function leaves the run waiting", async () => {
  const run = await client.agents.run("editor", "open", { tools: { another_tool: () => null } });
  assert.equal(run.status, "AWAITING_CLIENT");
  assert.equal(run.clientActions[0]?.toolRef, "open_file");
  const answered = await run.answer({ tools: { open_file: () => ({ lines: 1 }) } });
  assert.equal(answered.text, "The file has 1 lines.");
});

test("an approval and a client tool of one reply are answered", async () => {
  const run = await client.agents.run("editor", "open and create", {
    tools: { open_file: () => ({ lines: 3 }) },
    onApproval: () => approve(),
  });
  assert.deepEqual([run.status, run.text], ["COMPLETED", "Both are done."]);
});

test("a direct call of a client tool is performed", async () => {
  const tools = { open_file: (payload: { open: string }) => ({ opened: payload.open }) };
  const envelope = await client.tools.call("open_file", { path: "a.md" }, { tools });
  assert.deepEqual(outputOf(envelope), { opened: "a.md" });
  const error = await rejected(client.tools.call("open_file", { path: "a.md" }));
  assert.equal(error.code, "awaiting-client");
  assert.equal((await client.runs.cancel(error.runId ?? "")).status, "CANCELLED");
});

test("a client tool without an output returns null", async () => {
  const envelope = await client.tools.call("open_file", { path: "a.md" }, { tools: { open_file: () => undefined } });
  assert.equal(outputOf(envelope), null);
});

test("a conversation continues", async () => {
  const first = await client.agents.run("assistant", "Which deals are in negotiation?");
  const second = await client.agents.run("assistant", "And my order?", { conversationId: first.conversationId });
  assert.equal(second.conversationId, first.conversationId);
  assert.match(second.text, /two orders/);
});

test("requests have the types of openapi.json", async () => {
  const tool = await client.request("GET", "/api/v1/ai/tools/{ref}", { path: { ref: "hubspot/get-deal" } });
  assert.equal(typeof tool === "string" ? undefined : tool.refName, "hubspot/get-deal");
  // Never called: the compiler checks it.
  const mistakes = async (): Promise<void> => {
    // @ts-expect-error a path that does not exist
    await client.request("GET", "/api/v1/ai/no-such-path");
    // @ts-expect-error a path without this method
    await client.request("DELETE", "/api/v1/ai/whoami");
    // @ts-expect-error a missing parameter
    await client.request("GET", "/api/v1/ai/tools/{ref}");
    // @ts-expect-error a missing body
    await client.request("POST", "/api/v1/ai/tools");
  };
  assert.equal(mistakes.length, 0);
});

test("text responses are returned as text", async () => {
  const page = await client.request("GET", "/errors/{code}", { path: { code: "not-found" } });
  assert.match(String(page), /^# not-found/);
});

test("the quick start, the documentation and the example run", () => {
  const env = { ...process.env, TOOLWRIGHT_URL: server.url, TOOLWRIGHT_API_KEY: KEY };
  const run = (file: string, input: string, ...args: string[]): string => {
    const path = new URL(`./generated/${file}`, import.meta.url).pathname;
    const result = spawnSync(process.execPath, [path, ...args], { env, input, encoding: "utf8", timeout: 60_000 });
    assert.equal(result.status, 0, result.stderr);
    return result.stdout;
  };
  const quickStart = run("quick_start.js", "");
  for (const expected of ["Acme Corp", "VALIDATION_ERROR", "COMPLETED Done: deal", "negotiation"]) {
    assert(quickStart.includes(expected), quickStart);
  }
  const documentation = run("documentation.js", "");
  assert.match(documentation, /VALIDATION_ERROR[^]*hubspot\/get-deal/);
  const example = run("stream_agent.js", "n\n", "Create a deal.");
  assert.match(example, /hubspot\/create-deal: SKIPPED\n[^]*COMPLETED/);
});
