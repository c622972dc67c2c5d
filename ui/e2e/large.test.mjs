// A run with 20,000 entries opens at once and scrolls without lag. The pages of its journal are made here, because a
// run of this length takes long to make.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { logIn, openBrowser } from "./browser.mjs";
import { startServer } from "./server.mjs";

const ENTRIES = 20_000;
const START = Date.parse("2026-11-19T12:00:00Z");
let server;
let browser;
let run;

before(async () => {
  server = await startServer();
  run = await server.request("POST", "/api/v1/ai/agents/assistant/execute", { userMessage: "What about my orders?" });
  browser = await openBrowser();
});

after(async () => {
  await browser?.close();
  await server?.stop();
});

function entry(n) {
  const at = new Date(START + n * 40).toISOString();
  if (n % 3 === 0) return { n, at, kind: "model_replied", durationMs: 30, canFork: true, body: { type: "model_replied", reply: { content: `Reply ${n}`, tool_calls: [] } } };
  const envelope = { call_id: `call_${n}`, name: "crm/get", version: "1.0.0", input: { n }, output: { text: "x".repeat(500) }, error: null };
  return { n, at, kind: "call_ended", durationMs: 35, callId: `call_${n}`, toolRef: "crm/get", canFork: true, body: { type: "call_ended", envelope } };
}

test("a run with 20,000 entries", async (t) => {
  const page = await logIn(browser.context, server.url);
  await page.route(/\/journal\?/, (route) => {
    const query = new URL(route.request().url()).searchParams;
    const from = Number(query.get("from"));
    const end = Math.min(ENTRIES, from + Number(query.get("limit")) - 1);
    const items = Array.from({ length: Math.max(0, end - from + 1) }, (_, index) => entry(from + index));
    return route.fulfill({ json: { items, nextCursor: end < ENTRIES ? String(end + 1) : null } });
  });
  const rows = page.getByRole("option");
  const opened = performance.now();
  await page.goto(`${server.url}/runs/${run.runId}`);
  await rows.first().waitFor();
  const firstRows = performance.now() - opened;
  await page.locator(`#entry-${ENTRIES}`).waitFor();
  const allEntries = performance.now() - opened;
  assert.ok((await rows.count()) < 100, "only visible rows are rendered");

  const client = await page.context().newCDPSession(page);
  await client.send("Performance.enable");
  const scriptSeconds = async () => (await client.send("Performance.getMetrics")).metrics.find((metric) => metric.name === "ScriptDuration").value;
  const before = await scriptSeconds();
  const frames = await page.evaluate(async () => {
    const list = document.querySelector('[role="listbox"]');
    const next = () => new Promise((resolve) => requestAnimationFrame(resolve));
    list.scrollTop = 0;
    for (let frame = 0; frame < 120; frame++) {
      list.scrollTop += 900;
      await next();
    }
    return 120;
  });
  const perFrame = ((await scriptSeconds()) - before) * 1000 / frames;
  t.diagnostic(`first rows after ${Math.round(firstRows)} ms, all entries after ${Math.round(allEntries)} ms, ${perFrame.toFixed(1)} ms of script per scrolled frame`);
  assert.ok(firstRows < 3000, `the first rows took ${firstRows} ms`);
  assert.ok(perFrame < 16, `a frame took ${perFrame} ms of script`);
});
