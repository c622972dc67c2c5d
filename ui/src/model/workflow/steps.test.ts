import { expect, it } from "vitest";
import { type Call, type StepState, attemptsOf, awaitedSignals, countSteps, firstStep, itemProgress, stepDuration } from "./steps";

const state = (status: StepState["status"], more: Partial<StepState> = {}): StepState => ({ status, output: null, attempts: 1, ...more });
const call = (callId: string, toolRef: string, input: unknown): Call => ({ callId, toolRef, input }) as Call;

it("an instance opens at what needs attention", () => {
  expect(firstStep({ a: state("COMPLETED"), b: state("WAITING"), c: state("FAILED") })).toBe("c");
  expect(firstStep({ a: state("COMPLETED"), b: state("WAITING"), c: state("PENDING") })).toBe("b");
  expect(firstStep({ a: state("COMPLETED"), b: state("COMPLETED"), c: state("SKIPPED") })).toBe("b");
  expect(firstStep({ a: state("PENDING") })).toBe("a");
});

it("steps are counted by status, failures first", () => {
  expect(countSteps({ a: state("COMPLETED"), b: state("COMPLETED"), c: state("FAILED") })).toEqual([
    ["FAILED", 1],
    ["COMPLETED", 2],
  ]);
});

it("earlier attempts are calls with the same tool and input that no other step has", () => {
  const calls = [
    call("call_1", "ship", { id: 1 }),
    call("call_2", "ship", { id: 2 }),
    call("call_3", "ship", { id: 2 }),
    call("call_4", "audit", { id: 2 }),
  ];
  const steps = {
    ship: state("COMPLETED", {
      callId: "call_3",
      items: [
        { index: 0, status: "COMPLETED", output: null, attempts: 1, callId: "call_1" },
        { index: 1, status: "COMPLETED", output: null, attempts: 2, callId: "call_3" },
      ],
    }),
  };
  const ids = (item: number) => attemptsOf(steps.ship.items?.[item] ?? { attempts: 0 }, calls, steps).map((one) => one.callId);
  expect(ids(0)).toEqual(["call_1"]);
  expect(ids(1)).toEqual(["call_2", "call_3"]);
  expect(attemptsOf({ attempts: 1 }, calls, steps)).toEqual([]);
});

it("a step does not take the call of another step, nor more calls than it made", () => {
  const calls = [call("call_1", "ship", { id: 2 }), call("call_2", "ship", { id: 2 }), call("call_3", "ship", { id: 2 })];
  const first = state("COMPLETED", { callId: "call_2", attempts: 3 });
  const second = state("COMPLETED", { callId: "call_3", attempts: 1 });
  expect(attemptsOf(first, calls, { first, second }).map((one) => one.callId)).toEqual(["call_1", "call_2"]);
  expect(attemptsOf(second, calls, { first, second }).map((one) => one.callId)).toEqual(["call_3"]);
});

it("progress, duration and signals of steps", () => {
  const items = ["COMPLETED", "FAILED", "RUNNING"].map((status, index) => ({ index, status, output: null, attempts: 1 })) as StepState["items"];
  expect(itemProgress(state("RUNNING", { items }))).toBe("2/3");
  expect(itemProgress(state("RUNNING"))).toBeUndefined();
  expect(stepDuration(state("RUNNING", { startedAt: "2026-11-20T00:00:00Z" }), Date.parse("2026-11-20T00:00:02Z"))).toBe(2000);
  expect(stepDuration(state("PENDING"), 0)).toBeUndefined();
  expect(awaitedSignals({ a: state("WAITING", { signal: "paid" }), b: state("WAITING"), c: state("COMPLETED", { signal: "sent" }) })).toEqual([
    "paid",
  ]);
});
