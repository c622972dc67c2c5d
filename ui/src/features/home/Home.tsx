import { Link } from "@tanstack/react-router";
import { ArrowRight, CheckCheck, CircleDashed, ShieldCheck } from "lucide-react";
import { useMemo } from "react";
import { cx } from "@/components/cx";
import { RunStatusBadge } from "@/components/Badge";
import { Card, CardHeader, Page } from "@/components/Page";
import { Empty, ErrorState, Loading } from "@/components/States";
import { Time, useNow } from "@/components/Time";
import { useClientActions, useWaitingApprovals } from "@/data/approvals";
import { OPEN_FILTER, type RunSummary, useRecentRuns, useRunCount, useRunsSince } from "@/data/runs";
import { approvalTitle } from "@/model/approval";
import { costSince, hourlyActivity, midnight } from "@/model/activity";
import { cost, count, firstLine, plural } from "@/model/format";
import { FAILED_STATUSES, runDetail } from "@/model/status";
import { ActivityChart } from "./ActivityChart";
import { FirstSteps } from "./FirstSteps";

const DAY = 86_400_000;
const FAILED_FILTER = FAILED_STATUSES.join(",");

/** The start of the window, rounded so that requests of the same quarter of an hour share a cache entry. */
function useDayStart(): string {
  const quarter = Math.floor(useNow() / 900_000);
  return useMemo(() => new Date(quarter * 900_000 - DAY).toISOString(), [quarter]);
}

export function Home() {
  const since = useDayStart();
  return (
    <Page title="Home" description="What runs now, what waits for a person, and what went wrong in the last 24 hours.">
      <FirstSteps />
      <Figures since={since} />
      <div className="grid grid-cols-1 gap-4 lg:grid-cols-2">
        <WaitingCard />
        <OpenCard />
        <FailedCard since={since} />
        <RecentCard />
      </div>
    </Page>
  );
}

function Figures({ since }: { since: string }) {
  const now = useNow();
  const day = useRunsSince(since);
  const approvals = useWaitingApprovals().data;
  const actions = useClientActions().data;
  const waiting = approvals && actions && approvals.items.length + actions.length;
  const running = useRunCount({ status: "RUNNING" }).data;
  const total = useRunCount({ startedAfter: since }).data;
  const failed = useRunCount({ startedAfter: since, status: FAILED_FILTER }).data;
  const hours = useMemo(() => hourlyActivity(day.data?.runs ?? [], now), [day.data, Math.floor(now / 60_000)]);
  const spent = costSince(day.data?.runs ?? [], midnight(now));
  const atLeast = day.data && !day.data.complete ? "≥ " : "";
  return (
    <Card label="The last 24 hours" className="mb-4 grid grid-cols-2 gap-px overflow-hidden bg-line lg:grid-cols-[repeat(4,minmax(0,8.5rem))_1fr]">
      <Figure label="Running" value={running} to={{ status: "RUNNING" }} />
      <Figure label="Waiting" value={waiting} to={{ status: "AWAITING_APPROVAL,AWAITING_CLIENT" }} />
      <Figure label="Failed, 24 h" value={failed} to={{ status: FAILED_FILTER, range: "24h" }} tone={failed ? "text-bad" : undefined} />
      <Figure label="Cost today" value={day.data && `${atLeast}${cost(spent)}`} to={{ range: "24h" }} />
      <div className="col-span-2 bg-surface px-4 py-3 lg:col-span-1">
        <p className="text-xs text-faint">{total === undefined ? "Runs" : plural(total, "run")} in 24 hours</p>
        <ActivityChart hours={hours} />
      </div>
    </Card>
  );
}

function Figure({
  label,
  value,
  to,
  tone,
}: {
  label: string;
  value: number | string | undefined;
  to: Record<string, string>;
  tone?: string | undefined;
}) {
  return (
    <Link to="/runs" search={to} className="bg-surface px-4 py-3 -outline-offset-2 hover:bg-hover">
      <span className="block text-xs text-faint">{label}</span>
      <span className={cx("mt-1 block text-2xl font-semibold tracking-tight tabular", tone)}>
        {value === undefined ? "–" : typeof value === "number" ? count(value) : value}
      </span>
    </Link>
  );
}

