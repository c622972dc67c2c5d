import { expect, it } from "vitest";
import { alignEntries } from "./compare";
import { summarizeEntry } from "./entries";

const entry = (n: number) => summarizeEntry({ n, at: "2026-11-19T12:00:00Z", kind: "recovered", body: {}, canFork: true });

it("aligns by number and keeps the longer run", () => {
  const rows = alignEntries([entry(1), entry(2), entry(3)], [entry(1)], new Map([[1, true]]));
  expect(rows.map((row) => [row.n, row.left?.n, row.right?.n, row.equal])).toEqual([
    [1, 1, 1, true],
    [2, 2, undefined, undefined],
    [3, 3, undefined, undefined],
  ]);
});
