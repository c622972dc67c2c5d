/**
 * Tools of a Toolwright server for a model. Pass TOOLS to the model. For each call that the model requests, pass the name
 * and the arguments to `callTool` and send its result back to the model.
 *
 *   npm install --save-dev tsx @types/node
 *   export TOOLWRIGHT_URL=http://127.0.0.1:7411 TOOLWRIGHT_API_KEY=…
 *   npx tsx tools.ts NAME '{"argument": "value"}'
 */
import { realpathSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { invoke } from "./invoke.js";

/** The tools, as the model gets them. */
export const TOOLS: Record<string, unknown>[] = [];

/** The names of the tools on the server. */
const REF_NAMES: Record<string, string> = {};

/** Performs a call that the model requested. `args` is an object, or its JSON. */
export async function callTool(name: string, args: unknown): Promise<unknown> {
  const tool = REF_NAMES[name];
  if (tool === undefined) throw new Error(`There is no tool ${name}; use ${Object.keys(REF_NAMES).join(", ")}`);
  return invoke(tool, typeof args === "string" ? JSON.parse(args) : args);
}

// Run as a program: call one tool and print its result.
if (process.argv[1] && realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) {
  const [name = "", args = "{}"] = process.argv.slice(2);
  console.log(JSON.stringify(await callTool(name, args)));
}
