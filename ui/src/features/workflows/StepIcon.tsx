import { Bot, GitBranch, Hourglass, type LucideIcon, Merge, Radio, Shuffle, ShieldQuestion, SquarePen, Workflow, Wrench } from "lucide-react";
import type { StepKind } from "@/model/workflow/graph";

const ICONS: Record<StepKind, LucideIcon> = {
  tool: Wrench,
  agent: Bot,
  workflow: Workflow,
  transform: Shuffle,
  branch: GitBranch,
  join: Merge,
  sleep: Hourglass,
  signal: Radio,
  approval: ShieldQuestion,
  form: SquarePen,
};

export function StepIcon({ kind, size = 15 }: { kind: StepKind; size?: number }) {
  const Icon = ICONS[kind];
  return <Icon size={size} aria-hidden className="shrink-0" />;
}
