/** Parses lines such as `crm/search@2.0.0` and `crm/search=crm/find@1.0.0`, which choose the tools of a replay. */

export type ToolVersions = { ok: true; tools: Record<string, string> } | { ok: false; message: string };

const LINE = /^([^\s@=]+)(?:=([^\s@=]+))?@([^\s@]+)$/;

export function parseToolVersions(text: string): ToolVersions {
  const tools: Record<string, string> = {};
  for (const line of text.split("\n").map((one) => one.trim())) {
    if (line === "") continue;
    const match = LINE.exec(line);
    if (!match) return { ok: false, message: `“${line}” must have the form tool@version` };
    const [, tool = "", other, version = ""] = match;
    tools[tool] = other ? `${other}@${version}` : version;
  }
  return { ok: true, tools };
}
