import { getRouteApi, Link } from "@tanstack/react-router";
import { useVirtualizer } from "@tanstack/react-virtual";
import { Waypoints } from "lucide-react";
import { useEffect, useMemo, useRef } from "react";
import { RunStatusBadge } from "@/components/Badge";
import { ButtonLink } from "@/components/Button";
import { Page } from "@/components/Page";
import { Empty, ErrorState, Loading, NoMatch } from "@/components/States";
import { Time, useNow } from "@/components/Time";
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
      {runs.length > 0 && <Rows runs={runs} hasMore={query.hasNextPage} loadMore={() => void (query.isFetchingNextPage || query.fetchNextPage())} />}
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

function Rows({ runs, hasMore, loadMore }: { runs: RunSummary[]; hasMore: boolean; loadMore: () => void }) {
  const scroller = useRef<HTMLDivElement>(null);
  const virtual = useVirtualizer({ count: runs.length, getScrollElement: () => scroller.current, estimateSize: () => ROW_HEIGHT, overscan: 12 });
  const last = virtual.getVirtualItems().at(-1)?.index ?? 0;
  useEffect(() => {
    if (hasMore && last > runs.length - 30) loadMore();
  }, [hasMore, last, runs.length, loadMore]);
  return (
    <div className="-mx-4 mb-0 flex min-h-0 flex-1 flex-col overflow-hidden border-t bg-surface sm:mx-0 sm:mb-6 sm:rounded-lg sm:border sm:shadow-card" role="table" aria-label="Runs" aria-rowcount={hasMore ? -1 : runs.length}>
      <div role="row" className={`${COLUMNS} hidden h-9 border-b bg-sunken text-xs text-faint md:grid`}>
        <span role="columnheader">Status</span>
        <span role="columnheader">Run</span>
        <span role="columnheader" className="text-right">
          Cost
        </span>
        <span role="columnheader" className="text-right">
          Tokens
        </span>
        <span role="columnheader" className="text-right">
          Duration
        </span>
        <span role="columnheader" className="text-right">
          Started
        </span>
      </div>
      <div ref={scroller} className="min-h-0 flex-1 overflow-y-auto" role="rowgroup" tabIndex={0} aria-label="List of runs">
        <div className="relative" style={{ height: virtual.getTotalSize() }}>
          {virtual.getVirtualItems().map((item) => {
            const run = runs[item.index];
            return run && <Row key={run.id} run={run} index={item.index} top={item.start} />;
          })}
        </div>
      </div>
    </div>
  );
}

function Row({ run, index, top }: { run: RunSummary; index: number; top: number }) {
  const isCall = run.kind === "tool";
  return (
    <Link
      to="/runs/$id"
      params={{ id: run.id }}
      role="row"
      aria-rowindex={index + 1}
      className={`${COLUMNS} absolute inset-x-0 border-b -outline-offset-2 hover:bg-hover`}
      style={{ height: ROW_HEIGHT, transform: `translateY(${top}px)` }}
    >
      <span role="cell" className="order-2 md:order-none">
        <RunStatusBadge status={run.status} />
      </span>
      <span role="cell" className="min-w-0">
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
  return (
    <span role="cell" className="hidden text-right text-muted tabular md:block">
      {children}
    </span>
  );
}

function RunDuration({ run }: { run: RunSummary }) {
  return run.endedAt ? duration(Date.parse(run.endedAt) - Date.parse(run.startedAt)) : <OpenDuration startedAt={run.startedAt} />;
}

function OpenDuration({ startedAt }: { startedAt: string }) {
  return <>{duration(Math.max(0, useNow() - Date.parse(startedAt)))}</>;
}