const MORE = "flex items-center gap-1 text-xs font-medium text-muted hover:text-text";

function WaitingCard() {
  const query = useWaitingApprovals();
  const items = query.data?.items ?? [];
  return (
    <Card label="Waits for a person">
      <CardHeader
        title="Waits for a person"
        count={items.length || undefined}
        action={
          <Link to="/inbox" className={MORE}>
            Inbox <ArrowRight size={12} aria-hidden />
          </Link>
        }
      />
      {query.isPending && <Loading rows={3} />}
      {query.isError && <ErrorState error={query.error} onRetry={() => void query.refetch()} />}
      {query.isSuccess && items.length === 0 && (
        <Empty compact icon={ShieldCheck} title="Nothing waits">
          Calls that need an approval appear here and in the inbox.
        </Empty>
      )}
      <ul>
        {items.slice(0, 5).map((approval) => (
          <li key={approval.callId + approval.runId}>
            <Link to="/inbox" search={{ call: approval.callId }} className="flex items-center gap-3 px-4 py-2.5 -outline-offset-2 hover:bg-hover">
              <span className="min-w-0 flex-1">
                <span className="block truncate font-medium">{approvalTitle(approval)}</span>
                <span className="block truncate text-xs text-faint">requested by {approval.agentRef}</span>
              </span>
              <Time at={approval.requestedAt} className="shrink-0 text-xs text-faint tabular" />
            </Link>
          </li>
        ))}
      </ul>
    </Card>
  );
}

function OpenCard() {
  const query = useRecentRuns({ status: OPEN_FILTER }, 5);
  return (
    <RunsCard title="Open runs" query={query} search={{ status: OPEN_FILTER }}>
      <Empty compact icon={CircleDashed} title="Nothing is running">
        Runs that have not ended appear here, live.
      </Empty>
    </RunsCard>
  );
}

function FailedCard({ since }: { since: string }) {
  const query = useRecentRuns({ status: FAILED_FILTER, startedAfter: since }, 5);
  return (
    <RunsCard title="Failed, last 24 hours" query={query} search={{ status: FAILED_FILTER, range: "24h" }}>
      <Empty compact icon={CheckCheck} title="No run failed">
        Failed runs of the last 24 hours appear here. Each opens at the entry that failed.
      </Empty>
    </RunsCard>
  );
}

function RecentCard() {
  const query = useRecentRuns({ status: "COMPLETED" }, 5);
  return (
    <RunsCard title="Completed last" query={query} search={{ status: "COMPLETED" }}>
      <Empty compact icon={CheckCheck} title="No run has completed">
        Open an agent and talk to it in the playground.
      </Empty>
    </RunsCard>
  );
}

interface RunsCardProps {
  title: string;
  query: ReturnType<typeof useRecentRuns>;
  search: Record<string, string>;
  children: React.ReactNode;
}

function RunsCard({ title, query, search, children }: RunsCardProps) {
  const runs = query.data?.items ?? [];
  return (
    <Card label={title}>
      <CardHeader
        title={title}
        action={
          <Link to="/runs" search={search} className={MORE}>
            All <ArrowRight size={12} aria-hidden />
          </Link>
        }
      />
      {query.isPending && <Loading rows={3} />}
      {query.isError && <ErrorState error={query.error} onRetry={() => void query.refetch()} />}
      {query.isSuccess && runs.length === 0 && children}
      <ul>
        {runs.map((run) => (
          <RunRow key={run.id} run={run} />
        ))}
      </ul>
    </Card>
  );
}

function RunRow({ run }: { run: RunSummary }) {
  return (
    <li>
      <Link to="/runs/$id" params={{ id: run.id }} className="flex items-center gap-3 px-4 py-2.5 -outline-offset-2 hover:bg-hover">
        <span className="min-w-0 flex-1">
          <span className="block truncate font-medium">{run.userMessage ? firstLine(run.userMessage) : run.subject}</span>
          <span className="block truncate text-xs text-faint">{runDetail(run)}</span>
        </span>
        <RunStatusBadge status={run.status} />
        <Time at={run.startedAt} className="w-16 shrink-0 text-right text-xs text-faint tabular" />
      </Link>
    </li>
  );
}
