import { useEffect, useState } from "react";
import { Button } from "@/components/Button";
import { JsonView } from "@/components/Code";
import { CopyTextButton } from "@/components/Copy";
import { CodeInput, Segments } from "@/components/Fields";
import { ErrorNote, ErrorState, Loading } from "@/components/States";
import { type Agent, useAgentGram, useApplyGram, useCheckGram } from "@/data/agents";
import { editable } from "@/model/tools";

export function AgentSource({ agent }: { agent: Agent }) {
  const [view, setView] = useState<"gram" | "json">("gram");
  return (
    <div className="flex flex-col gap-3">
      <div>
        <Segments
          label="Notation"
          value={view}
          onChange={setView}
          options={[
            { value: "gram", label: "gram" },
            { value: "json", label: "JSON" },
          ]}
        />
      </div>
      {view === "gram" ? <Gram key={agent.revision} agent={agent} /> : <JsonView value={editable(agent)} label="definition" />}
    </div>
  );
}

function Gram({ agent }: { agent: Agent }) {
  const query = useAgentGram(agent.refName);
  if (query.isPending) return <Loading />;
  if (query.isError) return <ErrorState error={query.error} onRetry={() => void query.refetch()} />;
  return <GramEditor text={query.data} />;
}

const PAUSE_MS = 300;

/** Checks the text after each pause in typing, and shows the place of an error. */
function GramEditor({ text: original }: { text: string }) {
  const [text, setText] = useState(original);
  const { mutate: check, error } = useCheckGram();
  const apply = useApplyGram();
  const changed = text !== original;
  useEffect(() => {
    if (!changed) return;
    const timer = setTimeout(() => check(text), PAUSE_MS);
    return () => clearTimeout(timer);
  }, [text, changed, check]);
  return (
    <>
      <CodeInput
        aria-label="The agent in gram notation"
        rows={Math.min(28, Math.max(8, text.split("\n").length + 1))}
        value={text}
        onChange={(event) => setText(event.target.value)}
      />
      <ErrorNote error={changed ? (error ?? apply.error) : undefined} />
      <div className="flex flex-wrap gap-2">
        <Button
          variant="primary"
          busy={apply.isPending}
          disabledReason={!changed ? "Nothing was changed" : error ? "Correct the text first" : undefined}
          onClick={() => apply.mutate(text)}
        >
          Apply
        </Button>
        {changed && (
          <Button variant="ghost" onClick={() => setText(original)}>
            Discard the changes
          </Button>
        )}
        <CopyTextButton text={text}>Copy</CopyTextButton>
      </div>
    </>
  );
}
