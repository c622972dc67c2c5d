// Takes the screenshots of the documentation, or of every screen for a review.
//
//   node e2e/screenshots.mjs FOLDER [all]
import { mkdir } from "node:fs/promises";
import { DESKTOP, PHONE, logIn, openBrowser } from "./browser.mjs";
import { openScreen, screens } from "./screens.mjs";
import { seed } from "./seed.mjs";
import { startServer } from "./server.mjs";
import { seedWorkflows } from "./workflows.mjs";

const DOCUMENTED = [
  { name: "home", device: "desktop", color: "light" },
  { name: "inbox", device: "desktop", color: "light" },
  { name: "inbox", device: "phone", color: "light" },
  { name: "runs", device: "desktop", color: "dark" },
  { name: "run", device: "desktop", color: "light" },
  { name: "run-state", device: "desktop", color: "dark" },
  { name: "run", device: "phone", color: "dark" },
  { name: "compare", device: "desktop", color: "light" },
  { name: "effects", device: "desktop", color: "light" },
  { name: "tools", device: "desktop", color: "light" },
  { name: "tool-try", device: "desktop", color: "light" },
  { name: "integration", device: "desktop", color: "light" },
  { name: "agent-settings", device: "desktop", color: "light" },
  { name: "playground", device: "desktop", color: "light" },
  { name: "reach-node", device: "desktop", color: "light" },
  { name: "workflow-step", device: "desktop", color: "light" },
  { name: "workflow-problem", device: "desktop", color: "light" },
  { name: "instance", device: "desktop", color: "light" },
  { name: "instance-waiting", device: "desktop", color: "dark" },
];

const VIEWPORTS = { desktop: DESKTOP, phone: PHONE };
const [folder, all] = process.argv.slice(2);
if (!folder) throw new Error("usage: node e2e/screenshots.mjs FOLDER [all]");
await mkdir(folder, { recursive: true });

const server = await startServer();
try {
  const runs = await seed(server);
  const workflows = await seedWorkflows(server);
  const known = screens(runs, workflows.instances);
  for (const device of ["desktop", "phone"]) {
    for (const color of ["light", "dark"]) {
      const wanted = all
        ? known
        : known.filter((screen) => DOCUMENTED.some((one) => one.name === screen.name && one.device === device && one.color === color));
      if (wanted.length > 0) await capture(wanted, device, color);
    }
  }
  await workflows.stop();
} finally {
  await server.stop();
}

async function capture(wanted, device, color) {
  const browser = await openBrowser({ viewport: VIEWPORTS[device], colorScheme: color });
  try {
    const page = await logIn(browser.context, server.url);
    for (const screen of wanted) {
      await openScreen(page, server.url, screen);
      await page.waitForTimeout(300);
      await page.screenshot({ path: `${folder}/ui-${screen.name}-${device}-${color}.png` });
    }
  } finally {
    await browser.close();
  }
}
