import { Link } from "@tanstack/react-router";
import { JsonView } from "@/components/Code";
import { Button } from "@/components/Button";
import { Checks } from "@/components/Checks";
import { Facts } from "@/components/Fields";
import { Card, CardHeader } from "@/components/Page";
import { ErrorState, Loading } from "@/components/States";
import { RichText } from "@/components/RichText";
import { Time } from "@/components/Time";
import { useRecentRuns } from "@/data/runs";
import { type Tool, useAcceptDrift, useOpenDrift, useToolReadiness } from "@/data/tools";
import { Badge, RunStatusBadge } from "@/components/Badge";
import { duration, firstLine, plural } from "@/model/format";

export function ToolOverview({ tool }: { tool: Tool }) {
  return (
    <div className="grid grid-cols-1 items-start gap-4 lg:grid-cols-[minmax(0,1.4fr)_minmax(0,1fr)]">
      <div className="flex flex-col gap-4">
        <Drift tool={tool} />
        {tool.longDescription && (
          <Card className="p-4" label="Long description">
            <p className="whitespace-pre-wrap text-muted">
              <RichText text={tool.longDescription} />
            </p>
          </Card>
        )}
        <Card label="Behaviour">
          <CardHeader title="Behaviour" />
          <div className="p-4">
            <Facts items={behaviour(tool)} />
          </div>
        </Card>
        {tool.composite && <Routing composite={tool.composite} />}
        {tool.agentic && <Allocation agentic={tool.agentic} />}
        <Examples tool={tool} />
      </div>
      <div className="flex flex-col gap-4">
        <Ready tool={tool} />
        <RecentCalls tool={tool} />
      </div>
    </div>
  );
}

function behaviour(tool: Tool): [string, React.ReactNode][] {
  const invocation = tool.invocation;
  return [
    ["Provider", tool.providerRef && <ProviderLink name={tool.providerRef} />],
    [
      "Request",
      invocation?.path && <code className="font-mono text-xs">{`${invocation.method ? `${invocation.method} ` : ""}${invocation.path}`}</code>,
    ],
    ["Category", tool.category],
    ["Tags", tool.tags?.join(", ")],
    ["Approval", tool.requiresConfirmation ? "A person confirms each call" : "Not required by the tool"],
    ["Idempotent", tool.idempotent ? "Yes: a retry changes nothing" : undefined],
    ["Undone with", tool.compensateToolRef && <ToolLink name={tool.compensateToolRef} />],
    ["Verified with", tool.verifyToolRef && <ToolLink name={tool.verifyToolRef} />],
    ["Runs on", tool.isToolFullyExecutedOnServer === false ? "The client: the run waits for its result" : "The server"],
    ["Timeout", tool.timeoutMs ? duration(tool.timeoutMs) : undefined],
    ["Retries", tool.defaultRetryCount ? `${tool.defaultRetryCount}, ${tool.defaultRetryBackoff ?? "no"} backoff` : undefined],
    ["Rate limit", tool.rateLimit ? `${tool.rateLimit.perSecond} per second` : undefined],
    ["Cache", tool.cache && tool.cache !== "none" ? tool.cache : undefined],
    ["Available as", tool.availableAs?.join(", ")],
    ["Changed", <Changed key="changed" tool={tool} />],
  ];
}

/** How a composite tool chooses the operation of a call. */
function Routing({ composite }: { composite: NonNullable<Tool["composite"]> }) {
  return (
    <Card label="Routing">
      <CardHeader title="Routing" count={composite.routingMode} />
      <ol className="divide-y">
        {composite.routingRules?.map((rule, index) => (
          <li key={index} className="px-4 py-2.5">
            <JsonView value={rule} label="rule" />
          </li>
        ))}
      </ol>
      <ul className="divide-y border-t">
        {composite.operations?.map((operation) => (
          <li key={operation.operationSlug} className="flex items-baseline gap-3 px-4 py-2.5">
            <span className="font-medium">{operation.displayName ?? operation.operationSlug}</span>
            {operation.actionSlug && <ToolLink name={operation.actionSlug} />}
            {operation.operationSlug === composite.defaultOperationId && <Badge>default</Badge>}
          </li>
        ))}
      </ul>
    </Card>
  );
}

