import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { api, read } from "@/api/client";

export function useProviders() {
  return useQuery({ queryKey: ["providers"], queryFn: () => read(api.GET("/api/v1/ai/tool-providers", { params: { query: { limit: "100" } } })) });
}

export function useProvider(ref: string) {
  return useQuery({
    queryKey: ["provider", ref, "definition"],
    queryFn: () => read(api.GET("/api/v1/ai/tool-providers/{ref}", { params: { path: { ref } } })),
  });
}

export function useProviderReadiness(ref: string) {
  return useQuery({
    queryKey: ["provider", ref, "readiness"],
    queryFn: () => read(api.GET("/api/v1/ai/tool-providers/{ref}/readiness", { params: { path: { ref } } })),
  });
}

export function useProviderUses(ref: string) {
  return useQuery({
    queryKey: ["provider", ref, "uses"],
    queryFn: () => read(api.GET("/api/v1/ai/tool-providers/{ref}/uses", { params: { path: { ref } } })),
  });
}

export function useReferenceData(ref: string, dataType: string | undefined) {
  return useQuery({
    queryKey: ["provider", ref, "reference-data", dataType ?? null],
    queryFn: () => read(api.GET("/api/v1/ai/tool-providers/{ref}/reference-data", { params: { path: { ref }, query: { dataType, limit: 100 } } })),
  });
}

export function useTestProvider(ref: string) {
  return useMutation({ mutationFn: () => read(api.POST("/api/v1/ai/tool-providers/{ref}/test", { params: { path: { ref } } })) });
}

export function useSyncReferenceData(ref: string) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (dataType: string | undefined) =>
      read(api.POST("/api/v1/ai/tool-providers/{ref}/sync", { params: { path: { ref }, query: { dataType } } })),
    onSettled: () => client.invalidateQueries({ queryKey: ["provider", ref, "reference-data"] }),
  });
}
