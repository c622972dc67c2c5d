// What a client does with the TypeScript SDK, told as one line of JSON.
//
//   node sdk.cjs http|stdio PROGRAM
//
// The server is at TOOLWRIGHT_URL, the key is TOOLWRIGHT_API_KEY, and PROGRAM is the binary that serves over pipes.
const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
const { StdioClientTransport } = require("@modelcontextprotocol/sdk/client/stdio.js");
const { StreamableHTTPClientTransport } = require("@modelcontextprotocol/sdk/client/streamableHttp.js");

const { TOOLWRIGHT_URL: url, TOOLWRIGHT_API_KEY: key } = process.env;
const [, , way, program] = process.argv;

function transport() {
  if (way === "stdio") {
    return new StdioClientTransport({ command: program, args: ["mcp"], env: process.env });
  }
  const requestInit = { headers: { Authorization: `Bearer ${key}` } };
  return new StreamableHTTPClientTransport(new URL(`${url}/mcp`), { requestInit });
}

async function refusal(promise) {
  try {
    await promise;
    return null;
  } catch (error) {
    return error.code ?? String(error);
  }
}

async function main() {
  const client = new Client({ name: "test", version: "1" });
  const wire = transport();
  const sent = [];
  const send = wire.send.bind(wire);
  wire.send = (...message) => {
    sent.push(send(...message));
    return sent.at(-1);
  };
  await client.connect(wire);
  const story = { server: client.getServerVersion().name };
  story.tools = (await client.listTools()).tools.map((tool) => tool.name);
  const called = await client.callTool({ name: "calculator", arguments: { expression: "6*7" } });
  story.called = called.structuredContent.value === 42 && Number(called.content[0].text) === 42;
  const failed = await client.callTool({ name: "calculator", arguments: { expression: "6*" } });
  story.failed = { isError: failed.isError, code: failed.structuredContent.error.code };
  story.unknown = await refusal(client.callTool({ name: "nobody-has-this", arguments: {} }));
  const prompt = await client.getPrompt({ name: "greeting", arguments: { who: "Ada" } });
  story.prompt = prompt.messages[0].content.text;
  const { resources } = await client.listResources();
  const { contents } = await client.readResource({ uri: resources[0].uri });
  story.resource = JSON.parse(contents[0].text).runId === resources[0].uri.split("/").pop();
  // Cancelled as soon as it is known to be under way. Of a call that is over at once the SDK may drop the progress: what it hears
  // last it looks at first.
  story.progress = [];
  const abort = new AbortController();
  const slow = client.callTool({ name: "slow", arguments: {} }, undefined, {
    signal: abort.signal,
    onprogress: ({ message }) => {
      story.progress.push(message);
      abort.abort("no longer wanted");
    },
  });
  story.cancelled = (await refusal(slow)) !== null;
  // To close is to give up what is still on its way, the cancellation too.
  await Promise.allSettled(sent);
  await client.close();
  console.log(JSON.stringify(story));
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
