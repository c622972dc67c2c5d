// Copies the quick start of the README, the blocks of docs/clients.md and the example to tests/generated, so that they are
// checked and run like tests.

import { copyFileSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";

const folder = new URL("./generated/", import.meta.url);
rmSync(folder, { recursive: true, force: true });
mkdirSync(folder);
for (const [page, copy] of [
  ["../README.md", "quick_start.ts"],
  ["../../../docs/clients.md", "documentation.ts"],
]) {
  const text = readFileSync(new URL(page, import.meta.url), "utf8");
  const blocks = text.split("```ts\n").slice(1).map((block) => block.split("```")[0]);
  if (blocks.length === 0) throw new Error(`${page} must have a block of TypeScript`);
  writeFileSync(new URL(copy, folder), blocks.join("\n"));
}
copyFileSync(new URL("../../../examples/stream_agent.ts", import.meta.url), new URL("stream_agent.ts", folder));
