import { expect, it } from "vitest";
import { parseToolVersions } from "./toolVersions";

it("reads versions and replacements", () => {
  expect(parseToolVersions("crm/search@2.0.0\n\n crm/get=crm/find@^1.0 ")).toEqual({
    ok: true,
    tools: { "crm/search": "2.0.0", "crm/get": "crm/find@^1.0" },
  });
});

it("names the line that it cannot read", () => {
  expect(parseToolVersions("crm/search")).toEqual({ ok: false, message: "“crm/search” must have the form tool@version" });
});
