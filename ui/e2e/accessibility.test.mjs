// Every screen, light and dark, wide and on a phone: no serious finding of axe, nothing wider than the window, no error.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { after, before, test } from "node:test";
import { DESKTOP, PHONE, logIn, openBrowser } from "./browser.mjs";
import { openScreen, screens } from "./screens.mjs";
import { seed } from "./seed.mjs";
import { startServer } from "./server.mjs";
import { seedWorkflows } from "./workflows.mjs";

const axe = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
let server;
let runs;
let workflows;

before(async () => {
  server = await startServer();
  runs = await seed(server);
  workflows = await seedWorkflows(server);
});

after(async () => {
  await workflows?.stop();
  await server?.stop();
});

async function findingsOf(page) {
  // The policy of the page allows no other scripts, so axe is run by the browser's debugger.
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  return violations
    .filter((violation) => ["serious", "critical"].includes(violation.impact))
    .map(
      (violation) =>
        `${violation.id}: ${violation.nodes
          .map((node) => `${node.target.join(" ")} ${node.failureSummary?.split("\n")[1] ?? ""}`)
          .slice(0, 3)
          .join("; ")}`,
    );
}

for (const [device, viewport] of [
  ["desktop", DESKTOP],
  ["phone", PHONE],
]) {
  for (const colorScheme of ["light", "dark"]) {
    test(`screens are accessible, ${device}, ${colorScheme}`, async () => {
      const browser = await openBrowser({ viewport, colorScheme });
      try {
        const page = await logIn(browser.context, server.url);
        const problems = [];
        page.on("pageerror", (error) => problems.push(`error: ${error.message}`));
        page.on("console", (message) => message.type() === "error" && problems.push(`console: ${message.text()}`));
        for (const screen of screens(runs, workflows.instances)) {
          await openScreen(page, server.url, screen);
          for (const finding of await findingsOf(page)) problems.push(`${screen.name}: ${finding}`);
          const overflow = await page.evaluate(() => {
            const main = document.getElementById("main");
            return Math.max(document.documentElement.scrollWidth - window.innerWidth, main.scrollWidth - main.clientWidth);
          });
          if (overflow > 0) problems.push(`${screen.name}: is ${overflow} px wider than the window`);
        }
        assert.deepEqual(problems, []);
      } finally {
        await browser.close();
      }
    });
  }
}

test("the login page is accessible", async () => {
  const browser = await openBrowser();
  try {
    const page = await browser.context.newPage();
    await page.goto(`${server.url}/login`);
    await page.getByLabel("API key").waitFor();
    assert.deepEqual(await findingsOf(page), []);
  } finally {
    await browser.close();
  }
});

test("dialogs and the palette are accessible", async () => {
  const browser = await openBrowser();
  try {
    const page = await logIn(browser.context, server.url);
    const problems = [];
    const check = async (name, path, button, shown) => {
      await page.goto(server.url + path);
      await button(page).click();
      await page.getByText(shown).first().waitFor();
      for (const finding of await findingsOf(page)) problems.push(`${name}: ${finding}`);
    };
    const named = (name) => (page) => page.getByRole("button", { name }).first();
    const moved = `/runs/${runs.moved.runId}?at=4`;
    await check("fork", moved, named("Fork here"), "Start the fork");
    await check("replay", moved, named("Replay"), "Replay against something new");
    await check("compare", moved, named("Compare"), "Compare with another run");
    await check("rule", `/inbox?call=${runs.cancel.approvals[0].callId}`, named("Always allow calls like this"), "Approve and write the rule");
    await check("effect", "/effects", named(/orders\/create-fast/), "Did this write take effect?");
    const waiting = `/instances/${workflows.instances.delivery.runId}`;
    await check("signal", waiting, named("Signal…"), "Steps wait for: payment");
    await check("run again", waiting, named("Run again…"), "Steps that run");
    await check("palette", "/", named("Search"), "Go to");
    assert.deepEqual(problems, []);
  } finally {
    await browser.close();
  }
});
