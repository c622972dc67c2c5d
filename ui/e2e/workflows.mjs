// Applies examples/order-fulfilment and a workflow that waits, and runs both.
import { spawn } from "node:child_process";
import { readFile } from "node:fs/promises";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { KEY } from "./server.mjs";

const EXAMPLE = fileURLToPath(new URL("../../examples/order-fulfilment", import.meta.url));
const api = "/api/v1/ai";

/** A workflow with every kind of step that the example does not have: a branch, a signal, a pause and an error route. */
const DELIVERY = {
  refName: "orders/deliver",
  name: "Deliver an order",
  description: "Packs the items, waits for the payment, and routes the parcel by its value.",
  version: "1.0.0",
  inputSchema: {
    type: "object",
    required: ["orderId", "items"],
    properties: {
      orderId: { type: "string", description: "The id of the order." },
      items: { type: "array", items: { type: "string" }, description: "The stock numbers." },
      amount: { type: "number", default: 0 },
    },
  },
  steps: [
    { name: "load", handlerRef: "echo", input: { id: "${input.orderId}", items: "${input.items}" } },
    { name: "pack", handlerRef: "echo", dependsOn: ["load"], forEach: "${load.items}", input: { sku: "${item}" } },
    { name: "paid", handlerRef: "quantum.flow.waitForSignal", dependsOn: ["pack"], input: { signal: "payment" } },
    {
      name: "route",
      handlerRef: "quantum.flow.branch",
      dependsOn: ["paid"],
      input: { cases: [{ name: "large", when: "${input.amount > 1000}" }], default: "small" },
    },
    { name: "insure", handlerRef: "orders/get", dependsOn: ["route.large"], input: { orderId: "${input.orderId}" }, onError: { fallback: "report" } },
    { name: "send", handlerRef: "echo", dependsOn: ["route.small"], input: { sent: true } },
    { name: "report", handlerRef: "echo", input: { failed: "${steps.insure.error.code}" } },
    { name: "done", handlerRef: "quantum.flow.join", dependsOn: ["insure", "send"] },
  ],
};

/** A workflow in which one item of a list fails. */
const LOOKUP = {
  refName: "orders/look-up",
  description: "Reads orders. An order that does not exist fails its item.",
  steps: [
    { name: "read", handlerRef: "orders/get", forEach: "${input.orderIds}", input: { orderId: "${item}" } },
    { name: "count", handlerRef: "quantum.flow.transform", dependsOn: ["read"], input: { count: "${read.length}" } },
  ],
};

export async function seedWorkflows(server) {
  const warehouse = await startWarehouse();
  const text = (await readFile(`${EXAMPLE}/definitions.yaml`, "utf8")).replaceAll("http://127.0.0.1:8002", warehouse.url);
  await apply(server, text);
  await server.request("POST", `${api}/workflows`, DELIVERY);
  await server.request("PUT", `${api}/workflows/orders%2Fdeliver`, {
    ...DELIVERY,
    version: "1.1.0",
    steps: DELIVERY.steps.map((step) => (step.name === "done" ? { ...step, dependsOn: ["insure", "send", "report"] } : step)),
  });
  await server.request("POST", `${api}/workflows`, LOOKUP);
  const run = (ref, input) => server.request("POST", `${api}/workflows/${encodeURIComponent(ref)}/execute`, { input });
  const fulfil = (...orderIds) => run("examples/order-fulfilment", { orderIds });
  const post = (instance, action, body) => server.request("POST", `${api}/workflow-instances/${instance.runId}/${action}?wait=false`, body);
  const instances = {
    completed: await fulfil("ord-1003"),
    approval: await fulfil("ord-1003", "ord-1005", "ord-1012", "ord-1017"),
    delivery: await run("orders/deliver", { orderId: "ord-1001", items: ["KB-200", "MS-110"], amount: 5000 }),
    paused: await run("orders/deliver", { orderId: "ord-1002", items: ["KB-200"] }),
    failed: await run("orders/look-up", { orderIds: ["ord-1001", "ord-9999", "ord-1003"] }),
  };
  await post(instances.paused, "pause");
  return { instances, run, stop: warehouse.stop };
}

/** Applies definitions with the command line of the server's binary. */
async function apply(server, text) {
  const environment = { PATH: process.env.PATH, HOME: "/nonexistent", TOOLWRIGHT_URL: server.url, TOOLWRIGHT_API_KEY: KEY, NO_PROXY: "127.0.0.1" };
  const child = spawn(process.env.TOOLWRIGHT_BIN, ["apply", "-f", "-"], { env: environment, stdio: ["pipe", "pipe", "pipe"] });
  let output = "";
  child.stdout.on("data", (chunk) => (output += chunk));
  child.stderr.on("data", (chunk) => (output += chunk));
  child.stdin.end(text);
  const code = await new Promise((resolve) => child.once("exit", resolve));
  if (code !== 0) throw new Error(`apply ended with ${code}:\n${output}`);
}

async function startWarehouse() {
  const child = spawn("python3", [`${EXAMPLE}/warehouse.py`, "0"], { stdio: ["ignore", "pipe", "inherit"] });
  const exited = new Promise((resolve) => child.once("exit", resolve));
  const url = await new Promise((resolve, reject) => {
    createInterface({ input: child.stdout }).once("line", resolve);
    child.once("exit", (code) => reject(new Error(`the warehouse ended with ${code}`)));
  });
  return {
    url,
    async stop() {
      child.kill("SIGTERM");
      await exited;
    },
  };
}
