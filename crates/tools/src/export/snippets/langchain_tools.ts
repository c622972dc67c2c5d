/**
 * Tools of a Toolwright server for LangChain.js.
 *
 *   npm install @langchain/core && npm install --save-dev tsx @types/node
 *   export TOOLWRIGHT_URL=http://127.0.0.1:7411 TOOLWRIGHT_API_KEY=…
 *   npx tsx langchain_tools.ts NAME '{"argument": "value"}'
 */
import { realpathSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { tool } from "@langchain/core/tools";
import { invoke } from "./invoke.js";

interface Definition {
  name: string;
  description: string;
  schema: Record<string, unknown>;
}

const TOOLS: Definition[] = [];

/** The names of the tools on the server. */
const REF_NAMES: Record<string, string> = {};

/** The tools, for `model.bindTools(tools)` or an agent. Their results are texts; a result that is not a text is JSON. */
export const tools = TOOLS.map(({ name, description, schema }) =>
  tool(
    async (params: unknown) => {
      const result = await invoke(REF_NAMES[name], params);
      return typeof result === "string" ? result : JSON.stringify(result);
    },
    { name, description, schema },
  ),
);

// Run as a program: call one tool and print its result.
if (process.argv[1] && realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) {
  const [name, params = "{}"] = process.argv.slice(2);
  const chosen = tools.find((tool) => tool.name === name);
  if (!chosen) throw new Error(`Name one of the tools: ${tools.map((tool) => tool.name).join(", ")}`);
  console.log(await chosen.invoke(JSON.parse(params)));
}
