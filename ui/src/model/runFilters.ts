/** The filters of the list of runs, as they stand in the URL and in requests. */
import { compact, text } from "./search";

export interface RunFilters {
  status?: string;
  kind?: string;
  agentRef?: string;
  calledToolRef?: string;
  principal?: string;
  startedAfter?: string;
  startedBefore?: string;
  text?: string;
  parentRunId?: string;
  conversationId?: string;
}

/** The filters in a URL. `range` is relative, so that a link means the same tomorrow. */
export interface RunSearch extends Omit<RunFilters, "startedAfter" | "startedBefore"> {
  range?: string;
}

export const RANGES: Record<string, { label: string; ms: number }> = {
  "1h": { label: "Last hour", ms: 3_600_000 },
  "24h": { label: "Last 24 hours", ms: 86_400_000 },
  "7d": { label: "Last 7 days", ms: 7 * 86_400_000 },
  "30d": { label: "Last 30 days", ms: 30 * 86_400_000 },
};

export function parseRunSearch(search: Record<string, unknown>): RunSearch {
  const range = text(search.range);
  return compact({
    status: text(search.status),
    kind: text(search.kind),
    agentRef: text(search.agentRef),
    calledToolRef: text(search.calledToolRef),
    principal: text(search.principal),
    text: text(search.text),
    parentRunId: text(search.parentRunId),
    conversationId: text(search.conversationId),
    range: range && range in RANGES ? range : undefined,
  });
}

/** The filters of a request at the time `now`. The start is rounded to the minute, so that equal requests share a cache entry. */
export function toFilters({ range, ...rest }: RunSearch, now: number): RunFilters {
  const length = range ? RANGES[range]?.ms : undefined;
  if (length === undefined) return rest;
  return { ...rest, startedAfter: new Date(Math.floor((now - length) / 60_000) * 60_000).toISOString() };
}

export function isFiltered(search: RunSearch): boolean {
  return Object.keys(search).length > 0;
}
