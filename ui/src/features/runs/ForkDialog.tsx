import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { ApiError } from "@/api/client";
import { Button } from "@/components/Button";
import { CodeInput, Field, Input, TextArea } from "@/components/Fields";
import { Dialog } from "@/components/Overlay";
import { ErrorNote } from "@/components/States";
import { type Run, useForkRun } from "@/data/runs";
import type { EntrySummary } from "@/model/entries";
import { parseJson } from "@/model/json";

/** Starts a new run with the entries up to the selected one. */
export function ForkDialog({ run, entry, onClose }: { run: Run; entry: EntrySummary; onClose: () => void }) {
  const fork = useForkRun(run.id);
  const navigate = useNavigate();
  const [message, setMessage] = useState("");
  const [prompt, setPrompt] = useState("");
  const [model, setModel] = useState("");
  const [result, setResult] = useState("");
  const [sendWrites, setSendWrites] = useState(false);
  const parsed = parseJson(result);
  const endsCall = entry.kind === "call_ended";
  const isInvalid = result !== "" && !parsed.ok;
  const wouldWrite = fork.error instanceof ApiError && fork.error.status < 500;

  function submit() {
    const changes = {
      ...(message && { message }),
      ...(prompt && { prompt }),
      ...(model && { model }),
      ...(result && parsed.ok && { result: parsed.value }),
      ...(sendWrites && { sendWrites }),
    };
    fork.mutate({ at: entry.n, ...changes }, { onSuccess: ({ runId }) => void navigate({ to: "/runs/$id", params: { id: runId } }) });
  }

  return (
    <Dialog
      open
      onClose={onClose}
      title={`Fork at entry ${entry.n}`}
      description="A new run takes over the entries up to this one, without repeating or paying for them, and continues live from here."
      footer={
        <>
          <Button variant="ghost" onClick={onClose}>
            Cancel
          </Button>
          <Button variant="primary" busy={fork.isPending} disabled={isInvalid} onClick={submit}>
            Start the fork
          </Button>
        </>
      }
    >
      <div className="flex flex-col gap-4">
        {endsCall && (
          <Field
            label={`Another result of ${entry.toolRef}`}
            hint="JSON. The fork continues as if the call had returned this."
            error={isInvalid && !parsed.ok ? parsed.message : undefined}
          >
            {(id, note) => (
              <CodeInput
                id={id}
                aria-describedby={note}
                rows={4}
                value={result}
                onChange={(event) => setResult(event.target.value)}
                placeholder="as recorded"
              />
            )}
          </Field>
        )}
        <Field label="Another message of the user">
          {(id) => <TextArea id={id} rows={2} value={message} onChange={(event) => setMessage(event.target.value)} placeholder="as recorded" />}
        </Field>
        <Field label="Other instructions" hint="Needs the permission to write the agent.">
          {(id, note) => (
            <TextArea
              id={id}
              aria-describedby={note}
              rows={3}
              value={prompt}
              onChange={(event) => setPrompt(event.target.value)}
              placeholder="as recorded"
            />
          )}
        </Field>
        <Field label="Another model">
          {(id) => <Input id={id} value={model} onChange={(event) => setModel(event.target.value)} placeholder="as recorded, or provider/model" />}
        </Field>
        <ErrorNote error={fork.error} />
        {(wouldWrite || sendWrites) && (
          <label className="flex items-start gap-2">
            <input
              type="checkbox"
              checked={sendWrites}
              onChange={(event) => setSendWrites(event.target.checked)}
              className="mt-0.5 size-4 accent-accent-line"
            />
            <span>Send writes again that the original run made after this entry</span>
          </label>
        )}
      </div>
    </Dialog>
  );
}