/** The tools that the model inside of an agentic tool may call. */
function Allocation({ agentic }: { agentic: NonNullable<Tool["agentic"]> }) {
  const { sequence, availableTools } = agentic.toolAllocation ?? {};
  const names = (sequence ?? availableTools ?? []).map((one) => one.actionSlug).filter((name) => name != null);
  return (
    <Card label="Tools inside">
      <CardHeader title={sequence ? "Fixed sequence of tools" : "Tools that its model may call"} count={agentic.executionMode} />
      <ol className="divide-y">
        {names.map((name, index) => (
          <li key={name} className="flex gap-3 px-4 py-2.5">
            <span className="w-4 text-right text-faint tabular">{index + 1}</span>
            <ToolLink name={name} />
          </li>
        ))}
      </ol>
    </Card>
  );
}

function Changed({ tool }: { tool: Tool }) {
  return (
    <>
      <Time at={tool.updatedAt} /> by {tool.updatedBy}, revision {tool.revision}
    </>
  );
}

function ToolLink({ name }: { name: string }) {
  return (
    <Link to="/tools/$ref" params={{ ref: name }} className="underline underline-offset-2">
      {name}
    </Link>
  );
}

function ProviderLink({ name }: { name: string }) {
  return (
    <Link to="/integrations/$ref" params={{ ref: name }} className="underline underline-offset-2">
      {name}
    </Link>
  );
}

function Examples({ tool }: { tool: Tool }) {
  if (!tool.examples?.length) return null;
  return (
    <Card label="Examples">
      <CardHeader title="Examples" count={tool.examples.length} />
      <ul className="flex flex-col gap-4 p-4">
        {tool.examples.map((example, index) => (
          <li key={index}>
            <p className="mb-1.5 font-medium">{example.scenario ?? `Example ${index + 1}`}</p>
            <JsonView value={example.input ?? {}} label="input" />
          </li>
        ))}
      </ul>
    </Card>
  );
}

function Ready({ tool }: { tool: Tool }) {
  const query = useToolReadiness(tool.refName);
  return (
    <Card label="Readiness">
      <CardHeader title={query.data ? (query.data.ready ? "Ready" : "Not ready") : "Readiness"} />
      {query.isPending && <Loading rows={3} />}
      {query.isError && <ErrorState error={query.error} onRetry={() => void query.refetch()} />}
      {query.data && <Checks checks={query.data.checks} />}
    </Card>
  );
}

function Drift({ tool }: { tool: Tool }) {
  const findings = useOpenDrift().data?.items.filter((finding) => finding.toolRef === tool.refName) ?? [];
  const accept = useAcceptDrift();
  return findings.map((finding) => (
    <Card key={finding.id} label="Drift" className="border-warn/40 p-4">
      <div className="flex items-start justify-between gap-3">
        <div>
          <h2 className="font-semibold text-warn">The outputs differ from the schema</h2>
          <p className="text-muted">
            Seen {plural(finding.count, "time")}, last <Time at={finding.lastSeen} />.
          </p>
        </div>
        <Button busy={accept.isPending} onClick={() => accept.mutate(finding.id)}>
          Accept
        </Button>
      </div>
      <ul className="mt-2 flex flex-col gap-0.5 font-mono text-xs text-muted">
        {finding.differences.map((difference) => (
          <li key={difference.path + difference.change}>
            {difference.path} {difference.change}: {difference.expected ?? "–"} → {difference.found ?? "–"}
          </li>
        ))}
      </ul>
    </Card>
  ));
}

function RecentCalls({ tool }: { tool: Tool }) {
  const runs = useRecentRuns({ calledToolRef: tool.refName }, 5).data?.items;
  return (
    <Card label="Runs that called it">
      <CardHeader
        title="Runs that called it"
        action={
          <Link to="/runs" search={{ calledToolRef: tool.refName }} className="text-xs font-medium text-muted hover:text-text">
            All
          </Link>
        }
      />
      {runs?.length === 0 && <p className="p-4 text-muted">No run has called this tool yet. Try it to make the first call.</p>}
      <ul>
        {runs?.map((run) => (
          <li key={run.id}>
            <Link to="/runs/$id" params={{ id: run.id }} className="flex items-center gap-3 px-4 py-2 -outline-offset-2 hover:bg-hover">
              <span className="min-w-0 flex-1 truncate">{run.userMessage ? firstLine(run.userMessage) : run.subject}</span>
              <RunStatusBadge status={run.status} />
              <Time at={run.startedAt} className="w-16 shrink-0 text-right text-xs text-faint" />
            </Link>
          </li>
        ))}
      </ul>
    </Card>
  );
}
