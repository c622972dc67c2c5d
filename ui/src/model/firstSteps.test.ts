import { expect, it } from "vitest";
import { firstSteps } from "./firstSteps";

it("checks off what the server has", () => {
  const steps = firstSteps({ hasModel: false, tools: 3, agents: 1, agentRuns: 0, decisions: 0 });
  expect(steps.filter((step) => step.done).map((step) => step.id)).toEqual(["tool", "agent"]);
});
