/** How statuses are shown: a label, a tone and an icon, so that no status depends on colour alone. */

export type Tone = "neutral" | "active" | "ok" | "wait" | "warn" | "bad";
export type StatusIcon =
  "running" | "done" | "approval" | "client" | "waiting" | "paused" | "failed" | "limit" | "cancelled" | "pending" | "skipped" | "unknown";

export interface StatusInfo {
  label: string;
  tone: Tone;
  icon: StatusIcon;
}

export const RUN_STATUSES = [
  "RUNNING",
  "AWAITING_APPROVAL",
  "AWAITING_CLIENT",
  "WAITING",
  "PAUSED",
  "COMPLETED",
  "ERROR",
  "TIMEOUT",
  "MAX_ITERATIONS",
  "BUDGET_EXCEEDED",
  "CANCELLED",
] as const;

export type RunStatus = (typeof RUN_STATUSES)[number];

const STATUSES: Record<RunStatus, StatusInfo> = {
  RUNNING: { label: "Running", tone: "active", icon: "running" },
  AWAITING_APPROVAL: { label: "Needs approval", tone: "wait", icon: "approval" },
  AWAITING_CLIENT: { label: "Waits for client", tone: "wait", icon: "client" },
  WAITING: { label: "Waiting", tone: "wait", icon: "waiting" },
  PAUSED: { label: "Paused", tone: "neutral", icon: "paused" },
  COMPLETED: { label: "Completed", tone: "ok", icon: "done" },
  ERROR: { label: "Failed", tone: "bad", icon: "failed" },
  TIMEOUT: { label: "Timed out", tone: "bad", icon: "limit" },
  MAX_ITERATIONS: { label: "Too many steps", tone: "warn", icon: "limit" },
  BUDGET_EXCEEDED: { label: "Over budget", tone: "warn", icon: "limit" },
  CANCELLED: { label: "Cancelled", tone: "neutral", icon: "cancelled" },
};

export function runStatus(status: string): StatusInfo {
  return STATUSES[status as RunStatus] ?? { label: status, tone: "neutral", icon: "unknown" };
}

/** The statuses of runs that have not ended. */
export const OPEN_STATUSES: RunStatus[] = ["RUNNING", "AWAITING_APPROVAL", "AWAITING_CLIENT", "WAITING", "PAUSED"];

/** The statuses of runs that ended without the requested result. */
export const FAILED_STATUSES: RunStatus[] = ["ERROR", "TIMEOUT", "MAX_ITERATIONS", "BUDGET_EXCEEDED"];

export function hasEnded(status: string): boolean {
  return !OPEN_STATUSES.includes(status as RunStatus);
}

export function hasFailed(status: string): boolean {
  return FAILED_STATUSES.includes(status as RunStatus);
}

/** The second line of a run in a list: what ran, or what kind of run it is if the first line names it. */
export function runDetail(run: { kind: string; subject: string }): string {
  if (run.kind === "tool") return "direct call";
  return run.kind === "workflow" ? "workflow" : run.subject;
}

const OUTCOMES: Record<string, StatusInfo> = {
  approved: { label: "Approved", tone: "ok", icon: "done" },
  edited: { label: "Edited and approved", tone: "ok", icon: "done" },
  denied: { label: "Denied", tone: "bad", icon: "failed" },
  expired: { label: "Expired", tone: "neutral", icon: "limit" },
  done: { label: "Done", tone: "ok", icon: "done" },
  failed: { label: "Failed", tone: "bad", icon: "failed" },
  unknown: { label: "Unknown", tone: "warn", icon: "unknown" },
  undone: { label: "Undone", tone: "neutral", icon: "cancelled" },
  captured: { label: "Captured", tone: "neutral", icon: "client" },
};

/** The outcome of an approval or of an effect. */
export function outcome(name: string): StatusInfo {
  return OUTCOMES[name] ?? { label: name, tone: "neutral", icon: "unknown" };
}
