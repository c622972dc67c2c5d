import { Link, type LinkProps } from "@tanstack/react-router";
import { Check, X } from "lucide-react";
import { useState } from "react";
import { IconButton } from "@/components/Button";
import { cx } from "@/components/cx";
import { Card } from "@/components/Page";
import { useAgentCount, useAgents } from "@/data/agents";
import { useDecidedApprovals } from "@/data/approvals";
import { useRunCount } from "@/data/runs";
import { useModels } from "@/data/server";
import { useToolCount } from "@/data/tools";
import { type Step, firstSteps } from "@/model/firstSteps";

const DISMISSED = "toolwright.first-steps-dismissed";

/** Shown until every step is done or the user closes it. */
export function FirstSteps() {
  const [dismissed, setDismissed] = useState(() => localStorage.getItem(DISMISSED) === "1");
  if (dismissed) return null;
  return (
    <Steps
      onDismiss={() => {
        localStorage.setItem(DISMISSED, "1");
        setDismissed(true);
      }}
    />
  );
}

function Steps({ onDismiss }: { onDismiss: () => void }) {
  const models = useModels().data;
  const tools = useToolCount().data;
  const agents = useAgentCount().data;
  const first = useAgents().data?.items[0]?.refName;
  const agentRuns = useRunCount({ kind: "agent" }).data;
  const decided = useDecidedApprovals().data;
  if (!models || tools === undefined || agents === undefined || agentRuns === undefined || !decided) return null;
  const steps = firstSteps({
    hasModel: models.items.some((model) => model.credentialConfigured),
    tools,
    agents,
    agentRuns,
    decisions: decided.pages[0]?.items.length ?? 0,
  });
  const done = steps.filter((step) => step.done).length;
  if (done === steps.length) return null;
  const next = steps.find((step) => !step.done);
  const links: Record<Step["id"], LinkProps> = {
    model: { to: "/agents" },
    tool: { to: "/new-tool" },
    agent: { to: "/new-agent" },
    run: first ? { to: "/agents/$ref/playground", params: { ref: first } } : { to: "/agents" },
    decision: { to: "/inbox" },
  };
  return (
    <Card label="First steps" className="mb-4">
      <div className="flex items-center justify-between gap-3 px-4 pt-3">
        <h2 className="text-[13px] font-semibold">
          First steps <span className="ml-1 font-normal text-faint tabular">{`${done} of ${steps.length}`}</span>
        </h2>
        <IconButton label="Hide the first steps" size="icon-sm" onClick={onDismiss}>
          <X size={14} aria-hidden />
        </IconButton>
      </div>
      <ol className="flex flex-wrap gap-x-1 gap-y-0.5 px-2 pt-1 pb-2">
        {steps.map((step) => (
          <li key={step.id}>
            <Link
              {...links[step.id]}
              className={cx("flex items-center gap-2 rounded-md px-2 py-1.5 hover:bg-hover", step.done ? "text-muted" : "font-medium")}
            >
              <span
                className={cx(
                  "grid size-4 shrink-0 place-items-center rounded-full border",
                  step.done ? "border-transparent bg-ok-soft text-ok" : "border-line-strong",
                )}
              >
                {step.done && <Check size={11} strokeWidth={3} aria-label="done" />}
              </span>
              {step.title}
            </Link>
          </li>
        ))}
      </ol>
      <p className="border-t px-4 py-2.5 text-muted">
        <span className="font-medium text-text">Next: </span>
        {next?.detail}
      </p>
    </Card>
  );
}
