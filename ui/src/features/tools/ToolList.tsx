import { getRouteApi, Link } from "@tanstack/react-router";
import { Plus, TriangleAlert, Wrench } from "lucide-react";
import { useCallback, useMemo } from "react";
import { cx } from "@/components/cx";
import { Badge } from "@/components/Badge";
import { Button, ButtonLink } from "@/components/Button";
import { SearchInput } from "@/components/Fields";
import { NameFilter } from "@/components/Filters";
import { Page } from "@/components/Page";
import { QueryList, useItems } from "@/components/QueryList";
import { Empty } from "@/components/States";
import { type ToolItem, useOpenDrift, useToolCount, useTools } from "@/data/tools";
import { firstLine, plural } from "@/model/format";
import { TOOL_KINDS, TOOL_STATUSES, parseToolSearch } from "@/model/toolFilters";
import { lifecycle, toolTypeName } from "@/model/tools";

const route = getRouteApi("/shell/tools");
const ROW_HEIGHT = 53;
const COLUMNS = "grid grid-cols-[minmax(0,1fr)_auto] items-center gap-x-4 px-4 md:grid-cols-[minmax(0,2.2fr)_8rem_8rem_5rem_8.5rem]";
const HEADER = [{ name: "Tool" }, { name: "Type" }, { name: "Category" }, { name: "Version" }, { name: "State" }];

export function ToolList() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const query = useTools(search);
  const total = useToolCount().data;
  const drift = useOpenDrift().data;
  const drifting = useMemo(() => new Set(drift?.items.map((finding) => finding.toolRef)), [drift]);
  const row = useCallback((tool: ToolItem) => <Row tool={tool} drift={drifting.has(tool.slug)} />, [drifting]);
  const tools = useItems(query);
  const categories = useMemo(() => [...new Set(tools.map((tool) => tool.category).filter((category) => category != null))].sort(), [tools]);
  const set = (change: Record<string, string>) => void navigate({ search: parseToolSearch({ ...search, ...change }), replace: true });
  const filtered = Object.keys(search).length > 0;
  return (
    <Page
      fill
      title="Tools"
      heading={total !== undefined && <span className="text-faint tabular">{plural(total, "tool")}</span>}
      actions={
        <ButtonLink to="/new-tool" variant="primary">
          <Plus size={15} aria-hidden /> New tool
        </ButtonLink>
      }
    >
      <div className="flex flex-wrap items-center gap-2 pb-3">
        <SearchInput label="Search names and descriptions" value={search.text ?? ""} onChange={(text) => set({ text })} className="w-full sm:w-72" />
        <NameFilter label="Kind" any="Any kind" value={search.kind} names={[...TOOL_KINDS]} onChange={(kind) => set({ kind })} />
        <NameFilter label="Category" any="Any category" value={search.category} names={categories} onChange={(category) => set({ category })} />
        <NameFilter label="State" any="Any state" value={search.status} names={[...TOOL_STATUSES]} onChange={(status) => set({ status })} />
        {filtered && (
          <Button variant="ghost" onClick={() => void navigate({ search: {} })}>
            Clear
          </Button>
        )}
      </div>
      <QueryList
        query={query}
        items={tools}
        label="Tools"
        rowHeight={ROW_HEIGHT}
        columns={COLUMNS}
        header={HEADER}
        keyOf={keyOf}
        row={row}
        filtered={filtered}
        onClear={() => void navigate({ search: {} })}
        empty={<NoTools />}
      />
    </Page>
  );
}

function NoTools() {
  return (
    <Empty icon={Wrench} title="No tools yet" action={<ButtonLink to="/new-tool">Add the first tool</ButtonLink>}>
      A tool is one operation that agents and programs may call: a request to an API, a function, or another agent.
    </Empty>
  );
}

const keyOf = (tool: ToolItem) => tool.id;

function Row({ tool, drift }: { tool: ToolItem; drift: boolean }) {
  const state = lifecycle(tool.status);
  return (
    <Link to="/tools/$ref" params={{ ref: tool.slug }} className={cx(COLUMNS, "h-full -outline-offset-2")}>
      <span className="min-w-0">
        <span className="block truncate font-medium">{tool.slug}</span>
        <span className="block truncate text-xs text-faint">{firstLine(tool.description ?? "")}</span>
      </span>
      <span className="hidden truncate text-muted md:block">{toolTypeName(tool.toolType)}</span>
      <span className="hidden truncate text-muted md:block">{tool.category ?? "–"}</span>
      <span className="hidden text-muted tabular md:block">{tool.version}</span>
      <span className="flex gap-1.5">
        <Badge tone={state.tone}>{state.label}</Badge>
        {drift && (
          <Badge tone="warn" title="Its outputs differ from its schema">
            <TriangleAlert size={12} aria-hidden /> Drift
          </Badge>
        )}
      </span>
    </Link>
  );
}
