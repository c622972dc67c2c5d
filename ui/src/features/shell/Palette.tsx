import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { Command } from "cmdk";
import { Bot, MessageSquare, Moon, Plus, Search, Sun, Waypoints, Workflow, Wrench } from "lucide-react";
import { Dialog } from "radix-ui";
import { type ReactNode, useState } from "react";
import { api, read } from "@/api/client";
import { RunStatusIcon } from "@/components/Badge";
import { useAgents } from "@/data/agents";
import { setTheme } from "@/data/theme";
import { shortId } from "@/model/format";
import { workflowQuery } from "@/model/workflowFilters";
import { NAVIGATION } from "./navigation";

const ITEM = "flex h-9 cursor-pointer items-center gap-2.5 rounded-md px-2.5 text-[13px] data-[selected=true]:bg-hover";
const GROUP =
  "px-1.5 pb-1.5 [&_[cmdk-group-heading]]:px-2.5 [&_[cmdk-group-heading]]:py-1.5 [&_[cmdk-group-heading]]:text-[11px] [&_[cmdk-group-heading]]:font-medium [&_[cmdk-group-heading]]:text-faint";
const RUN_ID = /^run_[0-9A-Z]{26}$/i;

function useFound(text: string) {
  const enabled = text.length > 1;
  const tools = useQuery({
    queryKey: ["tools", "palette", text],
    queryFn: () => read(api.GET("/api/v1/ai-tools", { params: { query: { text, limit: 6 } } })),
    enabled,
  });
  const runs = useQuery({
    queryKey: ["runs", "palette", text],
    queryFn: () => read(api.GET("/api/v1/ai/runs", { params: { query: { text, limit: 5 } } })),
    enabled,
  });
  const workflows = useQuery({
    queryKey: ["workflows", "palette", text],
    queryFn: () => read(api.GET("/api/v1/ai/workflows", { params: { query: { query: workflowQuery({ text }), limit: "5" } } })),
    enabled,
  });
  return {
    workflows: (enabled && workflows.data?.items) || [],
    tools: (enabled && tools.data?.items) || [],
    runs: (enabled && runs.data?.items) || [],
  };
}

