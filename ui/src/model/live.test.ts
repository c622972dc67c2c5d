import { expect, it } from "vitest";
import { isLongList, mergeKeys, reconnectDelay, staleKeys, updateDelay } from "./live";

it("an approval changes the inbox and its run", () => {
  expect(staleKeys({ type: "APPROVAL_REQUESTED", kind: "approvals", id: "call_1", runId: "run_1" })).toEqual([
    ["approvals"],
    ["runs"],
    ["run", "run_1"],
  ]);
});

it("a definition of a workflow changes its pages, and a step registration every page that names it", () => {
  expect(staleKeys({ type: "DEFINITION_UPDATED", kind: "workflows", ref: "orders/fulfil" })).toEqual([["workflows"], ["workflow", "orders/fulfil"]]);
  expect(staleKeys({ type: "DEFINITION_UPDATED", kind: "step-registrations", ref: "ship" })).toEqual([["vocabulary"]]);
});

it("missed events make everything stale, and unknown events nothing", () => {
  expect(staleKeys({ type: "RESET" })).toEqual([[]]);
  expect(staleKeys({ type: "READY" })).toEqual([]);
});

it("merges keys that another key includes", () => {
  expect(mergeKeys([["run", "a"], ["runs"], ["run", "a"], ["run"]])).toEqual([["runs"], ["run"]]);
  expect(mergeKeys([["runs"], []])).toEqual([[]]);
});

it("waits longer after each failure, up to a limit", () => {
  expect([0, 1, 2, 20].map(reconnectDelay)).toEqual([500, 1000, 2000, 30_000]);
});

it("a single event is shown at once, and many events are collected", () => {
  expect(updateDelay(0, 100_000)).toBe(150);
  expect(updateDelay(100_000, 100_200)).toBe(1300);
});

it("a list of many pages is not read again for each event", () => {
  expect([{ pages: Array(6).fill([]) }, { pages: [[]] }, undefined, []].map(isLongList)).toEqual([true, false, false, false]);
});
