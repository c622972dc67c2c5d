import { expect, it } from "vitest";
import { editable, lifecycle, schemaOf, toolTypeName } from "./tools";

it("an editable definition has no fields of the server", () => {
  expect(editable({ id: "tool_1", revision: 3, refName: "crm/get", description: null, enabled: true })).toEqual({
    refName: "crm/get",
    enabled: true,
  });
});

it("reads a schema that is an object, a text, or the short form", () => {
  const schema = { type: "object", properties: { a: { type: "string" } } };
  expect(schemaOf(schema, undefined)).toEqual(schema);
  expect(schemaOf(JSON.stringify(schema), undefined)).toEqual(schema);
  expect(schemaOf(undefined, { path: { type: "string", required: true }, limit: { type: "integer" } })).toEqual({
    type: "object",
    properties: { path: { type: "string" }, limit: { type: "integer" } },
    required: ["path"],
  });
  expect([schemaOf("{", undefined), schemaOf(undefined, undefined)]).toEqual([{}, {}]);
});

it("names known types and states, and shows unknown ones as they are", () => {
  expect([toolTypeName("EXTERNAL_REST"), toolTypeName("NEW_TYPE")]).toEqual(["HTTP", "NEW_TYPE"]);
  expect([lifecycle("blocked").tone, lifecycle("new").label]).toEqual(["bad", "new"]);
});
