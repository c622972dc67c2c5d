import { expect, it } from "vitest";
import { entryParts } from "./entryParts";

it("a start shows the instructions and the user's message", () => {
  const messages = [
    { role: "system", content: "Be brief." },
    { role: "user", content: "Hello" },
  ];
  expect(entryParts({ type: "started", spec: { request: { messages } } })).toMatchObject({ prompt: "Be brief.", text: "Hello" });
});

it("a reply shows the arguments of its calls, also if they are not JSON", () => {
  const tool_calls = [
    { id: "a", name: "crm/get", arguments: { json: { id: 1 } } },
    { id: "b", name: "crm/get", arguments: "{broken" },
  ];
  expect(entryParts({ type: "model_replied", reply: { content: "Hm", tool_calls } }).calls.map((call) => call.input)).toEqual([{ id: 1 }, "{broken"]);
});

it("a prepared call names the policy that allowed it, and a refused call its error", () => {
  const calls = [
    { ready: { name: "crm/get", version: "1.0.0", policy_id: "admins", principal: "ada" } },
    { refused: { name: "crm/delete", error: { code: "POLICY_DENIED", message: "not allowed" } } },
  ];
  const parts = entryParts({ type: "prepared", calls }).calls;
  expect(parts[0]).toMatchObject({ policy: "admins", principal: "ada", allowed: true });
  expect(parts[1]).toMatchObject({ error: "POLICY_DENIED: not allowed", allowed: false });
});

it("a client's error and a client's output differ", () => {
  expect(entryParts({ type: "client_returned", result: { error: { code: "PROVIDER_ERROR", message: "closed" } } }).error).toEqual({
    code: "PROVIDER_ERROR",
    message: "closed",
  });
  expect(entryParts({ type: "client_returned", result: { output: 5 } }).calls[0]?.output).toBe(5);
});

it("an entry of an unknown kind has no parts", () => {
  expect(entryParts({ type: "moon_landed" })).toEqual({ calls: [] });
});
