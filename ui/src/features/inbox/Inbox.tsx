import { getRouteApi } from "@tanstack/react-router";
import { Segments } from "@/components/Fields";
import { Page } from "@/components/Page";
import { useClientActions, useWaitingApprovals } from "@/data/approvals";
import type { InboxTab } from "@/router";
import { ClientActions } from "./ClientActions";
import { Decided } from "./Decided";
import { Waiting } from "./Waiting";

const route = getRouteApi("/shell/inbox");

export function Inbox() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const tab = search.tab ?? "waiting";
  const waiting = useWaitingApprovals().data?.items.length;
  const actions = useClientActions().data?.length;
  const select = (call: string | undefined) => void navigate({ search: (previous) => ({ ...previous, call }), replace: search.call !== undefined });
  return (
    <Page
      fill
      title="Inbox"
      actions={
        <Segments<InboxTab>
          label="Kind"
          value={tab}
          onChange={(next) => void navigate({ search: { tab: next } })}
          options={[
            { value: "waiting", label: <Counted text="Approvals" count={waiting} /> },
            { value: "client", label: <Counted text="Client actions" count={actions} /> },
            { value: "decided", label: "Decided" },
          ]}
        />
      }
    >
      {tab === "waiting" && <Waiting selected={search.call} onSelect={select} />}
      {tab === "client" && <ClientActions selected={search.call} onSelect={select} />}
      {tab === "decided" && <Decided selected={search.call} onSelect={select} />}
    </Page>
  );
}

function Counted({ text, count }: { text: string; count: number | undefined }) {
  return (
    <>
      {text}
      {count ? <span className="ml-1.5 text-wait tabular">{count}</span> : null}
    </>
  );
}
