import { useState } from "react";
import { RunStatusBadge } from "@/components/Badge";
import { Button } from "@/components/Button";
import { Field, Input } from "@/components/Fields";
import { Dialog } from "@/components/Overlay";
import { Loading } from "@/components/States";
import { Time } from "@/components/Time";
import { type Run, useRecentRuns } from "@/data/runs";
import { firstLine } from "@/model/format";

/** Chooses the run to compare with: another one of the same agent or tool, or any by its id. */
export function CompareDialog({ run, onClose, onChoose }: { run: Run; onClose: () => void; onChoose: (other: string) => void }) {
  const [id, setId] = useState("");
  const query = useRecentRuns(run.kind === "agent" ? { agentRef: run.subject } : { calledToolRef: run.subject }, 30);
  const others = query.data?.items.filter((other) => other.id !== run.id) ?? [];
  return (
    <Dialog open onClose={onClose} title="Compare with another run" description={`Other runs of ${run.subject}, the newest first.`}>
      <form
        className="mb-4 flex items-end gap-2"
        onSubmit={(event) => {
          event.preventDefault();
          onChoose(id.trim());
        }}
      >
        <div className="flex-1">
          <Field label="Id of a run">
            {(field) => <Input id={field} value={id} onChange={(event) => setId(event.target.value)} placeholder="run_…" className="font-mono" />}
          </Field>
        </div>
        <Button type="submit" disabled={!id.trim().startsWith("run_")}>
          Compare
        </Button>
      </form>
      {query.isPending && <Loading rows={4} />}
      {query.isSuccess && others.length === 0 && <p className="text-muted">There is no other run of {run.subject}.</p>}
      <ul className="-mx-2">
        {others.map((other) => (
          <li key={other.id}>
            <button
              type="button"
              onClick={() => onChoose(other.id)}
              className="flex w-full items-center gap-3 rounded-md px-2 py-2 text-left hover:bg-hover"
            >
              <span className="min-w-0 flex-1 truncate font-medium">{firstLine(other.userMessage ?? other.subject)}</span>
              <RunStatusBadge status={other.status} />
              <Time at={other.startedAt} className="w-20 shrink-0 text-right text-xs text-faint" />
            </button>
          </li>
        ))}
      </ul>
    </Dialog>
  );
}
