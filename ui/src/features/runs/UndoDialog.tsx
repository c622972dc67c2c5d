import { useNavigate } from "@tanstack/react-router";
import { CircleX, Undo2 } from "lucide-react";
import { useEffect, useState } from "react";
import { Button } from "@/components/Button";
import { Dialog } from "@/components/Overlay";
import { ErrorNote, Loading } from "@/components/States";
import { type Run, useUndoRun } from "@/data/runs";
import { plural } from "@/model/format";

/** Shows what an undo of the run would call, then does it. */
export function UndoDialog({ run, onClose }: { run: Run; onClose: () => void }) {
  const plan = useUndoRun(run.id);
  const undo = useUndoRun(run.id);
  const navigate = useNavigate();
  const [partial, setPartial] = useState(false);
  const { mutate } = plan;
  useEffect(() => mutate({ dryRun: true, partial: true }), [mutate]);
  const steps = plan.data && "steps" in plan.data ? plan.data.steps : [];
  const kept = plan.data && "kept" in plan.data ? plan.data.kept : [];
  const submit = () =>
    undo.mutate({ partial }, { onSuccess: (started) => "runId" in started && void navigate({ to: "/runs/$id", params: { id: started.runId } }) });
  return (
    <Dialog
      open
      onClose={onClose}
      title="Undo the writes of this run"
      description="A new run calls the compensating tool of each write, the last write first."
      footer={
        <>
          <Button variant="ghost" onClick={onClose}>
            Cancel
          </Button>
          <Button
            variant="primary"
            busy={undo.isPending}
            disabledReason={
              steps.length === 0 ? "No write of this run can be undone" : kept.length > 0 && !partial ? "Confirm that some writes stay" : undefined
            }
            onClick={submit}
          >
            Undo {plural(steps.length, "write")}
          </Button>
        </>
      }
    >
      {plan.isPending && <Loading rows={3} />}
      <ErrorNote error={plan.error ?? undo.error} />
      <ul className="flex flex-col gap-2">
        {steps.map((step) => (
          <li key={step.callId} className="flex items-center gap-2">
            <Undo2 size={15} className="text-ok" aria-hidden />
            <span>
              <b className="font-medium">{step.tool}</b> is undone with <b className="font-medium">{step.with}</b>
            </span>
          </li>
        ))}
        {kept.map((call) => (
          <li key={call.callId} className="flex items-start gap-2">
            <CircleX size={15} className="mt-0.5 shrink-0 text-bad" aria-hidden />
            <span>
              <b className="font-medium">{call.tool}</b> stays: {call.why}
            </span>
          </li>
        ))}
      </ul>
      {plan.isSuccess && steps.length + kept.length === 0 && <p className="text-muted">This run wrote nothing.</p>}
      {steps.length > 0 && kept.length > 0 && (
        <label className="mt-4 flex items-center gap-2">
          <input type="checkbox" checked={partial} onChange={(event) => setPartial(event.target.checked)} className="size-4 accent-accent-line" />
          Undo the others although these stay
        </label>
      )}
    </Dialog>
  );
}
