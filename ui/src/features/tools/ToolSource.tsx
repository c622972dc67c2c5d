import { useState } from "react";
import { Button } from "@/components/Button";
import { CodeInput } from "@/components/Fields";
import { ErrorNote } from "@/components/States";
import { type Tool, useReplaceTool } from "@/data/tools";
import type { Schemas } from "@/api/client";
import { parseJson } from "@/model/json";
import { editable } from "@/model/tools";

/** The definition as JSON. A save with another version adds a version; otherwise it adds a revision. */
export function ToolSource({ tool }: { tool: Tool }) {
  const [original] = useState(() => JSON.stringify(editable(tool), null, 2));
  const [text, setText] = useState(original);
  const save = useReplaceTool(tool.refName);
  const parsed = parseJson(text);
  const changed = text !== original;
  return (
    <div className="flex flex-col gap-3">
      <p className="text-muted">
        Change the version to add a version; calls of the old one still work. Without a new version, the change is a new revision of this version.
      </p>
      <CodeInput aria-label="Definition as JSON" rows={26} value={text} onChange={(event) => setText(event.target.value)} />
      {!parsed.ok && <p className="text-xs text-bad">{parsed.message}</p>}
      <ErrorNote error={save.error} />
      <div className="flex gap-2">
        <Button
          variant="primary"
          busy={save.isPending}
          disabled={!parsed.ok}
          disabledReason={changed ? undefined : "Nothing was changed"}
          onClick={() => parsed.ok && save.mutate(parsed.value as Schemas["ToolDefinition"])}
        >
          Save
        </Button>
        {changed && (
          <Button variant="ghost" onClick={() => setText(original)}>
            Discard the changes
          </Button>
        )}
      </div>
    </div>
  );
}
