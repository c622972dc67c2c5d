import { describe, expect, it } from "vitest";
import { approvalTitle, neighbour, standingRules, triggerText, urgency } from "./approval";

it("an approval of a workflow is named by its message", () => {
  const toolRef = "quantum.flow.approval";
  expect(approvalTitle({ toolRef, input: { message: "Ship it?" } })).toBe("Ship it?");
  expect(approvalTitle({ toolRef, input: "Ship it?" })).toBe(toolRef);
  expect(approvalTitle({ toolRef: "crm/delete", input: { message: "Bye" } })).toBe("crm/delete");
  expect(triggerText("tool", toolRef, "orders/fulfil")).toBe("A step of the workflow orders/fulfil asks for a decision.");
});

describe("standingRules", () => {
  it("turns off each setting that required the approval", () => {
    const { rules } = standingRules(["tool", "agent"], "crm/delete", "clerk");
    expect(rules.map(({ kind, ref, patch }) => ({ kind, ref, patch }))).toEqual([
      { kind: "tool", ref: "crm/delete", patch: { requiresConfirmation: false } },
      { kind: "agent", ref: "clerk", patch: { requiresApproval: false } },
    ]);
  });

  it("an agentic tool has no setting of an agent", () => {
    expect(standingRules(["agent"], "crm/delete", "deal-manager", "agentic-tool").rules).toEqual([]);
  });

  it("offers nothing if a guardrail requires the approval", () => {
    expect(standingRules(["tool", "guardrail"], "a", "b")).toMatchObject({ rules: [], impossible: expect.stringContaining("guardrail") });
  });
});

it("explains each trigger", () => {
  expect(triggerText("tool", "crm/delete", "clerk")).toContain("crm/delete");
  expect(triggerText("agent", "crm/delete", "clerk")).toContain("clerk");
  expect(triggerText("new_kind", "a", "b")).toContain("new_kind");
});

it("warns in the last hour before the deadline", () => {
  const now = Date.parse("2026-11-19T12:00:00Z");
  expect([undefined, "2026-11-20T12:00:00Z", "2026-11-19T12:30:00Z", "2026-11-19T12:00:00Z"].map((at) => urgency(at, now))).toEqual([
    "none",
    "none",
    "soon",
    "expired",
  ]);
});

it("finds the neighbour and stays at the ends", () => {
  const find = (current: string | undefined, step: 1 | -1) => neighbour(["a", "b", "c"], (item) => item, current, step);
  expect([find("a", 1), find("c", 1), find("a", -1), find(undefined, 1)]).toEqual(["b", "c", "a", "a"]);
});
