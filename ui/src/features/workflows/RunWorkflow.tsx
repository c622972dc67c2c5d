import { Link, useNavigate } from "@tanstack/react-router";
import { Play } from "lucide-react";
import { useState } from "react";
import { RunStatusBadge } from "@/components/Badge";
import { Button } from "@/components/Button";
import { CopyTextButton } from "@/components/Copy";
import { Field, Select } from "@/components/Fields";
import { InputEditor } from "@/components/InputEditor";
import { Card, CardHeader } from "@/components/Page";
import { ErrorNote } from "@/components/States";
import { Time } from "@/components/Time";
import { useRecentInstances } from "@/data/instances";
import { type Workflow, useStartWorkflow } from "@/data/workflows";
import { workflowRunCommand, workflowRunCurl } from "@/model/commands";
import { preview } from "@/model/entries";
import { shortId } from "@/model/format";
import { exampleOf } from "@/model/schemaForm";

/** Starts an instance with a value that is edited as a form or as JSON. */
export function RunWorkflow({ workflow }: { workflow: Workflow }) {
  const schema = workflow.inputSchema ?? {};
  const [value, setValue] = useState<unknown>(() => exampleOf(schema));
  const [onlyStep, setOnlyStep] = useState("");
  const start = useStartWorkflow(workflow.refName);
  const navigate = useNavigate();
  const disabled = workflow.enabled === false ? "The workflow is disabled" : workflow.status === "blocked" ? "The version is blocked" : undefined;

  function submit() {
    start.mutate(
      { input: value, version: workflow.version, ...(onlyStep && { onlyStep }) },
      { onSuccess: ({ runId }) => void navigate({ to: "/instances/$id", params: { id: runId } }) },
    );
  }

  return (
    <div className="grid grid-cols-1 items-start gap-4 lg:grid-cols-2">
      <InputEditor schema={schema} value={value} onChange={setValue} onSubmit={submit}>
        {(isInvalid) => (
          <>
            <Field label="Steps" hint={onlyStep ? "All other steps are skipped: what the step reads from them is null." : undefined}>
              {(id, note) => (
                <Select id={id} aria-describedby={note} value={onlyStep} onChange={(event) => setOnlyStep(event.target.value)}>
                  <option value="">All steps</option>
                  {workflow.steps.map((step) => (
                    <option key={step.name} value={step.name}>
                      Only {step.name}
                    </option>
                  ))}
                </Select>
              )}
            </Field>
            <div className="flex flex-wrap items-center gap-2">
              <Button type="submit" variant="primary" busy={start.isPending} disabled={isInvalid} disabledReason={disabled}>
                <Play size={14} aria-hidden /> Run
              </Button>
              <CopyTextButton text={workflowRunCurl(workflow.refName, value)}>curl</CopyTextButton>
              <CopyTextButton text={workflowRunCommand(workflow.refName, value)}>command</CopyTextButton>
            </div>
            <ErrorNote error={start.error} />
          </>
        )}
      </InputEditor>
      <Recent workflow={workflow} />
    </div>
  );
}

function Recent({ workflow }: { workflow: Workflow }) {
  const instances = useRecentInstances(workflow.refName, 8).data?.items;
  return (
    <Card label="Recent instances">
      <CardHeader title="Recent instances" />
      {instances?.length === 0 && <p className="p-4 text-muted">This workflow has not run yet.</p>}
      <ul>
        {instances?.map((run) => (
          <li key={run.id}>
            <Link to="/instances/$id" params={{ id: run.id }} className="flex items-center gap-3 px-4 py-2 -outline-offset-2 hover:bg-hover">
              <span className="min-w-0 flex-1 truncate font-mono text-xs">
                {shortId(run.id)} {preview(run.userMessage)}
              </span>
              <RunStatusBadge status={run.status} />
              <Time at={run.startedAt} className="w-16 shrink-0 text-right text-xs text-faint" />
            </Link>
          </li>
        ))}
      </ul>
    </Card>
  );
}
