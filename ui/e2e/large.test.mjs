// A run with 20,000 entries opens at once, and it and a list of 100,000 runs scroll without lag. The pages are made here,
// because such runs take long to make.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { logIn, openBrowser } from "./browser.mjs";
import { startServer } from "./server.mjs";

const ENTRIES = 20_000;
const RUNS = 100_000;
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
  if (n % 3 === 0)
    return {
      n,
      at,
      kind: "model_replied",
      durationMs: 30,
      canFork: true,
      body: { type: "model_replied", reply: { content: `Reply ${n}`, tool_calls: [] } },
    };
  const envelope = { call_id: `call_${n}`, name: "crm/get", version: "1.0.0", input: { n }, output: { text: "x".repeat(500) }, error: null };
  return {
    n,
    at,
    kind: "call_ended",
    durationMs: 35,
    callId: `call_${n}`,
    toolRef: "crm/get",
    canFork: true,
    body: { type: "call_ended", envelope },
  };
}

function summary(n) {
  const startedAt = new Date(START - n * 1000).toISOString();
  const counts = { costUsd: 0.01, tokensUsed: 1200, iterationsUsed: 3 };
  return {
    id: `run_${n}`,
    kind: "agent",
    subject: "assistant",
    userMessage: `Message ${n}`,
    status: "COMPLETED",
    durable: false,
    startedAt,
    endedAt: startedAt,
    ...counts,
  };
}

/** Scrolls a list for two seconds and returns the time of scripts per frame in milliseconds. */
async function scrollCost(page, selector) {
  const client = await page.context().newCDPSession(page);
  await client.send("Performance.enable");
  const scriptSeconds = async () => (await client.send("Performance.getMetrics")).metrics.find((metric) => metric.name === "ScriptDuration").value;
  const before = await scriptSeconds();
  const frames = 120;
  await page.evaluate(
    async ([selector, frames]) => {
      const list = document.querySelector(selector);
      list.scrollTop = 0;
      for (let frame = 0; frame < frames; frame++) {
        list.scrollTop += 900;
        await new Promise((resolve) => requestAnimationFrame(resolve));
      }
    },
    [selector, frames],
  );
  return (((await scriptSeconds()) - before) * 1000) / frames;
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

  const perFrame = await scrollCost(page, '[role="listbox"]');
  t.diagnostic(
    `first rows after ${Math.round(firstRows)} ms, all entries after ${Math.round(allEntries)} ms, ${perFrame.toFixed(1)} ms of script per scrolled frame`,
  );
  assert.ok(firstRows < 3000, `the first rows took ${firstRows} ms`);
  assert.ok(perFrame < 16, `a frame took ${perFrame} ms of script`);
  await page.close();
});

test("a list of 100,000 runs", async (t) => {
  const page = await logIn(browser.context, server.url);
  await page.route(/\/runs\/count/, (route) => route.fulfill({ json: { count: RUNS } }));
  await page.route(/\/ai\/runs\?/, (route) => {
    const query = new URL(route.request().url()).searchParams;
    const from = Number(query.get("cursor") ?? 0);
    const items = Array.from({ length: Number(query.get("limit")) }, (_, index) => summary(from + index));
    return route.fulfill({ json: { items, nextCursor: String(from + items.length) } });
  });
  await page.goto(`${server.url}/runs`);
  await page.getByText("100\u202f000 runs").waitFor();
  await page.getByText("Message 0", { exact: true }).waitFor();
  const perFrame = await scrollCost(page, '[aria-label="Runs, scrollable"]');
  assert.ok((await page.locator("li").count()) < 120, "only visible rows are rendered");
  t.diagnostic(`${perFrame.toFixed(1)} ms of script per scrolled frame`);
  assert.ok(perFrame < 16, `a frame took ${perFrame} ms of script`);
  await page.close();
});
