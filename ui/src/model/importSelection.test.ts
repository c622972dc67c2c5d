import { expect, it } from "vitest";
import { operationPatterns, sameNames } from "./importSelection";

it("a pattern matches the operation id of a tool", () => {
  expect(operationPatterns(["tickets/list", "tickets/user.get_all", "list"])).toEqual(["list", "user*get*all", "list"]);
});

it("compares lists without regard to their order", () => {
  expect([sameNames(["a", "b"], ["b", "a"]), sameNames(["a"], ["a", "b"]), sameNames(["a", "b"], ["a"]), sameNames(["a", "b"], ["a", "c"])]).toEqual([
    true,
    false,
    false,
    false,
  ]);
});
