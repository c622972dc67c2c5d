// Approvals and client tools of delegates, against a real server: `chief` delegates to `front`, which delegates to `editor`.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { approve, Client, deny, edit, outputOf, ToolwrightError, type ApprovalView, type Decision, type StreamEvent } from "toolwright-client";
import { CuttingProxy, KEY, startServer, type Server } from "./server.js";

/** Fails a test that waits for an event that does not come. */
const LIMIT = { timeout: 30_000 };

/** The task, the names of the deals to approve, the files that the client opens, and the answer of `editor`. */
const CASES = {
  "an approval and a client tool": ["open and create", ["From the editor"], ["notes.md"], "Both are done."],
  "one approval after the other": ["two deals", ["First", "Second"], [], "Both are done."],
  "one client tool after the other": ["two files", [], ["first.md", "second.md"], "The file has 2 lines."],
} as const;

let server: Server;
let client: Client;

before(async () => {
  server = await startServer();
  client = new Client({ url: server.url, apiKey: KEY });
});

after(() => server.stop());

/** Approves all calls and opens all files, and records them. */
class User {
  readonly approvals: ApprovalView[] = [];
  readonly opened: string[] = [];
  readonly tools = {
    open_file: (payload: { open: string }): unknown => {
      this.opened.push(payload.open);
      return { lines: this.opened.length };
    },
  };
  readonly onApproval = async (approval: ApprovalView): Promise<Decision> => {
    this.approvals.push(approval);
    return approve();
  };

  get deals(): string[] {
    return this.approvals.map((approval) => (approval.input as { properties: { dealname: string } }).properties.dealname);
  }
}

async function all(events: AsyncIterable<StreamEvent>): Promise<StreamEvent[]> {
  const found: StreamEvent[] = [];
  for await (const event of events) found.push(event);
  return found;
}

async function rejected(promise: Promise<unknown>): Promise<ToolwrightError> {
  const error: unknown = await promise.catch((reason: unknown) => reason);
  assert(error instanceof ToolwrightError, String(error));
  return error;
}

for (const [name, [task, deals, files, answer]] of Object.entries(CASES)) {
  test(`a run answers its delegates and returns its own answer: ${name}`, LIMIT, async () => {
    const user = new User();
    const run = await client.agents.run("chief", task, user);
    assert.deepEqual([run.status, run.text], ["COMPLETED", `The front says: The editor says: ${answer}`]);
    assert.deepEqual([user.deals, user.opened], [deals, files]);
    assert(user.approvals.every((approval) => approval.rootRunId === run.id));
    assert.deepEqual(run.response.approvals, []);
  });

  test(`a stream answers delegates until its own end: ${name}`, LIMIT, async () => {
    const user = new User();
    const events = await all(client.agents.stream("chief", task, user));
    const last = events.at(-1);
    assert(last?.type === "DONE");
    assert.equal(last.content, `The front says: The editor says: ${answer}`);
    assert.deepEqual([user.deals, user.opened], [deals, files]);
    assert(user.approvals.every((approval) => approval.rootRunId === last.runId));
    const waits = events.flatMap((event) => (event.type === "CHILD_WAITING" ? [event.childRun.agentRef] : []));
    assert.deepEqual([...new Set(waits)], ["front"]);
  });
}

test("a delegate waits for its own approval after its delegate has ended", LIMIT, async () => {
  const [task, answer] = ["create two deals, then one of the front", "The front says: The front is done too."];
  const user = new User();
  assert.equal((await client.agents.run("chief", task, user)).text, answer);
  assert.deepEqual(user.deals, ["First", "Second", "Front"]);
  const watcher = new User();
  const last = (await all(client.agents.stream("chief", task, watcher))).at(-1);
  assert.equal(last?.type === "DONE" && last.content, answer);
  assert.deepEqual(watcher.deals, ["First", "Second", "Front"]);
});

test("delegates that wait at once are answered", LIMIT, async () => {
  const user = new User();
  assert.equal((await client.agents.run("front", "both at once", user)).text, "The editor says: Both are done.");
  assert.deepEqual(user.deals.sort(), ["First", "From the editor", "Second"]);
  const watcher = new User();
  const last = (await all(client.agents.stream("front", "both at once", watcher))).at(-1);
  assert.equal(last?.type === "DONE" && last.content, "The editor says: Both are done.");
  assert.deepEqual(watcher.deals.sort(), ["First", "From the editor", "Second"]);
});

