import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { Badge } from "@/components/Badge";
import { CodeBlock, JsonView } from "@/components/Code";
import { Facts } from "@/components/Fields";
import { ErrorState, Loading } from "@/components/States";
import { type Run, useEntry } from "@/data/runs";
import type { EntrySummary } from "@/model/entries";
import { type CallPart, entryParts } from "@/model/entryParts";
import { cost, count, duration, exactTime, shortId } from "@/model/format";

/** One entry of the journal in detail. */
export function EntryInspector({ run, entry }: { run: Run; entry: EntrySummary | undefined }) {
  const query = useEntry(run.id, entry?.n);
  if (!entry) return <Loading rows={4} />;
  if (query.isError) return <ErrorState error={query.error} onRetry={() => void query.refetch()} />;
  const loaded = query.data?.n === entry.n ? query.data : undefined;
  const took = entry.end - entry.start;
  return (
    <div className="min-h-0 flex-1 overflow-y-auto pb-6">
      <h2 className="flex flex-wrap items-center gap-2 text-[15px] font-semibold">
        <span className="[overflow-wrap:anywhere]">{entry.title}</span>
        {entry.failed && <Badge tone="bad">Failed</Badge>}
        <span className="text-xs font-normal text-faint">
          entry {entry.n} · {entry.kind}
        </span>
      </h2>
      <div className="mt-3">
        <Facts
          items={[
            ["At", exactTime(new Date(entry.end))],
            ["Took", took > 0 ? duration(took) : undefined],
            ["Tokens", entry.tokens ? count(entry.tokens) : undefined],
            ["Cost", entry.costUsd ? cost(entry.costUsd) : undefined],
            ["Call", entry.callId && <span className="font-mono text-xs">{entry.callId}</span>],
            ["Child run", entry.childRunId && <ChildLink id={entry.childRunId} />],
            ["Fork here", entry.canFork ? undefined : entry.whyNot],
          ]}
        />
      </div>
      {loaded ? <Body body={loaded.body} /> : <Loading rows={4} />}
    </div>
  );
}

function ChildLink({ id }: { id: string }) {
  return (
    <Link to="/runs/$id" params={{ id }} className="font-mono text-xs underline underline-offset-2">
      {shortId(id)}
    </Link>
  );
}

function Body({ body }: { body: Record<string, unknown> }) {
  const parts = entryParts(body);
  return (
    <div className="mt-5 flex flex-col gap-5">
      {parts.text && (
        <Section title="Text">
          <p className="max-w-[80ch] whitespace-pre-wrap">{parts.text}</p>
        </Section>
      )}
      {parts.error && (
        <Section title="Error">
          <div className="rounded-md bg-bad-soft px-3 py-2 text-bad">
            <span className="font-mono text-xs">{parts.error.code}</span>
            <p className="[overflow-wrap:anywhere]">{parts.error.message}</p>
          </div>
        </Section>
      )}
      {parts.calls.map((call) => (
        <CallSection key={call.key} call={call} />
      ))}
      {parts.prompt && (
        <Section title="Instructions">
          <CodeBlock text={parts.prompt} label="instructions" className="max-h-72" />
        </Section>
      )}
      <details className="group">
        <summary className="cursor-pointer text-[13px] font-medium text-muted hover:text-text">The whole entry as JSON</summary>
        <JsonView value={body} label="entry" className="mt-2" />
      </details>
    </div>
  );
}

function CallSection({ call }: { call: CallPart }) {
  return (
    <Section
      title={
        <>
          <Link to="/tools/$ref" params={{ ref: call.name }} className="hover:underline">
            {call.name}
          </Link>
          {call.version && <span className="ml-1 font-normal text-faint">{call.version}</span>}
        </>
      }
    >
      {call.policy && (
        <p className="mb-2 text-muted">
          {call.allowed ? "Allowed by the policy" : "Decided by the policy"} <span className="font-mono text-xs">{call.policy}</span>
          {call.principal && ` for ${call.principal}`}.
        </p>
      )}
      {call.input !== undefined && (
        <>
          <Label>Input</Label>
          <JsonView value={call.input} label="input" />
        </>
      )}
      {call.output !== undefined && (
        <>
          <Label>Output</Label>
          <JsonView value={call.output} label="output" className="max-h-96" />
        </>
      )}
      {call.error && <p className="mt-2 rounded-md bg-bad-soft px-3 py-2 text-bad [overflow-wrap:anywhere]">{call.error}</p>}
    </Section>
  );
}

function Section({ title, children }: { title: ReactNode; children: ReactNode }) {
  return (
    <section>
      <h3 className="mb-1.5 text-[13px] font-semibold">{title}</h3>
      {children}
    </section>
  );
}

function Label({ children }: { children: ReactNode }) {
  return <p className="mt-2 mb-1 text-xs text-faint">{children}</p>;
}
