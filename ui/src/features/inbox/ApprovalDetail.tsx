import { Link } from "@tanstack/react-router";
import { Check, Clock, Infinity as InfinityIcon, Pencil, Undo2, X } from "lucide-react";
import { type ReactNode, useEffect, useState } from "react";
import { Badge } from "@/components/Badge";
import { Button } from "@/components/Button";
import { Code, SideEffectsBadge } from "@/components/Labels";
import { CodeInput, Segments, TextArea } from "@/components/Fields";
import { JsonView } from "@/components/Code";
import { RichText } from "@/components/RichText";
import { SubjectLink } from "@/components/SubjectLink";
import { ErrorNote } from "@/components/States";
import { Time, useNow } from "@/components/Time";
import { type Approval, useDecide } from "@/data/approvals";
import { useRun } from "@/data/runs";
import { useTool } from "@/data/tools";
import { useIsAdmin } from "@/data/session";
import { approvalTitle, isWorkflowStep, triggerText, urgency } from "@/model/approval";
import type { Json } from "@/model/diff";
import { exactTime, shortId } from "@/model/format";
import { parseJson } from "@/model/json";
import { isTyping } from "@/model/keyboard";
import { Arguments } from "./Arguments";

type Mode = "decide" | "deny" | "edit";

interface ApprovalDetailProps {
  approval: Approval;
  onDecided: () => void;
  onAlways: () => void;
}

export function ApprovalDetail({ approval, onDecided, onAlways }: ApprovalDetailProps) {
  const [view, setView] = useState<"fields" | "json">("fields");
  return (
    <article aria-label={`Approval of ${approval.toolRef}`} className="flex min-h-full flex-1 flex-col">
      <div className="flex flex-1 flex-col gap-6 px-4 py-5 sm:px-6">
        <Heading approval={approval} />
        <section aria-labelledby="arguments">
          <div className="mb-2 flex items-center justify-between gap-3">
            <h3 id="arguments" className="text-[13px] font-semibold">
              Exact arguments
            </h3>
            <Segments
              label="View"
              value={view}
              onChange={setView}
              options={[
                { value: "fields", label: "Fields" },
                { value: "json", label: "JSON" },
              ]}
            />
          </div>
          {view === "json" ? (
            <JsonView value={approval.input} label="arguments" />
          ) : (
            <Arguments input={approval.input as Json} previous={approval.lastApproved?.input as Json | undefined} />
          )}
          <Previous approval={approval} />
        </section>
        <Request approval={approval} />
        <section>
          <h3 className="mb-1 text-[13px] font-semibold">Why it asks</h3>
          <ul className="flex flex-col gap-0.5 text-muted">
            {approval.triggers.map((trigger) => (
              <li key={trigger}>{triggerText(trigger, approval.toolRef, approval.agentRef)}</li>
            ))}
            <li>The owner of the run and administrators may decide.</li>
          </ul>
        </section>
      </div>
      <DecisionBar approval={approval} onDecided={onDecided} onAlways={onAlways} />
    </article>
  );
}

