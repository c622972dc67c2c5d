/** The steps of an instance: their status, their calls and their progress. */
import type { Schemas } from "@/api/client";
import { isEqual, type Json } from "../diff";
import type { StatusInfo } from "../status";

export type StepState = Schemas["StepView"];
export type ItemState = Schemas["StepItemView"];
export type StepStatus = Schemas["StepStatus"];
export type Call = Schemas["ToolCallEntry"];

const STATUSES: Record<StepStatus, StatusInfo> = {
  PENDING: { label: "Pending", tone: "neutral", icon: "pending" },
  RUNNING: { label: "Running", tone: "active", icon: "running" },
  WAITING: { label: "Waiting", tone: "wait", icon: "waiting" },
  COMPLETED: { label: "Completed", tone: "ok", icon: "done" },
  FAILED: { label: "Failed", tone: "bad", icon: "failed" },
  SKIPPED: { label: "Skipped", tone: "neutral", icon: "skipped" },
};

export function stepStatus(status: StepStatus): StatusInfo {
  return STATUSES[status];
}

/** The numbers of steps by status, in the order of their life cycle, without zeros. */
export function countSteps(steps: Record<string, StepState>): [StepStatus, number][] {
  const counts = new Map<StepStatus, number>();
  for (const step of Object.values(steps)) counts.set(step.status, (counts.get(step.status) ?? 0) + 1);
  const order: StepStatus[] = ["FAILED", "WAITING", "RUNNING", "COMPLETED", "SKIPPED", "PENDING"];
  return order.flatMap((status) => (counts.has(status) ? [[status, counts.get(status) ?? 0] as [StepStatus, number]] : []));
}

/** The step at which an instance opens: one that failed, one that waits or runs, or the last one that ended. */
export function firstStep(steps: Record<string, StepState>): string | undefined {
  const names = Object.keys(steps);
  const find = (status: StepStatus) => names.find((name) => steps[name]?.status === status);
  return find("FAILED") ?? find("WAITING") ?? find("RUNNING") ?? names.findLast((name) => steps[name]?.status === "COMPLETED") ?? names[0];
}

/** How many items of a `forEach` have ended: "3/4". */
export function itemProgress(step: StepState): string | undefined {
  if (!step.items) return undefined;
  const ended = step.items.filter((item) => ["COMPLETED", "FAILED", "SKIPPED"].includes(item.status)).length;
  return `${ended}/${step.items.length}`;
}

/** The milliseconds from the start of a step to its end, or to `now`. */
export function stepDuration(step: StepState, now: number): number | undefined {
  if (!step.startedAt) return undefined;
  return Math.max(0, (step.endedAt ? Date.parse(step.endedAt) : now) - Date.parse(step.startedAt));
}

/**
 * The calls of a step or an item, oldest first. A step names its last call only, so the earlier attempts are the calls to
 * the same tool with the same input that are not the last call of another step.
 */
export function attemptsOf(
  target: { callId?: string | null | undefined; attempts: number },
  calls: Call[],
  steps: Record<string, StepState>,
): Call[] {
  const last = calls.find((call) => call.callId === target.callId);
  if (!last) return [];
  const claimed = new Set(Object.values(steps).flatMap((step) => [step.callId, ...(step.items ?? []).map((item) => item.callId)]));
  const earlier = calls.filter(
    (call) => call.toolRef === last.toolRef && !claimed.has(call.callId) && isEqual(call.input as Json | undefined, last.input as Json | undefined),
  );
  return [...earlier.slice(0, Math.max(0, target.attempts - 1)), last];
}

/** The names of the steps that wait for a signal, by the name of the signal. */
export function awaitedSignals(steps: Record<string, StepState>): string[] {
  return [...new Set(Object.values(steps).flatMap((step) => (step.status === "WAITING" && step.signal ? [step.signal] : [])))];
}
