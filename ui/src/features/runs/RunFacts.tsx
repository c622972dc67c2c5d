import { Link } from "@tanstack/react-router";
import { GitFork, Link2, Link2Off } from "lucide-react";
import type { ReactNode } from "react";
import { ButtonLink } from "@/components/Button";
import { CopyButton } from "@/components/Copy";
import { Hint } from "@/components/Hint";
import { SubjectLink } from "@/components/SubjectLink";
import { Warnings } from "@/components/States";
import { Time, useNow } from "@/components/Time";
import { type Run, type RunNode, useRunTree, useVerification } from "@/data/runs";
import { approvalTitle, isWorkflowStep } from "@/model/approval";
import { cost, count, duration, plural, shortId } from "@/model/format";
import { hasEnded, hasFailed, runStatus } from "@/model/status";

/** The line of figures below the title, and what needs attention. */
export function RunFacts({ run }: { run: Run }) {
  const tree = useRunTree(run.id).data;
  const total = tree?.root;
  return (
    <div className="pb-4">
      <div className="flex flex-wrap items-center gap-x-5 gap-y-1 text-[13px] text-muted">
        <Subject run={run} />
        <Fact label="Started">
          <Time at={run.startedAt} />
        </Fact>
        <Fact label="Duration">
          {run.endedAt ? duration(Date.parse(run.endedAt) - Date.parse(run.startedAt)) : <Elapsed since={run.startedAt} />}
        </Fact>
        <Fact label="Model calls">{count(run.iterationsUsed)}</Fact>
        <Fact label="Tokens">{count(total?.totalTokens ?? run.tokensUsed)}</Fact>
        <Fact label="Cost">{cost(total?.totalCostUsd ?? run.costUsd)}</Fact>
        {run.durable && <span>durable</span>}
        <span className="flex items-center font-mono text-xs text-faint">
          {shortId(run.id)}
          <CopyButton text={run.id} label="Copy the id of the run" />
          <ChainMark run={run} />
        </span>
      </div>
      <Relations run={run} root={total} />
      <Attention run={run} />
      <Warnings items={run.warnings} />
    </div>
  );
}

function Subject({ run }: { run: Run }) {
  return (
    <SubjectLink kind={run.kind} subject={run.subject} className="font-medium text-text hover:underline">
      {run.subject}
      {run.agentVersion && <span className="ml-1 font-normal text-faint">{run.agentVersion}</span>}
    </SubjectLink>
  );
}

function Fact({ label, children }: { label: string; children: ReactNode }) {
  return (
    <span className="whitespace-nowrap tabular">
      <span className="text-faint">{label}</span> {children}
    </span>
  );
}

function Elapsed({ since }: { since: string }) {
  return <>{duration(Math.max(0, useNow() - Date.parse(since)))}</>;
}

function ChainMark({ run }: { run: Run }) {
  const verification = useVerification(run.id, hasEnded(run.status)).data;
  if (!verification) return null;
  const text = verification.intact
    ? `The hash chain of ${plural(verification.entries, "entry", "entries")} is intact. Head: ${verification.headHash.slice(0, 16)}…`
    : `The journal was changed at entry ${verification.brokenAt}: ${verification.why}`;
  const Icon = verification.intact ? Link2 : Link2Off;
  return (
    <Hint text={text}>
      <span tabIndex={0} role="img" aria-label={text} className={verification.intact ? "p-1 text-ok" : "p-1 text-bad"}>
        <Icon size={15} aria-hidden />
      </span>
    </Hint>
  );
}

/** The runs above and below this run, and its origin. */
function Relations({ run, root }: { run: Run; root: RunNode | undefined }) {
  const children = root?.children ?? [];
  if (!run.parentRunId && !run.forkedFrom && children.length === 0) return null;
  return (
    <div className="mt-2 flex flex-wrap items-center gap-2 text-[13px]">
      {run.parentRunId && <RunChip id={run.parentRunId} text="Parent run" />}
      {run.forkedFrom && (
        <Link
          to="/runs/$id"
          params={{ id: run.forkedFrom.runId }}
          search={{ at: run.forkedFrom.at }}
          className="flex h-7 items-center gap-1.5 rounded-md border bg-surface px-2 hover:bg-hover"
        >
          <GitFork size={13} aria-hidden className="text-faint" /> Fork of {shortId(run.forkedFrom.runId)} at entry {run.forkedFrom.at}
        </Link>
      )}
      {children.slice(0, 8).map((child) => (
        <RunChip key={child.id} id={child.id} text={child.subject} status={child.status} />
      ))}
      {children.length > 8 && (
        <Link to="/runs" search={{ parentRunId: run.id }} className="text-muted underline underline-offset-2">
          {plural(children.length, "child run")}
        </Link>
      )}
    </div>
  );
}

function RunChip({ id, text, status }: { id: string; text: string; status?: string }) {
  return (
    <Link to="/runs/$id" params={{ id }} className="flex h-7 items-center gap-1.5 rounded-md border bg-surface px-2 hover:bg-hover">
      <span className="text-faint">↳</span> {text}
      {status && <span className="text-xs text-faint">{runStatus(status).label.toLowerCase()}</span>}
    </Link>
  );
}

function waitText(approval: Run["approvals"][number]): string {
  return isWorkflowStep(approval.toolRef)
    ? `A step waits for a decision: ${approvalTitle(approval)}`
    : `The call of ${approval.toolRef} waits for an approval.`;
}

/** What a person must do or know: the error of a failed run, or the call that waits. */
function Attention({ run }: { run: Run }) {
  const approval = run.approvals[0];
  const action = run.clientActions[0];
  if (hasFailed(run.status)) {
    return (
      <p role="alert" className="mt-3 rounded-md bg-bad-soft px-3 py-2 text-[13px] text-bad [overflow-wrap:anywhere]">
        {run.message ?? `The run ended with ${run.reason ?? run.status}.`}
        {run.reason && <span className="ml-2 font-mono text-xs">{run.reason}</span>}
      </p>
    );
  }
  if (!approval && !action) return null;
  return (
    <div className="mt-3 flex flex-wrap items-center justify-between gap-3 rounded-md bg-wait-soft px-3 py-2 text-[13px] text-wait">
      <span>
        {approval ? waitText(approval) : `A client must perform ${action?.toolRef}.`}
        {run.approvals.length + run.clientActions.length > 1 && ` And ${plural(run.approvals.length + run.clientActions.length - 1, "more")}.`}
      </span>
      <ButtonLink size="sm" to="/inbox" search={approval ? { call: approval.callId } : { tab: "client", call: action?.callId }}>
        Decide
      </ButtonLink>
    </div>
  );
}
