import { getRouteApi, Link } from "@tanstack/react-router";
import { useCallback, useMemo, useState } from "react";
import { RunStatusBadge } from "@/components/Badge";
import { Button, ButtonLink } from "@/components/Button";
import { JsonView } from "@/components/Code";
import { CopyButton } from "@/components/Copy";
import { cx } from "@/components/cx";
import { Facts, Segments } from "@/components/Fields";
import { Page } from "@/components/Page";
import { RichText } from "@/components/RichText";
import { RunDuration } from "@/components/RunDuration";
import { ErrorState, Loading, Warnings } from "@/components/States";
import { TabBar } from "@/components/TabBar";
import { Time } from "@/components/Time";
import { type Instance, useInstance, useInstanceDefinition, useInstanceStream } from "@/data/instances";
import { cost, plural, shortId } from "@/model/format";
import { hasEnded, hasFailed } from "@/model/status";
import type { GraphStep } from "@/model/workflow/graph";
import { type GraphLayout, isWide, layoutOf } from "@/model/workflow/layout";
import { awaitedSignals, countSteps, firstStep, stepStatus } from "@/model/workflow/steps";
import type { InstanceTab } from "@/router";
import { ActionForm } from "../inbox/ClientActions";
import { InstanceActions } from "./InstanceActions";
import { SignalDialog } from "./InstanceDialogs";
import { StepInspector } from "./StepInspector";
import { StepList } from "./StepList";
import { FRAME, GRAPH_PLACE, MAX_DRAWN_STEPS, WorkflowGraph } from "./WorkflowGraph";

const route = getRouteApi("/shell/instances/$id");
const PARENT = { to: "/instances", label: "Instances" };

/** One execution of a workflow, live: its graph by status, and each step with its input, calls and output. */
export function InstanceDetail() {
  const { id } = route.useParams();
  const query = useInstance(id);
  useInstanceStream(id, query.data !== undefined && !hasEnded(query.data.status));
  if (query.isPending) return <Loading rows={8} />;
  if (query.isError) {
    return (
      <Page title="Workflow instance" parent={PARENT}>
        <ErrorState error={query.error} onRetry={() => void query.refetch()} />
      </Page>
    );
  }
  return <Loaded key={id} instance={query.data} />;
}

function Loaded({ instance }: { instance: Instance }) {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const selected = search.step !== undefined && search.step in instance.steps ? search.step : firstStep(instance.steps);
  const definition = useInstanceDefinition(instance.id);
  const layout = useMemo(
    () => (definition.data && definition.data.steps.length <= MAX_DRAWN_STEPS ? layoutOf(definition.data) : undefined),
    [definition.data],
  );
  const wide = layout !== undefined && isWide(layout);
  const select = useCallback(
    (step: string) => void navigate({ search: (previous) => ({ ...previous, step, item: undefined, tab: undefined }), replace: true }),
    [navigate],
  );
  return (
    <Page
      fill
      title={instance.workflowRef}
      documentTitle={`${instance.workflowRef} ${shortId(instance.id)}`}
      parent={PARENT}
      heading={<RunStatusBadge status={instance.status} />}
      actions={<InstanceActions instance={instance} step={selected} />}
    >
      <InstanceFacts instance={instance} />
      <Attention instance={instance} onSelect={select} />
      <Warnings items={instance.warnings} />
      <div className={cx(FRAME, !wide && "lg:flex-row")}>
        <Steps instance={instance} definition={definition} layout={layout} selected={selected} onSelect={select} />
        <section
          aria-label="Inspector"
          className="flex min-w-0 flex-col border-t bg-surface px-4 pt-1 lg:min-h-0 lg:flex-1 lg:overflow-hidden lg:border-t-0"
        >
          <TabBar
            label="Inspector"
            value={search.tab ?? "step"}
            onChange={(tab) => void navigate({ search: (previous) => ({ ...previous, tab: tab as InstanceTab }), replace: true })}
            tabs={[
              { value: "step", label: "Step", content: <Selected instance={instance} name={selected} onSelect={select} /> },
              { value: "result", label: "Input and output", content: <Result instance={instance} /> },
            ]}
          />
        </section>
      </div>
    </Page>
  );
}

