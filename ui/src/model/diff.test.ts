import { describe, expect, it } from "vitest";
import { compareFields, isEqual, leafText, listFields } from "./diff";

describe("compareFields", () => {
  it("names each leaf by its path and says how it changed", () => {
    const before = { dealId: "101", properties: { stage: "open", owner: "kim" }, tags: ["a"] };
    const after = { dealId: "101", properties: { stage: "won", amount: 5 }, tags: ["a", "b"] };
    expect(compareFields(before, after)).toEqual([
      { path: "dealId", change: "same", before: "101", after: "101" },
      { path: "properties.stage", change: "changed", before: "open", after: "won" },
      { path: "properties.amount", change: "added", after: 5 },
      { path: "properties.owner", change: "removed", before: "kim" },
      { path: "tags[0]", change: "same", before: "a", after: "a" },
      { path: "tags[1]", change: "added", after: "b" },
    ]);
  });

  it("does not descend if a list replaces an object", () => {
    expect(compareFields({ a: { b: 1 } }, { a: [1] })).toEqual([{ path: "a", change: "changed", before: { b: 1 }, after: [1] }]);
  });

  it("reports empty containers as leaves", () => {
    expect(listFields({ a: {}, b: [] }).map((field) => field.path)).toEqual(["a", "b"]);
  });

  it("handles a value without fields", () => {
    expect(compareFields(undefined, "text")).toEqual([{ path: "", change: "added", after: "text" }]);
  });
});

it("compares without regard to the order of keys", () => {
  expect(isEqual({ a: 1, b: [2] }, { b: [2], a: 1 })).toBe(true);
  expect(isEqual({ a: 1 }, { a: 1, b: null })).toBe(false);
});

it("shows strings without quotes", () => {
  expect([leafText("x"), leafText(null), leafText({ a: 1 })]).toEqual(["x", "null", '{"a":1}']);
});
