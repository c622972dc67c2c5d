// Short names of the generated types, and the types of events.

import type { components } from "./openapi.js";

/** The types of requests and responses, by their names in openapi.json. */
export type Schemas = components["schemas"];

export type ToolEnvelope = Schemas["ToolEnvelope"];
export type FieldError = Schemas["FieldError"];
export type AgentResponse = Schemas["AgentResponseView"];
export type ApprovalView = Schemas["ApprovalView"];
export type ClientAction = Schemas["ClientActionView"];
export type RunStatus = Schemas["RunStatus"];
export type ToolCall = Schemas["ToolCallEntry"];

/** A decision on a call: `approve()`, `deny()` or `edit()`. */
export type Decision = Schemas["DecisionBody"];

interface EventOf<Type extends string> {
  type: Type;
  /** The id of the run. */
  runId: string;
  /** The number of model calls so far. */
  iteration: number;
}

/** An event of the stream of a run. `type` tells the events apart. */
export type StreamEvent =
  /** A model call starts, or the model produces a piece of its reasoning. */
  | (EventOf<"THINKING"> & { content: string | null })
  /** The model produces a piece of text. */
  | (EventOf<"TEXT_DELTA"> & { content: string })
  /** Discard the pieces of this iteration: the model starts again, or the stream was resumed and repeats them. */
  | EventOf<"TEXT_RESET">
  /** A reply is complete. */
  | (EventOf<"USAGE"> & { usage: Schemas["Usage"]; costUsd?: number })
  /** A call starts. */
  | (EventOf<"TOOL_CALL_START"> & { content: string; toolInvocation: ToolCall })
  /** A call ended or was denied. */
  | (EventOf<"TOOL_CALL_END"> & { content: string; toolInvocation: ToolCall })
  /** A call needs an approval. */
  | (EventOf<"APPROVAL_REQUIRED"> & { approval: ApprovalView })
  /** A call waits for the client. */
  | (EventOf<"CLIENT_ACTION"> & { clientAction: ClientAction })
  /** A child run waits for an approval or a client, for the first time or again after a decision. */
  | (EventOf<"CHILD_WAITING"> & { content: string; childRun: Schemas["ChildRunView"] })
  /** The run ended, with any status but `ERROR`. */
  | (EventOf<"DONE"> & { content: string; status: RunStatus; reason?: string })
  /** The run ended with `ERROR`. */
  | (EventOf<"ERROR"> & { content: string | null; status: RunStatus; reason?: string });
