import { getRouteApi, Link } from "@tanstack/react-router";
import { Equal, EqualNot, Split } from "lucide-react";
import { useMemo, useState } from "react";
import { Badge, RunStatusBadge } from "@/components/Badge";
import { Button } from "@/components/Button";
import { JsonView } from "@/components/Code";
import { cx } from "@/components/cx";
import { Card, CardHeader, Page } from "@/components/Page";
import { ErrorState, Loading } from "@/components/States";
import { Time } from "@/components/Time";
import { type Run, useComparison, useJournal, useRun } from "@/data/runs";
import { type AlignedRow, alignEntries } from "@/model/compare";
import { type EntrySummary, preview } from "@/model/entries";
import { cost, count, plural, shortId } from "@/model/format";

const route = getRouteApi("/shell/runs/$id/compare/$other");

/** The entries that are shown at first. */
const PAGE = 200;

/** Two runs in aligned lanes, with the first divergence marked. */
export function CompareRuns() {
  const { id, other } = route.useParams();
  const left = useRun(id);
  const right = useRun(other);
  const leftJournal = useJournal(id, left.data?.status).data;
  const rightJournal = useJournal(other, right.data?.status).data;
  const comparison = useComparison(id, other, 1);
  const equal = useMemo(() => new Map(comparison.data?.entries?.map((entry) => [entry.n, entry.equal])), [comparison.data]);
  const rows = useMemo(() => alignEntries(leftJournal ?? [], rightJournal ?? [], equal), [leftJournal, rightJournal, equal]);
  const [shown, setShown] = useState(PAGE);
  const failed = [left, right, comparison].find((query) => query.isError);
  const divergence = comparison.data?.firstDivergence?.n;
  return (
    <Page wide title="Compare two runs" parent={{ to: "/runs", label: "Runs" }} heading={comparison.data && <Verdict divergence={divergence} />}>
      {failed && <ErrorState error={failed.error} onRetry={() => void failed.refetch()} />}
      {!failed && (!left.data || !right.data) && <Loading />}
      {left.data && right.data && (
        <>
          <div className="mb-4 grid gap-4 md:grid-cols-2">
            <RunCard run={left.data} name="A" />
            <RunCard run={right.data} name="B" />
          </div>
          <Card label="Entries" className="overflow-hidden">
            <div className="grid grid-cols-[2.5rem_1fr_1fr] border-b bg-sunken text-xs text-faint">
              <span />
              <span className="px-3 py-2">A</span>
              <span className="border-l px-3 py-2">B</span>
            </div>
            <ol>
              {rows.slice(0, shown).map((row) => (
                <LaneRow
                  key={row.n}
                  row={row}
                  a={id}
                  b={other}
                  first={row.n === divergence}
                  fields={row.n === divergence ? comparison.data?.firstDivergence?.differences : undefined}
                />
              ))}
            </ol>
            {rows.length > shown && (
              <Button variant="ghost" className="m-2" onClick={() => setShown(shown + PAGE)}>
                Show more of {count(rows.length)} entries
              </Button>
            )}
          </Card>
          {comparison.data && comparison.data.differences.length > 0 && <Outcomes differences={comparison.data.differences} />}
        </>
      )}
    </Page>
  );
}

function Verdict({ divergence }: { divergence: number | undefined }) {
  return divergence === undefined ? (
    <Badge tone="ok">
      <Equal size={12} aria-hidden /> The same journal
    </Badge>
  ) : (
    <Badge tone="warn">
      <EqualNot size={12} aria-hidden /> Different from entry {divergence}
    </Badge>
  );
}

function RunCard({ run, name }: { run: Run; name: string }) {
  return (
    <Card className="flex items-start gap-3 p-4" label={`Run ${name}`}>
      <span className="grid size-6 shrink-0 place-items-center rounded bg-neutral-soft text-xs font-semibold text-neutral">{name}</span>
      <div className="min-w-0">
        <p className="flex flex-wrap items-center gap-2">
          <Link to="/runs/$id" params={{ id: run.id }} className="font-medium hover:underline">
            {run.subject} <span className="font-mono text-xs font-normal text-faint">{shortId(run.id)}</span>
          </Link>
          <RunStatusBadge status={run.status} />
        </p>
        <p className="mt-1 text-xs text-faint tabular">
          <Time at={run.startedAt} /> · {plural(run.iterationsUsed, "model call")} · {count(run.tokensUsed)} tokens · {cost(run.costUsd)}
        </p>
        {run.responseText && <p className="mt-1 line-clamp-3 text-muted">{run.responseText}</p>}
      </div>
    </Card>
  );
}

type Difference = Record<string, unknown>;

function Outcomes({ differences }: { differences: Difference[] }) {
  return (
    <Card label="Differences of the results" className="mt-4">
      <CardHeader title="Differences of the results" count={differences.length} />
      <Differences items={differences} />
    </Card>
  );
}

/** The fields that differ. The server calls the first run the expected one. */
function Differences({ items }: { items: Difference[] }) {
  return (
    <ul className="divide-y">
      {items.map((item) => (
        <li key={String(item.field)} className="px-4 py-2.5">
          <p className="mb-1 font-mono text-xs text-muted [overflow-wrap:anywhere]">{String(item.field)}</p>
          <div className="grid gap-x-4 gap-y-1 md:grid-cols-2">
            <Side name="A" value={item.expected} />
            <Side name="B" value={item.got} />
          </div>
        </li>
      ))}
    </ul>
  );
}

function Side({ name, value }: { name: string; value: unknown }) {
  const text = preview(value);
  return (
    <details className="min-w-0">
      <summary className="flex cursor-pointer list-none gap-2">
        <span className="shrink-0 text-xs leading-5 font-semibold text-faint">{name}</span>
        <span className="min-w-0 truncate">{text || "–"}</span>
      </summary>
      {text && <JsonView value={value} label={`value of ${name}`} className="mt-1 max-h-80" />}
    </details>
  );
}

function LaneRow({ row, a, b, first, fields }: { row: AlignedRow; a: string; b: string; first: boolean; fields: Difference[] | undefined }) {
  return (
    <li className={cx("border-b last:border-b-0", first && "bg-warn-soft")}>
      {first && (
        <p className="flex items-center gap-1.5 px-3 pt-2 text-xs font-medium text-warn">
          <Split size={13} aria-hidden /> First divergence
        </p>
      )}
      <div className={cx("grid grid-cols-[2.5rem_1fr_1fr]", row.equal && "text-muted")}>
        <span className="py-2 text-right text-[11px] text-faint tabular">{row.n}</span>
        <LaneCell run={a} entry={row.left} equal={row.equal} />
        <LaneCell run={b} entry={row.right} equal={row.equal} />
      </div>
      {fields && fields.length > 0 && (
        <div className="border-t border-line/60 sm:pl-6">
          <Differences items={fields} />
        </div>
      )}
    </li>
  );
}

function LaneCell({ run, entry, equal }: { run: string; entry: EntrySummary | undefined; equal: boolean | undefined }) {
  if (!entry) return <span className="border-l border-line/60 px-3 py-2 text-faint first-of-type:border-l-0">–</span>;
  return (
    <Link to="/runs/$id" params={{ id: run }} search={{ at: entry.n }} className="min-w-0 border-l border-line/60 px-3 py-2 hover:bg-hover">
      <span className={cx("font-medium", equal === false && "text-text", entry.failed && "text-bad")}>{entry.title}</span>
      <span className="block truncate text-xs text-faint">{entry.detail}</span>
    </Link>
  );
}
