/** Commands that repeat what a screen shows, for a terminal. */

const AUTH = '-H "Authorization: Bearer $TOOLWRIGHT_API_KEY"';
const JSON_TYPE = '-H "Content-Type: application/json"';

/** Quotes a text for a POSIX shell. */
export function shellQuote(text: string): string {
  return /^[A-Za-z0-9_./:@%+=,-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}

export function curl(path: string, body?: unknown): string {
  const lines = [`curl -s "$TOOLWRIGHT_URL${path}"`, AUTH];
  if (body !== undefined) lines.push(JSON_TYPE, `-d ${shellQuote(JSON.stringify(body))}`);
  return lines.join(" \\\n  ");
}

function agentRunCurl(agentRef: string, userMessage: string): string {
  return curl(`/api/v1/ai/agents/${encodeURIComponent(agentRef)}/execute`, { userMessage });
}

function agentRunCommand(agentRef: string, userMessage: string): string {
  return `toolwright agents run ${shellQuote(agentRef)} ${shellQuote(userMessage)}`;
}

export function toolRunCurl(toolRef: string, input: unknown): string {
  return curl(`/api/v1/ai/tools/${encodeURIComponent(toolRef)}/execute`, { input });
}

export function toolRunCommand(toolRef: string, input: unknown): string {
  return `toolwright tools run ${shellQuote(toolRef)} --input ${shellQuote(JSON.stringify(input))}`;
}

export function workflowRunCurl(workflowRef: string, input: unknown): string {
  return curl(`/api/v1/ai/workflows/${encodeURIComponent(workflowRef)}/execute`, { input });
}

export function workflowRunCommand(workflowRef: string, input: unknown): string {
  return `toolwright workflows run ${shellQuote(workflowRef)} --input ${shellQuote(JSON.stringify(input))}`;
}

export function stateCurl(runId: string, at: number): string {
  return curl(`/api/v1/ai/runs/${runId}/state?at=${at}`);
}

/** Splits a command line into its program and arguments. Quotes join words, as in a shell. */
export function splitCommand(line: string): string[] {
  const words = line.match(/(?:[^\s"']|"[^"]*"|'[^']*')+/g) ?? [];
  return words.map((word) => word.replace(/"([^"]*)"|'([^']*)'/g, "$1$2"));
}

/** How to repeat a run: as a request and as a command. Only runs of agents and direct calls can be repeated this way. */
export function repeatRun(run: { kind: string; subject: string }, message: string, input: unknown): { curl: string; command: string } | undefined {
  if (run.kind === "agent") return { curl: agentRunCurl(run.subject, message), command: agentRunCommand(run.subject, message) };
  if (run.kind === "tool") return { curl: toolRunCurl(run.subject, input), command: toolRunCommand(run.subject, input) };
  return undefined;
}
