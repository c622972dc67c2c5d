/** The filters of the list of workflow instances, as they stand in the URL. */
import { type RunSearch, parseRunSearch } from "./runFilters";
import { compact, text } from "./search";

export interface InstanceSearch extends Pick<RunSearch, "status" | "range"> {
  workflowRef?: string;
}

export function parseInstanceSearch(search: Record<string, unknown>): InstanceSearch {
  const { status, range } = parseRunSearch(search);
  return compact({ workflowRef: text(search.workflowRef), status, range });
}
