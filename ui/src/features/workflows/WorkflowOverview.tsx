import { getRouteApi } from "@tanstack/react-router";
import { Check } from "lucide-react";
import { useCallback, useMemo } from "react";
import { JsonView } from "@/components/Code";
import { cx } from "@/components/cx";
import { Facts } from "@/components/Fields";
import { RichText } from "@/components/RichText";
import { Time } from "@/components/Time";
import { type Workflow, useStoredCheck } from "@/data/workflows";
import { duration, plural } from "@/model/format";
import { isWide, layoutOf } from "@/model/workflow/layout";
import { IssueList } from "./IssueList";
import { StepDefinition } from "./StepDefinition";
import { StepList } from "./StepList";
import { FRAME, GRAPH_PLACE, MAX_DRAWN_STEPS, WorkflowGraph } from "./WorkflowGraph";

const route = getRouteApi("/shell/workflows/$ref");

/** The graph, beside the selected step or the facts of the workflow. */
export function WorkflowOverview({ workflow }: { workflow: Workflow }) {
  const { step: name } = route.useSearch();
  const navigate = route.useNavigate();
  const layout = useMemo(() => (workflow.steps.length <= MAX_DRAWN_STEPS ? layoutOf(workflow) : undefined), [workflow]);
  const wide = layout !== undefined && isWide(layout);
  const step = workflow.steps.find((one) => one.name === name);
  const select = useCallback(
    (next: string | undefined) => void navigate({ search: (previous) => ({ ...previous, step: next }), replace: true }),
    [navigate],
  );
  return (
    <div className={cx(FRAME, "-mt-4 lg:mt-0", !wide && "lg:flex-row")}>
      <section aria-label="Graph" className={GRAPH_PLACE[wide ? "above" : "beside"]}>
        {layout ? (
          <WorkflowGraph definition={workflow} layout={layout} selected={name} onSelect={select} />
        ) : (
          <StepList steps={workflow.steps} selected={name} onSelect={select} />
        )}
      </section>
      <section
        aria-label="Details"
        tabIndex={0}
        className="min-w-0 border-t bg-surface p-4 -outline-offset-2 lg:min-h-0 lg:flex-1 lg:overflow-y-auto lg:border-t-0"
      >
        {step ? (
          <>
            <div className="mb-3 flex items-baseline justify-between gap-3">
              <h2 className="text-[15px] font-semibold">{step.name}</h2>
              <button type="button" onClick={() => select(undefined)} className="text-xs text-muted underline underline-offset-2">
                About the workflow
              </button>
            </div>
            {step.description && (
              <p className="mb-3 text-muted">
                <RichText text={step.description} />
              </p>
            )}
            <StepDefinition step={step} onSelect={select} />
          </>
        ) : (
          <About workflow={workflow} />
        )}
      </section>
    </div>
  );
}

function About({ workflow }: { workflow: Workflow }) {
  const limits = workflow.limits ?? {};
  return (
    <div className="flex flex-col gap-5">
      <Health workflow={workflow} />
      <Facts
        items={[
          ["Steps", plural(workflow.steps.length, "step")],
          ["Durable", workflow.durable === false ? "No" : "Yes: an instance continues after a crash of the server"],
          ["Unknown outcome", workflow.onUnknownOutcome === "person" ? "A person decides" : "The step fails"],
          ["Time limit", limits.timeout == null ? undefined : typeof limits.timeout === "number" ? duration(limits.timeout) : String(limits.timeout)],
          ["Cost limit", limits.maxCostUsd == null ? undefined : `$${limits.maxCostUsd}`],
          ["Token limit", limits.maxTokens ?? undefined],
          ["Calls at a time", limits.maxParallelCalls ?? undefined],
          ["Permission", workflow.securityUri],
          [
            "Changed",
            <span key="changed">
              <Time at={workflow.updatedAt} /> by {workflow.updatedBy}, revision {workflow.revision}
            </span>,
          ],
        ]}
      />
      <section>
        <h3 className="mb-1.5 text-[13px] font-semibold">Input schema</h3>
        {workflow.inputSchema ? (
          <JsonView value={workflow.inputSchema} label="input schema" className="max-h-72" />
        ) : (
          <p className="text-muted">Any value: the workflow has no input schema.</p>
        )}
      </section>
      {workflow.output !== undefined && workflow.output !== null && (
        <section>
          <h3 className="mb-1.5 text-[13px] font-semibold">Output</h3>
          <JsonView value={workflow.output} label="output" className="max-h-72" />
        </section>
      )}
    </div>
  );
}

/** Whether the workflow still works with the current tools, agents and workflows. */
function Health({ workflow }: { workflow: Workflow }) {
  const check = useStoredCheck(workflow.refName, workflow.version).data;
  if (!check) return null;
  if (check.issues.length > 0) return <IssueList issues={check.issues} />;
  return (
    <p className="flex items-center gap-2 text-ok">
      <Check size={15} aria-hidden /> The check finds no problem.
    </p>
  );
}
