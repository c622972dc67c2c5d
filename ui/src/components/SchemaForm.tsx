import { useState } from "react";
import { type FormField, formFields, parseField, valueAt, withValueAt } from "@/model/schemaForm";
import { CodeInput, Field, Input, Select } from "./Fields";

interface SchemaFormProps {
  schema: unknown;
  value: unknown;
  onChange: (value: Record<string, unknown>) => void;
}

/** A form for a JSON Schema. It edits a JSON value, which another view may show at the same time. */
export function SchemaForm({ schema, value, onChange }: SchemaFormProps) {
  const fields = formFields(schema);
  if (fields.length === 0) return <p className="text-muted">The schema names no fields. Use the JSON view to send any value.</p>;
  return <FieldList fields={fields} value={value} onChange={onChange} />;
}

function FieldList({ fields, value, onChange }: { fields: FormField[]; value: unknown; onChange: (value: Record<string, unknown>) => void }) {
  return (
    <div className="flex flex-col gap-4">
      {fields.map((field) =>
        field.kind === "object" ? (
          <fieldset key={field.name} className="rounded-md border p-3">
            <legend className="px-1 text-[13px] font-medium">
              {field.name}
              {field.required && <span className="ml-1 font-normal text-faint">*</span>}
            </legend>
            {field.description && <p className="mb-3 text-xs text-faint">{field.description}</p>}
            <FieldList fields={field.fields} value={value} onChange={onChange} />
          </fieldset>
        ) : (
          <Control key={field.name} field={field} value={value} onChange={onChange} />
        ),
      )}
    </div>
  );
}

function Control({ field, value, onChange }: { field: FormField; value: unknown; onChange: (value: Record<string, unknown>) => void }) {
  const current = valueAt(value, field.path);
  const set = (next: unknown) => onChange(withValueAt(value, field.path, next));
  if (field.kind === "boolean" || field.kind === "choice") {
    const choices = field.kind === "boolean" ? [true, false] : field.choices;
    return (
      <Field label={field.name} hint={field.description} required={field.required}>
        {(id, note) => (
          <Select
            id={id}
            aria-describedby={note}
            value={current === undefined ? "" : JSON.stringify(current)}
            onChange={(event) => set(event.target.value === "" ? undefined : JSON.parse(event.target.value))}
          >
            <option value="">{field.placeholder || "–"}</option>
            {choices.map((choice) => (
              <option key={JSON.stringify(choice)} value={JSON.stringify(choice)}>
                {typeof choice === "string" ? choice : JSON.stringify(choice)}
              </option>
            ))}
          </Select>
        )}
      </Field>
    );
  }
  return <TextControl field={field} current={current} onChange={set} />;
}

/** Keeps the text of the person, so that an unfinished number or JSON is not lost. */
function TextControl({ field, current, onChange }: { field: FormField; current: unknown; onChange: (value: unknown) => void }) {
  const shown = textOf(field, current);
  const [text, setText] = useState(shown);
  const [error, setError] = useState<string>();
  const parsed = parseField(field.kind, text);
  // The value may also change in the JSON view.
  const displayed = error || (parsed.ok && JSON.stringify(parsed.value) === JSON.stringify(current)) ? text : shown;

  function change(next: string) {
    setText(next);
    const result = parseField(field.kind, next);
    setError(result.ok ? undefined : result.message);
    if (result.ok) onChange(result.value);
  }

  return (
    <Field label={field.name} hint={field.description} error={error} required={field.required}>
      {(id, note) =>
        field.kind === "json" ? (
          <CodeInput
            id={id}
            aria-describedby={note}
            rows={3}
            placeholder={field.placeholder || "JSON"}
            value={displayed}
            onChange={(event) => change(event.target.value)}
          />
        ) : (
          <Input
            id={id}
            aria-describedby={note}
            inputMode={field.kind === "text" ? undefined : "decimal"}
            placeholder={field.placeholder}
            value={displayed}
            onChange={(event) => change(event.target.value)}
          />
        )
      }
    </Field>
  );
}

function textOf(field: FormField, value: unknown): string {
  if (value === undefined) return "";
  if (field.kind === "json") return JSON.stringify(value, null, 2);
  return typeof value === "string" ? value : JSON.stringify(value);
}
