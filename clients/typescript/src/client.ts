import { Answerer, approve, decide, deny, edit, isWaiting, type Answers, type Connection } from "./answer.js";
import { connectionError, ToolwrightError, waitingRemedy } from "./errors.js";
import { Http, type AnyInit, type InitArguments, type ItemOf, type PathWith, type ResponseOf, type Settings } from "./http.js";
import type { AgentResponse, ApprovalView, ClientAction, Decision, RunStatus, Schemas, StreamEvent, ToolEnvelope } from "./models.js";
import { StreamReader, type StreamRequest } from "./stream.js";

/** The milliseconds without data after which a stream counts as lost. The server sends a comment every 15 s. */
const STREAM_SILENCE = 60_000;

/** Filters of a list: a `query`, the page size `limit`, and values of fields. */
export type Filters = Record<string, string | number | boolean | undefined>;

/** The options of an agent's run, in addition to the message. */
export interface RunOptions {
  /** The conversation to continue. */
  conversationId?: string | undefined;
  /** The variables of the prompt. */
  context?: Record<string, unknown> | undefined;
  /** An exact version of the agent, or a requirement such as `^1.2`. */
  version?: string | undefined;
  signal?: AbortSignal | undefined;
}

/** Calls the tools and agents of a server. */
export class Client {
  readonly tools: Tools;
  readonly agents: Agents;
  readonly runs: Runs;
  readonly approvals: Approvals;
  private readonly connection: Connection;
  private readonly http: Http;

  constructor(settings: Settings = {}) {
    this.http = new Http(settings);
    this.connection = { http: this.http, events: (reader, signal) => this.events(reader, signal) };
    this.tools = new Tools(this, this.connection);
    this.agents = new Agents(this, this.connection);
    this.runs = new Runs(this, this.connection);
    this.approvals = new Approvals(this, this.connection);
  }

  /** Sends any operation of the REST API and returns its typed response. */
  async request<M extends "GET" | "POST" | "PUT" | "PATCH" | "DELETE", P extends PathWith<M>>(
    method: M,
    path: P,
    ...[init]: InitArguments<M, P>
  ): Promise<ResponseOf<M, P>> {
    return (await this.http.request(method, path, init as AnyInit)) as ResponseOf<M, P>;
  }

  /** Returns the items of all pages of a list. Pages are requested when they are needed. */
  async *iterate<P extends PathWith<"GET">>(path: P, query: Filters = {}): AsyncGenerator<ItemOf<P>> {
    let cursor: string | null | undefined;
    do {
      const page = (await this.http.request("GET", path, { query: { ...query, ...(cursor ? { cursor } : {}) } })) as {
        items: ItemOf<P>[];
        nextCursor?: string | null;
      };
      yield* page.items;
      cursor = page.nextCursor;
    } while (cursor);
  }

  /** Returns the events of a stream until the run ends. A lost connection is resumed. */
  stream(request: StreamRequest): AsyncGenerator<StreamEvent> {
    return this.events(new StreamReader(request, this.http.reconnects), request.init.signal);
  }

  private async *events(reader: StreamReader, signal: AbortSignal | undefined): AsyncGenerator<StreamEvent> {
    while (!reader.ended) {
      let cause: unknown = new Error("the stream ended before the run");
      try {
        yield* this.read(reader, signal);
      } catch (error) {
        const isPermanent = error instanceof ToolwrightError && !(reader.runId && (error.status ?? 0) >= 500);
        if (isPermanent || signal?.aborted) throw error;
        cause = error;
      }
      if (!reader.ended) await sleep(reader.lost(connectionError(cause, this.http.url, reader.runId)));
    }
  }

  private async *read(reader: StreamReader, signal: AbortSignal | undefined): AsyncGenerator<StreamEvent> {
    const end = new AbortController();
    const { method, path, init } = reader.request;
    let silence = setTimeout(() => end.abort(), STREAM_SILENCE);
    try {
      const either = signal ? AbortSignal.any([signal, end.signal]) : end.signal;
      const response = await this.http.fetch(method, path, { ...init, signal: either });
      yield* reader.resumed();
      const body = response.body?.getReader();
      for (let part = await body?.read(); part && !part.done; part = await body?.read()) {
        clearTimeout(silence);
        yield* reader.feed(part.value);
        if (reader.ended) return;
        silence = setTimeout(() => end.abort(), STREAM_SILENCE);
      }
    } finally {
      clearTimeout(silence);
      // Closes the connection if the consumer leaves before the run ends.
      end.abort();
    }
  }
}

