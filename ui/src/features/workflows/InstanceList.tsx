import { getRouteApi, Link } from "@tanstack/react-router";
import { Workflow } from "lucide-react";
import { useMemo } from "react";
import { RunStatusBadge } from "@/components/Badge";
import { Button, ButtonLink } from "@/components/Button";
import { cx } from "@/components/cx";
import { NameFilter, StatusFilter, TimeFilter } from "@/components/Filters";
import { Page } from "@/components/Page";
import { QueryList, useItems } from "@/components/QueryList";
import { RunDuration } from "@/components/RunDuration";
import { Empty } from "@/components/States";
import { Time, useNow } from "@/components/Time";
import { useInstances } from "@/data/instances";
import type { RunSummary } from "@/data/runs";
import { useWorkflows } from "@/data/workflows";
import { cost, shortId } from "@/model/format";
import { type InstanceSearch, parseInstanceSearch } from "@/model/instanceFilters";
import { toFilters } from "@/model/runFilters";
import type { RunStatus } from "@/model/status";

const route = getRouteApi("/shell/instances");
const COLUMNS = "grid grid-cols-[minmax(0,1fr)_auto] items-center gap-x-4 px-4 md:grid-cols-[9.5rem_minmax(0,1fr)_5rem_6rem_6.5rem]";
const HEADER = [
  { name: "Status" },
  { name: "Workflow" },
  { name: "Cost", right: true },
  { name: "Duration", right: true },
  { name: "Started", right: true },
];

/** The statuses that a workflow instance can have. */
export const INSTANCE_STATUSES: RunStatus[] = [
  "RUNNING",
  "AWAITING_APPROVAL",
  "AWAITING_CLIENT",
  "WAITING",
  "PAUSED",
  "COMPLETED",
  "ERROR",
  "TIMEOUT",
  "BUDGET_EXCEEDED",
  "CANCELLED",
];

export function InstanceList() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const workflows = useItems(useWorkflows({})).map((workflow) => workflow.refName);
  const set = (change: InstanceSearch | Record<string, string>) =>
    void navigate({ search: parseInstanceSearch({ ...search, ...change }), replace: true });
  const filtered = Object.keys(search).length > 0;
  return (
    <Page fill title="Instances" description="Every execution of a workflow.">
      <div className="flex flex-wrap items-center gap-2 pb-3">
        <StatusFilter value={search.status} statuses={INSTANCE_STATUSES} onChange={(status) => set({ status })} />
        <NameFilter
          label="Workflow"
          any="Any workflow"
          value={search.workflowRef}
          names={workflows}
          onChange={(workflowRef) => set({ workflowRef })}
        />
        <TimeFilter value={search.range} onChange={(range) => set({ range })} />
        {filtered && (
          <Button variant="ghost" onClick={() => void navigate({ search: {} })}>
            Clear
          </Button>
        )}
      </div>
      <Instances search={search} onClear={() => void navigate({ search: {} })} />
    </Page>
  );
}

/** The list itself, also for the page of one workflow. */
export function Instances({ search, onClear }: { search: InstanceSearch; onClear?: () => void }) {
  const minute = Math.floor(useNow() / 60_000);
  const filters = useMemo(() => toFilters(search, minute * 60_000), [search, minute]);
  const query = useInstances(filters);
  const instances = useItems(query);
  return (
    <QueryList
      query={query}
      items={instances}
      label="Instances"
      rowHeight={53}
      columns={COLUMNS}
      header={HEADER}
      keyOf={keyOf}
      row={renderRow}
      filtered={onClear !== undefined && Object.keys(search).length > 0}
      onClear={() => onClear?.()}
      empty={<NoInstances />}
    />
  );
}

function NoInstances() {
  return (
    <Empty icon={Workflow} title="No instance yet" action={<ButtonLink to="/workflows">Choose a workflow</ButtonLink>}>
      Each execution of a workflow is an instance. It shows the state of every step, also while it waits for days.
    </Empty>
  );
}

const keyOf = (run: RunSummary) => run.id;
const renderRow = (run: RunSummary) => <Row run={run} />;

function Row({ run }: { run: RunSummary }) {
  return (
    <Link to="/instances/$id" params={{ id: run.id }} preload={false} className={cx(COLUMNS, "h-full -outline-offset-2")}>
      <span className="order-2 md:order-none">
        <RunStatusBadge status={run.status} />
      </span>
      <span className="min-w-0">
        <span className="block truncate font-medium">
          {run.subject} <span className="font-normal text-faint tabular">{run.agentVersion}</span>
        </span>
        <span className="block truncate text-xs text-faint">
          <span className="font-mono">{shortId(run.id)}</span>
          {run.forkedFrom && " · run again"}
          {run.parentRunId && " · child run"}
          <span className="md:hidden">
            {" · "}
            <Time at={run.startedAt} />
          </span>
        </span>
      </span>
      <span className="hidden text-right text-muted tabular md:block">{run.costUsd > 0 ? cost(run.costUsd) : "–"}</span>
      <span className="hidden text-right text-muted tabular md:block">
        <RunDuration run={run} />
      </span>
      <Time at={run.startedAt} className="hidden text-right text-muted md:block" />
    </Link>
  );
}
