import { keepPreviousData, useInfiniteQuery, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect } from "react";
import { type Schemas, api, read } from "@/api/client";
import { streamRun } from "@/api/stream";
import type { GraphDefinition } from "@/model/workflow/graph";

export type Instance = Schemas["WorkflowInstanceView"];

export interface InstanceFilters {
  workflowRef?: string;
  status?: string;
  startedAfter?: string;
}

export function useInstances(filters: InstanceFilters) {
  return useInfiniteQuery({
    queryKey: ["runs", "instances", filters],
    queryFn: ({ pageParam }) => read(api.GET("/api/v1/ai/workflow-instances", { params: { query: { ...filters, limit: 100, cursor: pageParam } } })),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => page.nextCursor ?? undefined,
    placeholderData: keepPreviousData,
  });
}

export function useRecentInstances(workflowRef: string, limit: number) {
  return useQuery({
    queryKey: ["runs", "recent-instances", workflowRef, limit],
    queryFn: () => read(api.GET("/api/v1/ai/workflow-instances", { params: { query: { workflowRef, limit } } })),
  });
}

export function useInstance(id: string) {
  return useQuery({
    queryKey: ["run", id, "instance"],
    queryFn: () => read(api.GET("/api/v1/ai/workflow-instances/{id}", { params: { path: { id } } })),
    refetchInterval: (query) => (query.state.data?.status === "RUNNING" ? 2000 : false),
  });
}

/** The definition that an instance executes. Its journal has it, also if the workflow was changed or deleted later. */
export function useInstanceDefinition(id: string) {
  return useQuery({
    queryKey: ["run", id, "definition"],
    staleTime: Infinity,
    queryFn: async () => {
      const { items } = await read(api.GET("/api/v1/ai/runs/{id}/journal", { params: { path: { id }, query: { limit: 1 } } }));
      const spec = items[0]?.body.spec as { workflow?: { graph?: { definition?: Definition } } } | undefined;
      return spec?.workflow?.graph?.definition ?? null;
    },
  });
}

/** A definition as the journal has it. */
export interface Definition extends GraphDefinition {
  refName: string;
  steps: Schemas["WorkflowStep"][];
}

const UPDATE_MS = 250;

/** Reads an open instance again after each event of its stream, at most four times per second. */
export function useInstanceStream(id: string, open: boolean) {
  const client = useQueryClient();
  useEffect(() => {
    if (!open) return;
    const abort = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const update = () => {
      timer = undefined;
      void client.invalidateQueries({ queryKey: ["run", id], predicate: (query) => query.queryKey[2] !== "definition" });
    };
    // Without the stream, the events of the realm still report changes of the status.
    streamRun(id, () => (timer ??= setTimeout(update, UPDATE_MS)), abort.signal).catch(() => undefined);
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, [client, id, open]);
}

/** Actions on an instance. They return at once; the stream shows what happens. */
export function useInstanceActions(id: string) {
  const client = useQueryClient();
  const onSettled = () => Promise.all([client.invalidateQueries({ queryKey: ["run", id] }), client.invalidateQueries({ queryKey: ["runs"] })]);
  const params = { path: { id }, query: { wait: false } };
  const pause = useMutation({ mutationFn: () => read(api.POST("/api/v1/ai/workflow-instances/{id}/pause", { params })), onSettled });
  const resume = useMutation({ mutationFn: () => read(api.POST("/api/v1/ai/workflow-instances/{id}/resume", { params })), onSettled });
  const cancel = useMutation({
    mutationFn: () => read(api.POST("/api/v1/ai/workflow-instances/{id}/cancel", { params: { path: { id } } })),
    onSettled,
  });
  return { pause, resume, cancel };
}

export function useSignal(id: string) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: ({ name, data }: { name: string; data: unknown }) =>
      read(
        api.POST("/api/v1/ai/workflow-instances/{id}/signals/{name}", {
          params: { path: { id, name }, query: { wait: false } },
          body: data as never,
          // The payload may be any JSON, also null, which the client would leave out.
          bodySerializer: (value: unknown) => JSON.stringify(value ?? null),
        }),
      ),
    onSettled: () => client.invalidateQueries({ queryKey: ["run", id] }),
  });
}

/** Starts a new instance that reuses results of this one, and returns its id. */
export function useRetry(id: string) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: async (changes: Partial<Schemas["WorkflowRetryBody"]>) => {
      const body = { fromStep: null, onlyStep: null, allItems: null, latest: null, ...changes };
      const accepted = await read(api.POST("/api/v1/ai/workflow-instances/{id}/retry", { params: { path: { id }, query: { wait: false } }, body }));
      return accepted.runId;
    },
    onSuccess: () => client.invalidateQueries({ queryKey: ["runs"] }),
  });
}
