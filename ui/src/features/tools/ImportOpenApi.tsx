import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import type { Schemas } from "@/api/client";
import { Button } from "@/components/Button";
import { CodeInput, Field, Input } from "@/components/Fields";
import { ErrorNote, Warnings } from "@/components/States";
import { useImportOpenApi } from "@/data/tools";
import { plural } from "@/model/format";
import { operationPatterns, sameNames } from "@/model/importSelection";
import { ImportFrame, SkippedRow } from "./ImportFrame";

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

  function toggle(name: string) {
    const next = new Set(excluded);
    if (!next.delete(name)) next.add(name);
    setExcluded(next);
  }

  const found = preview.data;
  const selected = (found?.imported.length ?? 0) - excluded.size;
  return (
    <ImportFrame
      title="Document"
      fields={
        <>
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
        </>
      }
      prefix={prefix}
      prefixHint="Without a prefix, the name of the API is used."
      onPrefix={setPrefix}
      emptyReason={isEmpty ? "Enter a URL or a document" : undefined}
      preview={preview}
      onPreview={() => {
        setExcluded(new Set());
        preview.mutate({ ...source, dryRun: true });
      }}
      explanation="The preview lists the tools that the import would create. Nothing is saved before you confirm."
    >
      {found && <Operations preview={found} excluded={excluded} onToggle={toggle} />}
      <ErrorNote error={mismatch ?? run.error} />
      <div>
        <Button
          variant="primary"
          busy={run.isPending}
          disabledReason={selected === 0 ? "Select at least one operation" : undefined}
          onClick={() => found && void submit(found).catch(() => undefined)}
        >
          Import {plural(selected, "tool")}
        </Button>
      </div>
    </ImportFrame>
  );
}

interface OperationsProps {
  preview: Preview;
  excluded: ReadonlySet<string>;
  onToggle: (name: string) => void;
}

function Operations({ preview, excluded, onToggle }: OperationsProps) {
  return (
    <>
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
          <SkippedRow key={skipped.operation} name={skipped.operation} reason={skipped.reason} />
        ))}
      </ul>
    </>
  );
}
