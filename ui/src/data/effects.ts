import { keepPreviousData, useInfiniteQuery, useMutation, useQueryClient } from "@tanstack/react-query";
import { type Schemas, api, read } from "@/api/client";
import type { EffectFilters } from "@/model/effectFilters";

export type Effect = Schemas["EffectView"];

export function useEffects(filters: EffectFilters) {
  return useInfiniteQuery({
    queryKey: ["effects", filters],
    queryFn: ({ pageParam }) => read(api.GET("/api/v1/ai/effects", { params: { query: { ...filters, limit: 100, cursor: pageParam } } })),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => page.nextCursor ?? undefined,
    placeholderData: keepPreviousData,
  });
}

export function useUndoEffect() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: ({ id, dryRun }: { id: string; dryRun: boolean }) =>
      read(api.POST("/api/v1/ai/effects/{id}/undo", { params: { path: { id } }, body: { dryRun } })),
    onSettled: () => client.invalidateQueries({ queryKey: ["effects"] }),
  });
}

export function useResolveEffect() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: ({ id, ...body }: { id: string } & Schemas["ResolveBody"]) =>
      read(api.POST("/api/v1/ai/effects/{id}/resolve", { params: { path: { id } }, body })),
    onSettled: () => client.invalidateQueries({ queryKey: ["effects"] }),
  });
}
