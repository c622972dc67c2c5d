import { describe, expect, it } from "vitest";
import { axisLabels, mergeIntervals, timeScale } from "./timeScale";

describe("timeScale", () => {
  it("is linear without idle time", () => {
    const scale = timeScale([{ start: 0, end: 1000 }], 0, 1000);
    expect([0, 250, 1000, 2000].map(scale.position)).toEqual([0, 0.25, 1, 1]);
    expect(scale.folds).toEqual([]);
  });

  it("folds a long wait to a narrow strip", () => {
    const scale = timeScale(
      [
        { start: 0, end: 100 },
        { start: 3_600_000, end: 3_600_100 },
      ],
      0,
      3_600_100,
    );
    expect(scale.folds).toHaveLength(1);
    const [fold] = scale.folds;
    expect(fold).toMatchObject({ start: 100, end: 3_600_000 });
    expect((fold?.right ?? 0) - (fold?.left ?? 0)).toBeCloseTo(0.05);
    expect(scale.position(100)).toBeCloseTo(0.475);
    expect(scale.position(3_600_000)).toBeCloseTo(0.525);
  });

  it("keeps a gap that is short in comparison with the work", () => {
    expect(
      timeScale(
        [
          { start: 0, end: 60_000 },
          { start: 70_000, end: 80_000 },
        ],
        0,
        80_000,
      ).folds,
    ).toEqual([]);
  });

  it("folds the time in which a run still waits", () => {
    const scale = timeScale([{ start: 0, end: 50 }], 0, 600_000);
    expect(scale.folds).toHaveLength(1);
    expect(scale.position(600_000)).toBeCloseTo(1);
  });

  it("limits the width of many folds", () => {
    const busy = Array.from({ length: 40 }, (_, index) => ({ start: index * 10_000, end: index * 10_000 + 10 }));
    const scale = timeScale(busy, 0, 400_000);
    const width = scale.folds.reduce((sum, fold) => sum + fold.right - fold.left, 0);
    expect(width).toBeCloseTo(1 / 3);
  });

  it("never goes back", () => {
    const scale = timeScale(
      [
        { start: 5, end: 20 },
        { start: 10, end: 12 },
        { start: 90_000, end: 90_001 },
      ],
      0,
      100_000,
    );
    const positions = Array.from({ length: 1001 }, (_, index) => scale.position(index * 100));
    expect(positions).toEqual([...positions].sort((a, b) => a - b));
  });

  it("accepts a run without any work", () => {
    expect(timeScale([], 7, 7).position(7)).toBe(0);
  });
});

it("merges overlapping intervals", () => {
  expect(
    mergeIntervals([
      { start: 5, end: 9 },
      { start: 0, end: 6 },
      { start: 20, end: 21 },
    ]),
  ).toEqual([
    { start: 0, end: 9 },
    { start: 20, end: 21 },
  ]);
});

describe("axisLabels", () => {
  it("a fold at the end takes the place of the total", () => {
    const waiting = timeScale([{ start: 0, end: 50 }], 0, 600_000);
    expect(axisLabels(waiting)).toMatchObject({ folds: [{ ms: 599_950 }], total: undefined });
    expect(axisLabels(timeScale([{ start: 0, end: 1000 }], 0, 1000))).toEqual({ folds: [], total: 1000 });
  });

  it("labels do not overlap", () => {
    const busy = Array.from({ length: 40 }, (_, index) => ({ start: index * 10_000, end: index * 10_000 + 10 }));
    const { folds } = axisLabels(timeScale(busy, 0, 400_000));
    expect(folds.length).toBeGreaterThan(2);
    expect(folds.every((fold, index) => index === 0 || fold.at - (folds[index - 1]?.at ?? 0) >= 0.14)).toBe(true);
  });
});
