import { Button } from "@/components/Button";
import { CodeBlock } from "@/components/Code";
import { Dialog } from "@/components/Overlay";
import { ErrorNote } from "@/components/States";
import { useChangeAgent } from "@/data/agents";
import { type Approval, useApproveAndWait } from "@/data/approvals";
import { useRun } from "@/data/runs";
import { useChangeTool } from "@/data/tools";
import { standingRules } from "@/model/approval";

/** Shows the exact change after which calls like this one need no approval, and makes it. */
export function StandingRuleDialog({ approval, onClose }: { approval: Approval; onClose: () => void }) {
  const run = useRun(approval.runId).data;
  const { rules, impossible } = standingRules(approval.triggers, approval.toolRef, approval.agentRef, run?.kind);
  const approve = useApproveAndWait();
  const changeTool = useChangeTool(approval.toolRef);
  const changeAgent = useChangeAgent(approval.agentRef);

  // A change of the definitions behind a call invalidates its request, so the call is approved and made first.
  async function apply() {
    await approve.mutateAsync(approval);
    for (const rule of rules) {
      await (rule.kind === "tool" ? changeTool.mutateAsync(rule.patch) : changeAgent.mutateAsync(rule.patch));
    }
    onClose();
  }

  return (
    <Dialog
      open
      onClose={onClose}
      title="Always allow calls like this"
      description={impossible ? undefined : "These changes are written to the definitions. They apply to all later calls, not only to this one."}
      footer={
        <>
          <Button variant="ghost" onClick={onClose}>
            Cancel
          </Button>
          <Button
            variant="primary"
            disabledReason={impossible}
            busy={approve.isPending || changeTool.isPending || changeAgent.isPending}
            onClick={() => void apply().catch(() => undefined)}
          >
            Approve and write the rule
          </Button>
        </>
      }
    >
      <div className="flex flex-col gap-4">
        {impossible && <p className="text-muted">{impossible}</p>}
        {rules.map((rule) => (
          <div key={rule.kind}>
            <p className="mb-1.5 font-medium">{rule.consequence}</p>
            <CodeBlock label="change" text={`PATCH /api/v1/ai/${rule.kind}s/${encodeURIComponent(rule.ref)}\n${JSON.stringify(rule.patch)}`} />
          </div>
        ))}
        {!impossible && (
          <p className="text-xs text-faint">
            This call is approved first. Then the change is written; other calls that wait now must be requested again. To turn the setting on again,
            edit the tool or agent.
          </p>
        )}
        <ErrorNote error={approve.error ?? changeTool.error ?? changeAgent.error} />
      </div>
    </Dialog>
  );
}
