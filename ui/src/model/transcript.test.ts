import { describe, expect, it } from "vitest";
import { EMPTY, type StreamEvent, applyEvent, exchangesOf, waits } from "./transcript";

const play = (events: StreamEvent[]) => events.reduce(applyEvent, EMPTY);
const invocation = (status?: string) => ({
  callId: "call_1",
  toolRef: "crm/get",
  input: { id: 1 },
  output: { a: 1 },
  durationMs: 5,
  status: status ?? null,
});

describe("applyEvent", () => {
  it("joins pieces of text by model call", () => {
    const run = play([
      { type: "TEXT_DELTA", content: "Let ", iteration: 1, runId: "run_1" },
      { type: "TEXT_DELTA", content: "me look.", iteration: 1 },
      { type: "TEXT_DELTA", content: "Done.", iteration: 2 },
      { type: "DONE", content: "Done.", status: "COMPLETED" },
    ]);
    expect(run.steps.map((step) => step.text)).toEqual(["Let me look.", "Done."]);
    expect(run).toMatchObject({ runId: "run_1", ended: true, status: "COMPLETED", error: undefined });
  });

  it("a reset discards the pieces of the model call", () => {
    expect(
      play([
        { type: "TEXT_DELTA", content: "wrong", iteration: 1 },
        { type: "TEXT_RESET", iteration: 1 },
        { type: "TEXT_DELTA", content: "right", iteration: 1 },
      ]).steps[0]?.text,
    ).toBe("right");
  });

  it("a call that needs an approval waits until it ends", () => {
    const waiting = play([
      { type: "APPROVAL_REQUIRED", iteration: 1, approval: { runId: "run_1", callId: "call_1", toolRef: "crm/delete", triggers: ["tool"] } },
    ]);
    expect(waits(waiting)).toBe(true);
    const done = applyEvent(waiting, { type: "TOOL_CALL_END", iteration: 1, toolInvocation: invocation("SUCCESS") });
    expect(waits(done)).toBe(false);
    expect(done.steps[0]?.calls).toMatchObject([{ state: "done", approval: undefined }]);
  });

  it("an ended call replaces its start, also after later model calls", () => {
    const run = play([
      { type: "TOOL_CALL_START", iteration: 1, toolInvocation: invocation() },
      { type: "TEXT_DELTA", content: "…", iteration: 2 },
      { type: "TOOL_CALL_END", iteration: 2, toolInvocation: { ...invocation("ERROR"), errorMessage: "too slow" } },
    ]);
    expect(run.steps.map((step) => step.calls.length)).toEqual([1, 0]);
    expect(run.steps[0]?.calls[0]).toMatchObject({ state: "failed", error: "too slow" });
  });

  it("adds up tokens and cost", () => {
    const usage = { type: "USAGE", usage: { inputTokens: 10, outputTokens: 5 }, costUsd: 0.5 };
    expect(play([usage, usage])).toMatchObject({ tokens: 30, costUsd: 1 });
  });

  it("shows why a run ended early", () => {
    expect(play([{ type: "ERROR", content: "no such model", status: "ERROR" }]).error).toBe("no such model");
    expect(play([{ type: "DONE", status: "CANCELLED", reason: "cancelled" }]).error).toBe("cancelled");
  });
});

it("groups stored turns into exchanges", () => {
  const exchanges = exchangesOf([
    { role: "user", content: "Hello", runId: "run_1" },
    { role: "assistant", content: "Let me look.", runId: "run_1", toolCalls: [invocation("SUCCESS")] },
    { role: "tool", content: "{}", runId: "run_1" },
    { role: "assistant", content: "Hi.", runId: "run_1" },
    { role: "user", content: "Thanks", runId: "run_2" },
  ]);
  expect(exchanges.map((exchange) => [exchange.userMessage, exchange.transcript.steps.map((step) => step.text)])).toEqual([
    ["Hello", ["Let me look.", "Hi."]],
    ["Thanks", []],
  ]);
  expect(exchanges[0]?.transcript.steps[0]?.calls[0]?.state).toBe("done");
});
