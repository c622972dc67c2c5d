/** Summaries of journal entries: what a row of the microscope shows, without the body of the entry. */
import { firstLine } from "./format";

export type Lane = "model" | "tool" | "wait" | "other";

export interface EntrySummary {
  n: number;
  kind: string;
  /** When the work that the entry records began and ended, in milliseconds since 1970. */
  start: number;
  end: number;
  lane: Lane;
  title: string;
  detail: string;
  failed: boolean;
  callId?: string | undefined;
  toolRef?: string | undefined;
  childRunId?: string | undefined;
  costUsd: number;
  tokens: number;
  canFork: boolean;
  whyNot?: string | undefined;
}

export interface JournalEntry {
  n: number;
  at: string;
  kind: string;
  durationMs?: number | null;
  callId?: string | null;
  toolRef?: string | null;
  costUsd?: number | null;
  usage?: { inputTokens?: number; outputTokens?: number } | null;
  canFork: boolean;
  whyNot?: string | null;
  body: Record<string, unknown>;
}

type Fields = Record<string, unknown>;

interface Description {
  lane: Lane;
  title: string;
  detail?: string;
  failed?: boolean;
  childRunId?: string | undefined;
}

export function summarizeEntry(entry: JournalEntry): EntrySummary {
  const end = Date.parse(entry.at);
  const { lane, title, detail = "", failed = false, childRunId } = describe(entry);
  return {
    n: entry.n,
    kind: entry.kind,
    start: end - (entry.durationMs ?? 0),
    end,
    lane,
    title,
    detail,
    failed,
    childRunId,
    callId: entry.callId ?? undefined,
    toolRef: entry.toolRef ?? undefined,
    costUsd: entry.costUsd ?? 0,
    tokens: (entry.usage?.inputTokens ?? 0) + (entry.usage?.outputTokens ?? 0),
    canFork: entry.canFork,
    whyNot: entry.whyNot ?? undefined,
  };
}

function describe(entry: JournalEntry): Description {
  const { body, kind } = entry;
  const tool = entry.toolRef ?? "call";
  switch (kind) {
    case "started":
      return { lane: "other", title: "Started", detail: startDetail(body) };
    case "model_replied":
      return { lane: "model", title: "Model replied", detail: replyDetail(fields(body.reply)), failed: body.schema_error != null };
    case "model_failed":
      return { lane: "model", title: "Model failed", detail: string(body.message), failed: true };
    case "prepared":
      return preparation(list(body.calls).map(fields));
    case "prepared_again":
      return { lane: "other", title: "Checked again", detail: tool };
    case "intended":
      return { lane: "other", title: "Write starts", detail: tool };
    case "recovered":
      return { lane: "other", title: "Recovered", detail: "another driver continues the run" };
    case "verified":
      return { lane: "other", title: "Outcome checked", detail: body.unknown_reason ? string(body.unknown_reason) : "the write did not take effect" };
    case "call_ended":
      return callEnd(fields(body.envelope));
    case "child_suspended":
      return { lane: "other", title: "Child run waits", detail: tool, childRunId: optional(body.run) };
    case "child_ended":
      return { lane: "wait", title: "Child run ended", detail: tool };
    case "handed_to_client":
      return { lane: "other", title: "Handed to the client", detail: tool };
    case "approval_decided":
      return decision(body, tool);
    case "client_returned":
      return { lane: "wait", title: "Client answered", detail: tool, failed: "error" in fields(body.result) };
    case "expired":
      return { lane: "wait", title: "Expired", detail: tool, failed: true };
    case "timer_fired":
      return { lane: "other", title: "Time limit reached", failed: true };
    case "cancelled":
      return { lane: "other", title: "Cancelled", detail: string(body.message), failed: true };
    case "failed":
      return { lane: "other", title: "Failed", detail: string(body.message), failed: true };
    default:
      return { lane: "other", title: kind.replaceAll("_", " "), detail: entry.toolRef ?? "" };
  }
}

function startDetail(body: Fields): string {
  const messages = list(fields(fields(body.spec).request).messages).map(fields);
  const last = messages.findLast((message) => message.role === "user");
  return firstLine(messageText(last?.content)) || string(body.subject);
}

function messageText(content: unknown): string {
  if (typeof content === "string") return content;
  return list(content)
    .map((part) => string(fields(part).text))
    .join(" ");
}

function replyDetail(reply: Fields): string {
  const calls = list(reply.tool_calls).map((call) => string(fields(call).name));
  const text = firstLine(string(reply.content));
  const requested = calls.length > 0 ? `→ ${calls.join(", ")}` : "";
  return [text, requested].filter(Boolean).join(" ");
}

function preparation(calls: Fields[]): Description {
  const refused = calls.filter((call) => "refused" in call).map((call) => fields(call.refused));
  if (refused.length > 0) {
    const first = refused[0] ?? {};
    return { lane: "other", title: "Refused", detail: `${string(first.name)}: ${string(fields(first.error).message)}`, failed: true };
  }
  const names = calls.map((call) => string(fields(call.ready).name));
  return { lane: "other", title: calls.length === 1 ? "Call checked" : `${calls.length} calls checked`, detail: names.join(", ") };
}

function callEnd(envelope: Fields): Description {
  const error = envelope.error == null ? undefined : fields(envelope.error);
  const child = fields(fields(envelope.metadata).child_run);
  return {
    lane: "tool",
    title: string(envelope.name),
    detail: error ? `${string(error.code)}: ${firstLine(string(error.message))}` : preview(envelope.output),
    failed: error !== undefined,
    childRunId: optional(child.run_id),
  };
}

function decision(body: Fields, tool: string): Description {
  const made = string(fields(body.decision).decision);
  const title = made === "deny" ? "Denied" : made === "edit" ? "Edited and approved" : "Approved";
  const by = body.decided_by ? ` by ${string(body.decided_by)}` : "";
  return { lane: "wait", title: `${title}${by}`, detail: tool, failed: made === "deny" };
}

/** The beginning of a value as one line. */
export function preview(value: unknown): string {
  if (value === undefined || value === null) return "";
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return text.length > 160 ? `${text.slice(0, 160)}…` : text;
}

function fields(value: unknown): Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Fields) : {};
}

function list(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}

function string(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function optional(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}

/** The entry at which a run opens: its failure, or its last entry. */
export function firstShown(entries: EntrySummary[], runFailed: boolean): number | undefined {
  const failure = runFailed ? entries.findLast((entry) => entry.failed) : undefined;
  return (failure ?? entries.at(-1))?.n;
}
