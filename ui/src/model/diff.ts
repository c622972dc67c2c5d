/** Compares two JSON values field by field, for people. */

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

export interface FieldChange {
  path: string;
  change: "same" | "added" | "removed" | "changed";
  before?: Json;
  after?: Json;
}

/** Lists the leaves of `after`, and the leaves of `before` that are missing in it, each with how it changed. */
export function compareFields(before: Json | undefined, after: Json): FieldChange[] {
  const changes: FieldChange[] = [];
  visit("", before, after, changes);
  return changes;
}

/** Lists the leaves of a value. */
export function listFields(value: Json): FieldChange[] {
  return compareFields(value, value);
}

function visit(path: string, before: Json | undefined, after: Json | undefined, changes: FieldChange[]) {
  const keys = childKeys(before, after);
  if (keys) {
    for (const key of keys) visit(join(path, key, after ?? before), child(before, key), child(after, key), changes);
    return;
  }
  if (after === undefined) changes.push({ path, change: "removed", before });
  else if (before === undefined) changes.push({ path, change: "added", after });
  else changes.push({ path, change: isEqual(before, after) ? "same" : "changed", before, after });
}

/** The keys to descend into, or undefined if the values are leaves or of different kinds. */
function childKeys(before: Json | undefined, after: Json | undefined): string[] | undefined {
  const sides = [before, after].filter((side) => side !== undefined);
  if (sides.length === 0 || !sides.every(isContainer)) return undefined;
  if (sides.length === 2 && Array.isArray(before) !== Array.isArray(after)) return undefined;
  const keys = [...new Set([...Object.keys(after ?? {}), ...Object.keys(before ?? {})])];
  return keys.length === 0 ? undefined : keys;
}

function isContainer(value: Json | undefined): value is Json[] | { [key: string]: Json } {
  return typeof value === "object" && value !== null;
}

function child(value: Json | undefined, key: string): Json | undefined {
  return isContainer(value) ? (value as Record<string, Json>)[key] : undefined;
}

function join(path: string, key: string, parent: Json | undefined): string {
  if (Array.isArray(parent)) return `${path}[${key}]`;
  return path === "" ? key : `${path}.${key}`;
}

/** Whether two JSON values are equal. The order of keys does not matter. */
export function isEqual(a: Json | undefined, b: Json | undefined): boolean {
  if (a === b) return true;
  if (!isContainer(a) || !isContainer(b) || Array.isArray(a) !== Array.isArray(b)) return false;
  const keys = Object.keys(a);
  return keys.length === Object.keys(b).length && keys.every((key) => key in b && isEqual(child(a, key), child(b, key)));
}

/** A leaf as text. */
export function leafText(value: Json | undefined): string {
  if (value === undefined) return "";
  return typeof value === "string" ? value : JSON.stringify(value);
}
