import { Link } from "@tanstack/react-router";
import { MonitorSmartphone, MousePointerClick } from "lucide-react";
import { useState } from "react";
import { Button } from "@/components/Button";
import { JsonView } from "@/components/Code";
import { CodeInput, Field, Segments, TextArea } from "@/components/Fields";
import { Empty, ErrorNote, ErrorState, Loading } from "@/components/States";
import { Time } from "@/components/Time";
import { type WaitingAction, useClientActions, useReturnResult } from "@/data/approvals";
import { preview } from "@/model/entries";
import { shortId } from "@/model/format";
import { parseJson } from "@/model/json";
import { exampleOf } from "@/model/schemaForm";
import { ListItem, Split } from "./Split";

/** Actions that a client must perform. Usually a program answers them; here a person can do it. */
export function ClientActions({ selected, onSelect }: { selected: string | undefined; onSelect: (call: string | undefined) => void }) {
  const query = useClientActions();
  if (query.isPending) return <Loading />;
  if (query.isError) return <ErrorState error={query.error} onRetry={() => void query.refetch()} />;
  const items = query.data;
  if (items.length === 0) {
    return (
      <Empty icon={MonitorSmartphone} title="No run waits for a client">
        <p>
          A client tool is performed on the user's machine, for example in an editor. If its client does not answer, you can return the result here.
        </p>
      </Empty>
    );
  }
  const current = items.find((item) => item.callId === selected);
  return (
    <Split
      showDetail={current !== undefined}
      onBack={() => onSelect(undefined)}
      list={
        <ul aria-label="Actions that wait for a client">
          {items.map((item) => (
            <ListItem
              key={item.runId + item.callId}
              selected={item === current}
              onSelect={() => onSelect(item.callId)}
              title={item.toolRef}
              aside={<Time at={item.requestedAt} />}
              subtitle={`requested by ${item.agentRef}`}
              note={preview(item.preparedPayload)}
            />
          ))}
        </ul>
      }
      detail={
        current ? (
          <ActionForm key={current.callId} action={current} onDone={() => onSelect(undefined)} />
        ) : (
          <Empty icon={MousePointerClick} title="Select an action">
            See what the client is asked to do, and return the result for it.
          </Empty>
        )
      }
    />
  );
}

export function ActionForm({ action, onDone }: { action: Omit<WaitingAction, "requestedAt">; onDone: () => void }) {
  const answer = useReturnResult();
  const [kind, setKind] = useState<"output" | "error">("output");
  const [text, setText] = useState(() => JSON.stringify(exampleOf(action.schema), null, 2));
  const [message, setMessage] = useState("");
  const parsed = parseJson(text);
  const result = kind === "error" ? { callId: action.callId, error: message } : { callId: action.callId, output: parsed.ok ? parsed.value : null };
  return (
    <article aria-label={`Client action ${action.toolRef}`} className="flex flex-col gap-5 px-4 py-5 sm:px-6">
      <header>
        <p className="text-muted">{action.agentRef} asks a client to perform</p>
        <h2 className="text-lg font-semibold">{action.toolRef}</h2>
        <p className="mt-1 text-xs text-faint">
          {action.expiresAt && (
            <>
              Expires <Time at={action.expiresAt} />
              {" · "}
            </>
          )}
          <Link to="/runs/$id" params={{ id: action.runId }} className="underline underline-offset-2">
            {shortId(action.runId)}
          </Link>
        </p>
      </header>
      <section>
        <h3 className="mb-2 text-[13px] font-semibold">What to do</h3>
        <JsonView value={action.preparedPayload} label="payload" />
      </section>
      <section className="flex flex-col gap-3">
        <div className="flex items-center justify-between">
          <h3 className="text-[13px] font-semibold">Result</h3>
          <Segments
            label="Result"
            value={kind}
            onChange={setKind}
            options={[
              { value: "output", label: "Done" },
              { value: "error", label: "Failed" },
            ]}
          />
        </div>
        {kind === "output" ? (
          <Field label="Output as JSON" error={parsed.ok ? undefined : parsed.message} hint="It is checked against the schema of the tool.">
            {(id, note) => <CodeInput id={id} aria-describedby={note} rows={6} value={text} onChange={(event) => setText(event.target.value)} />}
          </Field>
        ) : (
          <Field label="What went wrong" hint="The model sees this text.">
            {(id, note) => <TextArea id={id} aria-describedby={note} rows={3} value={message} onChange={(event) => setMessage(event.target.value)} />}
          </Field>
        )}
        <ErrorNote error={answer.error} />
        <div>
          <Button
            variant="primary"
            busy={answer.isPending}
            disabled={kind === "output" ? !parsed.ok : message.trim() === ""}
            onClick={() => answer.mutate({ runId: action.runId, result }, { onSuccess: onDone })}
          >
            Return the result
          </Button>
        </div>
      </section>
    </article>
  );
}
