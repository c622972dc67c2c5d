import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { Badge } from "@/components/Badge";
import { Select } from "@/components/Fields";
import { Card, CardHeader } from "@/components/Page";
import { ErrorState, Loading } from "@/components/States";
import { Time } from "@/components/Time";
import { type Workflow, useVersionDiff, useWorkflowVersions } from "@/data/workflows";
import { lifecycle } from "@/model/tools";
import { DiffView } from "./DiffView";

/** The versions of a workflow and the difference between two of them. */
export function WorkflowVersions({ workflow }: { workflow: Workflow }) {
  const query = useWorkflowVersions(workflow.refName);
  const [from, setFrom] = useState<string>();
  const [to, setTo] = useState<string>();
  if (query.isPending) return <Loading />;
  if (query.isError) return <ErrorState error={query.error} onRetry={() => void query.refetch()} />;
  const versions = query.data.items;
  const names = versions.map((one) => one.version ?? "");
  const right = to ?? names[0];
  const left = from ?? names[1];
  const options = names.map((name) => <option key={name}>{name}</option>);
  return (
    <div className="grid grid-cols-1 items-start gap-4 lg:grid-cols-[minmax(0,1fr)_minmax(0,1.4fr)]">
      <Card label="Versions">
        <CardHeader title="Versions" count={versions.length} />
        <ul className="divide-y">
          {versions.map((one) => {
            const state = lifecycle(one.enabled === false ? "disabled" : (one.status ?? "active"));
            return (
              <li key={one.version}>
                <Link
                  to="/workflows/$ref"
                  params={{ ref: workflow.refName }}
                  search={{ version: one.version }}
                  aria-current={one.version === workflow.version}
                  className="flex items-center gap-3 px-4 py-2.5 -outline-offset-2 hover:bg-hover aria-[current=true]:bg-selected"
                >
                  <span className="font-medium tabular">{one.version}</span>
                  <Badge tone={state.tone}>{state.label}</Badge>
                  <span className="min-w-0 flex-1 truncate text-muted">{one.updatedBy}</span>
                  <Time at={one.updatedAt} className="text-xs text-faint" />
                </Link>
              </li>
            );
          })}
        </ul>
      </Card>
      <Card label="Difference">
        <CardHeader title="Difference" />
        <div className="flex flex-col gap-3 p-4">
          {versions.length < 2 ? (
            <p className="text-muted">There is one version. Save the definition with another version to add one; earlier versions stay.</p>
          ) : (
            <>
              <div className="flex flex-wrap items-center gap-2">
                <Select aria-label="Compare from" value={left} onChange={(event) => setFrom(event.target.value)} className="!w-auto">
                  {options}
                </Select>
                <span className="text-faint">→</span>
                <Select aria-label="Compare to" value={right} onChange={(event) => setTo(event.target.value)} className="!w-auto">
                  {options}
                </Select>
              </div>
              <Changes workflow={workflow} from={left} to={right} />
            </>
          )}
        </div>
      </Card>
    </div>
  );
}

function Changes({ workflow, from, to }: { workflow: Workflow; from: string | undefined; to: string | undefined }) {
  const query = useVersionDiff(workflow.refName, from, to);
  if (query.isPending) return <Loading rows={3} />;
  if (query.isError) return <ErrorState error={query.error} />;
  return <DiffView diff={query.data} />;
}
