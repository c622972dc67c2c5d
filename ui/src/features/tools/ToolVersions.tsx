import { useState } from "react";
import { Badge } from "@/components/Badge";
import { ChangeList } from "@/components/ChangeList";
import { Select } from "@/components/Fields";
import { Card, CardHeader } from "@/components/Page";
import { ErrorState, Loading } from "@/components/States";
import { Time } from "@/components/Time";
import { type Tool, useToolDiff, useToolRevisions } from "@/data/tools";

/** The revisions of a tool and the difference between two of them. */
export function ToolVersions({ tool }: { tool: Tool }) {
  const query = useToolRevisions(tool.refName);
  const revisions = query.data?.items ?? [];
  const [from, setFrom] = useState<number>();
  const [to, setTo] = useState<number>();
  const newest = revisions[0]?.revision;
  const right = to ?? newest;
  const left = from ?? revisions[1]?.revision;
  if (query.isPending) return <Loading />;
  if (query.isError) return <ErrorState error={query.error} onRetry={() => void query.refetch()} />;
  const options = revisions.map((one) => (
    <option key={one.revision} value={one.revision}>
      {`Revision ${one.revision}${one.version ? `, ${one.version}` : ""}`}
    </option>
  ));
  return (
    <div className="grid grid-cols-1 items-start gap-4 lg:grid-cols-[minmax(0,1fr)_minmax(0,1.4fr)]">
      <Card label="Revisions">
        <CardHeader title="Revisions" count={revisions.length} />
        <ul className="divide-y">
          {revisions.map((one) => (
            <li key={one.revision} className="flex items-center gap-3 px-4 py-2.5">
              <span className="w-8 font-medium tabular">{one.revision}</span>
              <Badge>{one.version ?? "–"}</Badge>
              <span className="min-w-0 flex-1 truncate text-muted">{one.updatedBy}</span>
              <Time at={one.updatedAt} className="text-xs text-faint" />
            </li>
          ))}
        </ul>
      </Card>
      <Card label="Difference">
        <CardHeader title="Difference" />
        <div className="flex flex-col gap-3 p-4">
          {revisions.length < 2 ? (
            <p className="text-muted">There is one revision. Each change of the definition adds one, and all of them stay readable.</p>
          ) : (
            <>
              <div className="flex flex-wrap items-center gap-2">
                <Select aria-label="Compare from" value={left} onChange={(event) => setFrom(Number(event.target.value))} className="!w-auto">
                  {options}
                </Select>
                <span className="text-faint">→</span>
                <Select aria-label="Compare to" value={right} onChange={(event) => setTo(Number(event.target.value))} className="!w-auto">
                  {options}
                </Select>
              </div>
              <Changes tool={tool} from={left} to={right} />
            </>
          )}
        </div>
      </Card>
    </div>
  );
}

function Changes({ tool, from, to }: { tool: Tool; from: number | undefined; to: number | undefined }) {
  const query = useToolDiff(tool.refName, from, to);
  if (query.isPending) return <Loading rows={3} />;
  if (query.isError) return <ErrorState error={query.error} />;
  if (query.data.changes.length === 0) return <p className="text-muted">These revisions are equal.</p>;
  const changes = query.data.changes.map(({ path, before, after }) => ({ path, before: before ?? undefined, after: after ?? undefined }));
  return <ChangeList changes={changes} />;
}
