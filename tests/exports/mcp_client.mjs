// Starts an MCP server with the client of the MCP SDK, lists its tools and resources, and calls a tool.
//
//   node mcp_client.mjs '{"command", "args", "env", "tool", "arguments"}'
//
// Prints one line of JSON: the server, its tools, its resources with their content, and the result of the call.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";

const { command, args, env, tool, arguments: input } = JSON.parse(process.argv[2]);
const client = new Client({ name: "check-snippets", version: "1.0.0" });
await client.connect(new StdioClientTransport({ command, args, env: { ...process.env, ...env } }));

const { tools } = await client.listTools();
const resources = [];
if (client.getServerCapabilities()?.resources) {
  for (const resource of (await client.listResources()).resources) {
    const { contents } = await client.readResource({ uri: resource.uri });
    resources.push({ ...resource, content: JSON.parse(contents[0].text) });
  }
}
const result = await client.callTool({ name: tool, arguments: input });
const failed = await client.callTool({ name: "no_such_tool", arguments: {} });
await client.close();
console.log(JSON.stringify({ server: client.getServerVersion(), tools, resources, result, failed }));
