/** Turns a JSON Schema into the fields of a form. The form and the JSON view edit the same value. */

export type FieldKind = "text" | "number" | "integer" | "boolean" | "choice" | "object" | "json";

export interface FormField {
  path: string[];
  name: string;
  kind: FieldKind;
  required: boolean;
  description: string;
  choices: unknown[];
  placeholder: string;
  fields: FormField[];
}

type Schema = Record<string, unknown>;

/** Deeper objects are edited as JSON. */
const MAX_DEPTH = 3;

export function formFields(schema: unknown, path: string[] = []): FormField[] {
  const node = asSchema(schema);
  const properties = asSchema(node.properties);
  const required = Array.isArray(node.required) ? node.required : [];
  return Object.entries(properties).map(([name, property]) => formField(name, asSchema(property), [...path, name], required.includes(name)));
}

function formField(name: string, schema: Schema, path: string[], required: boolean): FormField {
  const kind = fieldKind(schema, path.length);
  return {
    path,
    name,
    kind,
    required,
    description: typeof schema.description === "string" ? schema.description : "",
    choices: choicesOf(schema),
    placeholder: placeholderOf(schema),
    fields: kind === "object" ? formFields(schema, path) : [],
  };
}

function fieldKind(schema: Schema, depth: number): FieldKind {
  if (choicesOf(schema).length > 0) return "choice";
  switch (typeOf(schema)) {
    case "string":
      return "text";
    case "number":
      return "number";
    case "integer":
      return "integer";
    case "boolean":
      return "boolean";
    case "object":
      return depth < MAX_DEPTH && Object.keys(asSchema(schema.properties)).length > 0 ? "object" : "json";
    default:
      return "json";
  }
}

/** The type of a schema, without `null`. */
function typeOf(schema: Schema): string | undefined {
  const types = (Array.isArray(schema.type) ? schema.type : [schema.type]).filter((type) => type !== "null");
  return types.length === 1 && typeof types[0] === "string" ? types[0] : undefined;
}

function choicesOf(schema: Schema): unknown[] {
  if (Array.isArray(schema.enum)) return schema.enum.filter((choice) => choice !== null);
  return "const" in schema ? [schema.const] : [];
}

function placeholderOf(schema: Schema): string {
  if (schema.default !== undefined) return `default: ${JSON.stringify(schema.default)}`;
  const [example] = Array.isArray(schema.examples) ? (schema.examples as unknown[]) : [];
  return example === undefined ? "" : `for example ${typeof example === "string" ? example : JSON.stringify(example)}`;
}

function asSchema(value: unknown): Schema {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Schema) : {};
}

/** The value at a path, or undefined. */
export function valueAt(value: unknown, path: string[]): unknown {
  return path.reduce<unknown>((current, key) => asSchema(current)[key], value);
}

/** Returns the value with another value at a path. `undefined` removes it, and objects that become empty. */
export function withValueAt(value: unknown, path: string[], next: unknown): Schema {
  const [key, ...rest] = path;
  const copy: Schema = { ...asSchema(value) };
  if (key === undefined) return copy;
  const inner = rest.length === 0 ? next : emptyToUndefined(withValueAt(copy[key], rest, next));
  if (inner === undefined) delete copy[key];
  else copy[key] = inner;
  return copy;
}

function emptyToUndefined(value: Schema): Schema | undefined {
  return Object.keys(value).length === 0 ? undefined : value;
}

/** What a person typed, as a JSON value. An empty text means that the field is absent. */
export function parseField(kind: FieldKind, text: string): { ok: true; value: unknown } | { ok: false; message: string } {
  if (text.trim() === "") return { ok: true, value: undefined };
  if (kind === "text") return { ok: true, value: text };
  if (kind === "number" || kind === "integer") {
    const number = Number(text);
    if (!Number.isFinite(number)) return { ok: false, message: "must be a number" };
    if (kind === "integer" && !Number.isInteger(number)) return { ok: false, message: "must be a whole number" };
    return { ok: true, value: number };
  }
  try {
    return { ok: true, value: JSON.parse(text) as unknown };
  } catch (error) {
    return { ok: false, message: error instanceof Error ? error.message : "must be JSON" };
  }
}

/** A value that shows the shape of a schema: its default, its first choice, or an empty value of its type. */
export function exampleOf(schema: unknown, depth = 0): unknown {
  const node = asSchema(schema);
  if (node.default !== undefined) return node.default;
  const [choice] = choicesOf(node);
  if (choice !== undefined) return choice;
  switch (typeOf(node)) {
    case "string":
      return "";
    case "number":
    case "integer":
      return 0;
    case "boolean":
      return false;
    case "array":
      return [];
    default:
      return depth < MAX_DEPTH ? exampleObject(node, depth) : {};
  }
}

function exampleObject(node: Schema, depth: number): Schema {
  const required = Array.isArray(node.required) ? node.required : [];
  const properties = Object.entries(asSchema(node.properties)).filter(([name]) => required.includes(name));
  return Object.fromEntries(properties.map(([name, property]) => [name, exampleOf(property, depth + 1)]));
}
