import { keepPreviousData, useInfiniteQuery, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { type Schemas, api, read } from "@/api/client";

export type Approval = Schemas["ApprovalView"];
export type ClientAction = Schemas["ClientActionView"];

/** A client action with the run that waits for it. */
export interface WaitingAction extends ClientAction {
  runId: string;
  agentRef: string;
  requestedAt: string;
}

export function useWaitingApprovals() {
  return useQuery({
    queryKey: ["approvals", "waiting"],
    queryFn: () => read(api.GET("/api/v1/ai/approvals", { params: { query: { compare: true, limit: 100 } } })),
  });
}

export function useDecidedApprovals() {
  return useInfiniteQuery({
    queryKey: ["approvals", "decided"],
    queryFn: ({ pageParam }) => read(api.GET("/api/v1/ai/approvals", { params: { query: { status: "decided", limit: 50, cursor: pageParam } } })),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => page.nextCursor ?? undefined,
    placeholderData: keepPreviousData,
  });
}

const MAX_WAITING_RUNS = 20;

/** The actions that clients must perform. The API lists them by run, so each waiting run is read. */
export function useClientActions() {
  return useQuery({
    queryKey: ["runs", "client-actions"],
    queryFn: async (): Promise<WaitingAction[]> => {
      const query = { status: "AWAITING_CLIENT,AWAITING_APPROVAL", limit: MAX_WAITING_RUNS };
      const { items } = await read(api.GET("/api/v1/ai/runs", { params: { query } }));
      const runs = await Promise.all(items.map((run) => read(api.GET("/api/v1/ai/runs/{id}", { params: { path: { id: run.id } } }))));
      return runs.flatMap((run) =>
        run.clientActions.map((action) => ({ ...action, runId: run.id, agentRef: run.subject, requestedAt: run.startedAt })),
      );
    },
  });
}

export function useDecide() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (decisions: Schemas["CallDecisionBody"][]) => read(api.POST("/api/v1/ai/approvals/decide", { body: { decisions } })),
    onSettled: () => Promise.all([client.invalidateQueries({ queryKey: ["approvals"] }), client.invalidateQueries({ queryKey: ["runs"] })]),
  });
}

/** Approves a call and waits until its run ends or waits again. */
export function useApproveAndWait() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: ({ runId, callId }: { runId: string; callId: string }) =>
      read(api.POST("/api/v1/ai/runs/{id}/approvals/{callId}", { params: { path: { id: runId, callId } }, body: { decision: "approve" } })),
    onSettled: () => Promise.all([client.invalidateQueries({ queryKey: ["approvals"] }), client.invalidateQueries({ queryKey: ["runs"] })]),
  });
}

export function useReturnResult() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: ({ runId, result }: { runId: string; result: Schemas["ToolResultBody"] }) =>
      read(api.POST("/api/v1/ai/runs/{id}/tool-results", { params: { path: { id: runId }, query: { wait: false } }, body: { results: [result] } })),
    onSettled: () => client.invalidateQueries({ queryKey: ["runs"] }),
  });
}