function Heading({ approval }: { approval: Approval }) {
  const builtIn = isWorkflowStep(approval.toolRef);
  const tool = useTool(builtIn ? undefined : approval.toolRef, approval.version).data;
  const kind = useRun(approval.runId).data?.kind ?? "agent";
  const now = useNow();
  const level = urgency(approval.expiresAt, now);
  return (
    <header>
      <p className="text-muted">
        <SubjectLink kind={kind} subject={approval.agentRef} className="font-medium text-text hover:underline">
          {approval.agentRef}
        </SubjectLink>{" "}
        {builtIn ? "asks for a decision" : "wants to call"}
      </p>
      <h2 className="text-lg font-semibold tracking-[-0.012em] [overflow-wrap:anywhere]">
        {builtIn ? (
          approvalTitle(approval)
        ) : (
          <>
            <Link to="/tools/$ref" params={{ ref: approval.toolRef }} className="hover:underline">
              {approval.toolRef}
            </Link>{" "}
            <span className="text-sm font-normal text-faint">{approval.version}</span>
          </>
        )}
      </h2>
      {tool?.description && (
        <p className="mt-1 line-clamp-2 max-w-[70ch] text-muted">
          <RichText text={tool.description} />
        </p>
      )}
      <div className="mt-3 flex flex-wrap items-center gap-1.5">
        <SideEffectsBadge value={approval.sideEffects} />
        {tool && <Reversible compensateToolRef={tool.compensateToolRef} writes={approval.sideEffects === "writes"} />}
        {approval.expiresAt && (
          <Badge tone={level === "none" ? "neutral" : "warn"} title={exactTime(approval.expiresAt)}>
            <Clock size={12} aria-hidden />
            {level === "expired" ? "expired " : "expires "}
            <Time at={approval.expiresAt} />
          </Badge>
        )}
        <span className="text-xs text-faint">
          requested <Time at={approval.requestedAt} />
        </span>
      </div>
    </header>
  );
}

function Reversible({ compensateToolRef, writes }: { compensateToolRef?: string | null | undefined; writes: boolean }) {
  if (!writes) return null;
  if (!compensateToolRef) return <Badge tone="warn">Cannot be undone</Badge>;
  return (
    <Badge tone="ok" title={`${compensateToolRef} undoes it`}>
      <Undo2 size={12} aria-hidden /> Can be undone
    </Badge>
  );
}

function Previous({ approval }: { approval: Approval }) {
  const last = approval.lastApproved;
  if (!last) return <p className="mt-2 text-xs text-faint">No call of this agent to this tool was approved before.</p>;
  return (
    <p className="mt-2 text-xs text-faint">
      Compared with the{" "}
      <Link to="/runs/$id" params={{ id: last.runId }} className="underline underline-offset-2">
        last approved call
      </Link>
      {last.decidedBy && ` by ${last.decidedBy}`}, <Time at={last.decidedAt} />.
    </p>
  );
}

/** What led to the call: the user's message and the model's text. */
function Request({ approval }: { approval: Approval }) {
  const run = useRun(approval.runId).data;
  return (
    <section>
      <h3 className="mb-1 text-[13px] font-semibold">What led to it</h3>
      {run && <RunText run={run} />}
      <Link to="/runs/$id" params={{ id: approval.runId }} className="text-xs text-muted underline underline-offset-2 hover:text-text">
        Open the run {shortId(approval.runId)}
      </Link>
      {run?.kind === "workflow" && (
        <Link to="/instances/$id" params={{ id: approval.runId }} className="ml-4 text-xs text-muted underline underline-offset-2 hover:text-text">
          Open the workflow instance
        </Link>
      )}
    </section>
  );
}

function RunText({ run }: { run: { responseText: string; principal: string; owner: string } }) {
  return (
    <>
      {run.responseText && <blockquote className="mb-1.5 border-l-2 border-line-strong pl-3 text-muted">{run.responseText}</blockquote>}
      <p className="mb-1 text-xs text-faint">
        Acts as {run.principal}
        {run.owner !== run.principal && `, started by ${run.owner}`}.
      </p>
    </>
  );
}

