/** Streams of single runs. The stream of an execution is the response of its request. */
import type { StreamEvent } from "@/model/transcript";
import { ApiError, type Problem, uiHeaders } from "./client";
import { readEvents } from "./sse";

/** Runs an agent and calls `onEvent` for each event until the run ends. */
export function streamExecution(agentRef: string, body: object, onEvent: (event: StreamEvent) => void, signal: AbortSignal): Promise<void> {
  const init = { method: "POST", headers: { ...uiHeaders(), "Content-Type": "application/json" }, body: JSON.stringify(body) };
  return stream(`/api/v1/ai/agents/${encodeURIComponent(agentRef)}/execute/stream`, init, onEvent, signal);
}

/** Streams the events of a run from its beginning. */
export function streamRun(runId: string, onEvent: (event: StreamEvent) => void, signal: AbortSignal): Promise<void> {
  return stream(`/api/v1/ai/runs/${encodeURIComponent(runId)}/events`, { headers: uiHeaders() }, onEvent, signal);
}

async function stream(path: string, init: RequestInit, onEvent: (event: StreamEvent) => void, signal: AbortSignal): Promise<void> {
  let response: Response;
  try {
    response = await fetch(path, { ...init, credentials: "same-origin", signal });
  } catch (error) {
    if (signal.aborted) return;
    throw new ApiError(0, undefined, error instanceof Error ? error.message : "The server did not respond.");
  }
  if (!response.ok) {
    const problem = (await response.json().catch(() => undefined)) as Problem | undefined;
    throw new ApiError(response.status, problem, `The server responded with status ${response.status}.`);
  }
  try {
    for await (const event of readEvents(response)) onEvent(JSON.parse(event.data) as StreamEvent);
  } catch (error) {
    if (!signal.aborted) throw new ApiError(0, undefined, error instanceof Error ? error.message : "The connection was lost.");
  }
}
