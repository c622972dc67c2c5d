import { getRouteApi, Link } from "@tanstack/react-router";
import { Waypoints } from "lucide-react";
import { useMemo } from "react";
import { cx } from "@/components/cx";
import { RunStatusBadge } from "@/components/Badge";
import { ButtonLink } from "@/components/Button";
import { Page } from "@/components/Page";
import { QueryList, useItems } from "@/components/QueryList";
import { RunDuration } from "@/components/RunDuration";
import { Empty } from "@/components/States";
import { Time, useNow } from "@/components/Time";
import { type RunSummary, useRunCount, useRuns } from "@/data/runs";
import { runDetail } from "@/model/status";
import { cost, firstLine, plural, shortCount } from "@/model/format";
import { isFiltered, toFilters } from "@/model/runFilters";
import { RunFilterBar } from "./RunFilterBar";

const route = getRouteApi("/shell/runs");
const ROW_HEIGHT = 53;

/** The columns: status, what, cost, tokens, duration, start. On a phone the middle columns are hidden. */
const COLUMNS = "grid grid-cols-[minmax(0,1fr)_auto] items-center gap-x-4 px-4 md:grid-cols-[9.5rem_minmax(0,1fr)_4.5rem_4.5rem_6rem_6.5rem]";

export function RunList() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const minute = Math.floor(useNow() / 60_000);
  const filters = useMemo(() => toFilters(search, minute * 60_000), [search, minute]);
  const query = useRuns(filters);
  const total = useRunCount(filters).data;
  const runs = useItems(query);
  return (
    <Page fill title="Runs" heading={total !== undefined && <span className="text-faint tabular">{plural(total, "run")}</span>}>
      <RunFilterBar search={search} onChange={(next) => void navigate({ search: next, replace: true })} />
      <QueryList
        query={query}
        items={runs}
        label="Runs"
        rowHeight={ROW_HEIGHT}
        columns={COLUMNS}
        header={HEADER}
        keyOf={keyOf}
        row={renderRow}
        filtered={isFiltered(search)}
        onClear={() => void navigate({ search: {} })}
        empty={<NoRuns />}
      />
    </Page>
  );
}

function NoRuns() {
  return (
    <Empty icon={Waypoints} title="No runs yet" action={<ButtonLink to="/agents">Choose an agent</ButtonLink>}>
      Each execution of an agent and each direct call of a tool is a run. Its journal records every model call, tool call and decision.
    </Empty>
  );
}

const HEADER = [
  { name: "Status" },
  { name: "Run" },
  { name: "Cost", right: true },
  { name: "Tokens", right: true },
  { name: "Duration", right: true },
  { name: "Started", right: true },
];

const keyOf = (run: RunSummary) => run.id;
const renderRow = (run: RunSummary) => <Row run={run} />;

function Row({ run }: { run: RunSummary }) {
  return (
    <Link to="/runs/$id" params={{ id: run.id }} preload={false} className={cx(COLUMNS, "h-full -outline-offset-2")}>
      <span className="order-2 md:order-none">
        <RunStatusBadge status={run.status} />
      </span>
      <span className="min-w-0">
        <span className="block truncate font-medium">{run.userMessage ? firstLine(run.userMessage) : run.subject}</span>
        <span className="block truncate text-xs text-faint">
          {runDetail(run)}
          {run.forkedFrom && " · fork"}
          {run.parentRunId && " · child run"}
          {run.trial && ` · ${run.trial.kind}`}
          <span className="md:hidden">
            {" · "}
            <Time at={run.startedAt} />
          </span>
        </span>
      </span>
      <Cell>{run.costUsd > 0 ? cost(run.costUsd) : "–"}</Cell>
      <Cell>{run.tokensUsed > 0 ? shortCount(run.tokensUsed) : "–"}</Cell>
      <Cell>
        <RunDuration run={run} />
      </Cell>
      <Cell>
        <Time at={run.startedAt} />
      </Cell>
    </Link>
  );
}

function Cell({ children }: { children: React.ReactNode }) {
  return <span className="hidden text-right text-muted tabular md:block">{children}</span>;
}
