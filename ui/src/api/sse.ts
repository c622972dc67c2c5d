/** Parses a stream of server-sent events. `EventSource` cannot send the header that selects the realm. */

export interface ServerEvent {
  id?: string;
  type: string;
  data: string;
}

/** Returns the complete events in `text`, and the rest that follows the last complete event. */
export function parseEvents(text: string): { events: ServerEvent[]; rest: string } {
  const blocks = text.replaceAll("\r\n", "\n").split("\n\n");
  const rest = blocks.pop() ?? "";
  return { events: blocks.map(parseBlock).filter((event) => event !== undefined), rest };
}

function parseBlock(block: string): ServerEvent | undefined {
  const event: ServerEvent = { type: "message", data: "" };
  const data: string[] = [];
  for (const line of block.split("\n")) {
    if (line.startsWith(":")) continue;
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "data") data.push(value);
    else if (field === "event") event.type = value;
    else if (field === "id") event.id = value;
  }
  if (data.length === 0) return undefined;
  return { ...event, data: data.join("\n") };
}

/** Yields the events of a response until it ends. Calls `onBytes` for everything that arrives, also for comments. */
export async function* readEvents(response: Response, onBytes?: () => void): AsyncGenerator<ServerEvent> {
  if (!response.body) return;
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      onBytes?.();
      const parsed = parseEvents(text + value);
      text = parsed.rest;
      yield* parsed.events;
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}
