import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { type Schemas, api, read } from "@/api/client";

export type Agent = Schemas["AgentView"];
export type Conversation = Schemas["ConversationView"];

export function useAgents() {
  return useQuery({
    queryKey: ["agents", "list"],
    queryFn: () => read(api.GET("/api/v1/ai/agents", { params: { query: { limit: "100", sort: "refName" } } })),
  });
}

export function useAgentCount() {
  return useQuery({ queryKey: ["agents", "count"], queryFn: async () => (await read(api.GET("/api/v1/ai/agents/count"))).count });
}

export function useAgent(ref: string) {
  return useQuery({
    queryKey: ["agent", ref, "definition"],
    queryFn: async () => (await read(api.GET("/api/v1/ai/agents/{ref}", { params: { path: { ref } } }))) as Agent,
  });
}

/** The agent as gram text. */
export function useAgentGram(ref: string) {
  return useQuery({
    queryKey: ["agent", ref, "gram"],
    queryFn: async () =>
      (await read(
        api.GET("/api/v1/ai/agents/{ref}", { params: { path: { ref }, query: { format: "gram" } }, parseAs: "text" }),
      )) as unknown as string,
  });
}

export function useAgentTools(ref: string, message: string) {
  return useQuery({
    queryKey: ["agent", ref, "tools", message],
    queryFn: () => read(api.GET("/api/v1/ai/agents/{ref}/tools", { params: { path: { ref }, query: { message: message || undefined } } })),
  });
}

export function useCostEstimate(ref: string) {
  return useQuery({
    queryKey: ["agent", ref, "cost"],
    queryFn: () => read(api.GET("/api/v1/ai/agents/{ref}/cost-estimate", { params: { path: { ref } } })),
  });
}

export function useChangeAgent(ref: string) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (body: Record<string, unknown>) => read(api.PATCH("/api/v1/ai/agents/{ref}", { params: { path: { ref } }, body })),
    onSuccess: () => Promise.all([client.invalidateQueries({ queryKey: ["agent", ref] }), client.invalidateQueries({ queryKey: ["agents"] })]),
  });
}

export function useCreateAgent() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (body: Schemas["AgentDefinition"]) => read(api.POST("/api/v1/ai/agents", { body })),
    onSuccess: () => client.invalidateQueries({ queryKey: ["agents"] }),
  });
}

/** Checks a gram text against the server's definitions, without writing it. */
export function useCheckGram() {
  return useMutation({ mutationFn: (gram: string) => read(api.POST("/api/v1/ai/gram/apply", { body: { gram, dryRun: true } })) });
}

/** Writes the definitions of a gram text, all or none. */
export function useApplyGram() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (gram: string) => read(api.POST("/api/v1/ai/gram/apply", { body: { gram } })),
    onSuccess: () => Promise.all([client.invalidateQueries({ queryKey: ["agent"] }), client.invalidateQueries({ queryKey: ["agents"] })]),
  });
}

export function useConversations(agentRef: string) {
  return useQuery({
    queryKey: ["conversations", agentRef],
    queryFn: () => read(api.GET("/api/v1/ai/conversations", { params: { query: { agentRef, limit: 50 } } })),
  });
}

export function useConversation(id: string | undefined) {
  return useQuery({
    queryKey: ["conversations", "one", id],
    enabled: id !== undefined,
    queryFn: () => read(api.GET("/api/v1/ai/conversations/{id}", { params: { path: { id: id ?? "" } } })),
  });
}
