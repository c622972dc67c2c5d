// Streams against a real server, also through a proxy that cuts connections.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { approve, Client, ToolwrightError, type StreamEvent } from "toolwright-client";
import { CuttingProxy, KEY, startServer, type Server } from "./server.js";

const QUESTION = "Which deals are in negotiation?";

let server: Server;
let client: Client;

before(async () => {
  server = await startServer();
  client = new Client({ url: server.url, apiKey: KEY });
});

after(() => server.stop());

async function all(events: AsyncIterable<StreamEvent>): Promise<StreamEvent[]> {
  const found: StreamEvent[] = [];
  for await (const event of events) found.push(event);
  return found;
}

/** Returns the text of each iteration, as a consumer that obeys `TEXT_RESET` shows it. */
function texts(events: StreamEvent[]): string[] {
  const found = new Map<number, string>();
  for (const event of events) {
    if (event.type === "TEXT_DELTA") found.set(event.iteration, (found.get(event.iteration) ?? "") + event.content);
    if (event.type === "TEXT_RESET") found.set(event.iteration, "");
  }
  return [...found.values()];
}

/** Returns the events that are not pieces of text. The calls of one reply end in any order. */
function steps(events: StreamEvent[]): string[] {
  return events.map((event) => event.type).filter((type) => type !== "TEXT_DELTA" && type !== "TEXT_RESET").sort();
}

function answerOf(events: StreamEvent[]): string | null | undefined {
  const last = events.at(-1);
  return last?.type === "DONE" ? last.content : undefined;
}

test("a stream shows text, calls and the end", async () => {
  const events = await all(client.agents.stream("assistant", QUESTION));
  const types = new Set(events.map((event) => event.type));
  for (const type of ["THINKING", "TEXT_DELTA", "USAGE", "TOOL_CALL_START", "TOOL_CALL_END", "DONE"] as const) {
    assert(types.has(type), type);
  }
  assert.equal(texts(events).at(-1), answerOf(events));
});

test("a stream keeps unusual line separators", async () => {
  assert.deepEqual(texts(await all(client.agents.stream("editor", "hello"))), ["one\u2028line"]);
});

test("a rejected stream throws", async () => {
  await assert.rejects(all(client.agents.stream("no-such-agent", QUESTION)), { code: "not-found" });
});

test("a stream answers approvals and client tools", async () => {
  const answers = { tools: { open_file: () => ({ lines: 3 }) }, onApproval: () => approve() };
  const events = await all(client.agents.stream("editor", "open and create", answers));
  assert.equal(answerOf(events), "Both are done.");
});

test("a consumer may leave a stream early", async () => {
  for await (const event of client.agents.stream("assistant", QUESTION)) {
    assert.equal(event.type, "THINKING");
    break;
  }
});

test("a durable run is watched from the background", async () => {
  const { runId } = await client.agents.start("assistant", QUESTION);
  const whole = await all(client.runs.events(runId));
  assert.equal(whole.at(-1)?.type, "DONE");
  const rest = await all(client.runs.events(runId, { after: 2 }));
  assert(rest.length > 0 && rest.length < whole.length);
});

const MARKERS = {
  "in the text": ['{"type":"USAGE"'],
  "in an entry": ['{"type":"TOOL_CALL_END"'],
  "before the end": ['{"type":"DONE"'],
  "several times": ['{"type":"USAGE"', '{"type":"TOOL_CALL_START"', '{"type":"TOOL_CALL_END"', '{"type":"DONE"'],
};

for (const [where, markers] of Object.entries(MARKERS)) {
  test(`a stream that is cut ${where} resumes without losing or repeating events`, async () => {
    const whole = await all(client.agents.stream("assistant", QUESTION));
    const proxy = new CuttingProxy(server.url, [...markers]);
    const cut = new Client({ url: await proxy.open(), apiKey: KEY });
    const events = await all(cut.agents.stream("assistant", QUESTION));
    proxy.close();
    assert.equal(proxy.requests.length, markers.length + 1);
    assert(proxy.requests.slice(1).every((request) => request.resumes && request.line.includes("/events")));
    assert.deepEqual(steps(events), steps(whole));
    assert.deepEqual(texts(events), texts(whole));
  });
}

test("a cut stream performs a client tool once", async () => {
  let performed = 0;
  const openFile = (): unknown => {
    performed += 1;
    return { lines: 3 };
  };
  const proxy = new CuttingProxy(server.url, ['{"type":"TOOL_CALL_END"']);
  const cut = new Client({ url: await proxy.open(), apiKey: KEY });
  const events = await all(cut.agents.stream("editor", "open", { tools: { open_file: openFile } }));
  proxy.close();
  assert.equal(performed, 1);
  assert.equal(answerOf(events), "The file has 3 lines.");
});

test("a stream that cannot resume throws and names the run", async () => {
  const proxy = new CuttingProxy(server.url, ['{"type":"TOOL_CALL_START"'], true);
  const cut = new Client({ url: await proxy.open(), apiKey: KEY, reconnects: 1 });
  const error: unknown = await all(cut.agents.stream("assistant", QUESTION)).catch((reason: unknown) => reason);
  assert(error instanceof ToolwrightError);
  assert.equal(error.code, "connection");
  assert.equal((await all(client.runs.events(error.runId ?? ""))).at(-1)?.type, "DONE");
});

test("a stream that is cut before its first event is not started again", async () => {
  const proxy = new CuttingProxy(server.url, ["HTTP/1.1"]);
  const cut = new Client({ url: await proxy.open(), apiKey: KEY });
  await assert.rejects(all(cut.agents.stream("assistant", QUESTION)), { code: "connection" });
  proxy.close();
  assert.equal(proxy.requests.length, 1);
});
