import { expect, it } from "vitest";
import { workflowQuery } from "../workflowFilters";
import { issuesByLine, lineRange, nextVersion, versionOf, withVersion } from "./yaml";

const TEXT = "refName: orders/fulfil # the name\nversion: 1.0.0\nsteps: []\n";

it("the version of a text is read and replaced, and the rest stays", () => {
  expect(versionOf(TEXT)).toBe("1.0.0");
  expect(versionOf('version: "2.1.0" # new')).toBe("2.1.0");
  expect(withVersion(TEXT, "1.1.0")).toBe(TEXT.replace("1.0.0", "1.1.0"));
  expect(withVersion("refName: a\nsteps: []\n", "1.1.0")).toBe("refName: a\nversion: 1.1.0\nsteps: []\n");
  expect(withVersion("steps: []\n", "1.1.0")).toBe("version: 1.1.0\nsteps: []\n");
  expect(versionOf("input:\n  version: 3.0.0\n")).toBeUndefined();
});

it("the next version is the next minor version", () => {
  expect(["1.0.0", "1.9.3", "2.0.0-beta.1"].map(nextVersion)).toEqual(["1.1.0", "1.10.0", "2.1.0"]);
});

it("a line has its place in the text", () => {
  const [start, end] = lineRange(TEXT, 2);
  expect(TEXT.slice(start, end)).toBe("version: 1.0.0");
  expect(lineRange("one", 9)).toEqual([0, 3]);
});

it("an error of a line hides a warning of the same line", () => {
  const issue = (severity: string, line?: number) => ({ severity, code: severity, path: "", message: "", line });
  const lines = issuesByLine([issue("warning", 3), issue("error", 3), issue("warning", 3), issue("error")]);
  expect([...lines].map(([line, one]) => [line, one.code])).toEqual([[3, "error"]]);
});

it("the filters of the list are one query, without characters that have a meaning in it", () => {
  expect(workflowQuery({})).toBeUndefined();
  expect(workflowQuery({ status: "draft" })).toBe("status:draft");
  expect(workflowQuery({ text: "ship:(a)" })).toBe("(refName:*ship??a?* || name:*ship??a?* || description:*ship??a?*)");
});
