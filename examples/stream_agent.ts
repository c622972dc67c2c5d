// Streams the run of an agent, shows its text and calls, and asks you before the agent changes something.
//
//   npm install ./clients/typescript
//   source toolwright-data/env.sh
//   npx tsx examples/stream_agent.ts 'Create a deal.'
//
// It needs a server with the demo: `make run`.

import { createInterface } from "node:readline/promises";
import { approve, Client, deny, type ApprovalView, type Decision } from "toolwright-client";

async function decide(approval: ApprovalView): Promise<Decision> {
  const terminal = createInterface({ input: process.stdin, output: process.stdout });
  const reply = await terminal.question(`\n${approval.toolRef} ${JSON.stringify(approval.input)}: allow? (y/n) `);
  terminal.close();
  return reply === "y" ? approve() : deny("the user does not want it");
}

const client = new Client();
const message = process.argv[2] ?? "Which deals are in negotiation?";
let text = "";
for await (const event of client.agents.stream("assistant", message, { onApproval: decide })) {
  switch (event.type) {
    case "TEXT_DELTA":
      text += event.content;
      break;
    case "TEXT_RESET":
      text = "";
      break;
    case "USAGE":
      console.log(text);
      text = "";
      break;
    case "TOOL_CALL_END":
      console.log(`  ${event.toolInvocation.toolRef}: ${event.toolInvocation.status}`);
      break;
    case "DONE":
    case "ERROR":
      console.log(event.status);
      break;
  }
}
