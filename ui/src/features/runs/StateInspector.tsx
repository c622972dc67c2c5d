import { ErrorState, Loading } from "@/components/States";
import { cx } from "@/components/cx";
import { JsonView } from "@/components/Code";
import { Badge } from "@/components/Badge";
import { type Run, type RunState, useRunState } from "@/data/runs";
import { cost, count, duration, plural } from "@/model/format";

/** What the model saw at an entry, which tools it was offered, and what was left of the budget. */
export function StateInspector({ run, at }: { run: Run; at: number | undefined }) {
  const query = useRunState(run.id, at, true);
  if (query.isPending) return <Loading rows={5} />;
  if (query.isError) return <ErrorState error={query.error} onRetry={() => void query.refetch()} />;
  const state = query.data;
  return (
    <div className={cx("flex min-h-0 flex-1 flex-col gap-6 overflow-y-auto pb-6", query.isPlaceholderData && "opacity-60")}>
      <p className="text-muted">
        After entry <span className="font-medium text-text tabular">{state.at}</span>. Move the selection in the timeline to see any other state.
      </p>
      <Budget budget={state.budget} />
      {state.openCalls.length > 0 && (
        <section>
          <h3 className="mb-2 text-[13px] font-semibold">Open calls</h3>
          <ul className="flex flex-col gap-1.5">
            {state.openCalls.map((call) => (
              <li key={call.callId} className="flex items-center gap-2">
                <span className="font-medium">{call.toolRef}</span>
                <Badge tone="wait">{call.state}</Badge>
              </li>
            ))}
          </ul>
        </section>
      )}
      <section>
        <h3 className="mb-2 text-[13px] font-semibold">
          What the model sees <span className="font-normal text-faint">{plural(state.messageCount, "message")}</span>
        </h3>
        {state.firstMessage > 0 && <p className="mb-2 text-xs text-faint">{plural(state.firstMessage, "earlier message")} not shown</p>}
        <ol className="flex flex-col gap-2">
          {state.messages.map((message, index) => (
            <Message key={index} message={message} />
          ))}
        </ol>
      </section>
      <section>
        <h3 className="mb-2 text-[13px] font-semibold">
          Offered tools <span className="font-normal text-faint">{count(state.tools.length)}</span>
        </h3>
        <ul className="flex flex-col divide-y rounded-md border">
          {state.tools.map((tool) => (
            <li key={tool.name}>
              <details>
                <summary className="cursor-pointer px-3 py-2">
                  <span className="font-medium">{tool.name}</span>
                </summary>
                <div className="flex flex-col gap-2 px-3 pb-3">
                  <p className="whitespace-pre-wrap text-muted">{tool.description}</p>
                  <JsonView value={tool.inputSchema} label="input schema" className="max-h-80" />
                </div>
              </details>
            </li>
          ))}
        </ul>
      </section>
    </div>
  );
}

type Amount = RunState["budget"]["tokens"];

function Budget({ budget }: { budget: RunState["budget"] }) {
  return (
    <section>
      <h3 className="mb-2 text-[13px] font-semibold">Budget</h3>
      <dl className="grid gap-x-6 gap-y-2.5 sm:grid-cols-2">
        <Meter label="Model calls" amount={budget.iterations} format={count} />
        <Meter label="Tool calls" amount={budget.toolCalls} format={count} />
        <Meter label="Tokens" amount={budget.tokens} format={count} />
        <Meter label="Cost" amount={budget.costUsd} format={cost} />
        <Meter label="Active time" amount={budget.timeMs} format={duration} />
      </dl>
    </section>
  );
}

function Meter({ label, amount, format }: { label: string; amount: Amount; format: (value: number) => string }) {
  const limit = amount.limit ?? undefined;
  const share = limit ? Math.min(1, amount.used / limit) : 0;
  return (
    <div className="grid grid-cols-[1fr_auto] gap-x-2 gap-y-1 text-xs">
      <dt className="text-muted">{label}</dt>
      <dd className="tabular">
        {format(amount.used)}
        <span className="text-faint">{limit === undefined ? " · no limit" : ` of ${format(limit)}`}</span>
      </dd>
      <dd aria-hidden className="col-span-2 h-1 overflow-hidden rounded-full bg-neutral-soft">
        <div className={cx("h-full rounded-full", share > 0.9 ? "bg-span-bad" : "bg-accent-line")} style={{ width: `${share * 100}%` }} />
      </dd>
    </div>
  );
}

const ROLES: Record<string, string> = { system: "Instructions", user: "User", assistant: "Model", tool: "Tool" };

function Message({ message }: { message: RunState["messages"][number] }) {
  return (
    <li className={cx("rounded-md border px-3 py-2", message.isError && "border-bad/40 bg-bad-soft")}>
      <p className="mb-0.5 text-xs font-medium text-faint">
        {ROLES[message.role] ?? message.role}
        {message.toolRef && ` ${message.toolRef}`}
      </p>
      {message.content && (
        <p tabIndex={0} className="max-h-60 overflow-y-auto text-[13px] whitespace-pre-wrap [overflow-wrap:anywhere]">
          {message.content}
        </p>
      )}
      {message.toolCalls?.map((call) => (
        <p key={call.id} className="mt-1 font-mono text-xs text-muted [overflow-wrap:anywhere]">
          → {call.name} {JSON.stringify(call.input)}
        </p>
      ))}
    </li>
  );
}
