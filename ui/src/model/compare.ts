/** Aligns the entries of two runs by their numbers. */
import type { EntrySummary } from "./entries";

export interface AlignedRow {
  n: number;
  left: EntrySummary | undefined;
  right: EntrySummary | undefined;
  /** Whether the server found them equal; undefined where it did not compare. */
  equal: boolean | undefined;
}

export function alignEntries(left: EntrySummary[], right: EntrySummary[], equal: ReadonlyMap<number, boolean>): AlignedRow[] {
  const length = Math.max(left.at(-1)?.n ?? 0, right.at(-1)?.n ?? 0);
  const leftByNumber = new Map(left.map((entry) => [entry.n, entry]));
  const rightByNumber = new Map(right.map((entry) => [entry.n, entry]));
  return Array.from({ length }, (_, index) => {
    const n = index + 1;
    return { n, left: leftByNumber.get(n), right: rightByNumber.get(n), equal: equal.get(n) };
  });
}
