import { Link } from "@tanstack/react-router";
import { Bot, MessageSquare, Plus } from "lucide-react";
import { Badge } from "@/components/Badge";
import { ButtonLink } from "@/components/Button";
import { Page } from "@/components/Page";
import { Empty, ErrorState, Loading } from "@/components/States";
import { type Agent, useAgents } from "@/data/agents";
import { plural } from "@/model/format";
import { lifecycle } from "@/model/tools";

export function AgentList() {
  const query = useAgents();
  const agents = query.data?.items ?? [];
  return (
    <Page
      title="Agents"
      description="Instructions, a model, and the tools that it may use within its limits."
      actions={
        <ButtonLink to="/new-agent" variant="primary">
          <Plus size={15} aria-hidden /> New agent
        </ButtonLink>
      }
    >
      {query.isPending && <Loading />}
      {query.isError && <ErrorState error={query.error} onRetry={() => void query.refetch()} />}
      {query.isSuccess && agents.length === 0 && (
        <Empty icon={Bot} title="No agent yet" action={<ButtonLink to="/new-agent">Make the first agent</ButtonLink>}>
          Write its instructions and choose its tools. Then talk to it in the playground.
        </Empty>
      )}
      <ul className="grid grid-cols-1 gap-4 sm:grid-cols-2 xl:grid-cols-3">
        {agents.map((agent) => (
          <AgentCard key={agent.refName} agent={agent} />
        ))}
      </ul>
    </Page>
  );
}

function AgentCard({ agent }: { agent: Agent }) {
  const state = lifecycle(agent.enabled === false ? "disabled" : (agent.status ?? "active"));
  const sources = [
    agent.toolRefs?.length ? plural(agent.toolRefs.length, "tool") : undefined,
    agent.toolCategories?.length ? plural(agent.toolCategories.length, "category", "categories") : undefined,
    agent.toolTags?.length ? plural(agent.toolTags.length, "tag") : undefined,
    agent.delegateAgentRefs?.length ? plural(agent.delegateAgentRefs.length, "delegate") : undefined,
  ].filter((part) => part !== undefined);
  return (
    <li className="relative flex flex-col gap-2 rounded-lg border bg-surface p-4 shadow-card hover:border-line-strong">
      <div className="flex items-start justify-between gap-3">
        <div className="min-w-0">
          <Link to="/agents/$ref" params={{ ref: agent.refName }} className="block truncate font-semibold before:absolute before:inset-0">
            {agent.displayName ?? agent.refName}
          </Link>
          <p className="truncate text-xs text-faint">
            {agent.refName} · {agent.version}
          </p>
        </div>
        {state.label !== "Active" && <Badge tone={state.tone}>{state.label}</Badge>}
      </div>
      <p className="line-clamp-2 min-h-[2lh] text-muted">{agent.description ?? "No description."}</p>
      <div className="mt-auto flex items-center justify-between gap-2 pt-1">
        <span className="truncate text-xs text-faint">{sources.join(", ") || "no tools"}</span>
        <span className="flex items-center gap-2">
          {agent.requiresApproval && <Badge tone="wait">Asks before writes</Badge>}
          <ButtonLink size="sm" to="/agents/$ref/playground" params={{ ref: agent.refName }} className="relative">
            <MessageSquare size={13} aria-hidden /> Talk
          </ButtonLink>
        </span>
      </div>
    </li>
  );
}
