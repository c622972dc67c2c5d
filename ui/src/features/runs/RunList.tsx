import { getRouteApi, Link } from "@tanstack/react-router";
import { Waypoints } from "lucide-react";
import { useMemo } from "react";
import { cx } from "@/components/cx";
import { RunStatusBadge } from "@/components/Badge";
import { ButtonLink } from "@/components/Button";
import { Page } from "@/components/Page";
import { Empty, ErrorState, Loading, NoMatch } from "@/components/States";
import { Time, useNow } from "@/components/Time";
import { ListHeader, VirtualList } from "@/components/VirtualList";
import { type RunSummary, useRunCount, useRuns } from "@/data/runs";
import { cost, duration, firstLine, plural, shortCount } from "@/model/format";
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
  const runs = useMemo(() => query.data?.pages.flatMap((page) => page.items) ?? [], [query.data]);
  return (
    <Page fill title="Runs" heading={total !== undefined && <span className="text-faint tabular">{plural(total, "run")}</span>}>
      <RunFilterBar search={search} onChange={(next) => void navigate({ search: next, replace: true })} />
      {query.isPending && <Loading rows={8} />}
      {query.isError && <ErrorState error={query.error} onRetry={() => void query.refetch()} />}
      {query.isSuccess && runs.length === 0 && (isFiltered(search) ? <NoMatch onClear={() => void navigate({ search: {} })} /> : <NoRuns />)}
      {runs.length > 0 && (
        <VirtualList
          label="Runs"
          items={runs}
          rowHeight={ROW_HEIGHT}
          header={<ListHeader columns={COLUMNS} names={HEADER} />}
          keyOf={keyOf}
          row={renderRow}
          hasMore={query.hasNextPage}
          loadMore={() => void (query.isFetchingNextPage || query.fetchNextPage())}
        />
      )}
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
  const isCall = run.kind === "tool";
  return (
    <Link to="/runs/$id" params={{ id: run.id }} preload={false} className={cx(COLUMNS, "h-full -outline-offset-2")}>
      <span className="order-2 md:order-none">
        <RunStatusBadge status={run.status} />
      </span>
      <span className="min-w-0">
        <span className="block truncate font-medium">{run.userMessage ? firstLine(run.userMessage) : run.subject}</span>
        <span className="block truncate text-xs text-faint">
          {isCall ? "direct call" : run.subject}
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

function RunDuration({ run }: { run: RunSummary }) {
  return run.endedAt ? duration(Date.parse(run.endedAt) - Date.parse(run.startedAt)) : <OpenDuration startedAt={run.startedAt} />;
}

function OpenDuration({ startedAt }: { startedAt: string }) {
  return <>{duration(Math.max(0, useNow() - Date.parse(startedAt)))}</>;
}
