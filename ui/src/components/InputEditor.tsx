import { type ReactNode, useState } from "react";
import { parseJson } from "@/model/json";
import { formFields } from "@/model/schemaForm";
import { CodeInput, Segments } from "./Fields";
import { Card, CardHeader } from "./Page";
import { SchemaForm } from "./SchemaForm";

interface InputEditorProps {
  schema: unknown;
  value: unknown;
  onChange: (value: unknown) => void;
  onSubmit: () => void;
  /** Renders the controls below the value. They are disabled while the JSON is not valid. */
  children: (isInvalid: boolean) => ReactNode;
}

/** A value that is edited as a form or as JSON. */
export function InputEditor({ schema, value, onChange, onSubmit, children }: InputEditorProps) {
  const [view, setView] = useState<"form" | "json">(() => (formFields(schema).length > 0 ? "form" : "json"));
  const [text, setText] = useState(() => JSON.stringify(value, null, 2));
  const parsed = parseJson(text);

  function show(next: "form" | "json") {
    if (next === "json") setText(JSON.stringify(value, null, 2));
    setView(next);
  }

  function edit(next: string) {
    setText(next);
    const result = parseJson(next);
    if (result.ok) onChange(result.value);
  }

  return (
    <Card label="Input">
      <CardHeader
        title="Input"
        action={
          <Segments
            label="View"
            value={view}
            onChange={show}
            options={[
              { value: "form", label: "Form" },
              { value: "json", label: "JSON" },
            ]}
          />
        }
      />
      <form
        className="flex flex-col gap-4 p-4"
        onSubmit={(event) => {
          event.preventDefault();
          onSubmit();
        }}
      >
        {view === "form" ? (
          <SchemaForm schema={schema} value={value} onChange={onChange} />
        ) : (
          <div>
            <CodeInput aria-label="Input as JSON" rows={14} value={text} onChange={(event) => edit(event.target.value)} />
            {!parsed.ok && <p className="mt-1 text-xs text-bad">{parsed.message}</p>}
          </div>
        )}
        {children(view === "json" && !parsed.ok)}
      </form>
    </Card>
  );
}
