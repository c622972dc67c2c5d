// Answers what a run and its child runs wait for: approvals and client tools.

import { ToolwrightError, waitingRemedy } from "./errors.js";
import type { Http } from "./http.js";
import type { AgentResponse, ApprovalView, ClientAction, Decision, RunStatus, Schemas, StreamEvent, ToolEnvelope } from "./models.js";
import { StreamReader } from "./stream.js";

/**
 * Performs a client tool: takes the prepared payload and returns the output. The parameter is `any`, so that a function
 * may declare the type of the payload that it expects.
 */
export type Handler = (payload: any) => unknown;

/** Functions that answer a run and its child runs. */
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

/** Whether a run with this status waits for an approval or a client. */
export function isWaiting(status: RunStatus): boolean {
  return status === "AWAITING_APPROVAL" || status === "AWAITING_CLIENT";
}

/** Sends the requests of this module, and reads streams of events. */
export interface Connection {
  readonly http: Http;
  events(reader: StreamReader, signal?: AbortSignal): AsyncGenerator<StreamEvent>;
}

/** The types of the events after which a run can have ended or wait. */
const STATE_EVENTS = new Set(["TOOL_CALL_END", "APPROVAL_REQUIRED", "CLIENT_ACTION", "CHILD_WAITING", "DONE", "ERROR"]);

/** Answers runs with the functions of a user. Each approval and each call of a client tool is passed to them once. */
export class Answerer {
  private readonly seen = new Set<string>();
  private readonly answered = new Set<string>();

  constructor(
    private readonly connection: Connection,
    private readonly answers: Answers,
    private readonly signal?: AbortSignal | undefined,
  ) {
    const { tools = {}, onApproval } = answers;
    for (const [name, handler] of Object.entries(tools)) {
      if (typeof handler === "function") continue;
      const remedy = "pass a function that takes the payload and returns the output";
      throw new TypeError(`\`tools\` must have a function for \`${name}\`, got ${typeof handler}; ${remedy}`);
    }
    // These functions make decisions, but they take no approval.
    const isDecision = ([approve, deny, edit] as unknown[]).includes(onApproval);
    if (isDecision || (onApproval !== undefined && typeof onApproval !== "function")) {
      const got = isDecision ? "a function that makes decisions" : typeof onApproval;
      const remedy = "pass a function that returns the decision, such as `() => approve()`";
      throw new TypeError(`\`onApproval\` must be a function of the approval, got ${got}; ${remedy}`);
    }
  }

  /** Calls a tool and answers what the call waits for. Returns the envelope of the call. */
  async call(ref: string, body: Schemas["ExecuteBody"]): Promise<ToolEnvelope> {
    const init = { path: { ref }, body, signal: this.signal };
    const result = (await this.connection.http.request("POST", "/api/v1/ai/tools/{ref}/execute", init)) as
      | ToolEnvelope
      | Schemas["AwaitingClientView"];
    if (!("clientActions" in result)) return result;
    const run = await this.answer(await readRun(this.connection, result.runId, this.signal));
    const [envelope] = Object.values(run.outputs.tools_by_id);
    // The run has one call.
    if (!isWaiting(run.status)) return envelope as ToolEnvelope;
    const isClientTool = run.status === "AWAITING_CLIENT";
    const detail = `the call of \`${ref}\` waits for ${isClientTool ? "a client tool" : "an approval"}`;
    const code = isClientTool ? "awaiting-client" : "awaiting-approval";
    throw new ToolwrightError(code, detail, waitingRemedy(run, "`tools.call`"), { runId: run.runId });
  }

  /**
   * Answers what a run and its child runs wait for, until the run ends or no function answers what is left. `root` is the
   * run at the top, if it is another run.
   */
  async answer(response: AgentResponse, root?: string): Promise<AgentResponse> {
    while (this.hasFunctions()) {
      const tree = await suspendedTree(this.connection, response, this.answered, root, this.signal);
      const latest = await this.answerEach(tree);
      if (!latest) return firstRun(tree);
      response = latest;
    }
    return response;
  }

  /** Answers what an event of a stream requests. The stream shows how the run continues. */
  async answerEvent(event: StreamEvent): Promise<void> {
    if (event.type === "APPROVAL_REQUIRED") {
      await this.decide(event.runId, event.approval, false);
    } else if (event.type === "CLIENT_ACTION") {
      await this.returnResults(event.runId, [event.clientAction], false);
    } else if (event.type === "CHILD_WAITING" && this.hasFunctions()) {
      // Not every later wait of the child run, or of a run below it, is an event of this stream. So the child run is
      // followed until it ends or no function answers what is left.
      await this.answer(await readRun(this.connection, event.childRun.runId, this.signal), event.runId);
    }
  }

