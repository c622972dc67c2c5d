/** Edits of a workflow as YAML text. The text stays as the person wrote it. */

/** The value of the field `version` at the top level. */
export function versionOf(text: string): string | undefined {
  return /^version:[ \t]*["']?([^\s"'#]+)/m.exec(text)?.[1];
}

/** Replaces the field `version`, or adds it below the name. */
export function withVersion(text: string, version: string): string {
  const line = `version: ${version}`;
  if (/^version:/m.test(text)) return text.replace(/^version:.*$/m, line);
  if (/^refName:/m.test(text)) return text.replace(/^refName:.*$/m, (name) => `${name}\n${line}`);
  return `${line}\n${text}`;
}

/** The next minor version: 1.2.3 → 1.3.0. */
export function nextVersion(version: string): string {
  const [major = "1", minor = "0"] = version.split(/[-+]/)[0]?.split(".") ?? [];
  return `${major}.${Number(minor) + 1}.0`;
}

/** Where a line begins and ends in a text, without its line break. Lines count from 1. */
export function lineRange(text: string, line: number): [number, number] {
  let start = 0;
  for (let current = 1; current < line; current++) {
    const end = text.indexOf("\n", start);
    if (end < 0) break;
    start = end + 1;
  }
  const end = text.indexOf("\n", start);
  return [start, end < 0 ? text.length : end];
}

export interface Issue {
  severity: string;
  code: string;
  path: string;
  message: string;
  hint?: string | null;
  line?: number | null;
  column?: number | null;
}

/** The worst issue of each line. */
export function issuesByLine(issues: Issue[]): Map<number, Issue> {
  const lines = new Map<number, Issue>();
  for (const issue of issues) {
    const known = issue.line ? lines.get(issue.line) : undefined;
    if (issue.line && known?.severity !== "error") lines.set(issue.line, issue);
  }
  return lines;
}