/** A run of an agent, as it was when the server responded. */
export class Run {
  constructor(
    private readonly client: Client,
    private readonly connection: Connection,
    /** The whole response of the server. */
    readonly response: AgentResponse,
  ) {}

  get id(): string {
    return this.response.runId;
  }

  get status(): RunStatus {
    return this.response.status;
  }

  /** The answer, or the model's last text if there is no answer yet. */
  get text(): string {
    return this.response.responseText;
  }

  /** The answer as data, if the agent answers with data. */
  get data(): unknown {
    return this.response.outputContext;
  }

  get conversationId(): string | undefined {
    return this.response.conversationId ?? undefined;
  }

  /** Whether the run waits for an approval or a client. */
  get waiting(): boolean {
    return isWaiting(this.status);
  }

  /** The calls of this run and of its child runs that wait for an approval. */
  get approvals(): Approval[] {
    return this.response.approvals.map((view) => new Approval(this.client, this.connection, view, this.id));
  }

  /** The calls of this run that wait for the client. `answer` performs them, also those of child runs. */
  get clientActions(): ClientAction[] {
    return this.response.clientActions;
  }

  /**
   * Answers what the run and its child runs wait for. Returns this run when it has ended, or when no function answers what
   * is left.
   */
  async answer(answers: Answers): Promise<Run> {
    return new Run(this.client, this.connection, await new Answerer(this.connection, answers).answer(this.response));
  }

  /** Ends the run. */
  cancel(): Promise<Run> {
    return this.client.runs.cancel(this.id);
  }

  /** Reads the run again. */
  refresh(): Promise<Run> {
    return this.client.runs.get(this.id);
  }

  /** Throws a `ToolwrightError` unless the run is `COMPLETED`. */
  throwForStatus(): void {
    if (this.status === "COMPLETED") return;
    const detail = this.response.message ?? `the run has the status ${this.status}`;
    const remedy = this.waiting ? waitingRemedy(this.response, "`run` or `answer`") : `read the journal of ${this.id}`;
    throw new ToolwrightError(this.status, detail, remedy, { reason: this.response.reason ?? undefined, runId: this.id });
  }
}

/**
 * A call that waits for an approval. Its methods return the run whose `approvals` contain the call, also if a child run made
 * the call; for approvals of `approvals.list` they return the run that made it. They return when that run has ended, or it
 * and its child runs wait again.
 */
export class Approval {
  constructor(
    private readonly client: Client,
    private readonly connection: Connection,
    /** The call: `toolRef`, `input`, `triggers` and so on. */
    readonly view: ApprovalView,
    private readonly runId: string,
  ) {}

  /** Approves the call, so that it is executed. */
  approve(): Promise<Run> {
    return this.decide(approve());
  }

  /** Denies the call. It is not executed, and the model sees the reason. */
  deny(reason?: string): Promise<Run> {
    return this.decide(deny(reason));
  }

  /** Approves the call with this input. The model is informed that the input was changed. */
  edit(input: unknown): Promise<Run> {
    return this.decide(edit(input));
  }

  private async decide(decision: Decision): Promise<Run> {
    const response = await decide(this.connection, this.view, this.runId, decision);
    return new Run(this.client, this.connection, response);
  }
}

/** The tools of the server. */
export class Tools {
  constructor(
    private readonly client: Client,
    private readonly connection: Connection,
  ) {}

  /**
   * Calls a tool and returns the envelope, even if the call failed. `outputOf` returns the output of an envelope.
   * `tools` has functions that perform client tools. `onApproval` decides on calls of agentic and composite tools.
   */
  call(
    ref: string,
    input: unknown = {},
    options: Answers & { version?: string; signal?: AbortSignal } = {},
  ): Promise<ToolEnvelope> {
    const answerer = new Answerer(this.connection, options, options.signal);
    return answerer.call(ref, { input, version: options.version ?? null });
  }

  /** Returns all tools, filtered by a query or by fields of a definition. */
  list(filters: Filters = {}): AsyncGenerator<ItemOf<"/api/v1/ai/tools">> {
    return this.client.iterate("/api/v1/ai/tools", filters);
  }
}

