// Opens pages in Chromium, logged in to a server.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";
import { KEY } from "./server.mjs";

const ARGS = [
  "--headless",
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

export const DESKTOP = { width: 1360, height: 850 };
export const PHONE = { width: 390, height: 844 };

/** Starts a browser with an empty profile. */
export async function openBrowser({ viewport = DESKTOP, colorScheme = "light", scale = 1 } = {}) {
  const profile = await mkdtemp(join(tmpdir(), "toolwright-chromium."));
  const context = await chromium.launchPersistentContext(profile, {
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: ARGS,
    viewport,
    colorScheme,
    deviceScaleFactor: scale,
    locale: "en-GB",
    timezoneId: "UTC",
    reducedMotion: "reduce",
    permissions: ["clipboard-read", "clipboard-write"],
  });
  return {
    context,
    async close() {
      await context.close();
      await rm(profile, { recursive: true, force: true });
    },
  };
}

/** Logs the context in with the administrator's key. */
export async function logIn(context, url, key = KEY) {
  const page = await context.newPage();
  await page.goto(`${url}/login`);
  await page.getByLabel("API key").fill(key);
  await page.getByRole("button", { name: "Log in" }).click();
  await page.getByRole("heading", { name: "Home", level: 1 }).waitFor();
  return page;
}
