/** Calls a tool of the server at TOOLWRIGHT_URL and returns its result. Throws an error if the call fails. */
export async function invoke(tool: string, params: unknown, surface = "tool"): Promise<unknown> {
  const { status, body } = await request<CallResult>("/api/v1/tools/invoke", { tool, params, surface });
  if (status === 202) throw new Error(`The call of ${tool} waits for a person or a client: run ${body.runId}`);
  if (!body.success) throw new Error(`${body.error?.code}: ${body.error?.message}`);
  return body.data;
}

interface CallResult {
  success?: boolean;
  data?: unknown;
  error?: { code: string; message: string };
  runId?: string;
}

/** Sends a request with the key TOOLWRIGHT_API_KEY, in the realm TOOLWRIGHT_REALM if it is set. */
export async function request<Body>(path: string, sent?: unknown): Promise<{ status: number; body: Body }> {
  const { TOOLWRIGHT_URL = "http://127.0.0.1:7411", TOOLWRIGHT_API_KEY = "", TOOLWRIGHT_REALM } = process.env;
  const response = await fetch(TOOLWRIGHT_URL.replace(/\/+$/, "") + path, {
    method: sent === undefined ? "GET" : "POST",
    headers: {
      authorization: `Bearer ${TOOLWRIGHT_API_KEY}`,
      "content-type": "application/json",
      ...(TOOLWRIGHT_REALM ? { "x-realm": TOOLWRIGHT_REALM } : {}),
    },
    body: sent === undefined ? undefined : JSON.stringify(sent),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`HTTP ${response.status}: ${problemDetail(text)}`);
  return { status: response.status, body: JSON.parse(text) };
}

function problemDetail(text: string): string {
  try {
    return JSON.parse(text).detail ?? text;
  } catch {
    return text; // A proxy can answer without JSON.
  }
}
