// Calls a tool, runs an agent, decides on its approval and reads the stream of the run. It uses `fetch` and no package.
export {};

// Node, Deno and Bun have `process`. The declaration replaces @types/node.
declare const process: { env: Record<string, string | undefined> };

const url = process.env.TOOLWRIGHT_URL ?? "http://127.0.0.1:7411";
const key = process.env.TOOLWRIGHT_API_KEY ?? "";

interface Envelope {
  output: unknown;
  error: { code: string; message: string } | null;
}

interface Approval {
  callId: string;
  toolRef: string;
  input: unknown;
}

interface Run {
  runId: string;
  status: string;
  responseText: string;
  approvals: Approval[];
}

/** A failed request. `code` is stable; the server explains it at /errors/{code}. */
class Problem extends Error {
  constructor(readonly code: string, detail: string) {
    super(detail);
  }
}

async function request(method: string, path: string, body?: unknown): Promise<Response> {
  const response = await fetch(`${url}/api/v1/ai/${path}`, {
    method,
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  if (!response.ok) {
    const problem = (await response.json()) as { code: string; detail: string };
    throw new Problem(problem.code, problem.detail);
  }
  return response;
}

async function post<T>(path: string, body: unknown): Promise<T> {
  return (await (await request("POST", path, body)).json()) as T;
}

/** Yields the events of a run. */
async function* events(run: string): AsyncGenerator<{ type: string }> {
  const response = await request("GET", `runs/${run}/events`);
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop()!;
    for (const line of lines) {
      if (line.startsWith("data: ")) yield JSON.parse(line.slice("data: ".length));
    }
  }
}

// 1. Call a tool. A failed call is not a failed request: the envelope has the error.
const tool = encodeURIComponent("hubspot/get-deal");
const deal = await post<Envelope>(`tools/${tool}/execute`, { input: { dealId: "101" } });
console.log("deal:", (deal.output as { properties: { dealname: string } }).properties.dealname);
const wrong = await post<Envelope>(`tools/${tool}/execute`, { input: { dealId: 101 } });
console.log("error code:", wrong.error?.code);

// 2. Run an agent. The response arrives when the run ends or waits.
const agent = encodeURIComponent("examples/noter");
let run = await post<Run>(`agents/${agent}/execute`, { userMessage: "Send the offer." });
console.log("status:", run.status);

// 3. Decide on each call that waits. The response has the same form as that of `execute`.
for (const approval of run.approvals) {
  console.log("approve:", approval.toolRef, JSON.stringify(approval.input));
  run = await post<Run>(`runs/${run.runId}/approvals/${approval.callId}`, { decision: "approve" });
}
console.log("status:", run.status, "-", run.responseText);

// 4. Read the stream of the run, from its beginning.
const kinds: string[] = [];
for await (const event of events(run.runId)) {
  if (!event.type.startsWith("TEXT")) kinds.push(event.type);
}
console.log("events:", kinds.join(" "));

// 5. A failed request has a problem document with a code.
try {
  await post("agents/no-such-agent/execute", { userMessage: "Hello" });
} catch (error) {
  if (!(error instanceof Problem)) throw error;
  console.log("problem:", error.code, "-", error.message);
}
