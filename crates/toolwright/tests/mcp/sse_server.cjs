// A server with the older HTTP+SSE transport of the TypeScript SDK and one tool, `echo`. Prints its port on one line.
const http = require("node:http");
const { McpServer } = require("@modelcontextprotocol/sdk/server/mcp.js");
const { SSEServerTransport } = require("@modelcontextprotocol/sdk/server/sse.js");
const { z } = require("zod");

const transports = new Map();

async function connect(response) {
  const server = new McpServer({ name: "sse", version: "1.0.0" });
  const text = async ({ message }) => ({ content: [{ type: "text", text: `Echo: ${message}` }] });
  server.registerTool("echo", { description: "Repeats a message.", inputSchema: { message: z.string() } }, text);
  const transport = new SSEServerTransport("/message", response);
  transports.set(transport.sessionId, transport);
  response.on("close", () => transports.delete(transport.sessionId));
  await server.connect(transport);
}

const server = http.createServer(async (request, response) => {
  const url = new URL(request.url, "http://127.0.0.1");
  if (request.method === "GET" && url.pathname === "/sse") {
    await connect(response);
  } else if (request.method === "POST" && url.pathname === "/message") {
    await transports.get(url.searchParams.get("sessionId")).handlePostMessage(request, response);
  } else {
    response.writeHead(404).end();
  }
});
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
