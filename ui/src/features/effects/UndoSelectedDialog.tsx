import { Link } from "@tanstack/react-router";
import { Check, CircleX, LoaderCircle, Undo2 } from "lucide-react";
import { useEffect, useMemo, useState } from "react";
import { Button } from "@/components/Button";
import { Dialog } from "@/components/Overlay";
import { type Effect, useUndoEffect } from "@/data/effects";
import { preview } from "@/model/entries";
import { plural, shortId } from "@/model/format";
import { undoOrder } from "@/model/undo";

type Step = { kind: "checking" } | { kind: "planned"; with: string } | { kind: "impossible"; why: string } | { kind: "started"; runId: string };

/** Checks what an undo of each selected write would call, then does it, the last write first. */
export function UndoSelectedDialog({ effects, onClose }: { effects: Effect[]; onClose: () => void }) {
  const [ordered] = useState(() => undoOrder(effects));
  const [steps, setSteps] = useState<Record<string, Step>>({});
  const [busy, setBusy] = useState(false);
  const { mutateAsync } = useUndoEffect();
  const set = (id: string, step: Step) => setSteps((previous) => ({ ...previous, [id]: step }));

  useEffect(() => {
    let stopped = false;
    async function check() {
      for (const effect of ordered) {
        const step = await planOf(() => mutateAsync({ id: effect.id, dryRun: true }));
        if (stopped) return;
        set(effect.id, step);
      }
    }
    void check();
    return () => {
      stopped = true;
    };
  }, [ordered, mutateAsync]);

  const possible = useMemo(() => ordered.filter((effect) => steps[effect.id]?.kind === "planned"), [ordered, steps]);
  const started = ordered.filter((effect) => steps[effect.id]?.kind === "started").length;

  async function undo() {
    setBusy(true);
    for (const effect of possible) set(effect.id, await startedBy(() => mutateAsync({ id: effect.id, dryRun: false })));
    setBusy(false);
  }

  return (
    <Dialog
      open
      onClose={onClose}
      title={`Undo ${plural(effects.length, "write")}`}
      description="This is a dry run: nothing was sent yet. Each undo is a new run that calls the compensating tool."
      footer={
        <>
          <Button variant="ghost" onClick={onClose}>
            {started > 0 ? "Close" : "Cancel"}
          </Button>
          {possible.length > 0 && (
            <Button variant="primary" busy={busy} onClick={() => void undo()}>
              Undo {plural(possible.length, "write")} now
            </Button>
          )}
        </>
      }
    >
      <ol className="flex flex-col divide-y rounded-md border">
        {ordered.map((effect) => (
          <li key={effect.id} className="flex items-start gap-3 px-3 py-2.5">
            <StepIcon step={steps[effect.id]} />
            <div className="min-w-0">
              <p className="font-medium">{effect.toolRef}</p>
              <p className="truncate font-mono text-xs text-faint">{preview(effect.input)}</p>
              <StepText step={steps[effect.id]} />
            </div>
          </li>
        ))}
      </ol>
    </Dialog>
  );
}

type Undo = Awaited<ReturnType<ReturnType<typeof useUndoEffect>["mutateAsync"]>>;

async function planOf(request: () => Promise<Undo>): Promise<Step> {
  try {
    const plan = await request();
    if (!("steps" in plan)) return { kind: "impossible", why: "The server returned no plan." };
    const [first] = plan.steps;
    return first ? { kind: "planned", with: first.with } : { kind: "impossible", why: plan.kept[0]?.why ?? "Nothing is left to undo." };
  } catch (error) {
    return { kind: "impossible", why: error instanceof Error ? error.message : String(error) };
  }
}

async function startedBy(request: () => Promise<Undo>): Promise<Step> {
  try {
    const result = await request();
    return "runId" in result ? { kind: "started", runId: result.runId } : { kind: "impossible", why: "The server started no run." };
  } catch (error) {
    return { kind: "impossible", why: error instanceof Error ? error.message : String(error) };
  }
}

function StepIcon({ step }: { step: Step | undefined }) {
  if (step?.kind === "planned") return <Undo2 size={16} aria-hidden className="mt-0.5 shrink-0 text-ok" />;
  if (step?.kind === "started") return <Check size={16} aria-hidden className="mt-0.5 shrink-0 text-ok" />;
  if (step?.kind === "impossible") return <CircleX size={16} aria-hidden className="mt-0.5 shrink-0 text-bad" />;
  return <LoaderCircle size={16} aria-hidden className="mt-0.5 shrink-0 animate-spin text-faint" />;
}

function StepText({ step }: { step: Step | undefined }) {
  if (step?.kind === "planned") return <p className="text-xs text-muted">will be undone with {step.with}</p>;
  if (step?.kind === "impossible") return <p className="text-xs text-bad">{step.why}</p>;
  if (step?.kind === "started") {
    return (
      <p className="text-xs text-muted">
        undone by{" "}
        <Link to="/runs/$id" params={{ id: step.runId }} className="font-mono underline underline-offset-2">
          {shortId(step.runId)}
        </Link>
      </p>
    );
  }
  return <p className="text-xs text-faint">checking…</p>;
}
