// Exercises the server with the TypeScript SDK and prints a report as one line of JSON.
//
//   node sdk.cjs http|stdio PROGRAM
//
// The server is at TOOLWRIGHT_URL, the key is TOOLWRIGHT_API_KEY, and PROGRAM is the binary that serves over stdio.
const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
const { StdioClientTransport } = require("@modelcontextprotocol/sdk/client/stdio.js");
const { StreamableHTTPClientTransport } = require("@modelcontextprotocol/sdk/client/streamableHttp.js");

const { TOOLWRIGHT_URL: url, TOOLWRIGHT_API_KEY: key } = process.env;
const [, , transportName, program] = process.argv;

function createTransport() {
  if (transportName === "stdio") {
    return new StdioClientTransport({ command: program, args: ["mcp"], env: process.env });
  }
  const requestInit = { headers: { Authorization: `Bearer ${key}` } };
  return new StreamableHTTPClientTransport(new URL(`${url}/mcp`), { requestInit });
}

async function errorCode(promise) {
  try {
    await promise;
    return null;
  } catch (error) {
    return error.code ?? String(error);
  }
}

async function main() {
  const client = new Client({ name: "test", version: "1" });
  const transport = createTransport();
  const sent = [];
  const send = transport.send.bind(transport);
  transport.send = (...message) => {
    sent.push(send(...message));
    return sent.at(-1);
  };
  await client.connect(transport);
  const report = { server: client.getServerVersion().name };
  report.tools = (await client.listTools()).tools.map((tool) => tool.name);
  const called = await client.callTool({ name: "calculator", arguments: { expression: "6*7" } });
  report.called = called.structuredContent.value === 42 && Number(called.content[0].text) === 42;
  const failed = await client.callTool({ name: "calculator", arguments: { expression: "6*" } });
  report.failed = { isError: failed.isError, code: failed.structuredContent.error.code };
  report.unknown = await errorCode(client.callTool({ name: "no-such-tool", arguments: {} }));
  const prompt = await client.getPrompt({ name: "greeting", arguments: { who: "Ada" } });
  report.prompt = prompt.messages[0].content.text;
  const { resources } = await client.listResources();
  const { contents } = await client.readResource({ uri: resources[0].uri });
  report.resource = JSON.parse(contents[0].text).runId === resources[0].uri.split("/").pop();
  // Cancel the call after its first progress message. A slow call is needed, because the SDK may drop the progress of a call
  // that ends at once.
  report.progress = [];
  const abort = new AbortController();
  const slow = client.callTool({ name: "slow", arguments: {} }, undefined, {
    signal: abort.signal,
    onprogress: ({ message }) => {
      report.progress.push(message);
      abort.abort("cancelled by the test");
    },
  });
  report.cancelled = (await errorCode(slow)) !== null;
  // `close` drops unsent messages, including the cancellation, so wait for them first.
  await Promise.allSettled(sent);
  await client.close();
  console.log(JSON.stringify(report));
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
