import { useQuery } from "@tanstack/react-query";
import { api, read } from "@/api/client";

/** What all agents can reach. Changes of definitions make it stale. */
export function useReach() {
  return useQuery({ queryKey: ["agents", "reach"], queryFn: () => read(api.GET("/api/v1/ai/reach")) });
}
