/** Login and logout. The session is a cookie that scripts cannot read. */
import { ApiError, type Problem, uiHeaders } from "./client";

export interface Login {
  principal: string;
  realm: string;
  roles: string[];
  expiresAt: string;
}

const PATH = "/api/v1/ai/session";

export async function logIn(credential: { key: string } | { link: string }): Promise<Login> {
  const response = await send("POST", credential);
  const body: unknown = await response.json().catch(() => undefined);
  if (!response.ok) throw new ApiError(response.status, body as Problem | undefined, "The login failed.");
  return body as Login;
}

export async function logOut(): Promise<void> {
  const response = await send("DELETE");
  if (!response.ok) throw new ApiError(response.status, undefined, "The logout failed.");
}

async function send(method: string, body?: unknown): Promise<Response> {
  try {
    return await fetch(PATH, {
      method,
      credentials: "same-origin",
      headers: { ...uiHeaders(), "Content-Type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch {
    throw new ApiError(0, undefined, "The server did not respond. Check that it is running.");
  }
}
