import { describe, expect, it } from "vitest";
import { parseEvents, readEvents } from "./sse";

describe("parseEvents", () => {
  it("returns complete events and keeps the rest", () => {
    const { events, rest } = parseEvents('event: READY\nid: 0-4\ndata: {"type":"READY"}\n\nevent: RUN_');
    expect(events).toEqual([{ type: "READY", id: "0-4", data: '{"type":"READY"}' }]);
    expect(rest).toBe("event: RUN_");
  });

  it("ignores comments and joins lines of data", () => {
    expect(parseEvents(": keep-alive\n\ndata: a\ndata:b\n\n").events).toEqual([{ type: "message", data: "a\nb" }]);
  });

  it("accepts lines that end with CR LF", () => {
    expect(parseEvents("data: a\r\n\r\n").events).toEqual([{ type: "message", data: "a" }]);
  });
});

describe("readEvents", () => {
  it("joins events that arrive in pieces", async () => {
    const pieces = ["data: fi", "rst\n", "\ndata: second\n\nda"];
    const body = new ReadableStream({
      start(controller) {
        pieces.forEach((piece) => controller.enqueue(new TextEncoder().encode(piece)));
        controller.close();
      },
    });
    const seen: string[] = [];
    for await (const event of readEvents(new Response(body))) seen.push(event.data);
    expect(seen).toEqual(["first", "second"]);
  });
});
