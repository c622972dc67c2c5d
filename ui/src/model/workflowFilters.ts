/** The filters of the list of workflows, in the URL and as a query. */
import { compact, oneOf, text } from "./search";

export const WORKFLOW_STATUSES = ["draft", "active", "deprecated", "blocked"] as const;

export interface WorkflowSearch {
  text?: string;
  status?: (typeof WORKFLOW_STATUSES)[number];
}

export function parseWorkflowSearch(search: Record<string, unknown>): WorkflowSearch {
  return compact({ text: text(search.text), status: oneOf(search.status, WORKFLOW_STATUSES) });
}

/** The filters in the query language. Characters that have a meaning in a pattern match any character. */
export function workflowQuery({ text, status }: WorkflowSearch): string | undefined {
  const pattern = text?.trim().replace(/[^\p{L}\p{N}_./-]/gu, "?");
  const conditions = [
    ...(pattern ? [`(${["refName", "name", "description"].map((field) => `${field}:*${pattern}*`).join(" || ")})`] : []),
    ...(status ? [`status:${status}`] : []),
  ];
  return conditions.length > 0 ? conditions.join(" && ") : undefined;
}
