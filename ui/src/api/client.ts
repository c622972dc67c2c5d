/** The typed client of the REST API. Every request of the UI passes through here. */
import createClient, { type Middleware } from "openapi-fetch";
import type { components, paths } from "./schema";

export type Schemas = components["schemas"];
export type Problem = Schemas["Problem"];

/** A response that is a problem document, or a request without a response (status 0). */
export class ApiError extends Error {
  readonly status: number;
  readonly code: string;
  readonly title: string;
  readonly fields: { field: string; message: string; line?: number | undefined }[];

  constructor(status: number, problem: Partial<Problem> | undefined, fallback: string) {
    super(problem?.detail ?? fallback);
    this.name = "ApiError";
    this.status = status;
    this.code = problem?.code ?? "unknown";
    this.title = problem?.title ?? fallback;
    this.fields = (problem?.errors ?? []).map((error) => ({
      field: String((error as Record<string, unknown>).field ?? (error as Record<string, unknown>).path ?? ""),
      message: String((error as Record<string, unknown>).message ?? ""),
      line: Number((error as Record<string, unknown>).line) || undefined,
    }));
  }
}

let realm: string | undefined;
const unauthenticated = new Set<() => void>();

/** Sets the realm of all further requests. `undefined` means the home realm of the principal. */
export function setRealm(name: string | undefined) {
  realm = name;
}

export function currentRealm() {
  return realm;
}

/** Calls `listener` when the server rejects the session. Returns a function that removes the listener. */
export function onUnauthenticated(listener: () => void) {
  unauthenticated.add(listener);
  return () => void unauthenticated.delete(listener);
}

/** The headers that identify the UI and select the realm. */
export function uiHeaders(): Record<string, string> {
  return realm ? { "X-Toolwright-UI": "1", "X-Realm": realm } : { "X-Toolwright-UI": "1" };
}

const headers: Middleware = {
  onRequest({ request }) {
    for (const [name, value] of Object.entries(uiHeaders())) request.headers.set(name, value);
    return request;
  },
};

export const api = createClient<paths>({ baseUrl: "", credentials: "same-origin" });
api.use(headers);

interface Outcome<T> {
  data?: T;
  error?: unknown;
  response: Response;
}

/** Returns the body of a successful response. Throws an `ApiError` otherwise. */
export async function read<T>(request: Promise<Outcome<T>>): Promise<T> {
  let outcome: Outcome<T>;
  try {
    outcome = await request;
  } catch (cause) {
    if (cause instanceof DOMException && cause.name === "AbortError") throw cause;
    throw new ApiError(0, undefined, "The server did not respond. Check that it is running and that this device can reach it.");
  }
  const { data, error, response } = outcome;
  if (response.ok) return data as T;
  if (response.status === 401) unauthenticated.forEach((listener) => listener());
  throw new ApiError(response.status, isProblem(error) ? error : undefined, `The server responded with status ${response.status}.`);
}

function isProblem(value: unknown): value is Problem {
  return typeof value === "object" && value !== null && "code" in value && "detail" in value;
}
