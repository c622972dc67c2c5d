import { Link } from "@tanstack/react-router";
import { Bot, Wrench } from "lucide-react";
import { useState } from "react";
import { Badge } from "@/components/Badge";
import { SearchInput } from "@/components/Fields";
import { SideEffectsBadge } from "@/components/Labels";
import { Card } from "@/components/Page";
import { Empty, ErrorState, Loading } from "@/components/States";
import { type Agent, useAgentTools } from "@/data/agents";
import { firstLine } from "@/model/format";

/** The tools that the agent has for the caller, and which of them the model would see for a message. */
export function AgentTools({ agent }: { agent: Agent }) {
  const [message, setMessage] = useState("");
  const query = useAgentTools(agent.refName, message);
  const tools = query.data?.items ?? [];
  return (
    <div className="flex flex-col gap-3">
      <div className="flex flex-wrap items-center gap-3">
        <SearchInput label="A message of the user" value={message} onChange={setMessage} className="w-full sm:w-96" />
        <p className="text-muted">Which tools would the model see for this message?</p>
      </div>
      {query.isPending && <Loading />}
      {query.isError && <ErrorState error={query.error} onRetry={() => void query.refetch()} />}
      {query.isSuccess && tools.length === 0 && (
        <Empty icon={Wrench} title="The agent has no tools">
          It can still answer from its instructions. Add tools in the settings.
        </Empty>
      )}
      {tools.length > 0 && (
        <Card label="Tools of the agent">
          <ul className="divide-y">
            {tools.map((tool) => (
              <li key={tool.refName}>
                <Link
                  to={tool.delegate ? "/agents/$ref" : "/tools/$ref"}
                  params={{ ref: tool.refName }}
                  className="flex items-center gap-3 px-4 py-2.5 -outline-offset-2 hover:bg-hover"
                >
                  <span className="text-faint">{tool.delegate ? <Bot size={15} aria-hidden /> : <Wrench size={15} aria-hidden />}</span>
                  <span className="min-w-0 flex-1">
                    <span className="block truncate font-medium">
                      {tool.refName} <span className="font-normal text-faint">{tool.version}</span>
                    </span>
                    <span className="block truncate text-xs text-faint">{firstLine(tool.description)}</span>
                  </span>
                  <span className="hidden shrink-0 gap-1.5 sm:flex">
                    {tool.requiresConfirmation && <Badge tone="wait">Asks</Badge>}
                    <SideEffectsBadge value={tool.sideEffects} />
                    <Badge tone={tool.shown ? "ok" : "neutral"}>{tool.shown ? "Shown" : "By search"}</Badge>
                  </span>
                </Link>
              </li>
            ))}
          </ul>
        </Card>
      )}
    </div>
  );
}
