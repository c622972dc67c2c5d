import { Link } from "@tanstack/react-router";
import { Brain, Check, CircleX, LoaderCircle, MonitorSmartphone, ShieldQuestion } from "lucide-react";
import { RunStatusBadge } from "@/components/Badge";
import { ButtonLink } from "@/components/Button";
import { JsonView } from "@/components/Code";
import { cx } from "@/components/cx";
import { preview } from "@/model/entries";
import { cost, count, duration } from "@/model/format";
import type { Call, Exchange, Transcript } from "@/model/transcript";
import { ActionForm } from "../inbox/ClientActions";
import { InlineApproval } from "../inbox/InlineApproval";

/** A message of the user and everything that the agent did because of it. */
export function ExchangeView({ agentRef, exchange }: { agentRef: string; exchange: Exchange }) {
  const { transcript } = exchange;
  const isQuiet = !transcript.ended && transcript.steps.every((step) => step.text === "" && step.calls.length === 0);
  return (
    <div className="flex flex-col gap-4">
      {exchange.userMessage && (
        <div className="max-w-[85%] self-end rounded-xl rounded-br-sm bg-neutral-soft px-3.5 py-2 whitespace-pre-wrap [overflow-wrap:anywhere]">
          {exchange.userMessage}
        </div>
      )}
      {transcript.steps.map((step) => (
        <div key={step.iteration} className="flex flex-col gap-2.5">
          {step.thinking && <Thinking text={step.thinking} />}
          {step.text && <p className="max-w-[72ch] leading-relaxed whitespace-pre-wrap [overflow-wrap:anywhere]">{step.text}</p>}
          {step.calls.length > 0 && (
            <ul className="flex flex-col divide-y overflow-hidden rounded-lg border">
              {step.calls.map((call) => (
                <CallRow key={call.callId} call={call} agentRef={agentRef} runId={transcript.runId} />
              ))}
            </ul>
          )}
        </div>
      ))}
      {isQuiet && (
        <p role="status" className="flex items-center gap-2 text-faint">
          <LoaderCircle size={15} aria-hidden className="animate-spin" /> The model is working…
        </p>
      )}
      {transcript.waitingChild && (
        <div className="flex items-center justify-between gap-3 rounded-lg bg-wait-soft px-3 py-2 text-wait">
          A child run waits for a decision.
          <ButtonLink size="sm" to="/inbox">
            Open the inbox
          </ButtonLink>
        </div>
      )}
      <Footer transcript={transcript} />
    </div>
  );
}

function Thinking({ text }: { text: string }) {
  return (
    <details className="text-muted">
      <summary className="flex cursor-pointer items-center gap-1.5 text-xs">
        <Brain size={13} aria-hidden /> Thinking
      </summary>
      <p className="mt-1 border-l-2 pl-3 text-[13px] whitespace-pre-wrap">{text}</p>
    </details>
  );
}

function Footer({ transcript }: { transcript: Transcript }) {
  if (!transcript.ended || !transcript.status) return null;
  const failed = transcript.status !== "COMPLETED";
  return (
    <div className="flex flex-wrap items-center gap-2 text-xs text-faint tabular">
      {failed && <RunStatusBadge status={transcript.status} />}
      {failed && transcript.error && <span className="text-bad">{transcript.error}</span>}
      {transcript.tokens > 0 && <span>{count(transcript.tokens)} tokens</span>}
      {transcript.costUsd > 0 && <span>{cost(transcript.costUsd)}</span>}
      {transcript.runId && (
        <Link to="/runs/$id" params={{ id: transcript.runId }} className="underline underline-offset-2">
          Inspect the run
        </Link>
      )}
    </div>
  );
}

function CallRow({ call, agentRef, runId }: { call: Call; agentRef: string; runId: string | undefined }) {
  const waiting = call.state === "approval" || call.state === "client";
  return (
    <li>
      <details open={waiting || undefined}>
        <summary className={cx("flex cursor-pointer list-none items-center gap-2.5 px-3 py-2 hover:bg-hover", waiting && "bg-wait-soft")}>
          <CallIcon call={call} />
          <span className="shrink-0 font-medium">{call.toolRef}</span>
          <span className="min-w-0 flex-1 truncate font-mono text-xs text-faint">{call.error ?? preview(call.input)}</span>
          {call.durationMs > 0 && <span className="shrink-0 text-xs text-faint tabular">{duration(call.durationMs)}</span>}
        </summary>
        <div className="flex flex-col gap-2 border-t bg-surface p-3">
          {call.approval && <InlineApproval approval={call.approval} reader="the model" />}
          {call.action && runId && (
            <ActionForm
              action={{ ...call.action, token: "", preparedPayload: call.action.preparedPayload, schema: call.action.schema, runId, agentRef }}
              onDone={() => undefined}
            />
          )}
          {!waiting && (
            <>
              <JsonView value={call.input ?? null} label="input" />
              {call.error ? (
                <p className="text-bad [overflow-wrap:anywhere]">{call.error}</p>
              ) : (
                call.output !== undefined && <JsonView value={call.output} label="output" className="max-h-72" />
              )}
            </>
          )}
        </div>
      </details>
    </li>
  );
}

function CallIcon({ call }: { call: Call }) {
  const shared = { size: 15, className: "shrink-0" };
  if (call.state === "approval") return <ShieldQuestion {...shared} className="shrink-0 text-wait" aria-label="needs an approval" />;
  if (call.state === "client") return <MonitorSmartphone {...shared} className="shrink-0 text-wait" aria-label="waits for the client" />;
  if (call.state === "done") return <Check {...shared} className="shrink-0 text-ok" aria-label="done" />;
  if (call.state === "failed") return <CircleX {...shared} className="shrink-0 text-bad" aria-label="failed" />;
  return <LoaderCircle {...shared} className="shrink-0 animate-spin text-active" aria-label="running" />;
}
