import type { ReactNode } from "react";
import { Badge } from "@/components/Badge";
import { Button } from "@/components/Button";
import { Field, Input } from "@/components/Fields";
import { Card, CardHeader } from "@/components/Page";
import { ErrorNote } from "@/components/States";
import { plural } from "@/model/format";

interface ImportFrameProps {
  title: string;
  action?: ReactNode;
  /** The fields that name the source. */
  fields: ReactNode;
  prefix: string;
  prefixHint: string;
  onPrefix: (prefix: string) => void;
  emptyReason: string | undefined;
  preview: { isPending: boolean; error: unknown; data: { imported: unknown[] } | undefined };
  onPreview: () => void;
  /** What the preview says before there is one. */
  explanation: string;
  /** The preview and the button that imports. */
  children: ReactNode;
}

/** The source of an import beside the preview of what it would create. */
export function ImportFrame(props: ImportFrameProps) {
  const { title, action, fields, prefix, prefixHint, onPrefix, emptyReason, preview, onPreview, explanation, children } = props;
  return (
    <div className="grid grid-cols-1 items-start gap-4 lg:grid-cols-2">
      <Card label={title}>
        <CardHeader title={title} action={action} />
        <form
          className="flex flex-col gap-4 p-4"
          onSubmit={(event) => {
            event.preventDefault();
            onPreview();
          }}
        >
          {fields}
          <Field label="Prefix of the tools" hint={prefixHint}>
            {(id, note) => <Input id={id} aria-describedby={note} value={prefix} onChange={(event) => onPrefix(event.target.value)} />}
          </Field>
          <ErrorNote error={preview.error} />
          <div>
            <Button type="submit" variant={preview.data ? "secondary" : "primary"} busy={preview.isPending} disabledReason={emptyReason}>
              Preview
            </Button>
          </div>
        </form>
      </Card>
      <Card label="Preview">
        <CardHeader title="Preview" count={preview.data && plural(preview.data.imported.length, "new tool")} />
        {preview.data ? <div className="flex flex-col gap-3 p-4">{children}</div> : <p className="p-4 text-muted">{explanation}</p>}
      </Card>
    </div>
  );
}

/** Something that the import leaves out, and why. */
export function SkippedRow({ name, reason }: { name: string; reason: string }) {
  return (
    <li className="flex items-center gap-3 px-3 py-2 text-muted">
      <Badge>skipped</Badge>
      <span className="min-w-0">
        <span className="block truncate font-mono text-xs">{name}</span>
        <span className="block text-xs text-faint">{reason}</span>
      </span>
    </li>
  );
}
