/** Builds what a chat shows from the events of one run. */

export interface StreamEvent {
  type: string;
  content?: string | null;
  iteration?: number;
  runId?: string;
  at?: string | null;
  status?: string | null;
  reason?: string | null;
  costUsd?: number | null;
  usage?: { inputTokens?: number; outputTokens?: number } | null;
  toolInvocation?: ToolInvocation | null;
  approval?: PendingApproval | null;
  clientAction?: PendingAction | null;
  childRun?: { runId: string; agentRef: string; status: string } | null;
}

export interface ToolInvocation {
  callId: string;
  toolRef: string;
  input?: unknown;
  output?: unknown;
  durationMs: number;
  status?: string | null;
  errorMessage?: string | null;
}

export interface PendingApproval {
  runId: string;
  callId: string;
  toolRef: string;
  input?: unknown;
  triggers: string[];
}

export interface PendingAction {
  callId: string;
  toolRef: string;
  preparedPayload?: unknown;
  schema?: unknown;
  expiresAt?: string | null;
}

/** One model call with its text and the calls that it requested. */
export interface Step {
  iteration: number;
  thinking: string;
  text: string;
  calls: Call[];
}

export type CallState = "running" | "approval" | "client" | "done" | "failed";

export interface Call {
  callId: string;
  toolRef: string;
  state: CallState;
  input?: unknown;
  output?: unknown;
  error?: string | undefined;
  durationMs: number;
  approval?: PendingApproval | undefined;
  action?: PendingAction | undefined;
}

export interface Transcript {
  runId?: string | undefined;
  steps: Step[];
  ended: boolean;
  status?: string | undefined;
  error?: string | undefined;
  tokens: number;
  costUsd: number;
  /** The child run that waits for a person, if any. */
  waitingChild?: string | undefined;
}

export const EMPTY: Transcript = { steps: [], ended: false, tokens: 0, costUsd: 0 };

export function applyEvent(previous: Transcript, event: StreamEvent): Transcript {
  const next = { ...previous, runId: event.runId ?? previous.runId };
  const iteration = event.iteration ?? 0;
  switch (event.type) {
    case "THINKING":
      return withStep(next, iteration, (step) => ({ ...step, thinking: step.thinking + (event.content ?? "") }));
    case "TEXT_DELTA":
      return withStep(next, iteration, (step) => ({ ...step, text: step.text + (event.content ?? "") }));
    case "TEXT_RESET":
      return withStep(next, iteration, (step) => ({ ...step, text: "", thinking: "" }));
    case "USAGE":
      return {
        ...next,
        tokens: next.tokens + (event.usage?.inputTokens ?? 0) + (event.usage?.outputTokens ?? 0),
        costUsd: next.costUsd + (event.costUsd ?? 0),
      };
    case "TOOL_CALL_START":
      return event.toolInvocation ? withCall(next, iteration, fromInvocation(event.toolInvocation, "running")) : next;
    case "TOOL_CALL_END":
      return event.toolInvocation
        ? { ...withCall(next, iteration, fromInvocation(event.toolInvocation, endState(event.toolInvocation))), waitingChild: undefined }
        : next;
    case "APPROVAL_REQUIRED":
      return event.approval ? withCall(next, iteration, fromApproval(event.approval)) : next;
    case "CLIENT_ACTION":
      return event.clientAction ? withCall(next, iteration, fromAction(event.clientAction)) : next;
    case "CHILD_WAITING":
      return { ...next, waitingChild: event.childRun?.runId };
    case "DONE":
      return {
        ...next,
        ended: true,
        status: event.status ?? "COMPLETED",
        error: event.status === "COMPLETED" ? undefined : (event.reason ?? undefined),
      };
    case "ERROR":
      return { ...next, ended: true, status: event.status ?? "ERROR", error: event.content ?? event.reason ?? "The run failed." };
    default:
      return next;
  }
}

function withStep(transcript: Transcript, iteration: number, change: (step: Step) => Step): Transcript {
  const found = transcript.steps.some((step) => step.iteration === iteration);
  const steps = found ? transcript.steps : [...transcript.steps, { iteration, thinking: "", text: "", calls: [] }];
  return { ...transcript, steps: steps.map((step) => (step.iteration === iteration ? change(step) : step)) };
}

/** Replaces the call with the same id, wherever it was requested, or adds it to the step. */
function withCall(transcript: Transcript, iteration: number, call: Call): Transcript {
  const owner = transcript.steps.find((step) => step.calls.some((one) => one.callId === call.callId));
  return withStep(transcript, owner?.iteration ?? iteration, (step) => {
    const known = step.calls.some((one) => one.callId === call.callId);
    return { ...step, calls: known ? step.calls.map((one) => (one.callId === call.callId ? { ...one, ...call } : one)) : [...step.calls, call] };
  });
}

function fromInvocation(invocation: ToolInvocation, state: CallState): Call {
  const { callId, toolRef, input, output, durationMs, errorMessage } = invocation;
  return { callId, toolRef, state, input, output, durationMs, error: errorMessage ?? undefined, approval: undefined, action: undefined };
}

function endState(invocation: ToolInvocation): CallState {
  return invocation.status === "SUCCESS" ? "done" : "failed";
}

function fromApproval(approval: PendingApproval): Call {
  return { callId: approval.callId, toolRef: approval.toolRef, state: "approval", input: approval.input, durationMs: 0, approval };
}

function fromAction(action: PendingAction): Call {
  return { callId: action.callId, toolRef: action.toolRef, state: "client", input: action.preparedPayload, durationMs: 0, action };
}

/** Whether the run waits for the person in front of the screen. */
export function waits(transcript: Transcript): boolean {
  return transcript.steps.some((step) => step.calls.some((call) => call.state === "approval" || call.state === "client"));
}

interface Turn {
  role: string;
  content: string;
  runId?: string | null;
  toolCalls?: ToolInvocation[];
}

export interface Exchange {
  key: string;
  userMessage: string;
  transcript: Transcript;
}

/** Groups the stored turns of a conversation into exchanges: a message of the user and what followed. */
export function exchangesOf(turns: Turn[]): Exchange[] {
  const exchanges: Exchange[] = [];
  for (const turn of turns) {
    const last = exchanges.at(-1);
    if (turn.role === "user") {
      exchanges.push({
        key: String(exchanges.length),
        userMessage: turn.content,
        transcript: { ...EMPTY, runId: turn.runId ?? undefined, ended: true },
      });
    } else if (turn.role === "assistant" && last) {
      const calls = (turn.toolCalls ?? []).map((call) => fromInvocation(call, endState(call)));
      last.transcript = {
        ...last.transcript,
        runId: turn.runId ?? last.transcript.runId,
        steps: [...last.transcript.steps, { iteration: last.transcript.steps.length + 1, thinking: "", text: turn.content, calls }],
      };
    }
  }
  return exchanges;
}