/** Goes anywhere and finds anything by its name. */
export function Palette({ onClose }: { onClose: () => void }) {
  const [text, setText] = useState("");
  const navigate = useNavigate();
  const agents = useAgents().data?.items ?? [];
  const { workflows, tools, runs } = useFound(text.trim());
  const needle = text.trim().toLowerCase();
  const matches = (name: string) => name.toLowerCase().includes(needle);
  function item(value: string, icon: ReactNode, label: ReactNode, onSelect: () => void, detail?: ReactNode) {
    return (
      <Command.Item
        key={value}
        value={value}
        className={ITEM}
        onSelect={() => {
          onClose();
          onSelect();
        }}
      >
        <span className="text-faint">{icon}</span>
        <span className="max-w-[65%] shrink-0 truncate">{label}</span>
        {detail && <span className="ml-auto truncate pl-3 text-xs text-faint">{detail}</span>}
      </Command.Item>
    );
  }
  const pages = NAVIGATION.flatMap((group) => group.items).filter((page) => matches(page.label));
  const found = agents.filter((agent) => matches(agent.refName) || matches(agent.displayName ?? "")).slice(0, 5);
  const commands = [
    { name: "New agent", icon: <Plus size={15} aria-hidden />, run: () => void navigate({ to: "/new-agent" }) },
    { name: "New workflow", icon: <Plus size={15} aria-hidden />, run: () => void navigate({ to: "/new-workflow" }) },
    { name: "New tool", icon: <Plus size={15} aria-hidden />, run: () => void navigate({ to: "/new-tool" }) },
    { name: "Light theme", icon: <Sun size={15} aria-hidden />, run: () => setTheme("light") },
    { name: "Dark theme", icon: <Moon size={15} aria-hidden />, run: () => setTheme("dark") },
  ].filter((command) => matches(command.name));
  return (
    <Dialog.Root open onOpenChange={(open) => !open && onClose()}>
      <Dialog.Portal>
        <Dialog.Overlay className="fixed inset-0 z-50 bg-scrim" />
        <Dialog.Content
          aria-describedby=""
          className="fixed top-[14vh] left-1/2 z-50 w-[calc(100vw-2rem)] max-w-xl -translate-x-1/2 overflow-hidden rounded-xl bg-surface shadow-pop"
        >
          <Dialog.Title className="sr-only">Search and commands</Dialog.Title>
          <Command shouldFilter={false} label="Search and commands" loop>
            <div className="flex items-center gap-2.5 border-b px-4">
              <Search size={16} className="text-faint" aria-hidden />
              <Command.Input
                value={text}
                onValueChange={setText}
                placeholder="Search agents, workflows, tools and runs, or type a command"
                className="h-12 w-full bg-transparent text-[14px] outline-none"
              />
            </div>
            <Command.List className="max-h-[55vh] overflow-y-auto pt-1.5">
              <Command.Empty className="px-4 py-8 text-center text-muted">Nothing found. Try another word, or paste the id of a run.</Command.Empty>
              {RUN_ID.test(text.trim()) && (
                <Command.Group heading="Run" className={GROUP}>
                  {item(
                    "run-id",
                    <Waypoints size={15} aria-hidden />,
                    `Open ${shortId(text.trim())}`,
                    () => void navigate({ to: "/runs/$id", params: { id: text.trim() } }),
                  )}
                </Command.Group>
              )}
              {pages.length > 0 && (
                <Command.Group heading="Go to" className={GROUP}>
                  {pages.map((page) =>
                    item(`page-${page.to}`, <page.icon size={15} aria-hidden />, page.label, () => void navigate({ to: page.to }), `g ${page.key}`),
                  )}
                </Command.Group>
              )}
              {found.length > 0 && (
                <Command.Group heading="Agents" className={GROUP}>
                  {found.flatMap((agent) => [
                    item(
                      `agent-${agent.refName}`,
                      <Bot size={15} aria-hidden />,
                      agent.displayName ?? agent.refName,
                      () => void navigate({ to: "/agents/$ref", params: { ref: agent.refName } }),
                      agent.refName,
                    ),
                    needle !== "" &&
                      item(
                        `chat-${agent.refName}`,
                        <MessageSquare size={15} aria-hidden />,
                        `Chat with ${agent.displayName ?? agent.refName}`,
                        () => void navigate({ to: "/agents/$ref/playground", params: { ref: agent.refName } }),
                      ),
                  ])}
                </Command.Group>
              )}
              {workflows.length > 0 && (
                <Command.Group heading="Workflows" className={GROUP}>
                  {workflows.map((workflow) =>
                    item(
                      `workflow-${workflow.refName}`,
                      <Workflow size={15} aria-hidden />,
                      workflow.refName,
                      () => void navigate({ to: "/workflows/$ref", params: { ref: workflow.refName } }),
                      workflow.description,
                    ),
                  )}
                </Command.Group>
              )}
              {tools.length > 0 && (
                <Command.Group heading="Tools" className={GROUP}>
                  {tools.map((tool) =>
                    item(
                      `tool-${tool.slug}`,
                      <Wrench size={15} aria-hidden />,
                      tool.slug,
                      () => void navigate({ to: "/tools/$ref", params: { ref: tool.slug } }),
                      tool.description,
                    ),
                  )}
                </Command.Group>
              )}
              {runs.length > 0 && (
                <Command.Group heading="Runs" className={GROUP}>
                  {runs.map((run) =>
                    item(
                      `run-${run.id}`,
                      <RunStatusIcon status={run.status} />,
                      run.userMessage ?? run.subject,
                      () => void navigate({ to: "/runs/$id", params: { id: run.id } }),
                      run.subject,
                    ),
                  )}
                </Command.Group>
              )}
              {commands.length > 0 && (
                <Command.Group heading="Commands" className={GROUP}>
                  {commands.map((command) => item(`command-${command.name}`, command.icon, command.name, command.run))}
                </Command.Group>
              )}
            </Command.List>
          </Command>
        </Dialog.Content>
      </Dialog.Portal>
    </Dialog.Root>
  );
}
