import { describe, expect, it } from "vitest";
import { exampleOf, formFields, parseField, valueAt, withValueAt } from "./schemaForm";

const schema = {
  type: "object",
  required: ["dealId", "properties"],
  properties: {
    dealId: { type: "string", description: "The id.", examples: ["101"] },
    limit: { type: ["integer", "null"], default: 10 },
    stage: { enum: ["open", "won", null] },
    properties: { type: "object", required: ["amount"], properties: { amount: { type: "number" }, deep: { type: "object" } } },
    filters: { type: "array", items: {} },
    either: { type: ["string", "number"] },
  },
};

describe("formFields", () => {
  it("gives each property the control of its type", () => {
    const fields = formFields(schema);
    expect(fields.map(({ name, kind, required }) => [name, kind, required])).toEqual([
      ["dealId", "text", true],
      ["limit", "integer", false],
      ["stage", "choice", false],
      ["properties", "object", true],
      ["filters", "json", false],
      ["either", "json", false],
    ]);
    expect(fields[3]?.fields.map(({ path, kind }) => [path.join("."), kind])).toEqual([
      ["properties.amount", "number"],
      ["properties.deep", "json"],
    ]);
    expect(fields[2]?.choices).toEqual(["open", "won"]);
    expect(fields.slice(0, 2).map((field) => field.placeholder)).toEqual(["for example 101", "default: 10"]);
  });

  it("objects at the fourth level are edited as JSON", () => {
    const nested = (levels: number): object => ({ type: "object", properties: { inner: levels === 1 ? { type: "string" } : nested(levels - 1) } });
    const [first] = formFields(nested(4));
    expect([first?.kind, first?.fields[0]?.kind, first?.fields[0]?.fields[0]?.kind]).toEqual(["object", "object", "json"]);
  });

  it("a schema without properties has no fields", () => {
    expect([formFields(undefined), formFields(true), formFields({})]).toEqual([[], [], []]);
  });
});

it("changes one value and leaves the rest", () => {
  const value = { a: 1, b: { c: 2 } };
  expect(withValueAt(value, ["b", "d"], 3)).toEqual({ a: 1, b: { c: 2, d: 3 } });
  expect(withValueAt(value, ["b", "c"], undefined)).toEqual({ a: 1 });
  expect(valueAt(value, ["b", "c"])).toBe(2);
  expect(valueAt(value, ["a", "c"])).toBeUndefined();
  expect(value).toEqual({ a: 1, b: { c: 2 } });
});

it("parses what a person typed", () => {
  expect(parseField("integer", "12")).toEqual({ ok: true, value: 12 });
  expect(parseField("integer", "1.5")).toMatchObject({ ok: false });
  expect(parseField("number", "x")).toMatchObject({ ok: false });
  expect(parseField("text", "12")).toEqual({ ok: true, value: "12" });
  expect(parseField("json", "[1]")).toEqual({ ok: true, value: [1] });
  expect(parseField("json", "[")).toMatchObject({ ok: false });
  expect(parseField("text", " ")).toEqual({ ok: true, value: undefined });
});

it("makes an example with the required fields", () => {
  expect(exampleOf(schema)).toEqual({ dealId: "", properties: { amount: 0 } });
});
