import { Link } from "@tanstack/react-router";
import { type ReactNode, useState } from "react";
import { StatusIconMark, StatusMark } from "@/components/Badge";
import { Button } from "@/components/Button";
import { JsonView } from "@/components/Code";
import { cx } from "@/components/cx";
import { Facts } from "@/components/Fields";
import { Code } from "@/components/Labels";
import { RichText } from "@/components/RichText";
import { ErrorNote, Loading } from "@/components/States";
import { Time } from "@/components/Time";
import { useEntry, useJournal, useRun } from "@/data/runs";
import type { Instance } from "@/data/instances";
import type { WorkflowStep } from "@/data/workflows";
import { preview } from "@/model/entries";
import { cost, duration } from "@/model/format";
import { type Call, type ItemState, type StepState, attemptsOf, itemProgress, stepStatus } from "@/model/workflow/steps";
import { InlineApproval } from "../inbox/InlineApproval";
import { StepDefinition } from "./StepDefinition";
import { StepTime } from "./StepList";

interface StepInspectorProps {
  instance: Instance;
  name: string;
  state: StepState;
  /** The step in the definition that the instance executes. */
  step: WorkflowStep | undefined;
  /** The selected item of a `forEach`. */
  item: number | undefined;
  onItem: (item: number | undefined) => void;
  onSelect: (step: string) => void;
}

/** One step of an instance: its status, its error, its items, its calls, and its definition. */
export function StepInspector({ instance, name, state, step, item, onItem, onSelect }: StepInspectorProps) {
  const selected = item === undefined ? undefined : state.items?.[item];
  return (
    <div className="flex flex-col gap-5 p-4">
      <header>
        <div className="flex flex-wrap items-center gap-2">
          <h2 className="text-[15px] font-semibold">{name}</h2>
          <StatusMark info={stepStatus(state.status)} />
          {state.reused && <span className="text-xs text-faint">result of the earlier instance</span>}
        </div>
        {step?.description && (
          <p className="mt-1 text-muted">
            <RichText text={step.description} />
          </p>
        )}
      </header>
      <Facts
        items={[
          ["Started", state.startedAt && <Time key="start" at={state.startedAt} />],
          ["Duration", state.startedAt && <StepTime key="time" state={state} />],
          ["Calls", state.attempts > 1 ? state.attempts : undefined],
          ["Waits for signal", state.status === "WAITING" && state.signal ? <Code key="signal">{state.signal}</Code> : undefined],
          ["Continues", state.wakesAt && <Time key="wakes" at={state.wakesAt} />],
        ]}
      />
      {selected ? (
        <>
          <div className="flex items-center justify-between border-t pt-4">
            <h3 className="flex items-center gap-2 font-semibold">
              Item {selected.index} <StatusMark info={stepStatus(selected.status)} />
            </h3>
            <Button size="sm" onClick={() => onItem(undefined)}>
              All items
            </Button>
          </div>
          <Outcome instance={instance} target={selected} />
        </>
      ) : (
        <>
          <Outcome instance={instance} target={state}>
            {state.items && <Items items={state.items} progress={itemProgress(state) ?? ""} onItem={onItem} />}
          </Outcome>
        </>
      )}
      {step && (
        <details className="border-t pt-4">
          <summary className="cursor-pointer text-[13px] font-semibold">Definition of the step</summary>
          <div className="mt-3">
            <StepDefinition step={step} onSelect={onSelect} />
          </div>
        </details>
      )}
    </div>
  );
}

interface OutcomeProps {
  instance: Instance;
  target: StepState | ItemState;
  /** What a step with items shows instead of its calls. */
  children?: ReactNode;
}

/** The error or the output, and the calls that led to it. */
function Outcome({ instance, target, children }: OutcomeProps) {
  const { error } = target;
  const approval = instance.approvals.find((one) => one.callId === target.callId);
  return (
    <>
      {approval && (
        <section aria-label="Approval" className="rounded-md border border-wait/50 p-3">
          <h3 className="mb-2 text-[13px] font-semibold text-wait">A person must decide</h3>
          <InlineApproval approval={approval} reader="the workflow" />
        </section>
      )}
      {error && (
        <section aria-label="Error" className="rounded-md bg-bad-soft px-3 py-2 text-bad">
          <p className="font-mono text-xs font-medium">{error.code}</p>
          <p className="[overflow-wrap:anywhere]">
            <RichText text={error.message} />
          </p>
          {error.details != null && (
            <details className="mt-1">
              <summary className="cursor-pointer text-xs">Details</summary>
              <JsonView value={error.details} label="details of the error" className="mt-1.5 max-h-64 text-text" />
            </details>
          )}
        </section>
      )}
      {children ?? (target.callId && <Calls instance={instance} target={target} />)}
      {target.output !== null && target.output !== undefined && (
        <section>
          <h3 className="mb-1.5 text-[13px] font-semibold">Output</h3>
          <JsonView value={target.output} label="output" className="max-h-96" />
        </section>
      )}
    </>
  );
}

