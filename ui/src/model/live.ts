/** Which cached data an event of the realm makes stale. */

export interface RealmEvent {
  type: string;
  kind?: string | null;
  id?: string | null;
  ref?: string | null;
  runId?: string | null;
}

export type CacheKey = readonly string[];

/** Returns the prefixes of the stale cache keys. An empty prefix means everything. */
export function staleKeys(event: RealmEvent): CacheKey[] {
  if (event.type === "RESET") return [[]];
  switch (event.kind) {
    case "runs":
      return [["runs"], ["effects"], ["approvals"], ["conversations"], ["run", event.id ?? ""]];
    case "approvals":
      return [["approvals"], ["runs"], ["run", event.runId ?? ""]];
    case "tools":
      return [["tools"], ["tool", event.ref ?? ""], ["agents", "reach"]];
    case "providers":
      return [["providers"], ["provider", event.ref ?? ""], ["tools"], ["agents", "reach"]];
    case "agents":
      return [["agents"], ["agent", event.ref ?? ""]];
    case "workflows":
      return [["workflows"], ["workflow", event.ref ?? ""]];
    case "step-registrations":
    case "condition-bindings":
      return [["vocabulary"]];
    case "types":
      return [["agents", "reach"]];
    case "drift":
      return [["drift"]];
    default:
      return [];
  }
}

/** Removes keys that occur twice or that another key includes. */
export function mergeKeys(keys: CacheKey[]): CacheKey[] {
  const unique = [...new Map(keys.map((key) => [key.join("\0"), key])).values()];
  return unique.filter((key) => !unique.some((other) => other !== key && other.every((part, index) => key[index] === part)));
}

const FIRST_UPDATE_MS = 150;
const UPDATE_INTERVAL_MS = 1500;

/**
 * The delay before stale data is read again. A single event is shown at once; the events of a busy realm are collected,
 * so that a tab makes a limited number of requests.
 */
export function updateDelay(lastUpdate: number, now: number): number {
  return Math.max(FIRST_UPDATE_MS, lastUpdate + UPDATE_INTERVAL_MS - now);
}

/** A list with more pages is not read again by itself, because each of its pages would be requested. */
const MAX_LIVE_PAGES = 5;

export function isLongList(data: unknown): boolean {
  const pages = (data as { pages?: unknown } | undefined)?.pages;
  return Array.isArray(pages) && pages.length > MAX_LIVE_PAGES;
}

/** The delay before the next attempt to connect, which doubles up to half a minute. */
export function reconnectDelay(failures: number): number {
  return Math.min(30_000, 500 * 2 ** Math.min(failures, 8));
}
