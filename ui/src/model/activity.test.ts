import { expect, it } from "vitest";
import { costSince, hourlyActivity } from "./activity";

const now = Date.parse("2026-11-19T12:30:00Z");

function run(startedAt: string, status: string, costUsd = 0, parentRunId?: string) {
  return { startedAt, status, costUsd, parentRunId };
}

it("counts the runs of each hour by their result", () => {
  const hours = hourlyActivity(
    [
      run("2026-11-19T12:01:00Z", "RUNNING"),
      run("2026-11-19T11:59:59Z", "ERROR"),
      run("2026-11-18T13:00:00Z", "COMPLETED"),
      run("2026-11-18T12:59:59Z", "COMPLETED"),
    ],
    now,
  );
  expect(hours).toHaveLength(24);
  expect(hours.at(-1)).toMatchObject({ open: 1, failed: 0, completed: 0 });
  expect(hours.at(-2)).toMatchObject({ failed: 1 });
  expect(hours.reduce((sum, hour) => sum + hour.completed, 0)).toBe(1);
});

it("counts the cost of child runs once", () => {
  const since = Date.parse("2026-11-19T00:00:00Z");
  expect(
    costSince(
      [
        run("2026-11-19T01:00:00Z", "COMPLETED", 0.5),
        run("2026-11-19T01:00:00Z", "COMPLETED", 0.2, "run_1"),
        run("2026-11-18T23:00:00Z", "COMPLETED", 9),
      ],
      since,
    ),
  ).toBe(0.5);
});
