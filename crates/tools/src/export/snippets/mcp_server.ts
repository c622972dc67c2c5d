/**
 * An MCP server with tools of a Toolwright server. Its client starts it as a child process.
 *
 *   npm install @modelcontextprotocol/sdk && npm install --save-dev tsx @types/node
 *   TOOLWRIGHT_URL=http://127.0.0.1:7411 TOOLWRIGHT_API_KEY=… npx tsx server.ts
 */
import { Server } from "@modelcontextprotocol/sdk/server/index.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import {
  CallToolRequestSchema,
  ListResourcesRequestSchema,
  ListToolsRequestSchema,
  ReadResourceRequestSchema,
  type CallToolResult,
  type Resource,
  type Tool,
} from "@modelcontextprotocol/sdk/types.js";
import { invoke, request } from "./invoke.js";

const NAME = "toolwright";
const VERSION = "1.0.0";

const TOOLS: Record<string, unknown>[] = [];

/** The names of the tools on the server. */
const REF_NAMES: Record<string, string> = {};

/** Reference data: the names and ids that inputs may contain. */
const RESOURCES: Resource[] = [];

const capabilities = RESOURCES.length > 0 ? { tools: {}, resources: {} } : { tools: {} };
const server = new Server({ name: NAME, version: VERSION }, { capabilities });

server.setRequestHandler(ListToolsRequestSchema, async () => ({ tools: TOOLS as Tool[] }));

server.setRequestHandler(CallToolRequestSchema, async ({ params }): Promise<CallToolResult> => {
  const tool = REF_NAMES[params.name];
  if (tool === undefined) return failed(`There is no tool ${params.name}`);
  try {
    const result = await invoke(tool, params.arguments ?? {}, "mcpTool");
    const text = typeof result === "string" ? result : JSON.stringify(result);
    const content: CallToolResult["content"] = [{ type: "text", text }];
    return isObject(result) ? { content, structuredContent: result } : { content };
  } catch (error) {
    return failed(error instanceof Error ? error.message : String(error));
  }
});

if (RESOURCES.length > 0) {
  server.setRequestHandler(ListResourcesRequestSchema, async () => ({ resources: RESOURCES }));
  server.setRequestHandler(ReadResourceRequestSchema, async ({ params }) => {
    const { uri } = params;
    if (!RESOURCES.some((resource) => resource.uri === uri)) throw new Error(`There is no resource ${uri}`);
    const [provider, dataType] = uri.slice("toolwright://".length).split("/");
    const path = `/api/v1/ai/tool-providers/${provider}/reference-data?limit=100&dataType=${dataType}`;
    const items: unknown[] = [];
    for (let cursor = ""; ; ) {
      const { body } = await request<Page>(cursor ? `${path}&cursor=${encodeURIComponent(cursor)}` : path);
      items.push(...body.items);
      if (body.nextCursor === null) break;
      cursor = body.nextCursor;
    }
    return { contents: [{ uri, mimeType: "application/json", text: JSON.stringify(items) }] };
  });
}

interface Page {
  items: unknown[];
  nextCursor: string | null;
}

function failed(text: string): CallToolResult {
  return { content: [{ type: "text", text }], isError: true };
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

await server.connect(new StdioServerTransport());
