import { getRouteApi, Link } from "@tanstack/react-router";
import { MessageSquarePlus, SendHorizontal, Square } from "lucide-react";
import { useEffect, useMemo, useRef, useState } from "react";
import { Button, ButtonLink } from "@/components/Button";
import { cx } from "@/components/cx";
import { TextArea } from "@/components/Fields";
import { Page } from "@/components/Page";
import { Empty, ErrorNote, ErrorState, Loading } from "@/components/States";
import { Time } from "@/components/Time";
import { type Agent, useAgent, useConversation, useConversations } from "@/data/agents";
import { useCancelRun, useRun } from "@/data/runs";
import { plural } from "@/model/format";
import { hasEnded } from "@/model/status";
import { exchangesOf } from "@/model/transcript";
import { ExchangeView } from "./ExchangeView";
import { useChat } from "./useChat";

const route = getRouteApi("/shell/agents/$ref/playground");

export function Playground() {
  const { ref } = route.useParams();
  const agent = useAgent(ref);
  const [visit, setVisit] = useState(0);
  if (agent.isPending) return <Loading />;
  if (agent.isError) {
    return (
      <Page title={ref} parent={{ to: "/agents", label: "Agents" }}>
        <ErrorState error={agent.error} onRetry={() => void agent.refetch()} />
      </Page>
    );
  }
  return <Loaded key={`${ref} ${visit}`} agent={agent.data} onOther={() => setVisit(visit + 1)} />;
}

/** One visit of one conversation. Another conversation is another visit, so that streams and drafts do not mix. */
function Loaded({ agent, onOther }: { agent: Agent; onOther: () => void }) {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const open = (conversation: string | undefined) => {
    void navigate({ search: conversation ? { conversation } : {} });
    onOther();
  };
  return (
    <Page
      fill
      title={agent.displayName ?? agent.refName}
      documentTitle={`Playground of ${agent.refName}`}
      parent={{ to: "/agents", label: "Agents" }}
      heading={<span className="text-faint">Playground</span>}
      actions={
        <>
          <ButtonLink to="/agents/$ref" params={{ ref: agent.refName }}>
            Configure
          </ButtonLink>
          <Button variant="primary" onClick={() => open(undefined)}>
            <MessageSquarePlus size={14} aria-hidden /> New conversation
          </Button>
        </>
      }
    >
      <div className="-mx-4 flex min-h-0 flex-1 border-t bg-surface sm:-mx-7 lg:mx-0 lg:mb-6 lg:overflow-hidden lg:rounded-lg lg:border lg:shadow-card">
        <aside aria-label="Conversations" className="hidden w-64 shrink-0 flex-col overflow-y-auto border-r bg-sunken lg:flex">
          <Conversations agentRef={agent.refName} selected={search.conversation} onSelect={open} />
        </aside>
        <Chat
          agent={agent}
          conversation={search.conversation}
          run={search.run}
          onRun={(run, conversation) => void navigate({ search: { conversation: conversation ?? search.conversation, run }, replace: true })}
        />
      </div>
    </Page>
  );
}

function Conversations({ agentRef, selected, onSelect }: { agentRef: string; selected: string | undefined; onSelect: (id: string) => void }) {
  const query = useConversations(agentRef);
  if (query.isPending) return <Loading rows={4} />;
  if (query.isError) return <ErrorState error={query.error} />;
  if (query.data.items.length === 0) return <p className="p-4 text-faint">Your conversations with this agent appear here.</p>;
  return (
    <ul className="flex flex-col gap-px p-2">
      {query.data.items.map((conversation) => (
        <li key={conversation.id}>
          <button
            type="button"
            aria-current={conversation.id === selected}
            onClick={() => onSelect(conversation.id)}
            className={cx(
              "w-full rounded-md px-2.5 py-2 text-left",
              conversation.id === selected ? "bg-surface shadow-card ring-1 ring-line" : "hover:bg-hover",
            )}
          >
            <span className="block truncate text-[13px] font-medium">{conversation.title ?? "Conversation"}</span>
            <span className="block text-xs text-faint">
              {plural(conversation.turnCount, "turn")} · <Time at={conversation.updatedAt} />
            </span>
          </button>
        </li>
      ))}
    </ul>
  );
}