test("a decision on a call of a delegate returns the run that lists it", LIMIT, async () => {
  const waiting = await client.agents.run("chief", "two deals");
  const again = await waiting.approvals[0]?.approve();
  assert.deepEqual([again?.id, again?.status, again?.approvals.length], [waiting.id, "AWAITING_APPROVAL", 1]);
  assert.equal(again?.approvals[0]?.view.rootRunId, waiting.id);
  const done = await again.approvals[0]?.deny("one is enough");
  assert.deepEqual([done?.id, done?.status], [waiting.id, "COMPLETED"]);
  assert.match(done?.text ?? "", /^The front says: The editor says: It failed:/);
  const listed = await client.agents.run("chief", "two deals");
  for await (const approval of client.approvals.list(listed.approvals[0]?.view.runId)) {
    assert.equal((await approval.approve()).id, approval.view.runId);
  }
  assert.equal((await listed.cancel()).status, "CANCELLED");
});

test("a call of a delegate that no function answers leaves the run waiting", LIMIT, async () => {
  let asked = 0;
  const onApproval = (): undefined => {
    asked += 1;
  };
  const run = await client.agents.run("chief", "open and create", { onApproval });
  assert.deepEqual([run.status, run.approvals.length, asked], ["AWAITING_APPROVAL", 1, 1]);
  assert.throws(() => run.throwForStatus(), /`hubspot\/create-deal`: pass `onApproval`/);
  const half = await run.answer({ onApproval: () => approve() });
  assert.deepEqual([half.id, half.status, half.approvals.length], [run.id, "AWAITING_CLIENT", 0]);
  assert.throws(() => half.throwForStatus(), /client tools of `front` in `tools`/);
  const done = await half.answer({ tools: new User().tools });
  assert.deepEqual([done.id, done.text], [run.id, "The front says: The editor says: Both are done."]);
});

test("a stream that is cut while a delegate waits asks once", LIMIT, async () => {
  const proxy = new CuttingProxy(server.url, ['{"type":"TOOL_CALL_END"']);
  const cut = new Client({ url: await proxy.open(), apiKey: KEY });
  const user = new User();
  const last = (await all(cut.agents.stream("front", "two deals", user))).at(-1);
  proxy.close();
  assert.equal(last?.type, "DONE");
  assert.deepEqual(user.deals, ["First", "Second"]);
});

test("a composite tool waits for an approval", LIMIT, async () => {
  const error = await rejected(client.tools.call("cancel_order", { orderId: "ord-1002" }));
  assert.equal(error.code, "awaiting-approval");
  assert.match(error.remedy, /`orders\/cancel`: pass `onApproval`/);
  assert.equal((await client.runs.cancel(error.runId ?? "")).status, "CANCELLED");
  const envelope = await client.tools.call("cancel_order", { orderId: "ord-1002" }, { onApproval: () => deny("keep it") });
  assert.throws(() => outputOf(envelope), { code: "POLICY_DENIED", reason: "approval_denied" });
});

test("wrong functions are rejected before the run starts", LIMIT, async () => {
  const runs = async (): Promise<number> => (await client.request("GET", "/api/v1/ai/runs/count", {})).count;
  const before = await runs();
  for (const [functions, expected] of [
    [{ onApproval: approve() }, /pass a function that returns the decision/],
    [{ onApproval: edit }, /pass a function that returns the decision/],
    [{ tools: { open_file: 3 } }, /`tools` must have a function for `open_file`/],
  ] as [object, RegExp][]) {
    await assert.rejects(client.agents.run("editor", "open", functions), expected);
    await assert.rejects(all(client.agents.stream("editor", "open", functions)), expected);
  }
  assert.equal(await runs(), before);
});

test("a function that returns no decision is an error with the remedy", LIMIT, async () => {
  const answers = { onApproval: () => true } as unknown as User;
  await assert.rejects(client.agents.run("editor", "two deals", answers), /must return `approve\(\)`.*got true.*still waits/);
});
