/** Selects operations of an OpenAPI document by the names of their tools. */

/** Returns patterns for the operation ids. A tool's name replaces characters of the id, so these match any character. */
export function operationPatterns(toolNames: string[]): string[] {
  return toolNames.map((name) => name.slice(name.indexOf("/") + 1).replace(/[._]/g, "*"));
}

/** Whether two lists have the same names. */
export function sameNames(a: string[], b: string[]): boolean {
  return a.length === b.length && new Set([...a, ...b]).size === a.length;
}
