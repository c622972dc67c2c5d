// Copies the quick start of the README and the examples to tests/generated, so that they are checked and run like tests.

import { copyFileSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";

const folder = new URL("./generated/", import.meta.url);
rmSync(folder, { recursive: true, force: true });
mkdirSync(folder);
const readme = readFileSync(new URL("../README.md", import.meta.url), "utf8");
const quickStart = readme.split("```ts\n")[1]?.split("```")[0];
if (!quickStart) throw new Error("README.md must have a block of TypeScript");
writeFileSync(new URL("quick_start.ts", folder), quickStart);
copyFileSync(new URL("../../../examples/stream_agent.ts", import.meta.url), new URL("stream_agent.ts", folder));
