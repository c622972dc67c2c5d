import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import type { Schemas } from "@/api/client";
import { Button } from "@/components/Button";
import { Field, Input, Segments } from "@/components/Fields";
import { ErrorNote } from "@/components/States";
import { useImportMcp } from "@/data/tools";
import { plural } from "@/model/format";
import { splitCommand } from "@/model/commands";
import { ImportFrame, SkippedRow } from "./ImportFrame";

type Place = "url" | "command";

/** Lists the tools of an MCP server, then imports them. */
export function ImportMcp() {
  const [place, setPlace] = useState<Place>("url");
  const [url, setUrl] = useState("");
  const [command, setCommand] = useState("");
  const [prefix, setPrefix] = useState("");
  const preview = useImportMcp();
  const run = useImportMcp();
  const navigate = useNavigate();
  const [program = "", ...args] = splitCommand(command);
  const source: Schemas["McpImportBody"] = {
    ...(place === "url" ? { url: url.trim() } : { command: program, args }),
    ...(prefix.trim() && { prefix: prefix.trim() }),
  };
  const isEmpty = place === "url" ? url.trim() === "" : program === "";
  const count = preview.data?.imported.length ?? 0;
  return (
    <ImportFrame
      title="MCP server"
      action={
        <Segments<Place>
          label="Where"
          value={place}
          onChange={setPlace}
          options={[
            { value: "url", label: "URL" },
            { value: "command", label: "Command" },
          ]}
        />
      }
      fields={
        place === "url" ? (
          <Field label="URL of the MCP server">
            {(id) => (
              <Input id={id} type="url" value={url} onChange={(event) => setUrl(event.target.value)} placeholder="https://mcp.example.com/mcp" />
            )}
          </Field>
        ) : (
          <Field
            label="Command"
            hint="The server starts this program and talks to it over standard input and output. Only administrators may do this."
          >
            {(id, note) => (
              <Input
                id={id}
                aria-describedby={note}
                value={command}
                onChange={(event) => setCommand(event.target.value)}
                placeholder="npx -y @example/mcp-server"
                className="font-mono"
              />
            )}
          </Field>
        )
      }
      prefix={prefix}
      prefixHint="Without a prefix, the tools keep their names."
      onPrefix={setPrefix}
      emptyReason={isEmpty ? "Enter a URL or a command" : undefined}
      preview={preview}
      onPreview={() => preview.mutate({ ...source, dryRun: true })}
      explanation="The preview lists the tools of the MCP server. Nothing is saved before you confirm."
    >
      {preview.data && <ToolNames found={preview.data} />}
      <ErrorNote error={run.error} />
      <div>
        <Button
          variant="primary"
          busy={run.isPending}
          disabledReason={count === 0 ? "There is nothing new to import" : undefined}
          onClick={() =>
            run.mutate(source, { onSuccess: (result) => void navigate({ to: "/integrations/$ref", params: { ref: result.providerRef } }) })
          }
        >
          Import {plural(count, "tool")}
        </Button>
      </div>
    </ImportFrame>
  );
}

function ToolNames({ found }: { found: Schemas["McpImportView"] }) {
  return (
    <ul className="divide-y rounded-md border">
      {found.imported.map((tool) => (
        <li key={tool.refName} className="px-3 py-2 font-medium">
          {tool.refName}
        </li>
      ))}
      {found.skipped.map((tool) => (
        <SkippedRow key={tool.refName} name={tool.refName} reason={tool.reason} />
      ))}
    </ul>
  );
}
