import { describe, expect, it } from "vitest";
import { type JournalEntry, firstShown, preview, summarizeEntry } from "./entries";

function entry(kind: string, body: Record<string, unknown>, more: Partial<JournalEntry> = {}): JournalEntry {
  return { n: 2, at: "2026-11-19T12:00:01Z", kind, body, canFork: true, ...more };
}

describe("summarizeEntry", () => {
  it("a reply shows its text and the requested calls", () => {
    const reply = { content: "Let me look.\nSecond line", tool_calls: [{ name: "crm/find" }, { name: "crm/get" }] };
    const summary = summarizeEntry(entry("model_replied", { reply }, { durationMs: 400, usage: { inputTokens: 10, outputTokens: 5 }, costUsd: 0.5 }));
    expect(summary).toMatchObject({ lane: "model", detail: "Let me look. → crm/find, crm/get", tokens: 15, costUsd: 0.5, failed: false });
    expect(summary.end - summary.start).toBe(400);
  });

  it("an ended call shows its error or its output, and its child run", () => {
    const failed = { name: "crm/get", error: { code: "TIMEOUT", message: "too slow" } };
    expect(summarizeEntry(entry("call_ended", { envelope: failed }))).toMatchObject({ title: "crm/get", detail: "TIMEOUT: too slow", failed: true });
    const done = { name: "helper", output: { a: 1 }, error: null, metadata: { child_run: { run_id: "run_2" } } };
    expect(summarizeEntry(entry("call_ended", { envelope: done }))).toMatchObject({ detail: '{"a":1}', failed: false, childRunId: "run_2" });
  });

  it("a refused call is a failure with its reason", () => {
    const refused = { name: "crm/get", error: { message: "`id` is required" } };
    expect(summarizeEntry(entry("prepared", { calls: [{ refused }] }))).toMatchObject({
      title: "Refused",
      detail: "crm/get: `id` is required",
      failed: true,
    });
  });

  it("a decision names the person, and a denial counts as a failure", () => {
    const decided = (made: string) =>
      summarizeEntry(entry("approval_decided", { decision: { decision: made }, decided_by: "ada" }, { toolRef: "crm/delete" }));
    expect(decided("approve")).toMatchObject({ lane: "wait", title: "Approved by ada", detail: "crm/delete", failed: false });
    expect(decided("deny")).toMatchObject({ title: "Denied by ada", failed: true });
  });

  it("the start shows the user's last message", () => {
    const messages = [
      { role: "system", content: "Be brief." },
      { role: "user", content: [{ type: "text", text: "Hello" }] },
    ];
    expect(summarizeEntry(entry("started", { subject: "clerk", spec: { request: { messages } } })).detail).toBe("Hello");
    expect(summarizeEntry(entry("started", { subject: "clerk" })).detail).toBe("clerk");
  });

  it("unknown kinds of later releases are still shown", () => {
    expect(summarizeEntry(entry("moon_landed", {}))).toMatchObject({ lane: "other", title: "moon landed" });
  });
});

it("shortens long values", () => {
  expect(preview("x".repeat(200))).toHaveLength(161);
  expect([preview(null), preview({ a: 1 })]).toEqual(["", '{"a":1}']);
});

it("a failed run opens at its failure, any other run at its end", () => {
  const rows = [1, 2, 3].map((n) => summarizeEntry(entry(n === 2 ? "failed" : "recovered", {}, { n })));
  expect([firstShown(rows, true), firstShown(rows, false), firstShown([], true)]).toEqual([2, 3, undefined]);
});
