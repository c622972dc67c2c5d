/** Whether an effect can be undone, and the order in which several are. */

export interface UndoableEffect {
  outcome: string;
  reversible: boolean;
  compensateToolRef?: string | null;
  endedAt: string;
}

/** Why an effect cannot be undone; undefined if it can. */
export function undoObstacle(effect: UndoableEffect): string | undefined {
  if (effect.outcome === "undone") return "It was undone already";
  if (effect.outcome === "failed") return "The write failed, so there is nothing to undo";
  if (effect.outcome === "captured") return "The write was captured and never sent";
  if (effect.outcome === "unknown") return "Its outcome is unknown; resolve it first";
  if (!effect.reversible) return "Its tool has no compensating tool";
  return undefined;
}

/** The last write is undone first, because it may depend on the others. */
export function undoOrder<T extends UndoableEffect>(effects: T[]): T[] {
  return [...effects].sort((a, b) => Date.parse(b.endedAt) - Date.parse(a.endedAt));
}
