import { expect, it } from "vitest";
import { type Reach, nodesOf, relatedTo, relationTo, unapprovedWrites } from "./reach";

const node = (id: string, more = {}) => ({ id, kind: id.split(":")[0] ?? "", name: id.split(":")[1] ?? "", ...more });
const edge = (from: string, to: string, by = "name") => ({ from, to, by });

const REACH: Reach = {
  nodes: [
    node("agent:careful", { requiresConfirmation: true }),
    node("agent:free", { requiresConfirmation: false }),
    node("tool:read", { sideEffects: "reads" }),
    node("tool:write", { sideEffects: "writes", requiresConfirmation: false }),
    node("tool:delete", { sideEffects: "writes", requiresConfirmation: true }),
    node("tool:inner", { sideEffects: "writes", requiresConfirmation: false }),
    node("provider:crm"),
    node("host:crm.example.com"),
  ] as Reach["nodes"],
  edges: [
    edge("agent:free", "agent:careful", "delegate"),
    edge("agent:careful", "tool:write"),
    edge("agent:careful", "tool:read", "category"),
    edge("agent:free", "tool:delete"),
    edge("agent:free", "tool:read"),
    edge("tool:read", "tool:inner", "fallback"),
    edge("tool:read", "provider:crm", "provider"),
    edge("tool:write", "provider:crm", "provider"),
    edge("provider:crm", "host:crm.example.com", "host"),
  ],
  truncated: false,
};

it("a node is related to all that it reaches and all that reach it, but not to its siblings", () => {
  expect([...relatedTo(REACH, ["tool:write"])].sort()).toEqual(["agent:careful", "agent:free", "host:crm.example.com", "provider:crm", "tool:write"]);
});

it("a write without an approval is one that neither its agent nor its tool asks for", () => {
  expect([...unapprovedWrites(REACH)]).toEqual(["tool:inner"]);
});

it("a choice of tools keeps what is related to them, and a selection what is related to it", () => {
  expect(nodesOf(REACH, "unapproved", undefined).map((one) => one.id)).toEqual(["agent:careful", "agent:free", "tool:inner"]);
  expect(nodesOf(REACH, undefined, "tool:delete").map((one) => one.id)).toEqual(["agent:free", "tool:delete"]);
  expect(nodesOf(REACH, undefined, undefined)).toHaveLength(REACH.nodes.length);
});

it("a relation is named by its edge, in both directions", () => {
  expect(relationTo(REACH, "agent:careful", "tool:read")).toBe("by category");
  expect(relationTo(REACH, "tool:read", "agent:careful")).toBe("by category");
  expect(relationTo(REACH, "agent:careful", "host:crm.example.com")).toBeUndefined();
});