/** The items of a `forEach`, each with its own status. */
function Items({ items, progress, onItem }: { items: ItemState[]; progress: string; onItem: (item: number) => void }) {
  const [all, setAll] = useState(false);
  const shown = all ? items : items.slice(0, 100);
  return (
    <section>
      <h3 className="mb-1.5 text-[13px] font-semibold">
        Items <span className="font-normal text-faint tabular">{progress}</span>
      </h3>
      <ul aria-label="Items" className="divide-y overflow-hidden rounded-md border">
        {shown.map((item) => (
          <li key={item.index}>
            <button
              type="button"
              onClick={() => onItem(item.index)}
              className="flex w-full items-center gap-2.5 px-3 py-1.5 text-left -outline-offset-2 hover:bg-hover"
            >
              <StatusIconMark info={stepStatus(item.status)} />
              <span className="w-8 shrink-0 text-right text-xs text-faint tabular">{item.index}</span>
              <span className={cx("min-w-0 flex-1 truncate text-xs", item.error ? "text-bad" : "font-mono text-muted")}>
                {item.error ? `${item.error.code}: ${item.error.message}` : preview(item.output)}
              </span>
              {item.attempts > 1 && <span className="shrink-0 text-xs text-faint tabular">{item.attempts} attempts</span>}
            </button>
          </li>
        ))}
      </ul>
      {items.length > shown.length && (
        <Button size="sm" variant="ghost" className="mt-1" onClick={() => setAll(true)}>
          Show all {items.length} items
        </Button>
      )}
    </section>
  );
}

/** The attempts, oldest first, each with its envelope in the journal. */
function Calls({ instance, target }: { instance: Instance; target: { callId?: string | null | undefined; attempts: number } }) {
  const run = useRun(instance.id);
  const journal = useJournal(instance.id, instance.status);
  if (run.isPending) return <Loading rows={2} />;
  if (run.isError) return <ErrorNote error={run.error} />;
  const calls = attemptsOf(target, run.data.toolCalls, instance.steps);
  const entryOf = (call: Call) => journal.data?.find((entry) => entry.callId === call.callId && entry.kind === "call_ended")?.n;
  const input = calls.at(-1)?.input;
  return (
    <>
      {input !== undefined && input !== null && (
        <section>
          <h3 className="mb-1.5 text-[13px] font-semibold">Input</h3>
          <JsonView value={input} label="input" className="max-h-72" />
        </section>
      )}
      {calls.length > 0 && (
        <section>
          <h3 className="mb-1.5 text-[13px] font-semibold">{calls.length > 1 ? "Attempts" : "Call"}</h3>
          <ol className="divide-y rounded-md border">
            {calls.map((call, index) => (
              <Attempt key={call.callId} instance={instance} call={call} number={index + 1} entry={entryOf(call)} />
            ))}
          </ol>
        </section>
      )}
    </>
  );
}

interface AttemptProps {
  instance: Instance;
  call: Call;
  number: number;
  /** The journal entry with the envelope, or undefined while the call is in progress. */
  entry: number | undefined;
}

function Attempt({ instance, call, number, entry }: AttemptProps) {
  const [open, setOpen] = useState(false);
  return (
    <li>
      <details onToggle={(event) => setOpen(event.currentTarget.open)}>
        <summary className="flex cursor-pointer items-center gap-2.5 px-3 py-1.5 text-[13px]">
          <span className="text-xs text-faint tabular">{number}</span>
          <span className="shrink-0 font-medium">{call.toolRef}</span>
          <span className={cx("min-w-0 flex-1 truncate text-xs", call.errorMessage ? "text-bad" : "text-faint")}>
            {call.errorMessage ?? (entry === undefined ? "in progress" : "succeeded")}
          </span>
          {entry !== undefined && <span className="shrink-0 text-xs text-faint tabular">{duration(call.durationMs)}</span>}
        </summary>
        {open && entry !== undefined && <Envelope runId={instance.id} entry={entry} />}
      </details>
    </li>
  );
}

function Envelope({ runId, entry }: { runId: string; entry: number }) {
  const query = useEntry(runId, entry);
  const envelope = query.data?.body.envelope as { metadata?: { child_run?: { run_id?: string }; cost_usd?: number } } | undefined;
  const child = envelope?.metadata?.child_run?.run_id;
  return (
    <div className="flex flex-col gap-2 border-t p-3">
      <div className="flex flex-wrap gap-x-4 text-xs">
        <Link to="/runs/$id" params={{ id: runId }} search={{ at: entry }} className="underline underline-offset-2">
          Entry {entry} in the run microscope
        </Link>
        {child && (
          <Link to="/runs/$id" params={{ id: child }} className="underline underline-offset-2">
            Child run
          </Link>
        )}
        {envelope?.metadata?.cost_usd ? <span className="text-faint">{cost(envelope.metadata.cost_usd)}</span> : null}
      </div>
      {query.isPending && <Loading rows={2} />}
      <ErrorNote error={query.error} />
      {envelope && <JsonView value={envelope} label="envelope" className="max-h-96" />}
    </div>
  );
}
