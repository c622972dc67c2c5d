// Sends typed requests. The types of paths, parameters, bodies and responses come from openapi.json.

import { connectionError, problem, ToolwrightError } from "./errors.js";
import type { paths } from "./openapi.js";

type Method = "GET" | "POST" | "PUT" | "PATCH" | "DELETE";

/** The paths that have this method. */
export type PathWith<M extends Method> = {
  [P in keyof paths]: paths[P][Lowercase<M> & keyof paths[P]] extends { responses: unknown } ? P : never;
}[keyof paths];

type OperationAt<M extends Method, P extends keyof paths> = paths[P][Lowercase<M> & keyof paths[P]];

type Parameters<O, In extends string> = O extends { parameters: infer A } ? (In extends keyof A ? A[In] : undefined) : undefined;

type BodyIn<Content> = {
  [Media in keyof Content]: Media extends "application/json"
    ? { body: Content[Media]; contentType?: Media }
    : { body: Content[Media]; contentType: Media };
}[keyof Content];

type Body<O> = O extends { requestBody: { content: infer Content } }
  ? BodyIn<Content>
  : O extends { requestBody?: { content: infer Content } }
    ? BodyIn<Content> | { body?: undefined }
    : { body?: undefined };

type Named<In extends string, Values> = undefined extends Values ? { [Name in In]?: Values } : { [Name in In]: Values };

/** The parameters and the body of an operation. */
export type Init<O> = Named<"path", Parameters<O, "path">> &
  Named<"query", Parameters<O, "query">> &
  Named<"header", Parameters<O, "header">> &
  Body<O> & { signal?: AbortSignal };

type Media<Content> = {
  [Type in keyof Content]: Type extends "application/json" ? Content[Type] : Type extends "*/*" ? unknown : string;
}[keyof Content];

type Result<Response> = Response extends { content: infer Content extends object } ? Media<Content> : undefined;

type Success<O> = O extends { responses: infer R } ? { [Status in keyof R & (200 | 201 | 202 | 204)]: Result<R[Status]> } : never;

/** The type of the successful responses of an operation. */
export type ResponseOf<M extends Method, P extends keyof paths> = Success<OperationAt<M, P>>[keyof Success<OperationAt<M, P>>];

/** The type of the items that a path lists. */
export type ItemOf<P extends keyof paths> = ResponseOf<"GET", P> extends { items: (infer Item)[] } ? Item : never;

/** The last argument of `request`: it can be omitted if everything in it is optional. */
export type InitArguments<M extends Method, P extends keyof paths> =
  object extends Init<OperationAt<M, P>> ? [init?: Init<OperationAt<M, P>>] : [init: Init<OperationAt<M, P>>];

/** A request without its types. */
export interface AnyInit {
  path?: Record<string, string> | undefined;
  query?: Record<string, unknown> | undefined;
  header?: Record<string, unknown> | undefined;
  body?: unknown;
  contentType?: string | undefined;
  signal?: AbortSignal | undefined;
}

export interface Settings {
  /** The address of the server. Default: `TOOLWRIGHT_URL`, else `http://127.0.0.1:7411`. */
  url?: string | undefined;
  /** The API key. Default: `TOOLWRIGHT_API_KEY`. */
  apiKey?: string | undefined;
  /** The realm of all requests. Default: `TOOLWRIGHT_REALM`, else the realm of the key. */
  realm?: string | undefined;
  /** The time limit of each request in milliseconds, including the run of an agent. Default: 300000. */
  timeout?: number | undefined;
  /** The number of failed connections in a row after which a stream fails. Default: 10, which is about 20 seconds. */
  reconnects?: number | undefined;
  /** Sends the requests. Default: the global `fetch`. */
  fetch?: typeof fetch | undefined;
}

const DEFAULT_URL = "http://127.0.0.1:7411";
const DEFAULT_TIMEOUT = 300_000;
const DEFAULT_RECONNECTS = 10;

/** Sends requests to one server. */
export class Http {
  readonly url: string;
  readonly reconnects: number;
  private readonly headers: Record<string, string>;
  private readonly timeout: number;
  private readonly send: typeof fetch;

  constructor(settings: Settings) {
    const apiKey = settings.apiKey ?? environment("TOOLWRIGHT_API_KEY");
    if (!apiKey) {
      throw new ToolwrightError("no-api-key", "the API key is required", "set TOOLWRIGHT_API_KEY or pass `apiKey`");
    }
    this.url = (settings.url ?? environment("TOOLWRIGHT_URL") ?? DEFAULT_URL).replace(/\/+$/, "");
    const realm = settings.realm ?? environment("TOOLWRIGHT_REALM");
    this.headers = { authorization: `Bearer ${apiKey}`, ...(realm === undefined ? {} : { "x-realm": realm }) };
    this.timeout = settings.timeout ?? DEFAULT_TIMEOUT;
    this.reconnects = settings.reconnects ?? DEFAULT_RECONNECTS;
    this.send = settings.fetch ?? ((input, init) => fetch(input, init));
  }

  /** Sends a request and returns its body: parsed JSON, text, or bytes, as its content type says. */
  async request(method: string, path: string, init: AnyInit = {}): Promise<unknown> {
    const limit = AbortSignal.timeout(this.timeout);
    const signal = init.signal ? AbortSignal.any([init.signal, limit]) : limit;
    try {
      const response = await this.fetch(method, path, { ...init, signal });
      return await body(response);
    } catch (error) {
      throw this.explained(error, init.signal);
    }
  }

  /** Sends a request and returns the response. Throws a `ToolwrightError` if the server rejects it. */
  async fetch(method: string, path: string, init: AnyInit): Promise<Response> {
    const headers: Record<string, string> = { ...this.headers };
    for (const [name, value] of Object.entries(init.header ?? {})) {
      if (value !== undefined && value !== null) headers[name] = String(value);
    }
    const request: RequestInit = { method, headers };
    if (init.signal) request.signal = init.signal;
    if (init.body !== undefined) {
      headers["content-type"] = init.contentType ?? "application/json";
      const isJson = headers["content-type"] === "application/json";
      request.body = isJson ? JSON.stringify(init.body) : String(init.body);
    }
    const response = await this.send(this.url + address(path, init), request);
    if (!response.ok) throw await problem(response, this.url);
    return response;
  }

  /** Returns a failure of `fetch` as a `ToolwrightError`. An abort by the caller is returned unchanged. */
  explained(error: unknown, signal: AbortSignal | undefined, runId?: string): unknown {
    if (error instanceof ToolwrightError || signal?.aborted) return error;
    return connectionError(error, this.url, runId);
  }
}

/** Inserts path parameters and the query. The `/` of a name such as `hubspot/get-deal` is encoded. */
function address(path: string, init: AnyInit): string {
  const filled = path.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(init.path?.[name] ?? ""));
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(init.query ?? {})) {
    if (value !== undefined && value !== null) query.set(name, String(value));
  }
  return query.size === 0 ? filled : `${filled}?${query}`;
}

async function body(response: Response): Promise<unknown> {
  const type = response.headers.get("content-type") ?? "";
  if (response.status === 204) return undefined;
  if (type.startsWith("application/json")) return response.json();
  if (type.startsWith("text/") || type.includes("jsonl") || type.includes("ndjson")) return response.text();
  return response.arrayBuffer();
}

/** Reads a variable of the environment. `process` is not imported, because it is not part of every runtime. */
function environment(name: string): string | undefined {
  const { process } = globalThis as { process?: { env?: Record<string, string | undefined> } };
  return process?.env?.[name] || undefined;
}
