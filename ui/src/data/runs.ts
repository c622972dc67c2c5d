import { keepPreviousData, useInfiniteQuery, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { type Schemas, api, read } from "@/api/client";
import { type EntrySummary, summarizeEntry } from "@/model/entries";
import type { RunFilters } from "@/model/runFilters";
import { OPEN_STATUSES } from "@/model/status";

export type RunSummary = Schemas["RunSummaryView"];
export type Run = Schemas["RunView"];
export type RunNode = Schemas["RunNodeView"];
export type RunState = Schemas["RunStateView"];

const PAGE = 100;

export function useRuns(filters: RunFilters) {
  return useInfiniteQuery({
    queryKey: ["runs", "list", filters],
    queryFn: ({ pageParam, signal }) =>
      read(api.GET("/api/v1/ai/runs", { params: { query: { ...filters, limit: PAGE, cursor: pageParam } }, signal })),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => page.nextCursor ?? undefined,
    placeholderData: keepPreviousData,
  });
}

/** The newest runs that match. */
export function useRecentRuns(filters: RunFilters, limit = 5) {
  return useQuery({
    queryKey: ["runs", "recent", filters, limit],
    queryFn: () => read(api.GET("/api/v1/ai/runs", { params: { query: { ...filters, limit } } })),
    placeholderData: keepPreviousData,
  });
}

export function useRunCount(filters: RunFilters) {
  return useQuery({
    queryKey: ["runs", "count", filters],
    queryFn: async () => (await read(api.GET("/api/v1/ai/runs/count", { params: { query: filters } }))).count,
    placeholderData: keepPreviousData,
  });
}

/** The runs since a time, at most `pages` pages of 100. `complete` says whether these are all. */
export function useRunsSince(startedAfter: string, pages = 5) {
  return useQuery({
    queryKey: ["runs", "since", startedAfter],
    queryFn: async () => {
      const runs: RunSummary[] = [];
      let cursor: string | undefined;
      for (let page = 0; page < pages; page++) {
        const next = await read(api.GET("/api/v1/ai/runs", { params: { query: { startedAfter, limit: PAGE, cursor } } }));
        runs.push(...next.items);
        cursor = next.nextCursor ?? undefined;
        if (!cursor) break;
      }
      return { runs, complete: cursor === undefined };
    },
    placeholderData: keepPreviousData,
  });
}

export function useRun(id: string) {
  return useQuery({
    queryKey: ["run", id, "view"],
    enabled: id !== "",
    queryFn: () => read(api.GET("/api/v1/ai/runs/{id}", { params: { path: { id } } })),
    refetchInterval: (query) => (query.state.data?.status === "RUNNING" ? 2000 : false),
  });
}

/** A long journal is shown after its first page, and then after every few pages, because each time costs a render. */
const PAGES_PER_UPDATE = 10;

/** All entries of a run, without their bodies. Grows while its pages arrive; later requests read only new entries. */
export function useJournal(id: string, status: string | undefined) {
  const client = useQueryClient();
  const queryKey = ["run", id, "journal"];
  return useQuery({
    queryKey,
    enabled: status !== undefined,
    queryFn: async ({ signal }) => {
      const known = client.getQueryData<EntrySummary[]>(queryKey) ?? [];
      const entries = [...known];
      for (let page = 0; ; page++) {
        const query = { from: (entries.at(-1)?.n ?? 0) + 1, limit: PAGE };
        const next = await read(api.GET("/api/v1/ai/runs/{id}/journal", { params: { path: { id }, query }, signal }));
        entries.push(...next.items.map(summarizeEntry));
        if (!next.nextCursor) return entries.length === known.length ? known : entries;
        if (page % PAGES_PER_UPDATE === 0) client.setQueryData(queryKey, [...entries]);
      }
    },
    refetchInterval: status === "RUNNING" ? 1000 : false,
    structuralSharing: false,
  });
}

export function useEntry(id: string, n: number | undefined) {
  return useQuery({
    queryKey: ["run", id, "entry", n],
    enabled: n !== undefined,
    // An entry never changes, but whether a fork is possible at it does.
    queryFn: async () =>
      (await read(api.GET("/api/v1/ai/runs/{id}/journal", { params: { path: { id }, query: { from: n, limit: 1 } } }))).items[0] ?? null,
    placeholderData: keepPreviousData,
  });
}

export function useRunState(id: string, at: number | undefined, enabled: boolean) {
  return useQuery({
    queryKey: ["run", id, "state", at],
    enabled: enabled && at !== undefined,
    queryFn: ({ signal }) => read(api.GET("/api/v1/ai/runs/{id}/state", { params: { path: { id }, query: { at, limit: 50 } }, signal })),
    placeholderData: keepPreviousData,
  });
}

export function useRunTree(id: string) {
  return useQuery({ queryKey: ["run", id, "tree"], queryFn: () => read(api.GET("/api/v1/ai/runs/{id}/tree", { params: { path: { id } } })) });
}

export function useVerification(id: string, ended: boolean) {
  return useQuery({
    queryKey: ["run", id, "verify"],
    enabled: ended,
    queryFn: () => read(api.GET("/api/v1/ai/runs/{id}/verify", { params: { path: { id } } })),
  });
}

export function useComparison(id: string, other: string, from: number | undefined) {
  return useQuery({
    queryKey: ["run", id, "diff", other, from],
    queryFn: () => read(api.GET("/api/v1/ai/runs/{id}/diff/{other}", { params: { path: { id, other }, query: { from, limit: PAGE } } })),
  });
}

export function useCancelRun(id: string) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: () => read(api.POST("/api/v1/ai/runs/{id}/cancel", { params: { path: { id } } })),
    onSettled: () => client.invalidateQueries({ queryKey: ["run", id] }),
  });
}

export function useForkRun(id: string) {
  return useMutation({
    mutationFn: (body: Schemas["ForkBody"]) => read(api.POST("/api/v1/ai/runs/{id}/fork", { params: { path: { id } }, body })),
  });
}

export function useReplayRun() {
  return useMutation({
    mutationFn: (body: Schemas["ReplayBody"]) => read(api.POST("/api/v1/ai/runs/replay", { body })),
  });
}

export function useUndoRun(id: string) {
  return useMutation({
    mutationFn: (body: Schemas["UndoBody"]) => read(api.POST("/api/v1/ai/runs/{id}/undo", { params: { path: { id } }, body })),
  });
}

export const OPEN_FILTER = OPEN_STATUSES.join(",");
