import { useQuery } from "@tanstack/react-query";
import { api, read } from "@/api/client";

export function useServer() {
  return useQuery({ queryKey: ["server"], queryFn: () => read(api.GET("/api/v1/ai/server")) });
}

export function useModels() {
  return useQuery({ queryKey: ["models"], queryFn: () => read(api.GET("/api/v1/ai/models", { params: { query: { limit: 100 } } })) });
}
