import { getRouteApi, Link } from "@tanstack/react-router";
import { MessageSquare } from "lucide-react";
import { useMemo } from "react";
import { Badge, RunStatusBadge } from "@/components/Badge";
import { ButtonLink } from "@/components/Button";
import { Facts } from "@/components/Fields";
import { Card, CardHeader, Page } from "@/components/Page";
import { ErrorState, Loading, Warnings } from "@/components/States";
import { TabBar } from "@/components/TabBar";
import { Time } from "@/components/Time";
import { type Agent, useAgent, useChangeAgent } from "@/data/agents";
import { useRecentRuns } from "@/data/runs";
import { fromDefinition, toPatch } from "@/model/agentForm";
import { firstLine } from "@/model/format";
import { lifecycle } from "@/model/tools";
import { AgentForm } from "./AgentForm";
import { AgentLimits } from "./AgentLimits";
import { AgentSource } from "./AgentSource";
import { AgentTools } from "./AgentTools";

const route = getRouteApi("/shell/agents/$ref");

export function AgentDetail() {
  const { ref } = route.useParams();
  const query = useAgent(ref);
  if (query.isPending) return <Loading />;
  if (query.isError) {
    return (
      <Page title={ref} parent={{ to: "/agents", label: "Agents" }}>
        <ErrorState error={query.error} onRetry={() => void query.refetch()} />
      </Page>
    );
  }
  return <Loaded key={ref} agent={query.data} />;
}

function Loaded({ agent }: { agent: Agent }) {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const state = lifecycle(agent.enabled === false ? "disabled" : (agent.status ?? "active"));
  return (
    <Page
      title={agent.displayName ?? agent.refName}
      parent={{ to: "/agents", label: "Agents" }}
      heading={
        <>
          <span className="text-faint">
            {agent.displayName && `${agent.refName} · `}
            {agent.version}
          </span>
          <Badge tone={state.tone}>{state.label}</Badge>
          {agent.requiresApproval && <Badge tone="wait">Asks before writes</Badge>}
        </>
      }
      description={agent.description}
      actions={
        <ButtonLink variant="primary" to="/agents/$ref/playground" params={{ ref: agent.refName }}>
          <MessageSquare size={14} aria-hidden /> Playground
        </ButtonLink>
      }
    >
      <Warnings items={agent.warnings} />
      <TabBar
        label="Agent"
        value={search.tab ?? "overview"}
        onChange={(tab) => void navigate({ search: { tab: tab as typeof search.tab }, replace: true })}
        tabs={[
          { value: "overview", label: "Overview", content: <Overview agent={agent} /> },
          { value: "settings", label: "Settings", content: <Settings key={agent.revision} agent={agent} /> },
          { value: "tools", label: "Tools", content: <AgentTools agent={agent} /> },
          { value: "limits", label: "Limits and cost", content: <AgentLimits agent={agent} /> },
          { value: "source", label: "Source", content: <AgentSource agent={agent} /> },
        ]}
      />
    </Page>
  );
}

function Overview({ agent }: { agent: Agent }) {
  const model = agent.llmConfig?.model;
  return (
    <div className="grid grid-cols-1 items-start gap-4 lg:grid-cols-[minmax(0,1.3fr)_minmax(0,1fr)]">
      <div className="flex flex-col gap-4">
        <Card label="System prompt">
          <CardHeader title="System prompt" />
          <p className="max-h-96 overflow-y-auto p-4 whitespace-pre-wrap" tabIndex={0}>
            {agent.systemPrompt || <span className="text-muted">The agent has no instructions of its own.</span>}
          </p>
        </Card>
        <Card label="Facts">
          <CardHeader title="Behaviour" />
          <div className="p-4">
            <Facts
              items={[
                ["Model", model ? `${agent.llmConfig?.provider ? `${agent.llmConfig.provider}/` : ""}${model}` : "Default of the server"],
                ["Fallback", typeof agent.fallbackModel === "string" ? agent.fallbackModel : agent.fallbackModel?.model],
                ["Prompt parts", agent.systemPromptRefs?.join(", ")],
                ["Categories", agent.toolCategories?.join(", ")],
                ["Tools", agent.toolRefs?.join(", ")],
                ["Delegates", agent.delegateAgentRefs?.length ? <Delegates refs={agent.delegateAgentRefs} /> : undefined],
                ["Memory", agent.memoryConfig?.strategy],
                ["Pins", agent.pins?.map((pin) => pin.name ?? pin.selector.tool).join(", ")],
                ["Acts as", agent.principalRef ?? "the caller"],
                ["Changed", <Changed key="changed" agent={agent} />],
              ]}
            />
          </div>
        </Card>
      </div>
      <RecentRuns agent={agent} />
    </div>
  );
}

function Changed({ agent }: { agent: Agent }) {
  return (
    <>
      <Time at={agent.updatedAt} /> by {agent.updatedBy}, revision {agent.revision}
    </>
  );
}

function Delegates({ refs }: { refs: string[] }) {
  return refs.map((ref) => (
    <Link key={ref} to="/agents/$ref" params={{ ref }} className="mr-2 underline underline-offset-2">
      {ref}
    </Link>
  ));
}

function RecentRuns({ agent }: { agent: Agent }) {
  const runs = useRecentRuns({ agentRef: agent.refName }, 8).data?.items;
  return (
    <Card label="Recent runs">
      <CardHeader
        title="Recent runs"
        action={
          <Link to="/runs" search={{ agentRef: agent.refName }} className="text-xs font-medium text-muted hover:text-text">
            All
          </Link>
        }
      />
      {runs?.length === 0 && <p className="p-4 text-muted">This agent has not run yet. Open the playground and talk to it.</p>}
      <ul>
        {runs?.map((run) => (
          <li key={run.id}>
            <Link to="/runs/$id" params={{ id: run.id }} className="flex items-center gap-3 px-4 py-2 -outline-offset-2 hover:bg-hover">
              <span className="min-w-0 flex-1 truncate">{firstLine(run.userMessage ?? run.subject)}</span>
              <RunStatusBadge status={run.status} />
              <Time at={run.startedAt} className="w-16 shrink-0 text-right text-xs text-faint" />
            </Link>
          </li>
        ))}
      </ul>
    </Card>
  );
}

function Settings({ agent }: { agent: Agent }) {
  const change = useChangeAgent(agent.refName);
  const initial = useMemo(() => fromDefinition(agent), [agent]);
  return (
    <AgentForm
      initial={initial}
      isNew={false}
      busy={change.isPending}
      error={change.error}
      submitLabel="Save"
      onSubmit={(form) => change.mutate(toPatch(initial, form))}
    />
  );
}
