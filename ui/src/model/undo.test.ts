import { expect, it } from "vitest";
import { undoObstacle, undoOrder } from "./undo";

const effect = (outcome: string, reversible: boolean, endedAt = "2026-11-19T12:00:00Z") => ({ outcome, reversible, endedAt });

it("only a write that took effect and has a compensating tool can be undone", () => {
  expect(undoObstacle(effect("done", true))).toBeUndefined();
  expect(undoObstacle(effect("done", false))).toContain("no compensating tool");
  for (const outcome of ["undone", "failed", "captured", "unknown"]) expect(undoObstacle(effect(outcome, true))).toBeDefined();
});

it("the last write is undone first", () => {
  const [first, second] = [effect("done", true, "2026-11-19T12:00:00Z"), effect("done", true, "2026-11-19T12:00:01Z")];
  expect(undoOrder([first, second])).toEqual([second, first]);
});
