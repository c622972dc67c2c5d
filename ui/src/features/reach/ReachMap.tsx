import { getRouteApi, Link } from "@tanstack/react-router";
import { Bot, Database, Globe, type LucideIcon, Network, Plug, Table, Wrench } from "lucide-react";
import { useCallback, useMemo, useState } from "react";
import { Badge } from "@/components/Badge";
import { Button, ButtonLink } from "@/components/Button";
import { cx } from "@/components/cx";
import { SearchInput, Segments } from "@/components/Fields";
import { SideEffectsBadge } from "@/components/Labels";
import { Page } from "@/components/Page";
import { Empty, ErrorState, Loading, Warnings } from "@/components/States";
import { VirtualList } from "@/components/VirtualList";
import { useReach } from "@/data/reach";
import { REACH_COLUMNS, type Reach, type ReachNode, type ToolChoice, nodesOf, relationTo, unapprovedWrites } from "@/model/reach";

const route = getRouteApi("/shell/reach");

/** Which agents reach which tools, systems and data. A selected node leaves what it reaches and what reaches it. */
export function ReachMap() {
  const query = useReach();
  return (
    <Page
      fill
      title="Reach"
      description="What agents can reach: their tools, and the systems and data behind them. Select anything to see its relations."
    >
      {query.isPending && <Loading rows={8} />}
      {query.isError && <ErrorState error={query.error} onRetry={() => void query.refetch()} />}
      {query.data?.nodes.length === 0 && (
        <Empty icon={Network} title="No agent reaches anything yet" action={<ButtonLink to="/agents">Agents</ButtonLink>}>
          An agent reaches the tools that it names or that have its categories. Disabled and blocked definitions are left out.
        </Empty>
      )}
      {query.data && query.data.nodes.length > 0 && <Columns reach={query.data} />}
    </Page>
  );
}

function Columns({ reach }: { reach: Reach }) {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const [text, setText] = useState("");
  const known = reach.nodes.find((node) => node.id === search.node);
  const shown = useMemo(() => nodesOf(reach, search.tools, known?.id), [reach, search.tools, known]);
  const needle = text.trim().toLowerCase();
  const found = useMemo(() => shown.filter((node) => node.name.toLowerCase().includes(needle)), [shown, needle]);
  const risky = useMemo(() => unapprovedWrites(reach).size, [reach]);
  const select = useCallback(
    (node: string | undefined) => void navigate({ search: (previous) => ({ ...previous, node }), replace: true }),
    [navigate],
  );
  return (
    <>
      <Warnings items={reach.truncated ? ["The graph is cut off at 2,000 nodes or 10,000 edges."] : []} />
      <div className="flex flex-wrap items-center gap-2 pb-3">
        <SearchInput label="Search names" value={text} onChange={setText} className="w-full sm:w-64" />
        <Segments<ToolChoice | "all">
          label="Tools"
          value={search.tools ?? "all"}
          onChange={(tools) => void navigate({ search: (previous) => ({ ...previous, tools: tools === "all" ? undefined : tools }), replace: true })}
          options={[
            { value: "all", label: "All tools" },
            { value: "writes", label: "Writes" },
            { value: "unapproved", label: `Without approval ${risky}` },
          ]}
        />
        {known && (
          <span className="flex items-center gap-2">
            <PageLink node={known} />
            <Button variant="ghost" onClick={() => select(undefined)}>
              Clear the selection
            </Button>
          </span>
        )}
      </div>
      <div className="grid min-h-0 flex-1 grid-cols-1 gap-3 max-lg:auto-rows-[18rem] max-lg:overflow-y-auto sm:max-lg:grid-cols-2 lg:mb-6 lg:grid-cols-4 lg:grid-rows-1">
        {REACH_COLUMNS.map(({ title, kinds }) => (
          <Column
            key={title}
            title={title}
            reach={reach}
            nodes={found.filter((node) => kinds.includes(node.kind))}
            selected={known?.id}
            onSelect={select}
          />
        ))}
      </div>
    </>
  );
}

interface ColumnProps {
  title: string;
  reach: Reach;
  nodes: ReachNode[];
  selected: string | undefined;
  onSelect: (id: string | undefined) => void;
}

const keyOf = (node: ReachNode) => node.id;
const nothing = () => undefined;

function Column({ title, reach, nodes, selected, onSelect }: ColumnProps) {
  const row = useCallback(
    (node: ReachNode) => <Row node={node} relation={relationTo(reach, selected, node.id)} selected={node.id === selected} onSelect={onSelect} />,
    [reach, selected, onSelect],
  );
  return (
    <div className="flex min-h-0 flex-col overflow-hidden rounded-lg border bg-surface shadow-card">
      <h2 className="flex h-10 shrink-0 items-center gap-2 border-b bg-sunken px-3 text-[13px] font-semibold">
        {title} <span className="font-normal text-faint tabular">{nodes.length}</span>
      </h2>
      {nodes.length === 0 ? (
        <p className="p-3 text-muted">Nothing</p>
      ) : (
        <VirtualList framed={false} label={title} items={nodes} rowHeight={57} keyOf={keyOf} row={row} hasMore={false} loadMore={nothing} />
      )}
    </div>
  );
}

const ICONS: Record<string, LucideIcon> = { agent: Bot, tool: Wrench, provider: Plug, type: Table, host: Globe, database: Database };

interface RowProps {
  node: ReachNode;
  relation: string | undefined;
  selected: boolean;
  onSelect: (id: string | undefined) => void;
}

function Row({ node, relation, selected, onSelect }: RowProps) {
  const Icon = ICONS[node.kind] ?? Network;
  return (
    <button
      type="button"
      aria-pressed={selected}
      onClick={() => onSelect(selected ? undefined : node.id)}
      className={cx("flex h-full w-full items-center gap-2.5 px-3 text-left -outline-offset-2", selected && "bg-selected")}
    >
      <Icon size={15} aria-hidden className="shrink-0 text-faint" />
      <span className="min-w-0 flex-1">
        <span className="block truncate font-medium">{node.name}</span>
        <span className="mt-0.5 flex items-center gap-1.5 text-xs text-faint">
          {node.kind === "tool" && <SideEffectsBadge value={node.sideEffects} />}
          {node.requiresConfirmation && <Badge tone="wait">Approval</Badge>}
          <span className="truncate">{[node.version, relation].filter(Boolean).join(" · ")}</span>
        </span>
      </span>
    </button>
  );
}

/** A link to the page of a node. Hosts and databases have none. */
function PageLink({ node }: { node: ReachNode }) {
  const to = { agent: "/agents/$ref", tool: "/tools/$ref", provider: "/integrations/$ref" } as const;
  if (node.kind !== "agent" && node.kind !== "tool" && node.kind !== "provider") return <span className="font-medium">{node.name}</span>;
  return (
    <Link to={to[node.kind]} params={{ ref: node.name }} className="font-medium underline underline-offset-2">
      {node.name}
    </Link>
  );
}
