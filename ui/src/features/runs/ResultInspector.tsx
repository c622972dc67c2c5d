import { OutcomeBadge, RunStatusBadge } from "@/components/Badge";
import { JsonView } from "@/components/Code";
import { Facts } from "@/components/Fields";
import type { Run } from "@/data/runs";
import { hasEnded } from "@/model/status";

/** What the run returned to its caller. */
export function ResultInspector({ run }: { run: Run }) {
  const pins = Object.entries(run.pins);
  return (
    <div className="flex min-h-0 flex-1 flex-col gap-5 overflow-y-auto pb-6">
      <Facts
        items={[
          ["Status", <RunStatusBadge key="status" status={run.status} />],
          ["Reason", run.reason],
          ["Acts as", run.principal],
          ["Owner", run.owner],
          ["Correlation id", run.correlationId && <span className="font-mono text-xs">{run.correlationId}</span>],
        ]}
      />
      {run.responseText && (
        <section>
          <h3 className="mb-1.5 text-[13px] font-semibold">{hasEnded(run.status) ? "Answer" : "Last text of the model"}</h3>
          <p className="max-w-[80ch] whitespace-pre-wrap">{run.responseText}</p>
        </section>
      )}
      {run.outputContext !== undefined && run.outputContext !== null && (
        <section>
          <h3 className="mb-1.5 text-[13px] font-semibold">Answer as data</h3>
          <JsonView value={run.outputContext} label="answer" />
        </section>
      )}
      {run.decisions && run.decisions.length > 0 && (
        <section>
          <h3 className="mb-1.5 text-[13px] font-semibold">Decisions</h3>
          <ul className="flex flex-col gap-1.5">
            {run.decisions.map((decision) => (
              <li key={decision.callId} className="flex items-center gap-2">
                <OutcomeBadge name={typeof decision.outcome === "string" ? decision.outcome : JSON.stringify(decision.outcome)} />
                <span className="text-muted">{decision.decidedBy && `by ${decision.decidedBy}`}</span>
              </li>
            ))}
          </ul>
        </section>
      )}
      {run.toolCalls.length > 0 && (
        <section>
          <h3 className="mb-1.5 text-[13px] font-semibold">Tool calls</h3>
          <ul className="flex flex-col divide-y rounded-md border">
            {run.toolCalls.map((call) => (
              <li key={call.callId}>
                <details>
                  <summary className="flex cursor-pointer items-center justify-between gap-3 px-3 py-2">
                    <span className="min-w-0 truncate font-medium">{call.toolRef}</span>
                    <span className="shrink-0 text-xs text-faint">{call.status?.toLowerCase().replaceAll("_", " ") ?? "in progress"}</span>
                  </summary>
                  <div className="flex flex-col gap-2 px-3 pb-3">
                    <JsonView value={call.input} label="input" />
                    {call.errorMessage ? (
                      <p className="text-bad">{call.errorMessage}</p>
                    ) : (
                      <JsonView value={call.output ?? null} label="output" className="max-h-80" />
                    )}
                  </div>
                </details>
              </li>
            ))}
          </ul>
        </section>
      )}
      {pins.length > 0 && (
        <section>
          <h3 className="mb-1.5 text-[13px] font-semibold">Pins</h3>
          {pins.map(([name, envelope]) => (
            <details key={name} className="mb-1.5 rounded-md border px-3 py-2">
              <summary className="cursor-pointer font-medium">{name}</summary>
              <JsonView value={envelope} label={name} className="mt-2 max-h-80" />
            </details>
          ))}
        </section>
      )}
    </div>
  );
}