  private hasFunctions(): boolean {
    return this.answers.onApproval !== undefined || Object.keys(this.answers.tools ?? {}).length > 0;
  }

  /**
   * Answers what each of the runs waits for. Returns the new state of the first run, or `undefined` if no function
   * answered anything.
   */
  private async answerEach(tree: Tree): Promise<AgentResponse | undefined> {
    let answered = false;
    let latest: AgentResponse | undefined;
    // The child runs come first, because they continue while the client waits for the response of the first run.
    for (const run of [...tree.below, tree.first]) {
      const isFirst = run === tree.first;
      const note = (response: unknown): void => {
        if (response === undefined) return;
        answered = true;
        latest = isFirst ? (response as AgentResponse) : undefined;
      };
      note(await this.returnResults(run.runId, run.clientActions, isFirst));
      for (const approval of approvalsOf(tree, run)) note(await this.decide(run.runId, approval, isFirst));
    }
    if (!answered) return undefined;
    return latest ?? readRun(this.connection, tree.first.runId, this.signal);
  }

  /** Sends the decision of the user. Returns the response, or `undefined` if the user leaves the call waiting. */
  private async decide(runId: string, approval: ApprovalView, wait: boolean): Promise<unknown> {
    const { callId, toolRef } = approval;
    if (!this.answers.onApproval || !this.isNew(runId, callId)) return undefined;
    const decision: unknown = await this.answers.onApproval(approval);
    if (decision === undefined || decision === null) return undefined;
    if (typeof decision !== "object" || !("decision" in decision)) {
      const rule = "must return `approve()`, `deny()`, `edit(input)` or `undefined`";
      throw new TypeError(`\`onApproval\` ${rule}, got ${JSON.stringify(decision)}; the call of \`${toolRef}\` still waits`);
    }
    this.answered.add(keyOf(runId, callId));
    return sendDecision(this.connection, runId, callId, decision as Decision, wait, this.signal);
  }

  /** Performs the actions that have a function. Returns the response, or `undefined` if none has a function. */
  private async returnResults(runId: string, actions: ClientAction[], wait: boolean): Promise<unknown> {
    const results: Schemas["ToolResultBody"][] = [];
    for (const { callId, toolRef, preparedPayload } of actions) {
      const handler = this.answers.tools?.[toolRef];
      if (!handler || !this.isNew(runId, callId)) continue;
      try {
        // A result needs an output, and JSON has no `undefined`.
        results.push({ callId, output: (await handler(preparedPayload)) ?? null });
      } catch (error) {
        if (!(error instanceof ClientToolError)) throw error;
        results.push({ callId, error: error.message });
      }
    }
    if (results.length === 0) return undefined;
    for (const { callId } of results) this.answered.add(keyOf(runId, callId));
    const init = { path: { id: runId }, query: { wait }, body: { results }, signal: this.signal };
    return this.connection.http.request("POST", "/api/v1/ai/runs/{id}/tool-results", init);
  }

  private isNew(runId: string, callId: string): boolean {
    const key = keyOf(runId, callId);
    const isNew = !this.seen.has(key);
    this.seen.add(key);
    return isNew;
  }
}

/** Sends a decision. Returns the run `runId` as soon as it has ended, or it and its child runs wait again. */
export async function decide(
  connection: Connection,
  approval: ApprovalView,
  runId: string,
  decision: Decision,
): Promise<AgentResponse> {
  const isOwn = approval.runId === runId;
  const response = await sendDecision(connection, approval.runId, approval.callId, decision, isOwn);
  const first = isOwn ? (response as AgentResponse) : await readRun(connection, runId);
  return firstRun(await suspendedTree(connection, first, new Set([keyOf(approval.runId, approval.callId)])));
}

/** A run, and the child runs below it that wait. Each of them comes after its parent. */
interface Tree {
  first: AgentResponse;
  below: AgentResponse[];
  /** The run at the top, if it is not the first run. */
  root: string | undefined;
}

/** A run to follow until its state meets a condition. */
interface Change {
  runId: string;
  condition: (state: AgentResponse) => boolean;
}

/** Follows a run until it has ended, or it and its child runs wait for calls that are not answered yet. */
async function suspendedTree(
  connection: Connection,
  first: AgentResponse,
  answered: Set<string>,
  root?: string,
  signal?: AbortSignal,
): Promise<Tree> {
  for (;;) {
    const runs = [first];
    // The loop also visits the runs that it appends.
    for (const run of runs) {
      for (const id of waitingChildren(run)) runs.push(await readRun(connection, id, signal));
    }
    const change = nextChange(runs, answered);
    if (!change) return { first, below: runs.slice(1), root };
    const state = await follow(connection, change, signal);
    first = change.runId === first.runId ? state : await readRun(connection, first.runId, signal);
  }
}

