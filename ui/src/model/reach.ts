/** What agents can reach: a graph of agents, tools, the connections and data behind them, and the destinations. */
import type { Schemas } from "@/api/client";

export type Reach = Schemas["ReachView"];
export type ReachNode = Schemas["ReachNodeView"];

export const REACH_COLUMNS = [
  { title: "Agents", kinds: ["agent"] },
  { title: "Tools", kinds: ["tool"] },
  { title: "Integrations and records", kinds: ["provider", "type"] },
  { title: "Hosts and databases", kinds: ["host", "database"] },
];

/** Tools that write, or whose writes an agent makes without an approval. */
export type ToolChoice = "writes" | "unapproved";

/** Everything that the nodes reach, and everything that reaches them. Contains the nodes. */
export function relatedTo(reach: Reach, ids: Iterable<string>): Set<string> {
  const starts = [...ids];
  const forward = follow(starts, neighbours(reach, "from", "to"));
  const backward = follow(starts, neighbours(reach, "to", "from"));
  return new Set([...forward, ...backward]);
}

type Neighbours = Map<string, string[]>;

function neighbours(reach: Reach, from: "from" | "to", to: "from" | "to"): Neighbours {
  const map: Neighbours = new Map();
  for (const edge of reach.edges) {
    const known = map.get(edge[from]);
    if (known) known.push(edge[to]);
    else map.set(edge[from], [edge[to]]);
  }
  return map;
}

function follow(starts: string[], next: Neighbours, stopAt: (id: string) => boolean = () => false): Set<string> {
  const seen = new Set(starts);
  const open = [...starts];
  for (let id = open.pop(); id !== undefined; id = open.pop()) {
    for (const other of next.get(id) ?? []) {
      if (seen.has(other) || stopAt(other)) continue;
      seen.add(other);
      open.push(other);
    }
  }
  return seen;
}

/** The tools whose writes an agent makes without an approval: neither the agent nor the tool requires one. */
export function unapprovedWrites(reach: Reach): Set<string> {
  const next = neighbours(reach, "from", "to");
  const nodes = new Map(reach.nodes.map((node) => [node.id, node]));
  const free = reach.nodes.filter((node) => node.kind === "agent" && !node.requiresConfirmation).map((node) => node.id);
  // A delegate decides by itself whether its writes need an approval.
  const reached = follow(free, next, (id) => nodes.get(id)?.kind === "agent");
  return new Set(
    reach.nodes.filter((node) => reached.has(node.id) && node.sideEffects === "writes" && !node.requiresConfirmation).map((node) => node.id),
  );
}

/** The nodes that a choice of tools leaves: these tools, and what is related to them. */
export function nodesOf(reach: Reach, tools: ToolChoice | undefined, selected: string | undefined): ReachNode[] {
  const chosen = tools && chosenTools(reach, tools);
  let kept = reach.nodes;
  if (chosen) {
    const related = relatedTo(reach, chosen);
    kept = kept.filter((node) => (node.kind === "tool" ? chosen.has(node.id) : related.has(node.id)));
  }
  if (!selected) return kept;
  const related = relatedTo(reach, [selected]);
  return kept.filter((node) => related.has(node.id));
}

function chosenTools(reach: Reach, tools: ToolChoice): Set<string> {
  if (tools === "unapproved") return unapprovedWrites(reach);
  return new Set(reach.nodes.filter((node) => node.sideEffects === "writes").map((node) => node.id));
}

/** How the selected node uses another one or is used by it, such as "by category". */
export function relationTo(reach: Reach, selected: string | undefined, id: string): string | undefined {
  const edge = reach.edges.find((one) => (one.from === selected && one.to === id) || (one.to === selected && one.from === id));
  return edge && `by ${edge.by}`;
}
