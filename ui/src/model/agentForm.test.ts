import { expect, it } from "vitest";
import { EMPTY_AGENT, fromDefinition, suggestRef, toDefinition, toPatch } from "./agentForm";

const definition = {
  refName: "clerk",
  systemPrompt: "Be brief.",
  llmConfig: { provider: "anthropic", model: "claude-x" },
  toolRefs: ["crm/get"],
  requiresApproval: true,
  policy: { maxToolCalls: 5, maxCostUsd: null },
  pins: [{ name: "deal", selector: { tool: "crm/get" }, on_missing: "error" }],
};

it("an empty form sends only what is set", () => {
  expect(toDefinition({ ...EMPTY_AGENT, refName: " clerk " })).toEqual({ refName: "clerk", requiresApproval: true });
});

it("keeps a definition when it is read and written", () => {
  expect(toDefinition(fromDefinition(definition))).toEqual({
    refName: "clerk",
    systemPrompt: "Be brief.",
    llmConfig: { provider: "anthropic", model: "claude-x" },
    toolRefs: ["crm/get"],
    requiresApproval: true,
    policy: { maxToolCalls: 5 },
    pins: [{ name: "deal", selector: { tool: "crm/get", strategy: "latest" }, on_missing: "error" }],
  });
});

it("a change has only the fields that differ", () => {
  const before = fromDefinition(definition);
  expect(toPatch(before, { ...before, systemPrompt: "", maxToolCalls: "7" })).toEqual({ systemPrompt: null, policy: { maxToolCalls: 7 } });
  expect(toPatch(before, { ...before, maxToolCalls: "", model: "" })).toEqual({
    policy: { maxToolCalls: null },
    llmConfig: { provider: null, model: null },
  });
  expect(toPatch(before, before)).toEqual({});
});

it("suggests a name that the server accepts", () => {
  expect([suggestRef("Sales Assistant (EU)"), suggestRef("  ")]).toEqual(["sales-assistant-eu", ""]);
});