/** Returns the run to follow until it changes, or `undefined` if no run of the tree is active. */
function nextChange(runs: AgentResponse[], answered: Set<string>): Change | undefined {
  for (const run of runs) {
    if (run.status === "RUNNING") return { runId: run.runId, condition: (state) => state.status !== "RUNNING" };
    // If an answer ends a run, the server shows the run as it was before until the end is stored.
    const stale = waitingCalls(run).filter((call) => answered.has(call));
    if (stale.length > 0) {
      return { runId: run.runId, condition: (state) => !waitingCalls(state).some((call) => stale.includes(call)) };
    }
  }
  for (const { runId: id, status } of runs.slice(1)) {
    const parent = runs.find((run) => waitingChildren(run).includes(id));
    if (parent && !isWaiting(status)) {
      // The child run has ended, and its parent run continues as soon as it is informed.
      return { runId: parent.runId, condition: (state) => !waitingChildren(state).includes(id) };
    }
  }
  return undefined;
}

/**
 * Reads the state of a run, and again after each of its events that can change the state of a waiting run, until the
 * condition is true.
 */
async function follow(connection: Connection, change: Change, signal?: AbortSignal): Promise<AgentResponse> {
  const { runId, condition } = change;
  const path = { id: runId };
  // The position is read first, so that no event between the position and the state is missed.
  const init = { path, query: { limit: 1 }, signal };
  const position = (await connection.http.request("GET", "/api/v1/ai/runs/{id}/state", init)) as Schemas["RunStateView"];
  let state = await readRun(connection, runId, signal);
  if (condition(state)) return state;
  const watch = { path, query: { after: position.at }, signal };
  const request = { method: "GET", path: "/api/v1/ai/runs/{id}/events", init: watch } as const;
  const reader = new StreamReader(request, connection.http.reconnects, runId);
  for await (const event of connection.events(reader, signal)) {
    if (!STATE_EVENTS.has(event.type)) continue;
    state = await readRun(connection, runId, signal);
    if (condition(state)) break;
  }
  return state;
}

/**
 * Returns the first run with the approvals of all runs, and with the status that follows from them. The server's response
 * can lack a new approval of a child run for a moment, or still contain a decided one.
 */
function firstRun(tree: Tree): AgentResponse {
  const approvals = [tree.first, ...tree.below].flatMap((run) => approvalsOf(tree, run));
  const waiting: RunStatus = approvals.length > 0 ? "AWAITING_APPROVAL" : "AWAITING_CLIENT";
  return { ...tree.first, approvals, status: isWaiting(tree.first.status) ? waiting : tree.first.status };
}

/** Returns the approvals of a run, without those of its child runs. */
function approvalsOf({ first, root }: Tree, run: AgentResponse): ApprovalView[] {
  const own = run.approvals.filter((approval) => approval.runId === run.runId);
  if (run === first && root === undefined) return own;
  // The server names the runs above only in the responses of these runs.
  const { parentRunId } = run as Schemas["RunView"];
  const above = { parentRunId: parentRunId ?? null, rootRunId: root ?? first.runId };
  const listed = (id: string): ApprovalView | undefined =>
    first.approvals.find((approval) => approval.runId === run.runId && approval.callId === id);
  return own.map((approval) => ({ ...approval, ...above, ...listed(approval.callId) }));
}

/** Returns the calls of a run that wait, without those of its child runs. */
function waitingCalls(run: AgentResponse): string[] {
  const approvals = run.approvals.filter((approval) => approval.runId === run.runId);
  return [...approvals, ...run.clientActions].map(({ callId }) => keyOf(run.runId, callId));
}

function waitingChildren(run: AgentResponse): string[] {
  return (run.waitingChildRuns ?? []).map((child) => child.runId);
}

function keyOf(runId: string, callId: string): string {
  return `${runId} ${callId}`;
}

async function readRun({ http }: Connection, id: string, signal?: AbortSignal): Promise<AgentResponse> {
  return (await http.request("GET", "/api/v1/ai/runs/{id}", { path: { id }, signal })) as AgentResponse;
}

/** Sends a decision. With `wait` it returns the run when the run ends or waits again. */
function sendDecision(
  { http }: Connection,
  runId: string,
  callId: string,
  body: Decision,
  wait: boolean,
  signal?: AbortSignal,
): Promise<unknown> {
  const path = { id: runId, callId };
  return http.request("POST", "/api/v1/ai/runs/{id}/approvals/{callId}", { path, query: { wait }, body, signal });
}
