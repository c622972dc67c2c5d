/** The graph of a workflow: its steps and the edges between them. */

export type StepKind = "tool" | "agent" | "workflow" | "transform" | "branch" | "join" | "sleep" | "signal" | "approval" | "form";

/** The parts of a definition that the graph needs. A definition that a person edits may have any shape. */
export interface GraphDefinition {
  steps: GraphStep[];
  layout?: Record<string, unknown> | null | undefined;
}

export interface GraphStep {
  name: string;
  handlerRef: string;
  dependsOn?: string[] | null | undefined;
  onError?: unknown;
  forEach?: unknown;
  input?: unknown;
}

export interface GraphEdge {
  from: string;
  to: string;
  kind: "dependency" | "case" | "error";
  /** The case of a branch, or the error codes. */
  label: string;
}

const KINDS: Record<string, StepKind> = {
  "quantum.ai.invokeAgent": "agent",
  "quantum.workflows.execute": "workflow",
  "quantum.flow.transform": "transform",
  "quantum.flow.branch": "branch",
  "quantum.flow.join": "join",
  "quantum.flow.sleep": "sleep",
  "quantum.flow.waitForSignal": "signal",
  "quantum.flow.approval": "approval",
  "quantum.flow.form": "form",
};

export function stepKind(handlerRef: string): StepKind {
  return KINDS[handlerRef] ?? "tool";
}

const KIND_NAMES: Record<StepKind, string> = {
  tool: "Tool",
  agent: "Agent",
  workflow: "Workflow",
  transform: "Transform",
  branch: "Branch",
  join: "Join",
  sleep: "Sleep",
  signal: "Signal",
  approval: "Approval",
  form: "Form",
};

/** What a step calls, in short: the tool, agent, workflow or signal, or the kind of a built-in handler. */
export function handlerText(step: GraphStep): string {
  const kind = stepKind(step.handlerRef);
  const input = isObject(step.input) ? step.input : {};
  const named = { agent: input.agentRef, workflow: input.workflowRef, signal: input.signal };
  if (kind === "tool") return step.handlerRef;
  const target = kind in named ? named[kind as keyof typeof named] : undefined;
  return typeof target === "string" && !target.includes("${") ? target : KIND_NAMES[kind];
}

/** The edges in the order of the steps. Names that no step has are left out. */
export function edgesOf(steps: GraphStep[]): GraphEdge[] {
  const names = new Set(steps.map((step) => step.name));
  const edges = steps.flatMap((step) => [...dependencies(step), ...errorEdges(step)]);
  return edges.filter((edge) => names.has(edge.from) && names.has(edge.to));
}

/** `route.large` names the case `large` of the branch `route`. */
function dependencies(step: GraphStep): GraphEdge[] {
  return (step.dependsOn ?? []).map((dependency) => {
    const dot = dependency.indexOf(".");
    if (dot < 0) return { from: dependency, to: step.name, kind: "dependency", label: "" };
    return { from: dependency.slice(0, dot), to: step.name, kind: "case", label: dependency.slice(dot + 1) };
  });
}

function errorEdges(step: GraphStep): GraphEdge[] {
  if (!isObject(step.onError)) return [];
  const { fallback, branch } = step.onError;
  if (typeof fallback === "string") return [{ from: step.name, to: fallback, kind: "error", label: "error" }];
  if (!isObject(branch)) return [];
  const codes = new Map<string, string[]>();
  for (const [code, target] of Object.entries(branch)) {
    if (typeof target === "string") codes.set(target, [...(codes.get(target) ?? []), code === "default" ? "other errors" : code]);
  }
  return [...codes].map(([to, labels]) => ({ from: step.name, to, kind: "error", label: labels.join(", ") }));
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
