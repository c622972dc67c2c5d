import { getRouteApi } from "@tanstack/react-router";
import { Check, LoaderCircle } from "lucide-react";
import { useState } from "react";
import { Button } from "@/components/Button";
import { CopyTextButton } from "@/components/Copy";
import { ErrorNote, ErrorState, Loading } from "@/components/States";
import { type Workflow, useWorkflowYaml } from "@/data/workflows";
import { plural } from "@/model/format";
import { SaveDialog } from "./SaveDialog";
import { useYamlCheck } from "./useYamlCheck";
import { YamlEditor } from "./YamlEditor";

const route = getRouteApi("/shell/workflows/$ref");

/** The definition as YAML, checked while it is edited. A save shows the difference first. */
export function WorkflowSource({ workflow }: { workflow: Workflow }) {
  const query = useWorkflowYaml(workflow.refName, workflow.version);
  if (query.isPending) return <Loading rows={10} />;
  if (query.isError) return <ErrorState error={query.error} onRetry={() => void query.refetch()} />;
  return <Editor key={query.data} workflow={workflow} original={query.data} />;
}

function Editor({ workflow, original }: { workflow: Workflow; original: string }) {
  const [text, setText] = useState(original);
  const [saving, setSaving] = useState(false);
  const check = useYamlCheck(text);
  const navigate = route.useNavigate();
  const changed = text !== original;
  const errors = check.issues.filter((issue) => issue.severity === "error").length;
  const reason = !changed ? "Nothing was changed" : errors > 0 ? `Correct ${plural(errors, "error")} first` : undefined;
  return (
    <div className="flex flex-col gap-3">
      <div className="flex flex-wrap items-center justify-between gap-2">
        <p role="status" className="flex items-center gap-2 text-muted">
          {check.isPending ? (
            <>
              <LoaderCircle size={14} aria-hidden className="animate-spin" /> Checking…
            </>
          ) : check.issues.length > 0 ? (
            `${plural(check.issues.length, "problem")}, of which ${plural(errors, "error")}`
          ) : (
            <>
              <Check size={14} aria-hidden className="text-ok" /> The check finds no problem.
            </>
          )}
        </p>
        <div className="flex gap-2">
          <CopyTextButton text={text}>Copy</CopyTextButton>
          {changed && (
            <Button size="sm" variant="ghost" onClick={() => setText(original)}>
              Discard the changes
            </Button>
          )}
          <Button size="sm" variant="primary" disabledReason={reason} onClick={() => setSaving(true)}>
            Review and save…
          </Button>
        </div>
      </div>
      <ErrorNote error={check.error} />
      <YamlEditor label="Definition as YAML" text={text} onChange={setText} issues={check.issues} />
      {saving && (
        <SaveDialog
          workflow={workflow}
          text={text}
          onClose={() => setSaving(false)}
          onSaved={(version) => void navigate({ search: (previous) => ({ ...previous, version, tab: "graph" }) })}
        />
      )}
    </div>
  );
}