function Selected({ instance, name, onSelect }: { instance: Instance; name: string | undefined; onSelect: (step: string) => void }) {
  const { item } = route.useSearch();
  const navigate = route.useNavigate();
  const definition = useInstanceDefinition(instance.id).data;
  const state = name === undefined ? undefined : instance.steps[name];
  if (name === undefined || !state) return <p className="text-muted">Select a step.</p>;
  return (
    <div className="-mx-4 -mt-4 min-h-0 flex-1 lg:overflow-y-auto" tabIndex={0} role="group" aria-label={`Step ${name}`}>
      <StepInspector
        key={name}
        instance={instance}
        name={name}
        state={state}
        step={definition?.steps.find((one) => one.name === name)}
        item={item}
        onItem={(next) => void navigate({ search: (previous) => ({ ...previous, item: next }), replace: true })}
        onSelect={onSelect}
      />
    </div>
  );
}

interface StepsProps {
  instance: Instance;
  definition: ReturnType<typeof useInstanceDefinition>;
  /** Absent if the graph cannot be drawn. */
  layout: GraphLayout | undefined;
  selected: string | undefined;
  onSelect: (step: string) => void;
}

/** The graph, or the list of the steps, which also has their times. */
function Steps({ instance, definition, layout, selected, onSelect }: StepsProps) {
  const [view, setView] = useState<"graph" | "list">("graph");
  const shown = layout ? view : "list";
  const steps: GraphStep[] = definition.data?.steps ?? Object.keys(instance.steps).map((name) => ({ name, handlerRef: "" }));
  return (
    <section aria-label="Steps" className={GRAPH_PLACE[layout && isWide(layout) ? "above" : "beside"]}>
      <div className="flex h-11 shrink-0 items-center justify-between gap-3 border-b px-3">
        <p className="flex min-w-0 flex-wrap gap-x-3 text-xs text-muted tabular">
          {countSteps(instance.steps).map(([status, count]) => (
            <span key={status} className="whitespace-nowrap">
              {count} {stepStatus(status).label.toLowerCase()}
            </span>
          ))}
        </p>
        <Segments
          label="View of the steps"
          value={shown}
          onChange={setView}
          options={[
            { value: "graph", label: "Graph" },
            { value: "list", label: "List" },
          ]}
        />
      </div>
      {definition.isPending && <Loading label="Loading the definition" />}
      {shown === "graph" && definition.data && layout && (
        <WorkflowGraph definition={definition.data} layout={layout} states={instance.steps} selected={selected} onSelect={onSelect} />
      )}
      {!definition.isPending && shown === "list" && <StepList steps={steps} states={instance.steps} selected={selected} onSelect={onSelect} />}
    </section>
  );
}

function InstanceFacts({ instance }: { instance: Instance }) {
  const { workflowRef, version, forkedFrom, parentRunId } = instance;
  return (
    <div className="flex flex-wrap items-center gap-x-5 gap-y-1 pb-4 text-[13px] text-muted">
      <Link to="/workflows/$ref" params={{ ref: workflowRef }} search={version ? { version } : {}} className="font-medium text-text hover:underline">
        Workflow {version ?? "definition"}
      </Link>
      <span>
        <span className="text-faint">Started</span> <Time at={instance.startedAt} />
      </span>
      <span className="tabular">
        <span className="text-faint">Duration</span> <RunDuration run={instance} />
      </span>
      {instance.costUsd > 0 && (
        <span className="tabular">
          <span className="text-faint">Cost</span> {cost(instance.costUsd)}
        </span>
      )}
      {forkedFrom && (
        <Link to="/instances/$id" params={{ id: forkedFrom.runId }} className="underline underline-offset-2">
          Runs {shortId(forkedFrom.runId)} again
        </Link>
      )}
      {parentRunId && (
        <Link to="/runs/$id" params={{ id: parentRunId }} className="underline underline-offset-2">
          Parent run
        </Link>
      )}
      <span className="flex items-center font-mono text-xs text-faint">
        {shortId(instance.id)}
        <CopyButton text={instance.id} label="Copy the id of the instance" />
      </span>
    </div>
  );
}

