import { Link } from "@tanstack/react-router";
import { Bot, Boxes, Plug, Workflow, Wrench } from "lucide-react";
import { Card, CardHeader } from "@/components/Page";
import { Empty, ErrorState, Loading } from "@/components/States";
import { type Tool, useToolUses } from "@/data/tools";

/** Definitions that would notice a change of this tool. */
export function ToolUses({ tool }: { tool: Tool }) {
  const query = useToolUses(tool.refName);
  if (query.isPending) return <Loading />;
  if (query.isError) return <ErrorState error={query.error} onRetry={() => void query.refetch()} />;
  const { agents, tools, providers, types, workflows = [], stepRegistrations = [] } = query.data;
  if (agents.length + tools.length + providers.length + types.length + workflows.length + stepRegistrations.length === 0) {
    return (
      <Empty icon={Boxes} title="Nothing uses this tool">
        Agents use a tool if they name it, or if they name its category or one of its tags.
      </Empty>
    );
  }
  return (
    <div className="grid grid-cols-1 items-start gap-4 lg:grid-cols-2">
      <Group title="Agents" icon={<Bot size={15} aria-hidden />} to="/agents/$ref" items={agents} />
      <Group title="Tools" icon={<Wrench size={15} aria-hidden />} to="/tools/$ref" items={tools} />
      <Group title="Workflows" icon={<Workflow size={15} aria-hidden />} to="/workflows/$ref" items={workflows} />
      <Group title="Integrations" icon={<Plug size={15} aria-hidden />} to="/integrations/$ref" items={providers} />
      <Names title="Step registrations" items={stepRegistrations} />
      <Names title="Entity types" items={types} />
    </div>
  );
}

/** Definitions that have no page of their own. */
function Names({ title, items }: { title: string; items: { refName: string }[] }) {
  if (items.length === 0) return null;
  return (
    <Card label={title}>
      <CardHeader title={title} count={items.length} />
      <p className="p-4">{items.map((item) => item.refName).join(", ")}</p>
    </Card>
  );
}

interface GroupProps {
  title: string;
  icon: React.ReactNode;
  to: "/agents/$ref" | "/tools/$ref" | "/workflows/$ref" | "/integrations/$ref";
  items: { refName: string; by: string[] }[];
}

function Group({ title, icon, to, items }: GroupProps) {
  if (items.length === 0) return null;
  return (
    <Card label={title}>
      <CardHeader title={title} count={items.length} />
      <ul className="divide-y">
        {items.map((item) => (
          <li key={item.refName}>
            <Link to={to} params={{ ref: item.refName }} className="flex items-center gap-2.5 px-4 py-2.5 -outline-offset-2 hover:bg-hover">
              <span className="text-faint">{icon}</span>
              <span className="min-w-0 flex-1 truncate font-medium">{item.refName}</span>
              <span className="text-xs text-faint">by {item.by.join(", ")}</span>
            </Link>
          </li>
        ))}
      </ul>
    </Card>
  );
}
