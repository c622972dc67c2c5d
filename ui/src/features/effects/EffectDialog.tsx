import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { OutcomeBadge } from "@/components/Badge";
import { Button } from "@/components/Button";
import { Facts, Field, TextArea } from "@/components/Fields";
import { Dialog } from "@/components/Overlay";
import { RichText } from "@/components/RichText";
import { ErrorNote } from "@/components/States";
import { type Effect, useResolveEffect } from "@/data/effects";
import type { Json } from "@/model/diff";
import { exactTime, shortId } from "@/model/format";
import { Arguments } from "../inbox/Arguments";

export function EffectDialog({ effect, onClose }: { effect: Effect; onClose: () => void }) {
  return (
    <Dialog
      open
      onClose={onClose}
      width="lg"
      title={`${effect.toolRef} ${effect.version}`}
      description={effect.agentRef ? `Written by the agent ${effect.agentRef}` : "Written by a direct call or a workflow"}
    >
      <div className="flex flex-col gap-5">
        <Facts
          columns={2}
          items={[
            ["Outcome", <OutcomeBadge key="outcome" name={effect.outcome} />],
            ["Acts as", effect.principal],
            ["Approved by", effect.approvedBy],
            ["Started", exactTime(effect.startedAt)],
            ["Ended", exactTime(effect.endedAt)],
            ["Undone with", effect.compensateToolRef],
            ["Run", <RunLink key="run" id={effect.runId} />],
            ["Undone by", effect.undone && <RunLink id={effect.undone.runId} />],
            ["Resolved by", effect.resolution?.resolvedBy],
            ["Note", effect.resolution?.note],
          ]}
        />
        {effect.error && (
          <p className="rounded-md bg-bad-soft px-3 py-2 text-bad [overflow-wrap:anywhere]">
            <RichText text={effect.error} />
          </p>
        )}
        <section>
          <h3 className="mb-2 text-[13px] font-semibold">Exact arguments</h3>
          <Arguments input={effect.input as Json} previous={undefined} />
        </section>
        {effect.outcome === "unknown" && <ResolveForm effect={effect} onDone={onClose} />}
      </div>
    </Dialog>
  );
}

function RunLink({ id }: { id: string }) {
  return (
    <Link to="/runs/$id" params={{ id }} className="font-mono text-xs underline underline-offset-2">
      {shortId(id)}
    </Link>
  );
}

/** A person who has checked the external system says what happened. */
function ResolveForm({ effect, onDone }: { effect: Effect; onDone: () => void }) {
  const resolve = useResolveEffect();
  const [note, setNote] = useState("");
  const submit = (outcome: "done" | "failed") => resolve.mutate({ id: effect.id, outcome, note: note.trim() || undefined }, { onSuccess: onDone });
  return (
    <section className="rounded-lg border border-line-strong p-4">
      <h3 className="font-semibold">Did this write take effect?</h3>
      <p className="mt-0.5 mb-3 text-muted">
        The connection or the server was lost during the write. Look it up in the other system, then record what you found. Nothing is sent.
      </p>
      <Field label="What you found">
        {(id) => <TextArea id={id} rows={2} value={note} onChange={(event) => setNote(event.target.value)} placeholder="optional" />}
      </Field>
      <div className="mt-3 flex flex-wrap gap-2">
        <Button busy={resolve.isPending} onClick={() => submit("done")}>
          It took effect
        </Button>
        <Button busy={resolve.isPending} onClick={() => submit("failed")}>
          It did not
        </Button>
      </div>
      {resolve.isError && (
        <div className="mt-3">
          <ErrorNote error={resolve.error} />
        </div>
      )}
    </section>
  );
}
