import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import type { Schemas } from "@/api/client";
import { Badge } from "@/components/Badge";
import { Button } from "@/components/Button";
import { CodeInput, Field, Input } from "@/components/Fields";
import { Card, CardHeader } from "@/components/Page";
import { ErrorNote, Warnings } from "@/components/States";
import { useImportOpenApi } from "@/data/tools";
import { plural } from "@/model/format";
import { operationPatterns, sameNames } from "@/model/importSelection";

type Preview = Schemas["ImportView"];

/** Shows what an import would create. The person selects operations, and only these are imported. */
export function ImportOpenApi() {
  const [url, setUrl] = useState("");
  const [document, setDocument] = useState("");
  const [prefix, setPrefix] = useState("");
  const [excluded, setExcluded] = useState<ReadonlySet<string>>(new Set());
  const preview = useImportOpenApi();
  const run = useImportOpenApi();
  const [mismatch, setMismatch] = useState<Error>();
  const navigate = useNavigate();
  const source = { ...(url.trim() ? { url: url.trim() } : { document }), ...(prefix.trim() && { prefix: prefix.trim() }) };
  const isEmpty = url.trim() === "" && document.trim() === "";

  async function submit(found: Preview) {
    const chosen = found.imported.map((tool) => tool.refName).filter((name) => !excluded.has(name));
    const include = excluded.size === 0 ? {} : { include: { operationIds: operationPatterns(chosen) } };
    const planned = await run.mutateAsync({ ...source, ...include, dryRun: true });
    const names = planned.imported.map((tool) => tool.refName);
    setMismatch(
      sameNames(names, chosen)
        ? undefined
        : new Error(`This selection would import ${names.join(", ")}. Change the selection, or import all operations.`),
    );
    if (!sameNames(names, chosen)) return;
    await run.mutateAsync({ ...source, ...include });
    await navigate({ to: "/tools", search: { text: found.provider.refName ?? undefined } });
  }

  return (
    <div className="grid grid-cols-1 items-start gap-4 lg:grid-cols-2">
      <Card label="Document">
        <CardHeader title="Document" />
        <form
          className="flex flex-col gap-4 p-4"
          onSubmit={(event) => {
            event.preventDefault();
            setExcluded(new Set());
            preview.mutate({ ...source, dryRun: true });
          }}
        >
          <Field label="URL of the OpenAPI document">
            {(id) => (
              <Input
                id={id}
                type="url"
                value={url}
                onChange={(event) => setUrl(event.target.value)}
                placeholder="https://api.example.com/openapi.json"
              />
            )}
          </Field>
          <Field label="Or the document itself" hint="JSON or YAML">
            {(id, note) => (
              <CodeInput
                id={id}
                aria-describedby={note}
                rows={10}
                value={document}
                onChange={(event) => setDocument(event.target.value)}
                disabled={url.trim() !== ""}
              />
            )}
          </Field>
          <Field label="Prefix of the tools" hint="Without a prefix, the name of the API is used.">
            {(id, note) => <Input id={id} aria-describedby={note} value={prefix} onChange={(event) => setPrefix(event.target.value)} />}
          </Field>
          <ErrorNote error={preview.error} />
          <div>
            <Button
              type="submit"
              variant={preview.data ? "secondary" : "primary"}
              busy={preview.isPending}
              disabledReason={isEmpty ? "Enter a URL or a document" : undefined}
            >
              Preview
            </Button>
          </div>
        </form>
      </Card>
      <Card label="Preview">
        <CardHeader title="Preview" count={preview.data && plural(preview.data.imported.length, "new tool")} />
        {preview.data ? (
          <PreviewList
            preview={preview.data}
            excluded={excluded}
            onToggle={(name) => {
              const next = new Set(excluded);
              if (!next.delete(name)) next.add(name);
              setExcluded(next);
            }}
            footer={
              <>
                <ErrorNote error={mismatch ?? run.error} />
                <Button
                  variant="primary"
                  busy={run.isPending}
                  disabledReason={preview.data.imported.length === excluded.size ? "Select at least one operation" : undefined}
                  onClick={() => preview.data && void submit(preview.data).catch(() => undefined)}
                >
                  Import {plural(preview.data.imported.length - excluded.size, "tool")}
                </Button>
              </>
            }
          />
        ) : (
          <p className="p-4 text-muted">The preview lists the tools that the import would create. Nothing is saved before you confirm.</p>
        )}
      </Card>
    </div>
  );
}

interface PreviewListProps {
  preview: Preview;
  excluded: ReadonlySet<string>;
  onToggle: (name: string) => void;
  footer: React.ReactNode;
}

function PreviewList({ preview, excluded, onToggle, footer }: PreviewListProps) {
  return (
    <div className="flex flex-col gap-3 p-4">
      <Warnings items={preview.warnings} />
      <p className="text-muted">
        Integration <span className="font-medium text-text">{preview.provider.refName}</span> {preview.providerCreated ? "will be created" : "exists"}
        {preview.provider.baseUrl && `, at ${preview.provider.baseUrl}`}.
      </p>
      <ul className="divide-y rounded-md border">
        {preview.imported.map((tool) => (
          <li key={tool.refName}>
            <label className="flex items-center gap-3 px-3 py-2 hover:bg-hover">
              <input
                type="checkbox"
                checked={!excluded.has(tool.refName)}
                onChange={() => onToggle(tool.refName)}
                className="size-4 accent-accent-line"
              />
              <span className="min-w-0 truncate font-medium">{tool.refName}</span>
            </label>
          </li>
        ))}
        {preview.skipped.map((skipped) => (
          <li key={skipped.operation} className="flex items-center gap-3 px-3 py-2 text-muted">
            <Badge>skipped</Badge>
            <span className="min-w-0">
              <span className="block truncate font-mono text-xs">{skipped.operation}</span>
              <span className="block text-xs text-faint">{skipped.reason}</span>
            </span>
          </li>
        ))}
      </ul>
      <div className="flex flex-col items-start gap-3">{footer}</div>
    </div>
  );
}
