// A client for Toolwright: calls tools, runs agents, streams their events, decides approvals and performs client tools.

export { approve, ClientToolError, deny, edit, type Answers, type Handler } from "./answer.js";
export { Client, type Agents, type Approval, type Approvals, type Filters, type Run, type RunOptions, type Runs, type Tools } from "./client.js";
export { outputOf, ToolwrightError } from "./errors.js";
export type { Settings } from "./http.js";
export type * from "./models.js";
