/** The fields of a JSON Schema as a flat list, for reading. */

export interface SchemaRow {
  path: string;
  name: string;
  depth: number;
  type: string;
  required: boolean;
  description: string;
  constraint: string;
}

type Schema = Record<string, unknown>;

const MAX_DEPTH = 4;
const CONSTRAINTS = [
  "pattern",
  "format",
  "minLength",
  "maxLength",
  "minimum",
  "maximum",
  "exclusiveMinimum",
  "exclusiveMaximum",
  "minItems",
  "maxItems",
  "default",
];

export function schemaRows(schema: unknown, path = "", depth = 0): SchemaRow[] {
  const node = fields(schema);
  if (depth >= MAX_DEPTH) return [];
  const required = Array.isArray(node.required) ? node.required : [];
  return Object.entries(fields(node.properties)).flatMap(([name, value]) => {
    const property = fields(value);
    const own = path ? `${path}.${name}` : name;
    const row = {
      path: own,
      name,
      depth,
      type: typeName(property),
      required: required.includes(name),
      description: text(property.description),
      constraint: constraintOf(property),
    };
    return [row, ...schemaRows(property.items ?? property, own, depth + 1)];
  });
}

function typeName(schema: Schema): string {
  if (Array.isArray(schema.enum)) return schema.enum.map((choice) => JSON.stringify(choice)).join(" | ");
  const types = Array.isArray(schema.type) ? schema.type.join(" | ") : text(schema.type) || "any";
  return types === "array" ? `list of ${typeName(fields(schema.items))}` : types;
}

function constraintOf(schema: Schema): string {
  return CONSTRAINTS.filter((name) => schema[name] !== undefined)
    .map((name) => `${name} ${typeof schema[name] === "string" ? String(schema[name]) : JSON.stringify(schema[name])}`)
    .join(", ");
}

function fields(value: unknown): Schema {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Schema) : {};
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}
