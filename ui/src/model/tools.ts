/** Names for types and states of tools. */
import type { Tone } from "./status";

const TYPES: Record<string, string> = {
  EXTERNAL_REST: "HTTP",
  EXTERNAL_MCP: "MCP",
  GRPC: "gRPC",
  FUNCTION: "Function",
  AGENT: "Agent",
  AGENTIC: "Agentic",
  COMPOSITE: "Composite",
  WORKFLOW: "Workflow",
  QUANTUM_API: "Records",
  QUANTUM_QUERY: "Query",
  HELIX: "Helix",
};

export function toolTypeName(type: string): string {
  return TYPES[type] ?? type;
}

const STATES: Record<string, { label: string; tone: Tone }> = {
  active: { label: "Active", tone: "ok" },
  draft: { label: "Draft", tone: "neutral" },
  deprecated: { label: "Deprecated", tone: "warn" },
  blocked: { label: "Blocked", tone: "bad" },
  disabled: { label: "Disabled", tone: "neutral" },
};

export function lifecycle(status: string): { label: string; tone: Tone } {
  return STATES[status] ?? { label: status, tone: "neutral" };
}

/** The fields that the server sets. They are not part of a definition that a person edits. */
const SERVER_FIELDS = ["id", "revision", "createdAt", "createdBy", "updatedAt", "updatedBy", "contentHash", "source", "warnings", "applySet"];

/** A definition as a person edits it: without the fields of the server and without absent values. */
export function editable(definition: object): Record<string, unknown> {
  const entries = Object.entries(definition).filter(([name, value]) => !SERVER_FIELDS.includes(name) && value !== null && value !== undefined);
  return Object.fromEntries(entries);
}

/** The schema of a tool's input. A definition may contain it as text. */
export function schemaOf(json: unknown, short: unknown): unknown {
  if (typeof json === "string") {
    try {
      return JSON.parse(json) as unknown;
    } catch {
      return {};
    }
  }
  return json ?? shortSchema(short) ?? {};
}

/** The JSON Schema of the short form, in which each field has `required`. */
function shortSchema(short: unknown): unknown {
  if (typeof short !== "object" || short === null) return undefined;
  const entries = Object.entries(short as Record<string, Record<string, unknown>>);
  const properties = Object.fromEntries(entries.map(([name, { required: _, ...field }]) => [name, field]));
  return { type: "object", properties, required: entries.filter(([, field]) => field.required === true).map(([name]) => name) };
}