interface ChatProps {
  agent: Agent;
  conversation: string | undefined;
  run: string | undefined;
  onRun: (run: string, conversation: string | undefined) => void;
}

function Chat({ agent, conversation, run, onRun }: ChatProps) {
  const [first] = useState({ conversation, run });
  const stored = useConversation(first.conversation);
  const left = useRun(first.run ?? "");
  // A run that ended meanwhile is part of the stored conversation.
  const resume = first.run && left.data && !hasEnded(left.data.status) ? first.run : undefined;
  const chat = useChat({ agentRef: agent.refName, conversation, resumeRun: resume, onRun });
  // The history is what was stored when the page was opened; the exchanges of this visit follow it.
  const [history, setHistory] = useState<ReturnType<typeof exchangesOf>>();
  useEffect(() => {
    if (stored.data && !history) setHistory(exchangesOf(stored.data.turns ?? []));
  }, [stored.data, history]);
  const all = useMemo(() => [...(history ?? []), ...chat.exchanges], [history, chat.exchanges]);
  const end = useRef<HTMLDivElement>(null);
  useEffect(() => end.current?.scrollIntoView({ block: "end" }), [all]);
  if (first.conversation && stored.isPending) return <Loading />;
  return (
    <section aria-label="Chat" className="flex min-w-0 flex-1 flex-col">
      <div className="min-h-0 flex-1 overflow-y-auto" tabIndex={0} role="log" aria-label="Messages">
        <div className="mx-auto flex max-w-3xl flex-col gap-6 px-4 py-6">
          {stored.isError && <ErrorState error={stored.error} />}
          {all.length === 0 && !stored.isError && (
            <Empty icon={SendHorizontal} title={`Talk to ${agent.displayName ?? agent.refName}`}>
              <p>{agent.description ?? "Each message starts a run. You see its text, its tool calls and its approvals as they happen."}</p>
            </Empty>
          )}
          {all.map((exchange) => (
            <ExchangeView key={exchange.key} agentRef={agent.refName} exchange={exchange} />
          ))}
          <ErrorNote error={chat.error} />
          <div ref={end} />
        </div>
      </div>
      <Composer active={chat.active} runId={chat.transcript?.runId} onSend={(text) => void chat.send(text)} />
    </section>
  );
}

function Composer({ active, runId, onSend }: { active: boolean; runId: string | undefined; onSend: (text: string) => void }) {
  const [text, setText] = useState("");
  const cancel = useCancelRun(runId ?? "");
  function submit() {
    const message = text.trim();
    if (message === "" || active) return;
    setText("");
    onSend(message);
  }
  return (
    <form
      className="border-t bg-surface px-4 py-3"
      onSubmit={(event) => {
        event.preventDefault();
        submit();
      }}
    >
      <div className="mx-auto flex max-w-3xl items-end gap-2">
        <TextArea
          aria-label="Message"
          placeholder="Write a message"
          rows={Math.min(8, text.split("\n").length)}
          value={text}
          autoFocus
          onChange={(event) => setText(event.target.value)}
          onKeyDown={(event) => {
            if (event.key !== "Enter" || event.shiftKey || event.nativeEvent.isComposing) return;
            event.preventDefault();
            submit();
          }}
          className="min-h-10 resize-none !py-2.5"
        />
        {active ? (
          <Button size="lg" variant="danger" busy={cancel.isPending} disabled={!runId} onClick={() => cancel.mutate()}>
            <Square size={13} aria-hidden /> Stop
          </Button>
        ) : (
          <Button size="lg" variant="primary" type="submit" disabled={text.trim() === ""}>
            <SendHorizontal size={15} aria-hidden /> Send
          </Button>
        )}
      </div>
      <p className="mx-auto mt-1.5 max-w-3xl text-xs text-faint">
        {runId ? (
          <Link to="/runs/$id" params={{ id: runId }} className="underline underline-offset-2">
            Open this run in the microscope
          </Link>
        ) : (
          "Enter sends, Shift+Enter adds a line. Each message starts a run."
        )}
      </p>
    </form>
  );
}
