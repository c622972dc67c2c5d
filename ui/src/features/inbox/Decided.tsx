import { Link } from "@tanstack/react-router";
import { History, MousePointerClick } from "lucide-react";
import { OutcomeBadge } from "@/components/Badge";
import { Button } from "@/components/Button";
import { Facts } from "@/components/Fields";
import { Empty, ErrorState, Loading } from "@/components/States";
import { Time } from "@/components/Time";
import { type Approval, useDecidedApprovals } from "@/data/approvals";
import { approvalTitle } from "@/model/approval";
import type { Json } from "@/model/diff";
import { preview } from "@/model/entries";
import { exactTime, shortId } from "@/model/format";
import { Arguments } from "./Arguments";
import { ListItem, Split } from "./Split";

export function Decided({ selected, onSelect }: { selected: string | undefined; onSelect: (call: string | undefined) => void }) {
  const query = useDecidedApprovals();
  if (query.isPending) return <Loading />;
  if (query.isError) return <ErrorState error={query.error} onRetry={() => void query.refetch()} />;
  const items = query.data.pages.flatMap((page) => page.items);
  if (items.length === 0) {
    return (
      <Empty icon={History} title="Nothing was decided yet">
        Each decision stays here: who decided what, when, and why.
      </Empty>
    );
  }
  const current = items.find((item) => item.callId === selected);
  return (
    <Split
      showDetail={current !== undefined}
      onBack={() => onSelect(undefined)}
      list={
        <>
          <ul aria-label="Decided calls">
            {items.map((item) => (
              <ListItem
                key={item.runId + item.callId}
                selected={item === current}
                onSelect={() => onSelect(item.callId)}
                title={approvalTitle(item)}
                aside={item.decision && <OutcomeBadge name={item.decision.outcome} />}
                subtitle={
                  item.decision && (
                    <>
                      {item.decision.decidedBy ? `by ${item.decision.decidedBy}, ` : ""}
                      <Time at={item.decision.decidedAt} />
                    </>
                  )
                }
                note={preview(item.input)}
              />
            ))}
          </ul>
          {query.hasNextPage && (
            <Button variant="ghost" className="m-3" busy={query.isFetchingNextPage} onClick={() => void query.fetchNextPage()}>
              Load more
            </Button>
          )}
        </>
      }
      detail={
        current ? (
          <DecidedDetail approval={current} />
        ) : (
          <Empty icon={MousePointerClick} title="Select a decision">
            See the exact arguments and the reason.
          </Empty>
        )
      }
    />
  );
}

function DecidedDetail({ approval }: { approval: Approval }) {
  const decision = approval.decision;
  if (!decision) return null;
  const edited = decision.input as Json | undefined;
  return (
    <article className="flex flex-col gap-5 px-4 py-5 sm:px-6">
      <header>
        <p className="text-muted">{approval.agentRef} requested</p>
        <h2 className="text-lg font-semibold">
          {approvalTitle(approval)} <span className="text-sm font-normal text-faint">{approval.version}</span>
        </h2>
      </header>
      <Facts
        items={[
          ["Decision", <OutcomeBadge key="outcome" name={decision.outcome} />],
          ["Decided by", decision.decidedBy],
          ["Decided", exactTime(decision.decidedAt)],
          ["Requested", exactTime(approval.requestedAt)],
          ["Reason", decision.reason],
          [
            "Run",
            <Link key="run" to="/runs/$id" params={{ id: approval.runId }} className="underline underline-offset-2">
              {shortId(approval.runId)}
            </Link>,
          ],
        ]}
      />
      <section>
        <h3 className="mb-2 text-[13px] font-semibold">
          {edited === undefined ? "Arguments" : "Edited arguments, compared with the requested ones"}
        </h3>
        <Arguments input={edited ?? (approval.input as Json)} previous={edited === undefined ? undefined : (approval.input as Json)} />
      </section>
    </article>
  );
}
