import {
  Ban,
  Check,
  Circle,
  CircleDashed,
  CircleHelp,
  CirclePause,
  CircleX,
  CornerUpRight,
  Hourglass,
  MonitorSmartphone,
  ShieldQuestion,
  type LucideIcon,
} from "lucide-react";
import type { ReactNode } from "react";
import { type StatusIcon, type StatusInfo, type Tone, outcome, runStatus } from "@/model/status";
import { cx } from "./cx";

const TONES: Record<Tone, string> = {
  neutral: "bg-neutral-soft text-neutral",
  active: "bg-active-soft text-active",
  ok: "bg-ok-soft text-ok",
  wait: "bg-wait-soft text-wait",
  warn: "bg-warn-soft text-warn",
  bad: "bg-bad-soft text-bad",
};

const TEXT_TONES: Record<Tone, string> = {
  neutral: "text-faint",
  active: "text-active",
  ok: "text-ok",
  wait: "text-wait",
  warn: "text-warn",
  bad: "text-bad",
};

const ICONS: Record<StatusIcon, LucideIcon> = {
  running: CircleDashed,
  done: Check,
  approval: ShieldQuestion,
  waiting: Hourglass,
  paused: CirclePause,
  client: MonitorSmartphone,
  failed: CircleX,
  limit: Hourglass,
  cancelled: Ban,
  pending: Circle,
  skipped: CornerUpRight,
  unknown: CircleHelp,
};

export function Badge({ tone = "neutral", children, title }: { tone?: Tone; children: ReactNode; title?: string }) {
  return (
    <span
      title={title}
      className={cx("inline-flex h-5 shrink-0 items-center gap-1 whitespace-nowrap rounded px-1.5 text-[11.5px] font-medium", TONES[tone])}
    >
      {children}
    </span>
  );
}

export function StatusMark({ info }: { info: StatusInfo }) {
  const Icon = ICONS[info.icon];
  return (
    <Badge tone={info.tone}>
      <Icon aria-hidden size={12} strokeWidth={2.4} className={cx(info.icon === "running" && "animate-spin [animation-duration:3s]")} />
      {info.label}
    </Badge>
  );
}

export function RunStatusBadge({ status }: { status: string }) {
  return <StatusMark info={runStatus(status)} />;
}

export function OutcomeBadge({ name }: { name: string }) {
  return <StatusMark info={outcome(name)} />;
}

/** The icon of a run's status alone, for dense lists. */
export function RunStatusIcon({ status }: { status: string }) {
  return <StatusIconMark info={runStatus(status)} />;
}

/** The icon of a status alone. The label is for screen readers and the hint. */
export function StatusIconMark({ info }: { info: StatusInfo }) {
  const Icon = ICONS[info.icon];
  return (
    <span title={info.label} className={cx("inline-flex shrink-0", TEXT_TONES[info.tone])}>
      <Icon aria-hidden size={15} className={cx(info.icon === "running" && "animate-spin [animation-duration:3s]")} />
      <span className="sr-only">{info.label}</span>
    </span>
  );
}
