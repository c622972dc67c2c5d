/** Splits formatted JSON text into tokens with a kind, for colours. */

export interface JsonToken {
  kind: "key" | "string" | "number" | "word" | "plain";
  text: string;
}

const TOKEN = /("(?:\\.|[^"\\])*")(\s*:)?|(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)|\b(true|false|null)\b/g;

export function tokenizeJson(text: string): JsonToken[] {
  const tokens: JsonToken[] = [];
  let end = 0;
  for (const match of text.matchAll(TOKEN)) {
    if (match.index > end) tokens.push({ kind: "plain", text: text.slice(end, match.index) });
    const [whole, string, colon, number] = match;
    if (string !== undefined && colon !== undefined) {
      tokens.push({ kind: "key", text: string }, { kind: "plain", text: colon });
    } else {
      tokens.push({ kind: string !== undefined ? "string" : number !== undefined ? "number" : "word", text: whole });
    }
    end = match.index + whole.length;
  }
  if (end < text.length) tokens.push({ kind: "plain", text: text.slice(end) });
  return tokens;
}

/** The position of an error in a text. */
export type Parsed = { ok: true; value: unknown } | { ok: false; message: string };

/** Parses JSON that a person wrote. */
export function parseJson(text: string): Parsed {
  try {
    return { ok: true, value: JSON.parse(text) as unknown };
  } catch (error) {
    return { ok: false, message: error instanceof Error ? error.message : String(error) };
  }
}
