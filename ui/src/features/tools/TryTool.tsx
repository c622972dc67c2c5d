import { Link } from "@tanstack/react-router";
import { Play } from "lucide-react";
import { useState } from "react";
import { Badge } from "@/components/Badge";
import { Button } from "@/components/Button";
import { JsonView } from "@/components/Code";
import { CopyTextButton } from "@/components/Copy";
import { Facts } from "@/components/Fields";
import { InputEditor } from "@/components/InputEditor";
import { Card, CardHeader } from "@/components/Page";
import { Empty, ErrorNote } from "@/components/States";
import { type Envelope, type Tool, useExecuteTool } from "@/data/tools";
import { toolRunCommand, toolRunCurl } from "@/model/commands";
import { cost, duration } from "@/model/format";
import { exampleOf } from "@/model/schemaForm";
import { schemaOf } from "@/model/tools";

/** Calls the tool with a value that is edited as a form or as JSON. */
export function TryTool({ tool }: { tool: Tool }) {
  const schema = schemaOf(tool.inputJsonSchema, tool.inputSchema);
  const [value, setValue] = useState<unknown>(() => tool.examples?.[0]?.input ?? exampleOf(schema));
  const [confirmed, setConfirmed] = useState(false);
  const execute = useExecuteTool(tool.refName);
  const writes = tool.sideEffects === "writes";

  return (
    <div className="grid grid-cols-1 items-start gap-4 lg:grid-cols-2">
      <InputEditor schema={schema} value={value} onChange={setValue} onSubmit={() => execute.mutate({ input: value, version: tool.version })}>
        {(isInvalid) => (
          <>
            {writes && (
              <label className="flex items-start gap-2 rounded-md bg-warn-soft px-3 py-2 text-warn">
                <input
                  type="checkbox"
                  checked={confirmed}
                  onChange={(event) => setConfirmed(event.target.checked)}
                  className="mt-0.5 size-4 accent-accent-line"
                />
                <span>This call really changes {tool.providerRef ?? "the external system"}.</span>
              </label>
            )}
            <div className="flex flex-wrap items-center gap-2">
              <Button
                type="submit"
                variant="primary"
                busy={execute.isPending}
                disabledReason={writes && !confirmed ? "Confirm that the call may change something" : undefined}
                disabled={isInvalid}
              >
                <Play size={14} aria-hidden /> {execute.isPending ? "Calling…" : "Call"}
              </Button>
              <CopyTextButton text={toolRunCurl(tool.refName, value)}>curl</CopyTextButton>
              <CopyTextButton text={toolRunCommand(tool.refName, value)}>command</CopyTextButton>
            </div>
            <ErrorNote error={execute.error} />
          </>
        )}
      </InputEditor>
      <Card label="Result">
        <CardHeader title="Result" />
        <div className="p-4" aria-live="polite">
          {execute.data ? (
            <Result data={execute.data} />
          ) : (
            <Empty compact icon={Play} title="Not called yet">
              The envelope of the call appears here: its output or its error, its time and its cost.
            </Empty>
          )}
        </div>
      </Card>
    </div>
  );
}

function Result({ data }: { data: unknown }) {
  if (isEnvelope(data)) return <EnvelopeView envelope={data} />;
  return (
    <div className="flex flex-col gap-3">
      <p className="text-muted">
        The call waits for a client or an approval. Answer it in the{" "}
        <Link to="/inbox" search={{ tab: "client" }} className="underline underline-offset-2">
          inbox
        </Link>
        .
      </p>
      <JsonView value={data} label="response" />
    </div>
  );
}

function isEnvelope(data: unknown): data is Envelope {
  return typeof data === "object" && data !== null && "call_id" in data;
}

function EnvelopeView({ envelope }: { envelope: Envelope }) {
  const took = Date.parse(envelope.t_end) - Date.parse(envelope.t_start);
  const metadata = envelope.metadata;
  return (
    <div className="flex flex-col gap-4">
      <Facts
        items={[
          ["Outcome", envelope.error ? <Badge tone="bad">{envelope.error.code}</Badge> : <Badge tone="ok">Success</Badge>],
          ["Took", duration(took)],
          ["HTTP status", metadata?.http_status],
          ["Cost", metadata?.cost_usd ? cost(metadata.cost_usd) : undefined],
          ["Attempts", metadata?.attempt && metadata.attempt > 1 ? metadata.attempt : undefined],
          [
            "Call id",
            <span key="id" className="font-mono text-xs">
              {envelope.call_id}
            </span>,
          ],
        ]}
      />
      {envelope.error ? (
        <p className="rounded-md bg-bad-soft px-3 py-2 text-bad [overflow-wrap:anywhere]">{envelope.error.message}</p>
      ) : (
        <JsonView value={envelope.output} label="output" className="max-h-[28rem]" />
      )}
      <details>
        <summary className="cursor-pointer text-muted hover:text-text">The whole envelope</summary>
        <JsonView value={envelope} label="envelope" className="mt-2" />
      </details>
    </div>
  );
}
