import { useState } from "react";
import { cx } from "@/components/cx";
import { JsonView } from "@/components/Code";
import { Segments } from "@/components/Fields";
import { Card, CardHeader } from "@/components/Page";
import type { Tool } from "@/data/tools";
import { type SchemaRow, schemaRows } from "@/model/schemaRows";
import { schemaOf } from "@/model/tools";

export function ToolSchemas({ tool }: { tool: Tool }) {
  const [view, setView] = useState<"fields" | "json">("fields");
  const input = schemaOf(tool.inputJsonSchema, tool.inputSchema);
  const output = schemaOf(tool.outputJsonSchema, tool.outputSchema);
  return (
    <div className="flex flex-col gap-4">
      <div>
        <Segments
          label="View"
          value={view}
          onChange={setView}
          options={[
            { value: "fields", label: "Fields" },
            { value: "json", label: "JSON Schema" },
          ]}
        />
      </div>
      <div className="grid grid-cols-1 items-start gap-4 lg:grid-cols-2">
        <SchemaCard title="Input" schema={input} view={view} />
        <SchemaCard title="Output" schema={output} view={view} />
      </div>
    </div>
  );
}

function SchemaCard({ title, schema, view }: { title: string; schema: unknown; view: "fields" | "json" }) {
  const rows = schemaRows(schema);
  return (
    <Card label={title}>
      <CardHeader title={title} />
      {view === "json" && (
        <div className="p-4">
          <JsonView value={schema} label={`${title} schema`} />
        </div>
      )}
      {view === "fields" && rows.length === 0 && <p className="p-4 text-muted">Any value: the schema names no fields.</p>}
      {view === "fields" && rows.length > 0 && (
        <ul className="divide-y">
          {rows.map((row) => (
            <FieldRow key={row.path} row={row} />
          ))}
        </ul>
      )}
    </Card>
  );
}

const INDENTS = ["pl-4", "pl-9", "pl-14", "pl-19"];

function FieldRow({ row }: { row: SchemaRow }) {
  return (
    <li className={cx(INDENTS[Math.min(row.depth, 3)], "py-2.5 pr-4")}>
      <p className="flex flex-wrap items-baseline gap-x-2">
        <code className="font-mono text-[12.5px] font-medium">{row.name}</code>
        <span className="text-xs text-faint">{row.type}</span>
        {row.required && <span className="text-xs text-wait">required</span>}
      </p>
      {row.description && <p className="text-muted">{row.description}</p>}
      {row.constraint && <p className="font-mono text-xs text-faint [overflow-wrap:anywhere]">{row.constraint}</p>}
    </li>
  );
}
