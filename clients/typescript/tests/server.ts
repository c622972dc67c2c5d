// Starts a server with the demo for a test file, and a proxy that cuts connections.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, openSync, readFileSync, rmSync } from "node:fs";
import { connect, createServer, type AddressInfo, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import { Client, type Schemas } from "toolwright-client";

export const KEY = "client-tests-key";

export interface Server {
  url: string;
  stop(): Promise<void>;
}

export async function startServer(): Promise<Server> {
  const binary = process.env["TOOLWRIGHT_BIN"];
  if (!binary) throw new Error("TOOLWRIGHT_BIN must name the toolwright binary");
  const folder = mkdtempSync(join(tmpdir(), "toolwright-client-"));
  const log = join(folder, "log");
  // A clean environment: with the key of a model provider, the demo would not use its script.
  const env = { PATH: process.env["PATH"], HOME: folder, TOOLWRIGHT_ADMIN_KEY: KEY };
  const child = spawn(binary, ["serve", "--bind", "127.0.0.1:0", "--demo", "--data", join(folder, "data")], {
    env,
    stdio: ["ignore", "pipe", openSync(log, "w")],
  });
  const exited = once(child, "exit");
  const stop = async (): Promise<void> => {
    child.kill("SIGTERM");
    await exited;
    rmSync(folder, { recursive: true });
  };
  const line = await firstLine(child.stdout);
  if (!line.startsWith("listening on ")) throw new Error(readFileSync(log, "utf8"));
  const url = line.slice("listening on ".length);
  await createDefinitions(url);
  return { url, stop };
}

async function firstLine(stream: Readable | null): Promise<string> {
  if (stream) for await (const line of createInterface({ input: stream })) return line;
  return "";
}

async function createDefinitions(url: string): Promise<void> {
  const file = new URL("../../../../testdata/definitions.json", import.meta.url);
  const definitions = JSON.parse(readFileSync(file, "utf8")) as {
    tools: Schemas["ToolDefinition"][];
    agents: Schemas["AgentDefinition"][];
  };
  const client = new Client({ url, apiKey: KEY });
  for (const body of definitions.tools) await client.request("POST", "/api/v1/ai/tools", { body });
  for (const body of definitions.agents) await client.request("POST", "/api/v1/ai/agents", { body });
}

/** Forwards connections to the server. It cuts the nth connection where the response contains the nth marker. */
export class CuttingProxy {
  /** The first line of each connection's first request, and whether it has `Last-Event-ID`. */
  readonly requests: { line: string; resumes: boolean }[] = [];
  private readonly listener = createServer((connection) => this.forward(connection));
  private readonly port: number;

  constructor(
    url: string,
    private readonly markers: string[],
    /** Whether to accept no connections after the last marker. */
    private readonly stops = false,
  ) {
    this.port = Number(new URL(url).port);
  }

  async open(): Promise<string> {
    this.listener.listen(0, "127.0.0.1");
    await once(this.listener, "listening");
    return `http://127.0.0.1:${(this.listener.address() as AddressInfo).port}`;
  }

  close(): void {
    this.listener.close();
  }

  private forward(connection: Socket): void {
    const marker = this.markers.shift();
    if (this.stops && this.markers.length === 0) this.close();
    const server = connect(this.port, "127.0.0.1");
    connection.once("data", (data) => {
      const head = data.toString("latin1");
      this.requests.push({ line: head.split("\r\n")[0] ?? "", resumes: /^last-event-id:/im.test(head) });
    });
    connection.pipe(server);
    connection.on("error", () => server.destroy());
    connection.on("close", () => server.destroy());
    server.on("error", () => connection.destroy());
    server.on("close", () => connection.destroySoon());
    let seen = Buffer.alloc(0);
    server.on("data", (data) => {
      seen = Buffer.concat([seen, data]);
      const at = marker === undefined ? -1 : seen.indexOf(marker);
      if (at < 0) {
        connection.write(data);
        return;
      }
      const keep = Math.max(0, data.length - (seen.length - at));
      server.removeAllListeners("data");
      connection.write(data.subarray(0, keep), () => connection.destroySoon());
      server.destroy();
    });
  }
}
