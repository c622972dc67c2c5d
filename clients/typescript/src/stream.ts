// Reads a stream of server-sent events and decides how to resume it. Does no IO.

import type { ToolwrightError } from "./errors.js";
import type { AnyInit } from "./http.js";
import type { StreamEvent } from "./models.js";

/** How long a client waits before it reconnects for the second time, in milliseconds. The delay doubles each time. */
const FIRST_DELAY = 100;
const LONGEST_DELAY = 5_000;

/** The request of a stream. */
export interface StreamRequest {
  method: "GET" | "POST";
  path: string;
  init: AnyInit;
}

/** The state of one stream, across its connections. */
export class StreamReader {
  /** Whether the event of the run's end was received. */
  ended = false;
  private failures = 0;
  private buffer = "";
  private decoder = new TextDecoder();
  private data: string[] = [];
  private id: string | undefined;
  private lastId: string | undefined;
  private iteration = 0;
  // Whether the consumer has pieces of a reply that the server sends again if the stream is resumed. A journal entry
  // contains a reply only when it is complete.
  private hasPieces = false;
  private replyComplete = false;
  // Events since the last id. The server sends them again if the stream is resumed, because only the last event of a
  // journal entry has an id.
  private sinceId = new Set<string>();
  private repeated = new Set<string>();

  constructor(
    /** The request that opens the next connection. */
    public request: StreamRequest,
    private readonly attempts: number,
    /** The run, if it is known before its first event. Otherwise a stream that is lost before is not resumed. */
    public runId?: string | undefined,
  ) {
    const after = request.init.query?.["after"];
    this.lastId = after === undefined ? undefined : String(after);
  }

  /** Takes bytes of the response and returns the events that they complete. */
  *feed(bytes: Uint8Array): Generator<StreamEvent> {
    const lines = (this.buffer + this.decoder.decode(bytes, { stream: true })).split("\n");
    this.buffer = lines.pop() ?? "";
    for (const line of lines) {
      const event = this.line(line.replace(/\r$/, ""));
      if (event) yield event;
    }
  }

  /** Prepares the next connection and returns the delay before it. Throws the cause if the stream cannot resume. */
  lost(cause: ToolwrightError): number {
    if (this.runId === undefined || this.failures >= this.attempts) throw cause;
    const delay = this.failures === 0 ? 0 : Math.min(LONGEST_DELAY, FIRST_DELAY * 2 ** (this.failures - 1));
    this.failures += 1;
    this.buffer = "";
    this.decoder = new TextDecoder();
    this.data = [];
    this.id = undefined;
    this.repeated = new Set(this.sinceId);
    const header = { "last-event-id": this.lastId };
    this.request = { method: "GET", path: "/api/v1/ai/runs/{id}/events", init: { path: { id: this.runId }, header } };
    return delay;
  }

  /** Returns the event that tells the consumer to discard the pieces that the new connection repeats. */
  *resumed(): Generator<StreamEvent> {
    if (this.hasPieces && this.runId !== undefined) {
      this.hasPieces = false;
      yield { type: "TEXT_RESET", runId: this.runId, iteration: this.iteration };
    }
  }

  private line(line: string): StreamEvent | undefined {
    if (line === "") return this.dispatch();
    const colon = line.indexOf(":");
    const value = line.slice(colon + 1).replace(/^ /, "");
    if (line.startsWith("data:")) this.data.push(value);
    if (line.startsWith("id:")) this.id = value;
    return undefined;
  }

  private dispatch(): StreamEvent | undefined {
    const text = this.data.join("\n");
    const id = this.id;
    this.data = [];
    this.id = undefined;
    if (text === "") return undefined;
    const event = JSON.parse(text) as StreamEvent;
    this.failures = 0;
    this.runId = event.runId;
    this.iteration = event.iteration;
    this.ended = event.type === "DONE" || event.type === "ERROR";
    return this.note(event, id) ? undefined : event;
  }

  /** Records the event for a later resumption, and returns whether an earlier connection delivered it. */
  private note(event: StreamEvent, id: string | undefined): boolean {
    if (event.type === "TEXT_DELTA" || (event.type === "THINKING" && event.content !== null)) {
      this.hasPieces = true;
      this.replyComplete = false;
      return false;
    }
    if (event.type === "TEXT_RESET") {
      this.hasPieces = false;
      return false;
    }
    if (event.type === "USAGE") this.replyComplete = true;
    const key = `${event.type} ${callOf(event)}`;
    if (id === undefined) {
      this.sinceId.add(key);
      return this.repeated.has(key);
    }
    this.lastId = id;
    this.hasPieces &&= !this.replyComplete;
    this.sinceId.clear();
    this.repeated.clear();
    return false;
  }
}

function callOf(event: StreamEvent): string {
  switch (event.type) {
    case "TOOL_CALL_START":
    case "TOOL_CALL_END":
      return event.toolInvocation.callId;
    case "APPROVAL_REQUIRED":
      return event.approval.callId;
    case "CLIENT_ACTION":
      return event.clientAction.callId;
    case "CHILD_WAITING":
      return event.childRun.callId;
    default:
      return "";
  }
}
