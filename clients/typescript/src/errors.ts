// The only error class of this package.

import type { AgentResponse, FieldError, ToolEnvelope } from "./models.js";

/** What a caller can do about each error code of an envelope. */
const REMEDIES: Record<string, string> = {
  VALIDATION_ERROR: "change the input; `errors` lists the invalid fields",
  TIMEOUT: "call again later, or raise `timeoutMs` of the tool",
  RATE_LIMIT: "call again later",
  POLICY_DENIED: "read `reason`; an administrator or the owner of the tool can allow the call",
  AUTH_REQUIRED: "store or renew the secret of the tool's provider",
  PROVIDER_ERROR: "read the message of the external system",
  NETWORK_ERROR: "check the address of the tool's provider, then call again",
  SANDBOX_ERROR: "fix the code of the tool",
  UNKNOWN: "check whether the call took effect before you repeat it",
};

export interface ErrorFields {
  /** The HTTP status, if a request was rejected. */
  status?: number | undefined;
  /** A more specific code, if the call or the run has one. */
  reason?: string | undefined;
  /** The invalid fields. */
  errors?: FieldError[] | undefined;
  /** How long to wait before a retry, in seconds. */
  retryAfter?: number | undefined;
  /** The run, if there is one. */
  runId?: string | undefined;
  cause?: unknown;
}

/** A request, a call or a run failed. `code` is stable; branch on it. */
export class ToolwrightError extends Error {
  override readonly name = "ToolwrightError";
  /**
   * The code of the problem document, the error code of the envelope, the status of the run, or a code of this package:
   * `connection`, `no-api-key`, `awaiting-client`, `awaiting-approval`, `invalid-response`.
   */
  readonly code: string;
  /** What happened. */
  readonly detail: string;
  /** What the caller can do. */
  readonly remedy: string;
  readonly status: number | undefined;
  readonly reason: string | undefined;
  readonly errors: FieldError[];
  readonly retryAfter: number | undefined;
  readonly runId: string | undefined;

  constructor(code: string, detail: string, remedy: string, fields: ErrorFields = {}) {
    super(`${code}: ${detail} (${remedy})`, { cause: fields.cause });
    this.code = code;
    this.detail = detail;
    this.remedy = remedy;
    this.status = fields.status;
    this.reason = fields.reason;
    this.errors = fields.errors ?? [];
    this.retryAfter = fields.retryAfter;
    this.runId = fields.runId;
  }
}

/** Returns the error of a rejected request. */
export async function problem(response: Response, baseUrl: string): Promise<ToolwrightError> {
  const text = await response.text();
  const { status } = response;
  const body = parse(text);
  if (typeof body["code"] === "string" && typeof body["detail"] === "string") {
    const errors = Array.isArray(body["errors"]) ? (body["errors"] as FieldError[]) : undefined;
    return new ToolwrightError(body["code"], body["detail"], `see ${baseUrl}${String(body["type"])}`, { status, errors });
  }
  const detail = `status ${status} without a problem document: ${text.slice(0, 200)}`;
  return new ToolwrightError("invalid-response", detail, "check that the address is that of a Toolwright server", { status });
}

/** Returns the error of a request without a response. */
export function connectionError(cause: unknown, baseUrl: string, runId?: string): ToolwrightError {
  const why = cause instanceof Error ? (cause.cause instanceof Error ? cause.cause.message : cause.message) : String(cause);
  const detail = `no response from ${baseUrl}: ${why}`;
  return new ToolwrightError("connection", detail, "check the address, and that the server is running", { cause, runId });
}

/** Returns the output of a call, or throws a `ToolwrightError` if the call failed. */
export function outputOf(envelope: ToolEnvelope): unknown {
  const { error } = envelope;
  if (!error) {
    return envelope.output;
  }
  const details = isObject(error.details) ? error.details : {};
  const after = error.retry_after_s ?? undefined;
  const remedy = after === undefined ? (REMEDIES[error.code] ?? "read the message") : `call again after ${after} s`;
  throw new ToolwrightError(error.code, error.message, remedy, {
    reason: typeof details["reason"] === "string" ? details["reason"] : undefined,
    errors: Array.isArray(details["errors"]) ? (details["errors"] as FieldError[]) : undefined,
    retryAfter: after,
  });
}

/** Returns what the caller of a run that waits can do. `methods` accept functions that answer the run. */
export function waitingRemedy(run: AgentResponse, methods: string): string {
  const remedies: string[] = [];
  if (run.approvals.length > 0) {
    const calls = names(run.approvals.map((approval) => approval.toolRef));
    remedies.push(`decide on the calls of ${calls}: pass \`onApproval\` to ${methods}, or use \`approvals\``);
  }
  if (run.clientActions.length > 0) {
    const calls = names(run.clientActions.map((action) => action.toolRef));
    remedies.push(`pass a function for ${calls} in \`tools\` to ${methods}`);
  }
  // A run learns the new status of a child run with a short delay.
  const isOnlyChildren = remedies.length === 0;
  const clients = (run.waitingChildRuns ?? []).filter((child) => child.status === "AWAITING_CLIENT" || isOnlyChildren);
  if (clients.length > 0) {
    const agents = names(clients.map((child) => child.agentRef));
    remedies.push(`pass functions for the client tools of ${agents} in \`tools\` to ${methods}`);
  }
  return remedies.join("; ");
}

function names(all: string[]): string {
  return [...new Set(all)].map((name) => `\`${name}\``).join(", ");
}

function parse(text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : {};
  } catch {
    return {};
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null;
}
