import { expect, it } from "vitest";
import { repeatRun, shellQuote, splitCommand, stateCurl, toolRunCurl, workflowRunCommand } from "./commands";

it("quotes what a shell would interpret", () => {
  expect(["ord-1001", "two words", "it's", "$HOME", ""].map(shellQuote)).toEqual(["ord-1001", "'two words'", "'it'\\''s'", "'$HOME'", "''"]);
});

it("encodes the name of a tool in a path", () => {
  expect(toolRunCurl("crm/get", { id: "1" })).toBe(
    'curl -s "$TOOLWRIGHT_URL/api/v1/ai/tools/crm%2Fget/execute" \\\n  -H "Authorization: Bearer $TOOLWRIGHT_API_KEY" \\\n  -H "Content-Type: application/json" \\\n  -d \'{"input":{"id":"1"}}\'',
  );
});

it("has no body in a request that reads", () => {
  expect(stateCurl("run_1", 7)).toBe(
    'curl -s "$TOOLWRIGHT_URL/api/v1/ai/runs/run_1/state?at=7" \\\n  -H "Authorization: Bearer $TOOLWRIGHT_API_KEY"',
  );
});

it("repeats runs of agents and direct calls", () => {
  expect(repeatRun({ kind: "agent", subject: "sales/clerk" }, "Hello there", undefined)?.command).toBe(
    "toolwright agents run sales/clerk 'Hello there'",
  );
  expect(repeatRun({ kind: "tool", subject: "crm/get" }, "", { id: 1 })?.command).toBe("toolwright tools run crm/get --input '{\"id\":1}'");
  expect(repeatRun({ kind: "agentic-tool", subject: "deal-manager" }, "Move it", undefined)).toBeUndefined();
});

it("runs a workflow with its input", () => {
  expect(workflowRunCommand("orders/fulfil", { id: "it's" })).toBe(`toolwright workflows run orders/fulfil --input '{"id":"it'\\''s"}'`);
});

it("splits a command line at spaces outside of quotes", () => {
  expect(splitCommand(` python3 "my server.py" --name='a b' x `)).toEqual(["python3", "my server.py", "--name=a b", "x"]);
  expect(splitCommand("")).toEqual([]);
});
