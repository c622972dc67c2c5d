import { Check, MousePointerClick, ShieldCheck, X } from "lucide-react";
import { useEffect, useState } from "react";
import { Button } from "@/components/Button";
import { Empty, ErrorNote, ErrorState, Loading } from "@/components/States";
import { Time } from "@/components/Time";
import { type Approval, useDecide, useWaitingApprovals } from "@/data/approvals";
import { neighbour, approvalTitle } from "@/model/approval";
import { preview } from "@/model/entries";
import { plural } from "@/model/format";
import { isTyping } from "@/model/keyboard";
import { ApprovalDetail } from "./ApprovalDetail";
import { ListItem, Split } from "./Split";
import { StandingRuleDialog } from "./StandingRuleDialog";

const keyOf = (approval: Approval) => approval.callId;

export function Waiting({ selected, onSelect }: { selected: string | undefined; onSelect: (call: string | undefined) => void }) {
  const query = useWaitingApprovals();
  const [marked, setMarked] = useState<ReadonlySet<string>>(new Set());
  // The dialog stays open while its approval leaves the list.
  const [rule, setRule] = useState<Approval>();
  const items = query.data?.items ?? [];
  const isWide = useIsWide();
  const current = items.find((item) => keyOf(item) === selected) ?? (isWide ? items[0] : undefined);

  useEffect(() => {
    function onKey(event: KeyboardEvent) {
      if (isTyping(event) || event.metaKey || event.ctrlKey || (event.key !== "j" && event.key !== "k")) return;
      const next = neighbour(items, keyOf, current && keyOf(current), event.key === "j" ? 1 : -1);
      if (next) onSelect(keyOf(next));
    }
    window.addEventListener("keydown", onKey);
    return () => window.removeEventListener("keydown", onKey);
  }, [items, current, onSelect]);

  const dialog = rule && <StandingRuleDialog approval={rule} onClose={() => setRule(undefined)} />;
  if (query.isPending) return <Loading />;
  if (query.isError) return <ErrorState error={query.error} onRetry={() => void query.refetch()} />;
  if (items.length === 0) {
    return (
      <>
        {dialog}
        <Empty icon={ShieldCheck} title="No call waits for an approval">
          <p>
            An agent with “requires approval”, or a tool that requires a confirmation, stops before each write. The exact call then appears here, and
            the run continues after your decision.
          </p>
        </Empty>
      </>
    );
  }
  const markedItems = items.filter((item) => marked.has(keyOf(item)));
  function toggle(key: string) {
    const next = new Set(marked);
    if (!next.delete(key)) next.add(key);
    setMarked(next);
  }
  return (
    <>
      {dialog}
      <Split
        showDetail={selected !== undefined && current !== undefined}
        onBack={() => onSelect(undefined)}
        list={
          <>
            {markedItems.length > 0 && <BatchBar items={markedItems} onDone={() => setMarked(new Set())} />}
            <ul aria-label="Calls that wait for an approval">
              {items.map((item) => (
                <ListItem
                  key={item.runId + item.callId}
                  selected={item === current}
                  onSelect={() => onSelect(keyOf(item))}
                  leading={
                    <input
                      type="checkbox"
                      aria-label={`Select ${item.toolRef} of ${item.agentRef}`}
                      checked={marked.has(keyOf(item))}
                      onChange={() => toggle(keyOf(item))}
                      className="size-4 accent-accent-line"
                    />
                  }
                  title={approvalTitle(item)}
                  aside={<Time at={item.requestedAt} />}
                  subtitle={`requested by ${item.agentRef}`}
                  note={preview(item.input)}
                />
              ))}
            </ul>
          </>
        }
        detail={
          current ? (
            <ApprovalDetail
              key={keyOf(current)}
              approval={current}
              onDecided={() => onSelect(isWide ? undefined : selected)}
              onAlways={() => setRule(current)}
            />
          ) : (
            <Empty icon={MousePointerClick} title="Select a call" />
          )
        }
      />
    </>
  );
}

/** Whether list and detail are side by side. */
function useIsWide(): boolean {
  const [wide, setWide] = useState(() => window.matchMedia("(min-width: 64rem)").matches);
  useEffect(() => {
    const query = window.matchMedia("(min-width: 64rem)");
    const listener = () => setWide(query.matches);
    query.addEventListener("change", listener);
    return () => query.removeEventListener("change", listener);
  }, []);
  return wide;
}

function BatchBar({ items, onDone }: { items: Approval[]; onDone: () => void }) {
  const decide = useDecide();
  const submit = (decision: "approve" | "deny") =>
    decide.mutate(
      items.map(({ runId, callId }) => ({ runId, callId, decision })),
      { onSuccess: onDone },
    );
  return (
    <div role="group" aria-label="Selected calls" className="sticky top-0 z-10 flex flex-col gap-2 border-b bg-surface px-4 py-2.5">
      <div className="flex items-center justify-between gap-2">
        <span className="text-[13px] font-medium">{plural(items.length, "call")} selected</span>
        <span className="flex gap-1.5">
          <Button size="sm" variant="danger" busy={decide.isPending} onClick={() => submit("deny")}>
            <X size={13} aria-hidden /> Deny
          </Button>
          <Button size="sm" variant="approve" busy={decide.isPending} onClick={() => submit("approve")}>
            <Check size={13} aria-hidden /> Approve
          </Button>
        </span>
      </div>
      <ErrorNote error={decide.error} />
    </div>
  );
}
