/** The form of an agent, and its translation from and to the definition. */

export interface PinForm {
  name: string;
  tool: string;
  strategy: "latest" | "first_success";
  onMissing: "null" | "error" | "stale_last_success";
}

export interface AgentForm {
  refName: string;
  displayName: string;
  description: string;
  systemPrompt: string;
  /** `provider/model`, or empty for the default model of the server. */
  model: string;
  toolRefs: string[];
  toolCategories: string[];
  requiresApproval: boolean;
  maxToolCalls: string;
  maxCostUsd: string;
  maxIterations: string;
  timeoutSeconds: string;
  pins: PinForm[];
}

export const EMPTY_AGENT: AgentForm = {
  refName: "",
  displayName: "",
  description: "",
  systemPrompt: "",
  model: "",
  toolRefs: [],
  toolCategories: [],
  requiresApproval: true,
  maxToolCalls: "",
  maxCostUsd: "",
  maxIterations: "",
  timeoutSeconds: "",
  pins: [],
};

interface Definition {
  refName: string;
  displayName?: string | null;
  description?: string | null;
  systemPrompt?: string | null;
  llmConfig?: { provider?: string | null; model?: string | null };
  toolRefs?: string[];
  toolCategories?: string[];
  requiresApproval?: boolean;
  policy?: { maxToolCalls?: number | null; maxCostUsd?: number | null };
  executionConfig?: { maxIterations?: number | null; timeoutSeconds?: number | null };
  pins?: { name?: string | null; on_missing?: string | null; selector: { tool: string; strategy?: string | null } }[];
}

export function fromDefinition(agent: Definition): AgentForm {
  const { provider, model } = agent.llmConfig ?? {};
  return {
    refName: agent.refName,
    displayName: agent.displayName ?? "",
    description: agent.description ?? "",
    systemPrompt: agent.systemPrompt ?? "",
    model: model ? (provider ? `${provider}/${model}` : model) : "",
    toolRefs: agent.toolRefs ?? [],
    toolCategories: agent.toolCategories ?? [],
    requiresApproval: agent.requiresApproval ?? false,
    maxToolCalls: numberText(agent.policy?.maxToolCalls),
    maxCostUsd: numberText(agent.policy?.maxCostUsd),
    maxIterations: numberText(agent.executionConfig?.maxIterations),
    timeoutSeconds: numberText(agent.executionConfig?.timeoutSeconds),
    pins: (agent.pins ?? []).map((pin) => ({
      name: pin.name ?? "",
      tool: pin.selector.tool,
      strategy: pin.selector.strategy === "first_success" ? "first_success" : "latest",
      onMissing: pin.on_missing === "error" || pin.on_missing === "stale_last_success" ? pin.on_missing : "null",
    })),
  };
}

/** The body of a creation. Empty fields are absent, so that the server's defaults apply. */
export function toDefinition(form: AgentForm): Fields {
  return withoutEmpty(toFields(form));
}

/** The body of a change: only the fields that differ. Null removes a field. */
export function toPatch(before: AgentForm, after: AgentForm): Fields {
  return difference(toFields(before), toFields(after));
}

type Fields = Record<string, unknown>;

function toFields(form: AgentForm): Fields {
  const slash = form.model.indexOf("/");
  return {
    refName: form.refName.trim(),
    displayName: form.displayName.trim() || null,
    description: form.description.trim() || null,
    systemPrompt: form.systemPrompt.trim() || null,
    llmConfig: { provider: slash < 0 ? null : form.model.slice(0, slash), model: form.model.slice(slash + 1) || null },
    toolRefs: form.toolRefs,
    toolCategories: form.toolCategories,
    requiresApproval: form.requiresApproval,
    policy: { maxToolCalls: numberOf(form.maxToolCalls), maxCostUsd: numberOf(form.maxCostUsd) },
    executionConfig: { maxIterations: numberOf(form.maxIterations), timeoutSeconds: numberOf(form.timeoutSeconds) },
    pins: form.pins.map((pin) => ({
      ...(pin.name.trim() && { name: pin.name.trim() }),
      selector: { tool: pin.tool, strategy: pin.strategy },
      on_missing: pin.onMissing,
    })),
  };
}

function isObject(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function withoutEmpty(fields: Fields): Fields {
  const entries = Object.entries(fields).map(([name, value]) => [name, isObject(value) ? withoutEmpty(value) : value] as const);
  return Object.fromEntries(entries.filter(([, value]) => !isEmpty(value)));
}

function isEmpty(value: unknown): boolean {
  return value === null || (Array.isArray(value) && value.length === 0) || (isObject(value) && Object.keys(value).length === 0);
}

function difference(before: Fields, after: Fields): Fields {
  const changed: Fields = {};
  for (const [name, value] of Object.entries(after)) {
    const old = before[name];
    if (JSON.stringify(value) === JSON.stringify(old)) continue;
    changed[name] = isObject(value) && isObject(old) ? difference(old, value) : value;
  }
  return changed;
}

function numberOf(text: string): number | null {
  const number = Number(text);
  return text.trim() === "" || !Number.isFinite(number) ? null : number;
}

function numberText(value: number | null | undefined): string {
  return value == null ? "" : String(value);
}

/** A name for the definition, made of the displayed name. */
export function suggestRef(displayName: string): string {
  return displayName
    .trim()
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "-")
    .replace(/^-+|-+$/g, "")
    .slice(0, 64);
}
