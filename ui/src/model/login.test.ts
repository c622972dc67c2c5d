import { expect, it } from "vitest";
import { loginTarget, takeToken } from "./login";

it("takes the token from the fragment of a login link only", () => {
  expect(["#token=ab12", "#token=", "#other=ab12", "", "#token=ab12&x=1"].map(takeToken)).toEqual([
    "ab12",
    undefined,
    undefined,
    undefined,
    undefined,
  ]);
});

it("returns only to pages of this server", () => {
  expect(["/runs?status=ERROR", undefined, "https://example.com", "//example.com", "/\\example.com", "/login?to=/"].map(loginTarget)).toEqual([
    "/runs?status=ERROR",
    "/",
    "/",
    "/",
    "/",
    "/",
  ]);
});
