import { ArrowRight } from "lucide-react";
import { Badge } from "@/components/Badge";
import { ChangeList } from "@/components/ChangeList";
import type { WorkflowDiff } from "@/data/workflows";
import type { Tone } from "@/model/status";

const TONES: Record<string, Tone> = { added: "ok", removed: "bad", renamed: "active", changed: "wait" };

/** The difference between two workflows: fields, steps and edges. The layout and the order of steps are no difference. */
export function DiffView({ diff }: { diff: WorkflowDiff }) {
  if (diff.equal) return <p className="text-muted">There is no difference, except perhaps in the layout and in the order of the steps.</p>;
  return (
    <div className="flex flex-col gap-4">
      {diff.fields.length > 0 && (
        <section>
          <h3 className="mb-1.5 text-[13px] font-semibold">Workflow</h3>
          <ChangeList changes={diff.fields} />
        </section>
      )}
      {diff.steps.length > 0 && (
        <section>
          <h3 className="mb-1.5 text-[13px] font-semibold">Steps</h3>
          <ul className="flex flex-col gap-2">
            {diff.steps.map((step) => (
              <li key={step.change + step.name} className="rounded-md border">
                <p className="flex flex-wrap items-center gap-2 px-3 py-2">
                  <Badge tone={TONES[step.change] ?? "neutral"}>{step.change}</Badge>
                  <span className="font-medium">{step.name}</span>
                  {step.to && (
                    <>
                      <ArrowRight size={13} aria-label="to" className="text-faint" /> <span className="font-medium">{step.to}</span>
                    </>
                  )}
                  {step.handlerRef && <span className="font-mono text-xs text-faint">{step.handlerRef}</span>}
                </p>
                {step.fields && step.fields.length > 0 && <ChangeList changes={step.fields} nested />}
              </li>
            ))}
          </ul>
        </section>
      )}
      {diff.edges.length > 0 && (
        <section>
          <h3 className="mb-1.5 text-[13px] font-semibold">Edges</h3>
          <ul className="divide-y rounded-md border">
            {diff.edges.map((edge) => (
              <li
                key={`${edge.change} ${edge.from} ${edge.to} ${edge.kind} ${edge.case ?? ""}`}
                className="flex flex-wrap items-center gap-2 px-3 py-1.5"
              >
                <Badge tone={TONES[edge.change] ?? "neutral"}>{edge.change}</Badge>
                {edge.from} <ArrowRight size={13} aria-label="to" className="text-faint" /> {edge.to}
                {edge.kind !== "dependency" && (
                  <span className="text-xs text-faint">
                    {edge.kind} {edge.case ?? edge.codes?.join(", ")}
                  </span>
                )}
              </li>
            ))}
          </ul>
        </section>
      )}
    </div>
  );
}
