// Answers what a run waits for: approvals and client tools.

import { ToolwrightError } from "./errors.js";
import type { Http } from "./http.js";
import type { AgentResponse, ApprovalView, ClientAction, Decision, Schemas, StreamEvent, ToolEnvelope } from "./models.js";

/**
 * Performs a client tool: takes the prepared payload and returns the output. The parameter is `any`, so that a function
 * may declare the type of the payload that it expects.
 */
export type Handler = (payload: any) => unknown;

/** Functions that answer a run. */
export interface Answers {
  /** Functions that perform client tools, by the name of the tool. */
  tools?: Record<string, Handler> | undefined;
  /** Decides on a call: returns `approve()`, `deny()` or `edit()`, or `undefined` to leave the call waiting. */
  onApproval?: ((approval: ApprovalView) => Decision | undefined | Promise<Decision | undefined>) | undefined;
}

/** A function that performs a client tool can throw this: the call fails with its message, and the run continues. */
export class ClientToolError extends Error {
  override readonly name = "ClientToolError";
}

/** Returns the decision to execute the call. */
export function approve(): Decision {
  return { decision: "approve" };
}

/** Returns the decision not to execute the call. The model sees the reason. */
export function deny(reason?: string): Decision {
  return { decision: "deny", reason: reason ?? null };
}

/** Returns the decision to execute the call with this input. The model is informed that the input was changed. */
export function edit(input: unknown): Decision {
  return { decision: "edit", input };
}

/** Sends a decision. With `wait` it returns the run when the run ends or waits again. */
export function decide(http: Http, runId: string, callId: string, decision: Decision, wait = true): Promise<unknown> {
  const path = { id: runId, callId };
  return http.request("POST", "/api/v1/ai/runs/{id}/approvals/{callId}", { path, query: { wait }, body: decision });
}

/** Calls a tool. If it is a client tool, performs it and returns its result. */
export async function callTool(
  http: Http,
  ref: string,
  body: Schemas["ExecuteBody"],
  answers: Answers & { signal?: AbortSignal | undefined },
): Promise<ToolEnvelope> {
  const { signal } = answers;
  const path = { ref };
  const result = (await http.request("POST", "/api/v1/ai/tools/{ref}/execute", { path, body, signal })) as
    | ToolEnvelope
    | Schemas["AwaitingClientView"];
  if (!("clientActions" in result)) return result;
  const [action] = result.clientActions;
  const results = await perform(result.clientActions, answers);
  if (!action || results.length === 0) {
    const detail = `\`${ref}\` is a client tool, and no function performs it`;
    throw new ToolwrightError("awaiting-client", detail, `pass a function for \`${ref}\` in \`tools\``, { runId: result.runId });
  }
  const response = (await sendResults(http, result.runId, results)) as AgentResponse;
  return response.outputs.tools_by_id[action.callId] as ToolEnvelope;
}

/** Answers approvals and client tools until the run ends, or waits for something that no function answers. */
export async function answer(http: Http, response: AgentResponse, answers: Answers): Promise<AgentResponse> {
  const undecided = new Set<string>();
  for (;;) {
    const results = await perform(response.clientActions, answers);
    if (results.length > 0) {
      response = (await sendResults(http, response.runId, results)) as AgentResponse;
      continue;
    }
    const approval = response.approvals.find((each) => !undecided.has(each.callId));
    if (!approval || !answers.onApproval) return response;
    const decision = await answers.onApproval(approval);
    if (decision) response = (await decide(http, approval.runId, approval.callId, decision)) as AgentResponse;
    else undecided.add(approval.callId);
  }
}

/** Answers what an event of a stream asks for. The stream shows how the run continues. */
export async function answerEvent(http: Http, event: StreamEvent, answers: Answers): Promise<void> {
  if (event.type === "APPROVAL_REQUIRED" && answers.onApproval) {
    const decision = await answers.onApproval(event.approval);
    if (decision) await decide(http, event.runId, event.approval.callId, decision, false);
  } else if (event.type === "CLIENT_ACTION") {
    const results = await perform([event.clientAction], answers);
    if (results.length > 0) await sendResults(http, event.runId, results, false);
  }
}

function sendResults(http: Http, runId: string, results: Schemas["ToolResultBody"][], wait = true): Promise<unknown> {
  return http.request("POST", "/api/v1/ai/runs/{id}/tool-results", { path: { id: runId }, query: { wait }, body: { results } });
}

async function perform(actions: ClientAction[], answers: Answers): Promise<Schemas["ToolResultBody"][]> {
  const results: Schemas["ToolResultBody"][] = [];
  for (const { callId, toolRef, preparedPayload } of actions) {
    const handler = answers.tools?.[toolRef];
    if (!handler) continue;
    try {
      // A result needs an output, and JSON has no `undefined`.
      results.push({ callId, output: (await handler(preparedPayload)) ?? null });
    } catch (error) {
      if (!(error instanceof ClientToolError)) throw error;
      results.push({ callId, error: error.message });
    }
  }
  return results;
}
