import { expect, it } from "vitest";
import { schemaRows } from "./schemaRows";

it("lists nested fields with their types and constraints", () => {
  const rows = schemaRows({
    required: ["filters"],
    properties: {
      filters: { type: "array", items: { type: "object", properties: { value: { type: ["string", "null"] } } } },
      limit: { type: "integer", minimum: 1, default: 10 },
      order: { enum: ["up", "down"] },
    },
  });
  expect(rows.map(({ path, depth, type, required, constraint }) => [path, depth, type, required, constraint])).toEqual([
    ["filters", 0, "list of object", true, ""],
    ["filters.value", 1, "string | null", false, ""],
    ["limit", 0, "integer", false, "minimum 1, default 10"],
    ["order", 0, '"up" | "down"', false, ""],
  ]);
});

it("a schema without fields has no rows", () => {
  expect([schemaRows(true), schemaRows({}), schemaRows(null)]).toEqual([[], [], []]);
});
