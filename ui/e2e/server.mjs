// Starts the real server with the demo on a free port of loopback, with empty data.
import { spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

export const KEY = "ui-tests-administrator-key";

export async function startServer() {
  const binary = process.env.TOOLWRIGHT_BIN;
  if (!binary) throw new Error("TOOLWRIGHT_BIN must name the server's binary; run `make test-ui`");
  const data = await mkdtemp(join(tmpdir(), "toolwright-ui."));
  const environment = { PATH: process.env.PATH, HOME: data, TOOLWRIGHT_ADMIN_KEY: KEY };
  const child = spawn(binary, ["serve", "--demo", "--bind", "127.0.0.1:0", "--data", data], { env: environment, stdio: ["ignore", "pipe", "pipe"] });
  const exited = new Promise((resolve) => child.once("exit", resolve));
  let log = "";
  child.stderr.on("data", (chunk) => (log += chunk));
  const url = await new Promise((resolve, reject) => {
    createInterface({ input: child.stdout }).once("line", (line) => resolve(line.replace("listening on ", "")));
    child.once("exit", (code) => reject(new Error(`the server ended with ${code}:\n${log}`)));
  });
  return {
    url,
    pid: child.pid,
    /** The login link that the server printed. */
    link: () => /http:\S+\/login#token=\S+/.exec(log)?.[0],
    async request(method, path, body, headers = {}) {
      const response = await fetch(url + path, {
        method,
        headers: { Authorization: `Bearer ${KEY}`, "Content-Type": "application/json", ...headers },
        body: body === undefined ? undefined : JSON.stringify(body),
      });
      const text = await response.text();
      const value = text && response.headers.get("content-type")?.includes("json") ? JSON.parse(text) : text;
      if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
      return value;
    },
    async stop() {
      child.kill("SIGTERM");
      await exited;
      await rm(data, { recursive: true, force: true });
    },
  };
}
