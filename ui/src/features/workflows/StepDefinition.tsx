import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { JsonView } from "@/components/Code";
import { Facts } from "@/components/Fields";
import { Code } from "@/components/Labels";
import { type WorkflowStep, useVocabulary } from "@/data/workflows";
import { stepKind } from "@/model/workflow/graph";

const LINK = "underline underline-offset-2";

/** What a step calls, when it runs, and what happens if it fails. */
export function StepDefinition({ step, onSelect }: { step: WorkflowStep; onSelect: (step: string) => void }) {
  const conditions = useVocabulary().data?.conditions;
  const bound = step.conditionRef ? conditions?.get(step.conditionRef) : undefined;
  return (
    <div className="flex flex-col gap-4">
      <Facts
        items={[
          ["Calls", <Handler key="handler" step={step} />],
          ["Runs after", step.dependsOn?.length ? <StepNames key="after" names={step.dependsOn} onSelect={onSelect} /> : undefined],
          ["Condition", step.condition && <Code key="condition">{step.condition}</Code>],
          [
            "Named condition",
            step.conditionRef && (
              <span key="binding">
                {step.conditionRef} {bound && <Code>{bound}</Code>}
              </span>
            ),
          ],
          ["For each", forEachText(step.forEach)],
          ["Retries", retryText(step.retry)],
          ["Time limit", step.timeout === null || step.timeout === undefined ? undefined : durationText(step.timeout)],
          ["After an error", <OnError key="error" step={step} onSelect={onSelect} />],
          ["Output also as", step.outputAs && <Code key="as">{step.outputAs}</Code>],
        ]}
      />
      {step.input !== undefined && step.input !== null && (
        <section>
          <h4 className="mb-1.5 text-[13px] font-semibold">Input in the definition</h4>
          <JsonView value={step.input} label="input in the definition" className="max-h-80" />
        </section>
      )}
    </div>
  );
}

export function StepNames({ names, onSelect }: { names: string[]; onSelect: (step: string) => void }) {
  return names.map((name) => (
    <button key={name} type="button" onClick={() => onSelect(name.split(".")[0] ?? name)} className={`mr-2 ${LINK}`}>
      {name}
    </button>
  ));
}

/** The handler, with a link to what it calls. */
function Handler({ step }: { step: WorkflowStep }): ReactNode {
  const registrations = useVocabulary().data?.tools;
  const input = (typeof step.input === "object" && step.input !== null ? step.input : {}) as Record<string, unknown>;
  const kind = stepKind(step.handlerRef);
  const target = kind === "agent" ? input.agentRef : kind === "workflow" ? input.workflowRef : undefined;
  if (typeof target === "string" && !target.includes("${")) {
    return (
      <>
        <Link to={kind === "agent" ? "/agents/$ref" : "/workflows/$ref"} params={{ ref: bare(target) }} className={LINK}>
          {target}
        </Link>{" "}
        <Code>{step.handlerRef}</Code>
      </>
    );
  }
  if (kind !== "tool") return <Code>{step.handlerRef}</Code>;
  const registered = registrations?.get(step.handlerRef);
  const tool = registered ?? step.handlerRef;
  return (
    <>
      <Link to="/tools/$ref" params={{ ref: bare(tool) }} className={LINK}>
        {tool}
      </Link>
      {registered && (
        <span className="text-muted">
          {" "}
          through the step registration <Code>{step.handlerRef}</Code>
        </span>
      )}
    </>
  );
}

/** The name without a version requirement. */
function bare(ref: string): string {
  return ref.split("@")[0] ?? ref;
}

function forEachText(forEach: unknown): ReactNode {
  if (forEach === undefined || forEach === null) return undefined;
  const { items, concurrency } = (typeof forEach === "object" && !Array.isArray(forEach) ? forEach : { items: forEach }) as Record<string, unknown>;
  return (
    <>
      <Code>{typeof items === "string" ? items : JSON.stringify(items)}</Code> {typeof concurrency === "number" && `${concurrency} at the same time`}
    </>
  );
}

function retryText(retry: WorkflowStep["retry"]): string | undefined {
  if (!retry) return undefined;
  const { maxAttempts, delay, backoff } = retry;
  const pause = delay === undefined || delay === null ? "" : `, first after ${durationText(delay)}`;
  return `${maxAttempts} attempts${pause}${backoff ? `, ${backoff} backoff` : ""}`;
}

function durationText(value: unknown): string {
  return typeof value === "number" ? `${value} ms` : String(value);
}

function OnError({ step, onSelect }: { step: WorkflowStep; onSelect: (step: string) => void }): ReactNode {
  const onError: unknown = step.onError;
  if (onError === undefined || onError === null || onError === "fail") return "The instance fails";
  if (onError === "continue") return "The next steps run";
  const { fallback, branch } = onError as { fallback?: string; branch?: Record<string, string> };
  if (fallback) return <StepNames names={[fallback]} onSelect={onSelect} />;
  return Object.entries(branch ?? {}).map(([code, target]) => (
    <span key={code} className="mr-3">
      <Code>{code}</Code> <StepNames names={[target]} onSelect={onSelect} />
    </span>
  ));
}
