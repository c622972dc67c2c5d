import { keepPreviousData, useInfiniteQuery, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { type Schemas, api, read } from "@/api/client";
import type { ToolFilters } from "@/model/toolFilters";

export type ToolItem = Schemas["AiToolView"];
export type Tool = Schemas["ToolView"];
export type Provider = Schemas["ProviderView"];
export type Readiness = Schemas["ReadinessView"];
export type Envelope = Schemas["ToolEnvelope"];

export function useTools(filters: ToolFilters) {
  return useInfiniteQuery({
    queryKey: ["tools", "list", filters],
    queryFn: ({ pageParam }) =>
      read(api.GET("/api/v1/ai-tools", { params: { query: { ...filters, sort: "refName", limit: 100, cursor: pageParam } } })),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => page.nextCursor ?? undefined,
    placeholderData: keepPreviousData,
  });
}

export function useToolCount() {
  return useQuery({ queryKey: ["tools", "count"], queryFn: async () => (await read(api.GET("/api/v1/ai/tools/count"))).count });
}

export function useTool(ref: string | undefined, version?: string) {
  return useQuery({
    queryKey: ["tool", ref, "definition", version ?? null],
    enabled: ref !== undefined,
    queryFn: async () => (await read(api.GET("/api/v1/ai/tools/{ref}", { params: { path: { ref: ref ?? "" }, query: { version } } }))) as Tool,
  });
}

export function useToolRevisions(ref: string) {
  return useQuery({
    queryKey: ["tool", ref, "revisions"],
    queryFn: () => read(api.GET("/api/v1/ai/tools/{ref}/revisions", { params: { path: { ref }, query: { limit: "100" } } })),
  });
}

export function useToolDiff(ref: string, a: number | undefined, b: number | undefined) {
  return useQuery({
    queryKey: ["tool", ref, "diff", a, b],
    enabled: a !== undefined && b !== undefined,
    queryFn: () => read(api.GET("/api/v1/ai/tools/{ref}/revisions/{a}/diff/{b}", { params: { path: { ref, a: String(a), b: String(b) } } })),
  });
}

export function useToolUses(ref: string) {
  return useQuery({ queryKey: ["tool", ref, "uses"], queryFn: () => read(api.GET("/api/v1/ai/tools/{ref}/uses", { params: { path: { ref } } })) });
}

export function useToolReadiness(ref: string) {
  return useQuery({
    queryKey: ["tool", ref, "readiness"],
    queryFn: () => read(api.GET("/api/v1/ai/tools/{ref}/readiness", { params: { path: { ref } } })),
  });
}

export function useToolExport(ref: string, format: string) {
  return useQuery({
    queryKey: ["tool", ref, "export", format],
    queryFn: async () => (await read(api.GET("/api/v1/ai/tools/{ref}/export/{format}", { params: { path: { ref, format } } }))) as unknown,
  });
}

export function useExecuteTool(ref: string) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (body: Schemas["ExecuteBody"]) => read(api.POST("/api/v1/ai/tools/{ref}/execute", { params: { path: { ref } }, body })),
    onSettled: () => client.invalidateQueries({ queryKey: ["runs"] }),
  });
}

export function useChangeTool(ref: string) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (body: Record<string, unknown>) => read(api.PATCH("/api/v1/ai/tools/{ref}", { params: { path: { ref } }, body })),
    onSuccess: () => Promise.all([client.invalidateQueries({ queryKey: ["tool", ref] }), client.invalidateQueries({ queryKey: ["tools"] })]),
  });
}

export function useReplaceTool(ref: string) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (body: Schemas["ToolDefinition"]) => read(api.PUT("/api/v1/ai/tools/{ref}", { params: { path: { ref } }, body })),
    onSuccess: () => Promise.all([client.invalidateQueries({ queryKey: ["tool", ref] }), client.invalidateQueries({ queryKey: ["tools"] })]),
  });
}

export function useCreateTool() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (body: Schemas["ToolDefinition"]) => read(api.POST("/api/v1/ai/tools", { body })),
    onSuccess: () => client.invalidateQueries({ queryKey: ["tools"] }),
  });
}

export function useImportOpenApi() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (body: Schemas["OpenApiImportBody"]) => read(api.POST("/api/v1/ai/tools/import/openapi", { body })),
    onSuccess: () => Promise.all([client.invalidateQueries({ queryKey: ["tools"] }), client.invalidateQueries({ queryKey: ["providers"] })]),
  });
}

export function useImportMcp() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (body: Schemas["McpImportBody"]) => read(api.POST("/api/v1/ai/tools/import/mcp", { body })),
    onSuccess: () => Promise.all([client.invalidateQueries({ queryKey: ["tools"] }), client.invalidateQueries({ queryKey: ["providers"] })]),
  });
}

/** The open findings of drift, by tool. */
export function useOpenDrift() {
  return useQuery({
    queryKey: ["drift", "open"],
    queryFn: () => read(api.GET("/api/v1/ai/drift", { params: { query: { status: "open", limit: 100 } } })),
  });
}

export function useAcceptDrift() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (ref: string) => read(api.POST("/api/v1/ai/drift/{ref}/accept", { params: { path: { ref } } })),
    onSuccess: () => client.invalidateQueries({ queryKey: ["drift"] }),
  });
}
