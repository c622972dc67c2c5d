import { expect, it } from "vitest";
import { isFiltered, parseRunSearch, toFilters } from "./runFilters";

it("reads known filters from a URL and ignores the rest", () => {
  expect(parseRunSearch({ status: "ERROR", agentRef: "", range: "9y", evil: "1", text: 42 })).toEqual({ status: "ERROR", text: "42" });
});

it("a relative range becomes a start time", () => {
  const now = Date.parse("2026-11-19T12:00:30Z");
  expect(toFilters({ range: "1h", kind: "agent" }, now)).toEqual({ kind: "agent", startedAfter: "2026-11-19T11:00:00.000Z" });
  expect(toFilters({ kind: "agent" }, now)).toEqual({ kind: "agent" });
});

it("knows whether any filter is set", () => {
  expect([isFiltered({}), isFiltered({ range: "1h" })]).toEqual([false, true]);
});
