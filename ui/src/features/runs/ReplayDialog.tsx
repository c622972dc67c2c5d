import { Link } from "@tanstack/react-router";
import { Check, GitCompare } from "lucide-react";
import { useState } from "react";
import { Badge } from "@/components/Badge";
import { Button, buttonClass } from "@/components/Button";
import { Field, Input, TextArea } from "@/components/Fields";
import { Dialog } from "@/components/Overlay";
import { ErrorNote } from "@/components/States";
import { type Run, useReplayRun } from "@/data/runs";
import { plural } from "@/model/format";
import { parseToolVersions } from "@/model/toolVersions";

/** Repeats a run against other tools, another model or other instructions. Recorded answers are reused and writes are captured. */
export function ReplayDialog({ run, onClose }: { run: Run; onClose: () => void }) {
  const replay = useReplayRun();
  const [tools, setTools] = useState("");
  const [model, setModel] = useState("");
  const [prompt, setPrompt] = useState("");
  const versions = parseToolVersions(tools);
  const isUnchanged = tools.trim() === "" && model.trim() === "" && prompt.trim() === "";
  const result = replay.data;

  function submit() {
    const changes = {
      ...(versions.ok && Object.keys(versions.tools).length > 0 && { tools: versions.tools }),
      ...(model && { model }),
      ...(prompt && { prompt }),
    };
    replay.mutate({ runId: run.id, with: changes });
  }

  return (
    <Dialog
      open
      onClose={onClose}
      title="Replay against something new"
      description="The run is repeated with its recorded answers where nothing changed. Writes are captured and not sent."
      footer={
        <>
          <Button variant="ghost" onClick={onClose}>
            Close
          </Button>
          <Button
            variant="primary"
            busy={replay.isPending}
            disabledReason={isUnchanged ? "Change at least one thing" : undefined}
            disabled={!versions.ok}
            onClick={submit}
          >
            Replay
          </Button>
        </>
      }
    >
      <div className="flex flex-col gap-4">
        <Field
          label="Tool versions"
          hint="One per line: crm/search@2.0.0, or crm/search=crm/search-v2@1.0.0"
          error={versions.ok ? undefined : versions.message}
        >
          {(id, note) => <TextArea id={id} aria-describedby={note} rows={2} value={tools} onChange={(event) => setTools(event.target.value)} />}
        </Field>
        <Field label="Model">
          {(id) => <Input id={id} value={model} onChange={(event) => setModel(event.target.value)} placeholder="as recorded, or provider/model" />}
        </Field>
        <Field label="Instructions">
          {(id) => <TextArea id={id} rows={3} value={prompt} onChange={(event) => setPrompt(event.target.value)} placeholder="as recorded" />}
        </Field>
        <ErrorNote error={replay.error} />
        {result && "replayOf" in result && (
          <section aria-live="polite" className="rounded-md border p-3">
            <p className="flex items-center gap-2 font-medium">
              {result.identical ? (
                <Badge tone="ok">
                  <Check size={12} aria-hidden /> Same result
                </Badge>
              ) : (
                <Badge tone="warn">{plural(result.differences.length, "difference")}</Badge>
              )}
              <span className="font-normal text-muted">
                {result.replies.recorded} recorded and {result.replies.made} new model replies
              </span>
            </p>
            <Link to="/runs/$id/compare/$other" params={{ id: run.id, other: result.runId }} className={buttonClass({ size: "sm" }, "mt-3")}>
              <GitCompare size={13} aria-hidden /> Compare with the original
            </Link>
          </section>
        )}
      </div>
    </Dialog>
  );
}