/** What a person must do or know: why the instance failed, or what it waits for. */
function Attention({ instance, onSelect }: { instance: Instance; onSelect: (step: string) => void }) {
  const [signalling, setSignalling] = useState(false);
  if (hasFailed(instance.status)) {
    return (
      <p role="alert" className="mb-4 rounded-md bg-bad-soft px-3 py-2 text-[13px] text-bad [overflow-wrap:anywhere]">
        <RichText text={instance.message ?? `The instance ended with ${instance.reason ?? instance.status}.`} />
        {instance.reason && <span className="ml-2 font-mono text-xs">{instance.reason}</span>}
      </p>
    );
  }
  const waiting = Object.entries(instance.steps).find(([, step]) => instance.approvals.some((approval) => approval.callId === step.callId));
  const [approval] = instance.approvals;
  const signals = instance.paused ? [] : awaitedSignals(instance.steps);
  const child = instance.waitingChildRuns?.[0];
  const notes = [
    ...(instance.paused ? ["No step starts until the instance is resumed."] : []),
    ...(instance.approvals.length > 0 ? [`${plural(instance.approvals.length, "approval waits", "approvals wait")} for a decision.`] : []),
    ...(instance.clientActions.length > 0 ? [`A client must perform ${instance.clientActions[0]?.toolRef}.`] : []),
    ...(signals.length > 0 ? [`It waits for the signal ${signals.map((signal) => `\`${signal}\``).join(" and ")}.`] : []),
    ...(child ? [`A child run of ${child.agentRef} waits.`] : []),
  ];
  if (notes.length === 0) return null;
  return (
    <div className="mb-4 flex flex-wrap items-center justify-between gap-3 rounded-md bg-wait-soft px-3 py-2 text-[13px] text-wait">
      <span>
        <RichText text={notes.join(" ")} />
      </span>
      <span className="flex gap-2">
        {waiting && (
          <Button size="sm" onClick={() => onSelect(waiting[0])}>
            Show the step
          </Button>
        )}
        {approval && !waiting && (
          <ButtonLink size="sm" to="/inbox" search={{ call: approval.callId }}>
            Decide
          </ButtonLink>
        )}
        {signals.length > 0 && (
          <Button size="sm" onClick={() => setSignalling(true)}>
            Send it…
          </Button>
        )}
        {instance.clientActions[0] && (
          <ButtonLink size="sm" to="/inbox" search={{ tab: "client", call: instance.clientActions[0].callId }}>
            Answer
          </ButtonLink>
        )}
        {child && (
          <ButtonLink size="sm" to="/runs/$id" params={{ id: child.runId }}>
            Open the child run
          </ButtonLink>
        )}
      </span>
      {signalling && <SignalDialog instance={instance} name={signals[0]} onClose={() => setSignalling(false)} />}
    </div>
  );
}

function Result({ instance }: { instance: Instance }) {
  const action = instance.clientActions[0];
  return (
    <div className="-mx-4 -mt-4 flex min-h-0 flex-1 flex-col gap-5 p-4 lg:overflow-y-auto" tabIndex={0} role="group" aria-label="Input and output">
      <Facts
        items={[
          ["Status", <RunStatusBadge key="status" status={instance.status} />],
          ["Reason", instance.reason],
          ["Durable", instance.durable ? "Yes: it continues after a crash of the server" : "No"],
          [
            "Definition",
            <span key="hash" className="font-mono text-xs">
              {instance.definitionHash.slice(0, 16)}…
            </span>,
          ],
        ]}
      />
      <section>
        <h3 className="mb-1.5 text-[13px] font-semibold">Input</h3>
        <JsonView value={instance.input} label="input of the instance" className="max-h-96" />
      </section>
      <section>
        <h3 className="mb-1.5 text-[13px] font-semibold">Output</h3>
        {instance.output === null || instance.output === undefined ? (
          <p className="text-muted">
            {hasEnded(instance.status) ? "The instance has no output." : "The output appears when the instance completes."}
          </p>
        ) : (
          <JsonView value={instance.output} label="output of the instance" className="max-h-96" />
        )}
      </section>
      {action && (
        <div className="-mx-4 border-t">
          <ActionForm action={{ ...action, runId: instance.id, agentRef: instance.workflowRef }} onDone={() => undefined} />
        </div>
      )}
    </div>
  );
}
