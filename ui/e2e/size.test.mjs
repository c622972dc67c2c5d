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
  await page.evaluate(() => document.fonts.ready);
  const sizes = await Promise.all([...paths].map(async (path) => ({ path, bytes: await size(path) })));
  const first = sizes.reduce((sum, file) => sum + file.bytes, 0);
  const font = sizes.filter((file) => FONT.test(file.path)).reduce((sum, file) => sum + file.bytes, 0);
  let total = 0;
  for (const name of (await readdir(`${dist}/assets`)).filter((name) => !FONT.test(name))) total += await size(`/assets/${name}`);
  const kB = (bytes) => `${(bytes / 1000).toFixed(1)} kB`;
  t.diagnostic(`first screen ${kB(first)} in ${sizes.length} files, of which the font ${kB(font)}; all code ${kB(total)}; gzip`);
  assert.ok(font > 0, "the font belongs to the first screen");
  assert.ok(first <= 200_000, `the first screen must have at most 200,000 bytes, got ${first}`);
  assert.ok(total <= 600_000, `all code must have at most 600,000 bytes, got ${total}`);
});
