/** What an approval means for the person who decides. */

/** Whether the call is a built-in step of a workflow, which is no tool with a page. */
export function isWorkflowStep(toolRef: string): boolean {
  return toolRef.startsWith("quantum.");
}

/** What the person decides about: the message of a workflow, or the tool that is called. */
export function approvalTitle({ toolRef, input }: { toolRef: string; input?: unknown }): string {
  const message = isWorkflowStep(toolRef) ? (input as { message?: unknown } | null | undefined)?.message : undefined;
  return typeof message === "string" && message !== "" ? message : toolRef;
}

/** Why a call needs an approval, in words. */
export function triggerText(trigger: string, toolRef: string, agentRef: string): string {
  switch (trigger) {
    case "tool":
      if (isWorkflowStep(toolRef)) return `A step of the workflow ${agentRef} asks for a decision.`;
      return `The tool ${toolRef} requires a confirmation of each call.`;
    case "agent":
      return `The agent ${agentRef} requires an approval of its writes.`;
    case "guardrail":
      return `A guardrail of the agent ${agentRef} requires an approval of this call.`;
    case "unknown_outcome":
      return "The server was interrupted during this write, so it may have taken effect. Check the external system first. An approval repeats the call.";
    case "plan":
      return "The plan of this run requires an approval before its first step.";
    default:
      return `Required by: ${trigger}.`;
  }
}

/** A change of a definition after which calls like this one need no approval. */
export interface StandingRule {
  kind: "tool" | "agent";
  ref: string;
  patch: Record<string, boolean>;
  consequence: string;
}

/** Returns the changes that would be necessary, or a reason why no setting can be changed for it. */
export function standingRules(
  triggers: string[],
  toolRef: string,
  agentRef: string,
  runKind = "agent",
): { rules: StandingRule[]; impossible?: string } {
  const rules: StandingRule[] = [];
  for (const trigger of triggers) {
    if (trigger === "tool") {
      rules.push({ kind: "tool", ref: toolRef, patch: { requiresConfirmation: false }, consequence: `No agent asks before it calls ${toolRef}.` });
    } else if (trigger === "agent" && runKind === "agent") {
      rules.push({
        kind: "agent",
        ref: agentRef,
        patch: { requiresApproval: false },
        consequence: `${agentRef} asks before none of its writes, with any tool.`,
      });
    } else {
      return { rules: [], impossible: `The approval is also required by “${trigger}”, which no setting of the tool or agent turns off.` };
    }
  }
  return { rules };
}

export type Urgency = "none" | "soon" | "expired";

const SOON_MS = 3_600_000;

export function urgency(expiresAt: string | null | undefined, now: number): Urgency {
  if (!expiresAt) return "none";
  const left = Date.parse(expiresAt) - now;
  if (left <= 0) return "expired";
  return left < SOON_MS ? "soon" : "none";
}

/** The item after `key` in a list, or the one before it if it is the last; undefined if the list has no other. */
export function neighbour<T>(items: T[], key: (item: T) => string, current: string | undefined, step: 1 | -1): T | undefined {
  const index = items.findIndex((item) => key(item) === current);
  if (index < 0) return items[0];
  return items[Math.min(items.length - 1, Math.max(0, index + step))];
}
