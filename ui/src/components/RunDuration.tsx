import { duration } from "@/model/format";
import { useNow } from "./Time";

/** How long a run took, or has taken so far. */
export function RunDuration({ run }: { run: { startedAt: string; endedAt?: string | null } }) {
  return run.endedAt ? duration(Date.parse(run.endedAt) - Date.parse(run.startedAt)) : <Elapsed since={run.startedAt} />;
}

function Elapsed({ since }: { since: string }) {
  return <>{duration(Math.max(0, useNow() - Date.parse(since)))}</>;
}
