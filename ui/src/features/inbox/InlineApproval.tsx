import { Check } from "lucide-react";
import { useState } from "react";
import { Button, ButtonLink } from "@/components/Button";
import { TextArea } from "@/components/Fields";
import { ErrorNote } from "@/components/States";
import { useDecide } from "@/data/approvals";
import type { Json } from "@/model/diff";
import { Arguments } from "./Arguments";

interface InlineApprovalProps {
  approval: { runId: string; callId: string; input?: unknown };
  /** Who reads the reason of a denial. */
  reader: string;
}

/** Decides on a call where it is shown: in a chat or in a workflow instance. */
export function InlineApproval({ approval, reader }: InlineApprovalProps) {
  const decide = useDecide();
  const [denying, setDenying] = useState(false);
  const [reason, setReason] = useState("");
  const problem = decide.data?.results.find((result) => !result.accepted)?.problem;
  const submit = (decision: "approve" | "deny") =>
    decide.mutate([{ runId: approval.runId, callId: approval.callId, decision, reason: reason.trim() || undefined }]);
  const decided = decide.data?.results[0]?.accepted;
  return (
    <div className="flex flex-col gap-3">
      <Arguments input={(approval.input ?? null) as Json} previous={undefined} />
      {denying && (
        <TextArea
          rows={2}
          autoFocus
          aria-label={`Reason, which ${reader} sees`}
          placeholder={`Reason (optional, ${reader} sees it)`}
          value={reason}
          onChange={(event) => setReason(event.target.value)}
        />
      )}
      <ErrorNote error={decide.error ?? (problem ? new Error(problem.detail) : undefined)} />
      <div className="flex flex-wrap gap-2">
        {!denying && (
          <Button variant="approve" busy={decide.isPending} disabled={decided} onClick={() => submit("approve")}>
            <Check size={14} aria-hidden /> Approve
          </Button>
        )}
        <Button variant="danger" busy={decide.isPending} disabled={decided} onClick={() => (denying ? submit("deny") : setDenying(true))}>
          {denying ? "Deny the call" : "Deny"}
        </Button>
        <ButtonLink variant="ghost" to="/inbox" search={{ call: approval.callId }}>
          Details in the inbox
        </ButtonLink>
      </div>
    </div>
  );
}
