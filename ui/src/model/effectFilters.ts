/** The filters of the list of effects. */
import { compact, text } from "./search";

export interface EffectFilters {
  outcome?: string;
  toolRef?: string;
  agentRef?: string;
  runId?: string;
}

export function parseEffectSearch(search: Record<string, unknown>): EffectFilters {
  return compact({ outcome: text(search.outcome), toolRef: text(search.toolRef), agentRef: text(search.agentRef), runId: text(search.runId) });
}

export const OUTCOMES = ["done", "failed", "unknown", "undone", "captured"] as const;
