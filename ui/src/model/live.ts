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
      return [["tools"], ["tool", event.ref ?? ""]];
    case "providers":
      return [["providers"], ["provider", event.ref ?? ""], ["tools"]];
    case "agents":
      return [["agents"], ["agent", event.ref ?? ""]];
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

/** The delay before the next attempt to connect, which doubles up to half a minute. */
export function reconnectDelay(failures: number): number {
  return Math.min(30_000, 500 * 2 ** Math.min(failures, 8));
}
