import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import type { Schemas } from "@/api/client";
import { Badge } from "@/components/Badge";
import { Button } from "@/components/Button";
import { Field, Input, Segments } from "@/components/Fields";
import { Card, CardHeader } from "@/components/Page";
import { ErrorNote } from "@/components/States";
import { useImportMcp } from "@/data/tools";
import { plural } from "@/model/format";
import { splitCommand } from "@/model/commands";

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
  return (
    <div className="grid grid-cols-1 items-start gap-4 lg:grid-cols-2">
      <Card label="MCP server">
        <CardHeader
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
        />
        <form
          className="flex flex-col gap-4 p-4"
          onSubmit={(event) => {
            event.preventDefault();
            preview.mutate({ ...source, dryRun: true });
          }}
        >
          {place === "url" ? (
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
          )}
          <Field label="Prefix of the tools" hint="Without a prefix, the tools keep their names.">
            {(id, note) => <Input id={id} aria-describedby={note} value={prefix} onChange={(event) => setPrefix(event.target.value)} />}
          </Field>
          <ErrorNote error={preview.error} />
          <div>
            <Button
              type="submit"
              variant={preview.data ? "secondary" : "primary"}
              busy={preview.isPending}
              disabledReason={isEmpty ? "Enter a URL or a command" : undefined}
            >
              Preview
            </Button>
          </div>
        </form>
      </Card>
      <Card label="Preview">
        <CardHeader title="Preview" count={preview.data && plural(preview.data.imported.length, "new tool")} />
        {preview.data ? (
          <div className="flex flex-col items-start gap-3 p-4">
            <ToolNames found={preview.data} />
            <ErrorNote error={run.error} />
            <Button
              variant="primary"
              busy={run.isPending}
              disabledReason={preview.data.imported.length === 0 ? "There is nothing new to import" : undefined}
              onClick={() =>
                run.mutate(source, { onSuccess: (result) => void navigate({ to: "/integrations/$ref", params: { ref: result.providerRef } }) })
              }
            >
              Import {plural(preview.data.imported.length, "tool")}
            </Button>
          </div>
        ) : (
          <p className="p-4 text-muted">The preview lists the tools of the MCP server. Nothing is saved before you confirm.</p>
        )}
      </Card>
    </div>
  );
}

function ToolNames({ found }: { found: Schemas["McpImportView"] }) {
  return (
    <ul className="w-full divide-y rounded-md border">
      {found.imported.map((tool) => (
        <li key={tool.refName} className="px-3 py-2 font-medium">
          {tool.refName}
        </li>
      ))}
      {found.skipped.map((tool) => (
        <li key={tool.refName} className="flex items-center gap-3 px-3 py-2 text-muted">
          <Badge>skipped</Badge>
          <span>
            {tool.refName}: {tool.reason}
          </span>
        </li>
      ))}
    </ul>
  );
}
