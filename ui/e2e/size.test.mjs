// The first screen must load quickly: the files of the first visit, compressed as by a server with gzip.
import assert from "node:assert/strict";
import { readFile, readdir } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { after, before, test } from "node:test";
import { gzipSync } from "node:zlib";
import { logIn, openBrowser } from "./browser.mjs";
import { startServer } from "./server.mjs";

const dist = fileURLToPath(new URL("../../crates/ui/dist", import.meta.url));
const FONT = /\.woff2$/;
let server;
let browser;

before(async () => {
  server = await startServer();
  browser = await openBrowser();
});

after(async () => {
  await browser?.close();
  await server?.stop();
});

async function size(path) {
  const content = await readFile(dist + path);
  return FONT.test(path) ? content.length : gzipSync(content, { level: 9 }).length;
}

test("the first screen and the whole UI stay small", async (t) => {
  const page = await logIn(browser.context, server.url);
  const paths = new Set();
  page.on("request", (request) => {
    const { pathname } = new URL(request.url());
    if (!pathname.startsWith("/api/")) paths.add(pathname === "/" ? "/index.html" : pathname);
  });
  await page.goto(server.url);
  await page.getByText("Completed last").waitFor();
  const first = [...paths].filter((path) => !FONT.test(path));
  let code = 0;
  for (const path of first) code += await size(path);
  const names = (await readdir(`${dist}/assets`)).filter((name) => !FONT.test(name));
  let total = 0;
  for (const name of names) total += await size(`/assets/${name}`);
  t.diagnostic(`first screen ${Math.round(code / 1000)} kB in ${first.length} files without the font, all code ${Math.round(total / 1000)} kB, gzip`);
  assert.ok(code <= 200_000, `the first screen has ${code} bytes`);
  assert.ok(total <= 600_000, `the UI has ${total} bytes`);
});
