import { describe, expect, it } from "vitest";
import { cost, count, duration, plural, relativeTime, shortCount, shortId } from "./format";

describe("relativeTime", () => {
  const now = Date.parse("2026-11-19T12:00:00Z");
  it.each([
    ["2026-11-19T11:59:58Z", "just now"],
    ["2026-11-19T11:59:20Z", "40 s ago"],
    ["2026-11-19T11:57:00Z", "3 min ago"],
    ["2026-11-19T14:00:00Z", "in 2 h"],
    ["2026-11-18T12:00:00Z", "1 day ago"],
    ["2026-11-09T12:00:00Z", "10 days ago"],
  ])("%s is %s", (date, expected) => expect(relativeTime(date, now)).toBe(expected));
});

describe("duration", () => {
  it.each([
    [0, "0 ms"],
    [4.2, "4 ms"],
    [999, "999 ms"],
    [1234, "1.2 s"],
    [12_340, "12 s"],
    [200_000, "3 min 20 s"],
    [3_600_000, "1 h"],
    [90_000_000, "1 d 1 h"],
  ])("%d ms is %s", (ms, expected) => expect(duration(ms)).toBe(expected));
});

it("formats costs without losing small ones", () => {
  expect([0, 0.00001, 0.00123, 0.0456, 12.5, 1234.5].map(cost)).toEqual(["$0", "< $0.0001", "$0.0012", "$0.046", "$12.50", "$1,234.50"]);
});

it("formats counts", () => {
  expect(count(20_000)).toBe("20\u202f000");
  expect([950, 1000, 12_340, 120_400, 4_100_000].map(shortCount)).toEqual(["950", "1k", "12.3k", "120k", "4.1M"]);
  expect([plural(1, "call"), plural(2, "call"), plural(2, "entry", "entries")]).toEqual(["1 call", "2 calls", "2 entries"]);
});

it("shortens ids to the characters that differ", () => {
  expect(shortId("run_01M7F4F79TV9Q6SZEN6XBCR3Z4")).toBe("run_…BCR3Z4");
  expect(shortId("run_short")).toBe("run_short");
});
