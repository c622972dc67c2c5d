import { QueryClient } from "@tanstack/react-query";
import { ApiError } from "@/api/client";
import { live } from "@/api/live";
import { type CacheKey, isLongList, mergeKeys, staleKeys, updateDelay } from "@/model/live";

export const queryClient = new QueryClient({
  defaultOptions: {
    queries: {
      // The live connection reports changes, so cached data stays valid until an event says otherwise.
      staleTime: 60_000,
      retry: (failures, error) => failures < 2 && error instanceof ApiError && (error.status === 0 || error.status >= 500),
      refetchOnWindowFocus: false,
    },
  },
});

let pending: CacheKey[] = [];
let timer: ReturnType<typeof setTimeout> | undefined;
let lastUpdate = 0;

live.onEvent((event) => {
  pending.push(...staleKeys(event));
  if (pending.length > 0) timer ??= setTimeout(update, updateDelay(lastUpdate, Date.now()));
});

function update() {
  const keys = mergeKeys(pending);
  pending = [];
  timer = undefined;
  lastUpdate = Date.now();
  for (const queryKey of keys) void queryClient.invalidateQueries({ queryKey, predicate: (query) => !isLongList(query.state.data) });
}

// Events that were missed while the connection was down are delivered after it is up again, except at the first time.
let wasOffline = false;
live.onStatus(() => {
  if (live.getStatus() === "offline") wasOffline = true;
  else if (live.getStatus() === "live" && wasOffline) {
    wasOffline = false;
    void queryClient.invalidateQueries();
  }
});
