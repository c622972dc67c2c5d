import { getRouteApi } from "@tanstack/react-router";
import { useEffect, useMemo } from "react";
import { RunStatusBadge } from "@/components/Badge";
import { Page } from "@/components/Page";
import { ErrorState, Loading } from "@/components/States";
import { useNow } from "@/components/Time";
import { TabBar } from "@/components/TabBar";
import { type Run, useJournal, useRun } from "@/data/runs";
import { type EntrySummary, firstShown } from "@/model/entries";
import { firstLine } from "@/model/format";
import { hasEnded, hasFailed } from "@/model/status";
import type { RunTab } from "@/router";
import { EntryInspector } from "./EntryInspector";
import { ResultInspector } from "./ResultInspector";
import { RunActions } from "./RunActions";
import { RunFacts } from "./RunFacts";
import { StateInspector } from "./StateInspector";
import { Waterfall } from "./Waterfall";

const route = getRouteApi("/shell/runs/$id");

/** The microscope: every entry of a run on a time axis, and the state of the run at each of them. */
export function RunDetail() {
  const { id } = route.useParams();
  const run = useRun(id);
  const journal = useJournal(id, run.data?.status);
  if (run.isPending) return <Loading rows={8} />;
  if (run.isError) {
    return (
      <Page title="Run" parent={{ to: "/runs", label: "Runs" }}>
        <ErrorState error={run.error} onRetry={() => void run.refetch()} />
      </Page>
    );
  }
  return <Microscope key={id} run={run.data} entries={journal.data ?? []} error={journal.error} />;
}

function titleOf(run: Run, entries: EntrySummary[]): string {
  const message = run.kind !== "tool" ? entries[0]?.detail : undefined;
  return message ? firstLine(message) : run.subject;
}

function Microscope({ run, entries, error }: { run: Run; entries: EntrySummary[]; error: unknown }) {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const selected = search.at ?? firstShown(entries, hasFailed(run.status));
  const tab = search.tab ?? "entry";
  const entry = useMemo(() => entries.find((one) => one.n === selected), [entries, selected]);
  const select = (at: number) => void navigate({ search: (previous) => ({ ...previous, at }), replace: true });
  return (
    <Page
      fill
      title={titleOf(run, entries)}
      parent={{ to: "/runs", label: "Runs" }}
      heading={<RunStatusBadge status={run.status} />}
      actions={<RunActions run={run} entries={entries} entry={entry} />}
    >
      <RunFacts run={run} />
      <div className="-mx-4 flex min-h-0 flex-1 flex-col border-t sm:-mx-7 lg:mx-0 lg:mb-6 lg:flex-row lg:overflow-hidden lg:rounded-lg lg:border lg:bg-surface lg:shadow-card">
        <section aria-label="Timeline" className="flex min-h-0 min-w-0 flex-[1.1] flex-col bg-surface lg:flex-[1.5] lg:border-r">
          {error ? <ErrorState error={error} /> : null}
          {!error && entries.length === 0 && <Loading rows={6} label="Loading the journal" />}
          {entries.length > 0 && <LiveWaterfall run={run} entries={entries} selected={selected} onSelect={select} />}
        </section>
        <section aria-label="Inspector" className="flex min-h-0 min-w-0 flex-1 flex-col overflow-hidden border-t bg-surface px-4 pt-1 lg:border-t-0">
          <TabBar
            label="Inspector"
            value={tab}
            onChange={(next) => void navigate({ search: (previous) => ({ ...previous, tab: next as RunTab }), replace: true })}
            tabs={[
              { value: "entry", label: "Entry", content: <EntryInspector run={run} entry={entry} /> },
              { value: "state", label: "State here", content: <StateInspector run={run} at={selected} /> },
              { value: "result", label: "Result", content: <ResultInspector run={run} /> },
            ]}
          />
        </section>
      </div>
    </Page>
  );
}

interface LiveWaterfallProps {
  run: Run;
  entries: EntrySummary[];
  selected: number | undefined;
  onSelect: (n: number) => void;
}

/** The axis of an open run grows with the time. */
function LiveWaterfall({ run, entries, selected, onSelect }: LiveWaterfallProps) {
  const ended = hasEnded(run.status);
  return ended ? (
    <Waterfall entries={entries} end={Date.parse(run.endedAt ?? "")} selected={selected} onSelect={onSelect} runningSince={undefined} />
  ) : (
    <OpenWaterfall run={run} entries={entries} selected={selected} onSelect={onSelect} />
  );
}

function OpenWaterfall({ run, entries, selected, onSelect }: LiveWaterfallProps) {
  const now = useNow();
  const runningSince = run.status === "RUNNING" ? entries.at(-1)?.end : undefined;
  useEffect(() => {
    document.title = run.status === "RUNNING" ? "● Running · Toolwright" : "Waiting · Toolwright";
  }, [run.status]);
  return <Waterfall entries={entries} end={now} selected={selected} onSelect={onSelect} runningSince={runningSince} />;
}
