import { expect, it } from "vitest";
import { parseJson, tokenizeJson } from "./json";

it("distinguishes keys from strings, and keeps the text", () => {
  const text = JSON.stringify({ "a: b": 'x "y": 1', n: [-1.5e-9, true, null] }, null, 2);
  const tokens = tokenizeJson(text);
  expect(tokens.map((token) => token.text).join("")).toBe(text);
  expect(tokens.filter((token) => token.kind === "key").map((token) => token.text)).toEqual(['"a: b"', '"n"']);
  expect(tokens.filter((token) => token.kind === "number").map((token) => token.text)).toEqual(["-1.5e-9"]);
  expect(tokens.filter((token) => token.kind === "word").map((token) => token.text)).toEqual(["true", "null"]);
});

it("returns the message of a syntax error", () => {
  expect(parseJson('{"a": 1}')).toEqual({ ok: true, value: { a: 1 } });
  expect(parseJson("{").ok).toBe(false);
});
