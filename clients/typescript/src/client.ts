import { answer, answerEvent, approve, callTool, decide, deny, edit, type Answers } from "./answer.js";
import { connectionError, ToolwrightError } from "./errors.js";
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
  private readonly http: Http;
  private readonly reconnects: number;

  constructor(settings: Settings = {}) {
    this.http = new Http(settings);
    this.reconnects = settings.reconnects ?? 10;
    this.tools = new Tools(this, this.http);
    this.agents = new Agents(this, this.http);
    this.runs = new Runs(this, this.http);
    this.approvals = new Approvals(this, this.http);
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
  async *stream(request: StreamRequest): AsyncGenerator<StreamEvent> {
    const { signal } = request.init;
    const reader = new StreamReader(request, this.reconnects);
    while (!reader.ended) {
      let cause: unknown = new Error("the stream ended before the run");
      try {
        yield* this.connection(reader, signal);
      } catch (error) {
        const isPermanent = error instanceof ToolwrightError && !(reader.runId && (error.status ?? 0) >= 500);
        if (isPermanent || signal?.aborted) throw error;
        cause = error;
      }
      if (!reader.ended) await sleep(reader.lost(connectionError(cause, this.http.url, reader.runId)));
    }
  }

  private async *connection(reader: StreamReader, signal: AbortSignal | undefined): AsyncGenerator<StreamEvent> {
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
    private readonly http: Http,
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
    return this.status === "AWAITING_APPROVAL" || this.status === "AWAITING_CLIENT";
  }

  /** The calls that wait for an approval. */
  get approvals(): Approval[] {
    return this.response.approvals.map((view) => new Approval(this.client, this.http, view));
  }

  /** The calls that wait for the client. `answer` performs them. */
  get clientActions(): ClientAction[] {
    return this.response.clientActions;
  }

  /** Answers what the run waits for, and returns the run when it ends or waits for something else. */
  async answer(answers: Answers): Promise<Run> {
    return new Run(this.client, this.http, await answer(this.http, this.response, answers));
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
    const remedy = this.waiting ? "answer `approvals` and `clientActions`" : `read the journal of ${this.id}`;
    throw new ToolwrightError(this.status, detail, remedy, { reason: this.response.reason ?? undefined, runId: this.id });
  }
}

/** A call that waits for an approval. Its methods return when the run ends or waits again. */
export class Approval {
  constructor(
    private readonly client: Client,
    private readonly http: Http,
    /** The call: `toolRef`, `input`, `triggers` and so on. */
    readonly view: ApprovalView,
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
    const response = await decide(this.http, this.view.runId, this.view.callId, decision);
    return new Run(this.client, this.http, response as AgentResponse);
  }
}

/** The tools of the server. */
export class Tools {
  constructor(
    private readonly client: Client,
    private readonly http: Http,
  ) {}

  /**
   * Calls a tool and returns the envelope, even if the call failed. `outputOf` returns the output of an envelope.
   * `tools` has functions that perform client tools.
   */
  call(
    ref: string,
    input: unknown = {},
    options: Pick<Answers, "tools"> & { version?: string; signal?: AbortSignal } = {},
  ): Promise<ToolEnvelope> {
    return callTool(this.http, ref, { input, version: options.version ?? null }, options);
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
    private readonly http: Http,
  ) {}

  /**
   * Runs an agent and returns when the run ends or waits. With `tools` and `onApproval` the client answers client tools
   * and approvals, and the run continues.
   */
  async run(ref: string, message: string, options: RunOptions & Answers = {}): Promise<Run> {
    const init = { path: { ref }, body: messageBody(message, options), signal: options.signal };
    const response = await this.http.request("POST", "/api/v1/ai/agents/{ref}/execute", init);
    return new Run(this.client, this.http, await answer(this.http, response as AgentResponse, options));
  }

  /**
   * Runs an agent and returns its events until the run ends. With `tools` and `onApproval` the client answers client
   * tools and approvals, after it has returned their events.
   */
  async *stream(ref: string, message: string, options: RunOptions & Answers = {}): AsyncGenerator<StreamEvent> {
    const init = { path: { ref }, body: messageBody(message, options), signal: options.signal };
    for await (const event of this.client.stream({ method: "POST", path: "/api/v1/ai/agents/{ref}/execute/stream", init })) {
      yield event;
      await answerEvent(this.http, event, options);
    }
  }

  /** Starts a durable run in the background. `runs.events` and `runs.get` show it. */
  async start(ref: string, message: string, options: RunOptions = {}): Promise<Schemas["AcceptedView"]> {
    const init = { path: { ref }, body: messageBody(message, options), signal: options.signal };
    return (await this.http.request("POST", "/api/v1/ai/agents/{ref}/execute/durable", init)) as Schemas["AcceptedView"];
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
    private readonly http: Http,
  ) {}

  /** Returns the status and results of a run. */
  async get(id: string): Promise<Run> {
    const response = await this.http.request("GET", "/api/v1/ai/runs/{id}", { path: { id } });
    return new Run(this.client, this.http, response as AgentResponse);
  }

  /** Ends a run. */
  async cancel(id: string): Promise<Run> {
    const response = await this.http.request("POST", "/api/v1/ai/runs/{id}/cancel", { path: { id } });
    return new Run(this.client, this.http, response as AgentResponse);
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
    private readonly http: Http,
  ) {}

  /** Returns the calls that wait for an approval, oldest first: of all runs, or of one run. */
  async *list(runId?: string): AsyncGenerator<Approval> {
    for await (const view of this.client.iterate("/api/v1/ai/approvals", { runId })) {
      yield new Approval(this.client, this.http, view);
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
