import { keepPreviousData, useInfiniteQuery, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { ApiError, type Schemas, api, read } from "@/api/client";
import type { Issue } from "@/model/workflow/yaml";
import { type WorkflowSearch, workflowQuery } from "@/model/workflowFilters";

export type Workflow = Schemas["WorkflowView"];
export type WorkflowStep = Schemas["WorkflowStep"];
export type WorkflowDiff = Schemas["WorkflowDiffView"];

const YAML = { headers: { "Content-Type": "application/yaml" }, bodySerializer: String };

export function useWorkflows(search: WorkflowSearch) {
  const query = workflowQuery(search);
  return useInfiniteQuery({
    queryKey: ["workflows", "list", query ?? null],
    queryFn: ({ pageParam }) =>
      read(api.GET("/api/v1/ai/workflows", { params: { query: { query, sort: "refName", limit: "100", cursor: pageParam } } })),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => page.nextCursor ?? undefined,
    placeholderData: keepPreviousData,
  });
}

export function useWorkflowCount() {
  return useQuery({ queryKey: ["workflows", "count"], queryFn: async () => (await read(api.GET("/api/v1/ai/workflows/count"))).count });
}

export function useWorkflow(ref: string, version?: string) {
  return useQuery({
    queryKey: ["workflow", ref, "definition", version ?? null],
    queryFn: async () => (await read(api.GET("/api/v1/ai/workflows/{ref}", { params: { path: { ref }, query: { version } } }))) as Workflow,
  });
}

/** The definition as YAML text. */
export function useWorkflowYaml(ref: string, version?: string | null) {
  return useQuery({
    queryKey: ["workflow", ref, "yaml", version ?? null],
    queryFn: async () =>
      (await read(
        api.GET("/api/v1/ai/workflows/{ref}", {
          params: { path: { ref }, query: { version: version ?? undefined, format: "yaml" } },
          parseAs: "text",
        }),
      )) as unknown as string,
  });
}

export function useWorkflowVersions(ref: string) {
  return useQuery({
    queryKey: ["workflow", ref, "versions"],
    queryFn: () => read(api.GET("/api/v1/ai/workflows/{ref}/versions", { params: { path: { ref } } })),
  });
}

/** The issues of the stored definition. Other definitions may have changed since it was saved. */
export function useStoredCheck(ref: string, version?: string | null) {
  return useQuery({
    queryKey: ["workflow", ref, "check", version ?? null],
    queryFn: () => read(api.POST("/api/v1/ai/workflows/{ref}/check", { params: { path: { ref }, query: { version: version ?? undefined } } })),
  });
}

/** Checks a YAML text as a save does, without writing it. A text that is not YAML has an issue too. */
export function useCheckYaml() {
  return useMutation({
    mutationFn: async (text: string): Promise<{ valid: boolean; issues: Issue[] }> => {
      try {
        return await read(api.POST("/api/v1/ai/workflows/check", { body: text, ...YAML }));
      } catch (error) {
        if (!(error instanceof ApiError) || error.code !== "invalid-yaml") throw error;
        const issues = error.fields.map(({ message, line }) => ({ severity: "error", code: error.code, path: "", message, line }));
        return { valid: false, issues };
      }
    },
  });
}

/** Compares a version with another one (`name@version`) or with a definition. */
export function useWorkflowDiff(ref: string, version: string | null | undefined) {
  return useMutation({
    mutationFn: (other: Schemas["WorkflowDiffBody"]) =>
      read(api.POST("/api/v1/ai/workflows/{ref}/diff", { params: { path: { ref }, query: { version: version ?? undefined } }, body: other })),
  });
}

export function useVersionDiff(ref: string, from: string | undefined, to: string | undefined) {
  return useQuery({
    queryKey: ["workflow", ref, "diff", from, to],
    enabled: from !== undefined && to !== undefined,
    queryFn: () =>
      read(api.POST("/api/v1/ai/workflows/{ref}/diff", { params: { path: { ref }, query: { version: from } }, body: { ref: `${ref}@${to}` } })),
  });
}

/** Writes the YAML text, unless somebody else has changed the workflow since `revision`. */
export function useSaveYaml(ref: string) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: ({ text, revision }: { text: string; revision: number }) =>
      read(
        api.PUT("/api/v1/ai/workflows/{ref}", {
          params: { path: { ref }, header: { "If-Match": `"${revision}"` } },
          body: text,
          ...YAML,
        }),
      ),
    onSuccess: () => Promise.all([client.invalidateQueries({ queryKey: ["workflow", ref] }), client.invalidateQueries({ queryKey: ["workflows"] })]),
  });
}

export function useCreateYaml() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (text: string) => read(api.POST("/api/v1/ai/workflows", { body: text, ...YAML })),
    onSuccess: () => client.invalidateQueries({ queryKey: ["workflows"] }),
  });
}

/** Starts a durable instance and returns its id at once. */
export function useStartWorkflow(ref: string) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (body: Schemas["WorkflowExecuteBody"]) =>
      read(api.POST("/api/v1/ai/workflows/{ref}/execute/durable", { params: { path: { ref } }, body })),
    onSuccess: () => client.invalidateQueries({ queryKey: ["runs"] }),
  });
}

/** The tools behind step registrations and the conditions behind condition bindings, by name. */
export function useVocabulary() {
  return useQuery({
    queryKey: ["vocabulary"],
    queryFn: async () => {
      const [registrations, bindings] = await Promise.all([
        readPages((cursor) => read(api.GET("/api/v1/ai/step-registrations", { params: { query: { limit: "100", cursor } } }))),
        readPages((cursor) => read(api.GET("/api/v1/ai/condition-bindings", { params: { query: { limit: "100", cursor } } }))),
      ]);
      return {
        tools: new Map(registrations.map((one) => [one.refName, one.toolRef])),
        conditions: new Map(bindings.map((one) => [one.refName, one.condition])),
      };
    },
  });
}

const MAX_PAGES = 20;

async function readPages<T>(readPage: (cursor: string | undefined) => Promise<{ items: T[]; nextCursor?: string | null }>): Promise<T[]> {
  const items: T[] = [];
  let cursor: string | undefined;
  for (let page = 0; page < MAX_PAGES; page++) {
    const next = await readPage(cursor);
    items.push(...next.items);
    if (!next.nextCursor) break;
    cursor = next.nextCursor;
  }
  return items;
}
