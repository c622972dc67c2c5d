import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { CodeInput, Segments } from "@/components/Fields";
import { Button } from "@/components/Button";
import { Page } from "@/components/Page";
import { ErrorNote } from "@/components/States";
import type { Schemas } from "@/api/client";
import { useCreateTool } from "@/data/tools";
import { parseJson } from "@/model/json";
import { TEMPLATES, type Template } from "@/model/toolTemplates";
import { ImportMcp } from "./ImportMcp";
import { ImportOpenApi } from "./ImportOpenApi";

type Way = "openapi" | "mcp" | Template;

export function NewTool() {
  const [way, setWay] = useState<Way>("openapi");
  return (
    <Page
      title="New tool"
      parent={{ to: "/tools", label: "Tools" }}
      description="Import the operations of an API or of an MCP server, or describe one tool."
    >
      <div className="mb-4 max-w-full overflow-x-auto">
        <Segments<Way>
          label="How"
          value={way}
          onChange={setWay}
          options={[
            { value: "openapi", label: "Import OpenAPI" },
            { value: "mcp", label: "Import MCP" },
            { value: "http", label: "HTTP request" },
            { value: "function", label: "Python function" },
          ]}
        />
      </div>
      {way === "openapi" && <ImportOpenApi />}
      {way === "mcp" && <ImportMcp />}
      {(way === "http" || way === "function") && <Definition key={way} template={way} />}
    </Page>
  );
}

function Definition({ template }: { template: Template }) {
  const [text, setText] = useState(() => JSON.stringify(TEMPLATES[template].definition, null, 2));
  const create = useCreateTool();
  const navigate = useNavigate();
  const parsed = parseJson(text);
  function submit() {
    if (!parsed.ok) return;
    create.mutate(parsed.value as Schemas["ToolDefinition"], {
      onSuccess: (tool) => void navigate({ to: "/tools/$ref", params: { ref: tool.refName }, search: { tab: "try" } }),
    });
  }
  return (
    <div className="flex flex-col gap-3">
      <p className="text-muted">{TEMPLATES[template].hint}</p>
      <CodeInput aria-label="Definition as JSON" rows={24} value={text} onChange={(event) => setText(event.target.value)} />
      {!parsed.ok && <p className="text-xs text-bad">{parsed.message}</p>}
      <ErrorNote error={create.error} />
      <div>
        <Button variant="primary" busy={create.isPending} disabled={!parsed.ok} onClick={submit}>
          Create and try it
        </Button>
      </div>
    </div>
  );
}