function DecisionBar({ approval, onDecided, onAlways }: ApprovalDetailProps) {
  const decide = useDecide();
  const isAdmin = useIsAdmin();
  const [mode, setMode] = useState<Mode>("decide");
  const [reason, setReason] = useState("");
  const [text, setText] = useState(() => JSON.stringify(approval.input, null, 2));
  const parsed = parseJson(text);
  const rejected = decide.data?.results.find((result) => !result.accepted)?.problem;

  function submit(decision: "approve" | "deny" | "edit") {
    const input = decision === "edit" && parsed.ok ? { input: parsed.value } : {};
    decide.mutate([{ runId: approval.runId, callId: approval.callId, decision, reason: reason.trim() || undefined, ...input }], {
      onSuccess: ({ results }) => results[0]?.accepted && onDecided(),
    });
  }

  useEffect(() => {
    function onKey(event: KeyboardEvent) {
      if (isTyping(event) || event.metaKey || event.ctrlKey || event.altKey || mode !== "decide") return;
      if (event.key === "a") submit("approve");
      else if (event.key === "d") setMode("deny");
      else if (event.key === "e") setMode("edit");
    }
    window.addEventListener("keydown", onKey);
    return () => window.removeEventListener("keydown", onKey);
  });

  return (
    <footer className="sticky bottom-0 flex flex-col gap-3 border-t bg-surface px-4 py-3 sm:px-6">
      <ErrorNote error={decide.error ?? (rejected ? new Error(rejected.detail) : undefined)} />
      {mode === "deny" && (
        <TextArea
          rows={2}
          autoFocus
          aria-label="Reason, which the model sees"
          placeholder="Reason (optional, the model sees it)"
          value={reason}
          onChange={(event) => setReason(event.target.value)}
        />
      )}
      {mode === "edit" && (
        <div>
          <CodeInput
            rows={Math.min(14, text.split("\n").length + 1)}
            autoFocus
            aria-label="Arguments as JSON"
            value={text}
            onChange={(event) => setText(event.target.value)}
          />
          <p className="mt-1 text-xs text-faint">
            {parsed.ok ? "The call is made with these arguments, without another approval. The model is informed." : parsed.message}
          </p>
        </div>
      )}
      <div className="flex items-center gap-2">
        {mode === "decide" && (
          <>
            <Action keyName="a">
              <Button variant="approve" size="lg" className="max-sm:flex-1" busy={decide.isPending} onClick={() => submit("approve")}>
                <Check size={16} aria-hidden /> Approve
              </Button>
            </Action>
            <Action keyName="d">
              <Button variant="danger" size="lg" className="max-sm:flex-1" onClick={() => setMode("deny")}>
                <X size={16} aria-hidden /> Deny
              </Button>
            </Action>
            <Button size="lg" aria-label="Edit" className="max-sm:px-3" onClick={() => setMode("edit")}>
              <Pencil size={14} aria-hidden /> <span className="max-sm:hidden">Edit</span>
            </Button>
            <Button
              size="lg"
              variant="ghost"
              className="max-sm:border max-sm:px-3"
              aria-label="Always allow calls like this"
              onClick={onAlways}
              disabledReason={alwaysObstacle(approval, isAdmin)}
            >
              <InfinityIcon size={15} aria-hidden /> <span className="max-sm:hidden">Always…</span>
            </Button>
          </>
        )}
        {mode === "deny" && (
          <Button variant="danger" size="lg" busy={decide.isPending} onClick={() => submit("deny")}>
            Deny the call
          </Button>
        )}
        {mode === "edit" && (
          <Button variant="approve" size="lg" busy={decide.isPending} disabled={!parsed.ok} onClick={() => submit("edit")}>
            Approve the edited call
          </Button>
        )}
        {mode !== "decide" && (
          <Button variant="ghost" size="lg" onClick={() => setMode("decide")}>
            Back
          </Button>
        )}
      </div>
    </footer>
  );
}

/** Why no change of a definition can replace the approval, or undefined. */
function alwaysObstacle(approval: Approval, isAdmin: boolean): string | undefined {
  if (isWorkflowStep(approval.toolRef)) return "The approval is a step of the workflow; change the workflow instead";
  return isAdmin ? undefined : "Only administrators may change the definitions that require the approval";
}

function Action({ keyName, children }: { keyName: string; children: ReactNode }) {
  return (
    <span className="flex items-center gap-1 max-sm:flex-1">
      {children}
      <Code className="hidden lg:inline">{keyName}</Code>
    </span>
  );
}
