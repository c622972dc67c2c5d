import { useEffect, useState } from "react";
import { Button } from "@/components/Button";
import { Field, Input, Segments } from "@/components/Fields";
import { Dialog } from "@/components/Overlay";
import { ErrorNote, Loading } from "@/components/States";
import { type Workflow, useSaveYaml, useWorkflowDiff } from "@/data/workflows";
import { nextVersion, versionOf, withVersion } from "@/model/workflow/yaml";
import { DiffView } from "./DiffView";

interface SaveDialogProps {
  workflow: Workflow;
  text: string;
  onClose: () => void;
  onSaved: (version: string) => void;
}

type Kind = "version" | "revision";

/** Shows what a save would change, and saves it as a new version or as a revision of the version. */
export function SaveDialog({ workflow, text, onClose, onSaved }: SaveDialogProps) {
  const current = workflow.version ?? "1.0.0";
  const written = versionOf(text) ?? current;
  const [kind, setKind] = useState<Kind>("version");
  const [version, setVersion] = useState(written === current ? nextVersion(current) : written);
  const { mutate: compare, data: diff, error } = useWorkflowDiff(workflow.refName, current);
  const save = useSaveYaml(workflow.refName);
  const target = kind === "version" ? version.trim() : current;
  const final = withVersion(text, target);

  useEffect(() => {
    const timer = setTimeout(async () => {
      // Only this dialog needs the parser. The check has accepted the text, so it is YAML with an object.
      const { load } = await import("js-yaml");
      compare({ definition: load(final) as Record<string, unknown> });
    }, 150);
    return () => clearTimeout(timer);
  }, [final, compare]);

  // A new version replaces this screen before the request is done, so the callback must not depend on it.
  async function submit() {
    try {
      await save.mutateAsync({ text: final, revision: workflow.revision });
    } catch {
      return;
    }
    onSaved(target);
  }

  return (
    <Dialog
      open
      onClose={onClose}
      width="lg"
      title={`Save ${workflow.refName}`}
      description="Instances that run go on with the definition with which they started."
      footer={
        <>
          <Button variant="ghost" onClick={onClose}>
            Back to the editor
          </Button>
          <Button
            variant="primary"
            busy={save.isPending}
            disabledReason={target === "" ? "Enter a version" : undefined}
            onClick={() => void submit()}
          >
            {kind === "version" ? `Save version ${target}` : "Save the revision"}
          </Button>
        </>
      }
    >
      <div className="flex flex-col gap-4">
        <div className="flex flex-wrap items-end gap-4">
          <Segments<Kind>
            label="Save as"
            value={kind}
            onChange={setKind}
            options={[
              { value: "version", label: "New version" },
              { value: "revision", label: `Revision of ${current}` },
            ]}
          />
          {kind === "version" && (
            <Field label="Version">
              {(id) => <Input id={id} value={version} onChange={(event) => setVersion(event.target.value)} className="w-32" />}
            </Field>
          )}
        </div>
        <ErrorNote error={save.error ?? error} />
        {diff ? <DiffView diff={diff} /> : !error && <Loading rows={4} label="Comparing" />}
      </div>
    </Dialog>
  );
}
