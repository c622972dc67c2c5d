// Writes the hash of the sources next to the build. `crates/ui/tests/serving.rs` computes the same hash without Node.
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const names = ["index.html", "package.json", "package-lock.json", "tsconfig.json", "vite.config.ts"];

function addFiles(folder) {
  for (const entry of readdirSync(root + folder, { withFileTypes: true })) {
    const name = `${folder}/${entry.name}`;
    if (entry.isDirectory()) addFiles(name);
    else if (!name.includes(".test.") && !name.endsWith("schema.d.ts")) names.push(name);
  }
}

addFiles("src");
const hash = createHash("sha256");
for (const name of names.sort((a, b) => (a < b ? -1 : 1))) {
  const content = createHash("sha256")
    .update(readFileSync(root + name))
    .digest("hex");
  hash.update(`${name}\0${content}\0`);
}
writeFileSync(`${root}../crates/ui/dist/sources.sha256`, `${hash.digest("hex")}\n`);