/** The agents of the server. */
export class Agents {
  constructor(
    private readonly client: Client,
    private readonly connection: Connection,
  ) {}

  /**
   * Runs an agent and returns when the run ends or waits. With `tools` and `onApproval` the client answers client tools
   * and approvals, also of delegates, and the run continues.
   */
  async run(ref: string, message: string, options: RunOptions & Answers = {}): Promise<Run> {
    const answerer = new Answerer(this.connection, options, options.signal);
    const init = { path: { ref }, body: messageBody(message, options), signal: options.signal };
    const response = await this.connection.http.request("POST", "/api/v1/ai/agents/{ref}/execute", init);
    return new Run(this.client, this.connection, await answerer.answer(response as AgentResponse));
  }

  /**
   * Runs an agent and returns its events until the run ends. With `tools` and `onApproval` the client answers client
   * tools and approvals, also of delegates, after it has returned their events.
   */
  async *stream(ref: string, message: string, options: RunOptions & Answers = {}): AsyncGenerator<StreamEvent> {
    const answerer = new Answerer(this.connection, options, options.signal);
    const init = { path: { ref }, body: messageBody(message, options), signal: options.signal };
    for await (const event of this.client.stream({ method: "POST", path: "/api/v1/ai/agents/{ref}/execute/stream", init })) {
      yield event;
      await answerer.answerEvent(event);
    }
  }

  /** Starts a durable run in the background. `runs.events` and `runs.get` show it. */
  async start(ref: string, message: string, options: RunOptions = {}): Promise<Schemas["AcceptedView"]> {
    const init = { path: { ref }, body: messageBody(message, options), signal: options.signal };
    return (await this.connection.http.request("POST", "/api/v1/ai/agents/{ref}/execute/durable", init)) as Schemas["AcceptedView"];
  }

  /** Returns all agents, filtered by a query or by fields of a definition. */
  list(filters: Filters = {}): AsyncGenerator<ItemOf<"/api/v1/ai/agents">> {
    return this.client.iterate("/api/v1/ai/agents", filters);
  }
}

/** Runs of agents and tools. */
export class Runs {
  constructor(
    private readonly client: Client,
    private readonly connection: Connection,
  ) {}

  /** Returns the status and results of a run. */
  async get(id: string): Promise<Run> {
    const response = await this.connection.http.request("GET", "/api/v1/ai/runs/{id}", { path: { id } });
    return new Run(this.client, this.connection, response as AgentResponse);
  }

  /** Ends a run. */
  async cancel(id: string): Promise<Run> {
    const response = await this.connection.http.request("POST", "/api/v1/ai/runs/{id}/cancel", { path: { id } });
    return new Run(this.client, this.connection, response as AgentResponse);
  }

  /** Returns the events of a run, from the beginning or after a journal entry, until the run ends. */
  events(id: string, options: { after?: number; signal?: AbortSignal } = {}): AsyncGenerator<StreamEvent> {
    const init = { path: { id }, query: { after: options.after }, signal: options.signal };
    return this.client.stream({ method: "GET", path: "/api/v1/ai/runs/{id}/events", init });
  }

  /** Returns all runs, latest first, filtered by `status`, `agentRef`, `toolRef` and others. */
  list(filters: Filters = {}): AsyncGenerator<ItemOf<"/api/v1/ai/runs">> {
    return this.client.iterate("/api/v1/ai/runs", filters);
  }
}

/** Calls that wait for an approval. */
export class Approvals {
  constructor(
    private readonly client: Client,
    private readonly connection: Connection,
  ) {}

  /** Returns the calls that wait for an approval, oldest first: of all runs, or of one run. */
  async *list(runId?: string): AsyncGenerator<Approval> {
    for await (const view of this.client.iterate("/api/v1/ai/approvals", { runId })) {
      yield new Approval(this.client, this.connection, view, view.runId);
    }
  }
}

function messageBody(message: string, options: RunOptions): Schemas["AgentExecuteBody"] {
  return {
    userMessage: message,
    conversationId: options.conversationId ?? null,
    context: options.context ?? null,
    version: options.version ?? null,
  };
}

function sleep(milliseconds: number): Promise<void> {
  return new Promise((done) => setTimeout(done, milliseconds));
}
