import { useNavigate } from "@tanstack/react-router";
import { useId, useState } from "react";
import { Button } from "@/components/Button";
import { CodeInput, Field, Input, Select } from "@/components/Fields";
import { Dialog } from "@/components/Overlay";
import { ErrorNote } from "@/components/States";
import { type Instance, useRetry, useSignal } from "@/data/instances";
import { parseJson } from "@/model/json";
import { hasEnded } from "@/model/status";
import { awaitedSignals } from "@/model/workflow/steps";

/** Sends a signal. The names that steps wait for are suggested. */
export function SignalDialog({ instance, name, onClose }: { instance: Instance; name: string | undefined; onClose: () => void }) {
  const awaited = awaitedSignals(instance.steps);
  const [signal, setSignal] = useState(name ?? awaited[0] ?? "");
  const [text, setText] = useState("{}");
  const send = useSignal(instance.id);
  const parsed = parseJson(text);
  const suggestions = useId();
  return (
    <Dialog
      open
      onClose={onClose}
      title="Send a signal"
      description="The first step that waits for the name receives the data. A signal that arrives before a step waits is kept."
      footer={
        <>
          <Button variant="ghost" onClick={onClose}>
            Cancel
          </Button>
          <Button
            variant="primary"
            busy={send.isPending}
            disabledReason={signal.trim() === "" ? "Enter the name of the signal" : parsed.ok ? undefined : "The data must be JSON"}
            onClick={() => parsed.ok && send.mutate({ name: signal.trim(), data: parsed.value }, { onSuccess: onClose })}
          >
            Send
          </Button>
        </>
      }
    >
      <div className="flex flex-col gap-4">
        <Field label="Name" hint={awaited.length > 0 ? `Steps wait for: ${awaited.join(", ")}` : "No step waits for a signal at the moment."}>
          {(id, note) => (
            <>
              <Input id={id} aria-describedby={note} list={suggestions} value={signal} onChange={(event) => setSignal(event.target.value)} />
              <datalist id={suggestions}>
                {awaited.map((one) => (
                  <option key={one} value={one} />
                ))}
              </datalist>
            </>
          )}
        </Field>
        <Field label="Data" hint="JSON" error={parsed.ok ? undefined : parsed.message}>
          {(id, note) => <CodeInput id={id} aria-describedby={note} rows={6} value={text} onChange={(event) => setText(event.target.value)} />}
        </Field>
        <ErrorNote error={send.error} />
      </div>
    </Dialog>
  );
}

type Scope = "failed" | "all-items" | "from" | "only";

const SCOPES: { value: Scope; label: string; hint: string }[] = [
  { value: "failed", label: "What failed or did not run", hint: "Of a failed list, only the items without a result." },
  { value: "all-items", label: "What failed or did not run, with all items", hint: "All items of a failed list run again." },
  { value: "from", label: "From one step", hint: "The step, and all that follow it." },
  { value: "only", label: "One step only", hint: "The results of all other steps are reused." },
];

/** Starts a new instance that reuses the results of the steps that do not run again. */
export function RetryDialog({ instance, step, onClose }: { instance: Instance; step: string | undefined; onClose: () => void }) {
  const names = Object.keys(instance.steps);
  const failed = Object.values(instance.steps).some((one) => one.status === "FAILED" || one.status === "PENDING");
  const ended = hasEnded(instance.status);
  const [scope, setScope] = useState<Scope>(!ended ? "only" : failed ? "failed" : "from");
  const [from, setFrom] = useState(step ?? names[0] ?? "");
  const [latest, setLatest] = useState(false);
  const retry = useRetry(instance.id);
  const navigate = useNavigate();
  const group = useId();

  function submit() {
    const target = { failed: {}, "all-items": { allItems: true }, from: { fromStep: from }, only: { onlyStep: from } }[scope];
    retry.mutate({ ...target, latest }, { onSuccess: (id) => void navigate({ to: "/instances/$id", params: { id } }) });
  }

  return (
    <Dialog
      open
      onClose={onClose}
      title="Run again"
      description="A new instance takes over the results of the steps that do not run again. This instance does not change."
      footer={
        <>
          <Button variant="ghost" onClick={onClose}>
            Cancel
          </Button>
          <Button variant="primary" busy={retry.isPending} onClick={submit}>
            Run again
          </Button>
        </>
      }
    >
      <div className="flex flex-col gap-4">
        <fieldset className="flex flex-col gap-2">
          <legend className="mb-1.5 text-[13px] font-medium">Steps that run</legend>
          {SCOPES.map(({ value, label, hint }) => {
            const impossible =
              !ended && value !== "only" ? "The instance must have ended." : !failed && isAboutFailures(value) ? "No step failed." : "";
            return (
              <label key={value} className="flex items-start gap-2.5">
                <input
                  type="radio"
                  name={group}
                  checked={scope === value}
                  disabled={impossible !== ""}
                  onChange={() => setScope(value)}
                  className="mt-0.5 size-4 accent-accent-line"
                />
                <span>
                  <span className={impossible ? "block text-faint" : "block"}>{label}</span>
                  <span className="block text-xs text-faint">{impossible || hint}</span>
                </span>
              </label>
            );
          })}
        </fieldset>
        {!isAboutFailures(scope) && (
          <Field label="Step">
            {(id) => (
              <Select id={id} value={from} onChange={(event) => setFrom(event.target.value)}>
                {names.map((name) => (
                  <option key={name}>{name}</option>
                ))}
              </Select>
            )}
          </Field>
        )}
        <label className="flex items-start gap-2.5">
          <input
            type="checkbox"
            checked={latest}
            onChange={(event) => setLatest(event.target.checked)}
            className="mt-0.5 size-4 accent-accent-line"
          />
          <span>With the current definition of the workflow, not the one of this instance</span>
        </label>
        <ErrorNote error={retry.error} />
      </div>
    </Dialog>
  );
}

function isAboutFailures(scope: Scope): boolean {
  return scope === "failed" || scope === "all-items";
}
