/** The filters of the list of tools. */
import { compact, oneOf, text } from "./search";

export const TOOL_KINDS = ["simple", "composite", "agentic"] as const;
export const TOOL_STATUSES = ["draft", "active", "deprecated", "blocked", "disabled"] as const;

export interface ToolFilters {
  kind?: (typeof TOOL_KINDS)[number];
  status?: (typeof TOOL_STATUSES)[number];
  category?: string;
  text?: string;
}

export function parseToolSearch(search: Record<string, unknown>): ToolFilters {
  return compact({
    kind: oneOf(search.kind, TOOL_KINDS),
    status: oneOf(search.status, TOOL_STATUSES),
    category: text(search.category),
    text: text(search.text),
  });
}
