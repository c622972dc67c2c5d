/** Summarizes the runs of the last 24 hours for the home screen. */
import { hasEnded, hasFailed } from "./status";

export interface ActivityRun {
  startedAt: string;
  status: string;
  costUsd: number;
  parentRunId?: string | null;
}

export interface ActivityHour {
  start: number;
  completed: number;
  failed: number;
  open: number;
}

const HOUR = 3_600_000;

/** Counts the runs of each of the last 24 hours. The last hour is the current one. */
export function hourlyActivity(runs: ActivityRun[], now: number): ActivityHour[] {
  const first = (Math.floor(now / HOUR) - 23) * HOUR;
  const hours = Array.from({ length: 24 }, (_, index) => ({ start: first + index * HOUR, completed: 0, failed: 0, open: 0 }));
  for (const run of runs) {
    const hour = hours[Math.floor((Date.parse(run.startedAt) - first) / HOUR)];
    if (!hour) continue;
    if (!hasEnded(run.status)) hour.open++;
    else if (hasFailed(run.status)) hour.failed++;
    else hour.completed++;
  }
  return hours;
}

/** The cost of the runs since midnight. The cost of a child run is part of its parent. */
export function costSince(runs: ActivityRun[], since: number): number {
  return runs.filter((run) => !run.parentRunId && Date.parse(run.startedAt) >= since).reduce((sum, run) => sum + run.costUsd, 0);
}

export function midnight(now: number): number {
  const date = new Date(now);
  date.setHours(0, 0, 0, 0);
  return date.getTime();
}
