/** The parts of a journal entry that a person reads: texts, calls and errors. */

export interface CallPart {
  key: string;
  name: string;
  version?: string | undefined;
  input?: unknown;
  output?: unknown;
  error?: string | undefined;
  policy?: string | undefined;
  principal?: string | undefined;
  allowed: boolean;
}

export interface EntryParts {
  text?: string | undefined;
  prompt?: string | undefined;
  error?: { code: string; message: string } | undefined;
  calls: CallPart[];
}

type Fields = Record<string, unknown>;

export function entryParts(body: Fields): EntryParts {
  switch (body.type) {
    case "started":
      return startParts(body);
    case "model_replied":
      return replyParts(fields(body.reply), body);
    case "model_failed":
    case "failed":
      return { error: { code: text(body.reason) ?? "", message: text(body.message) ?? "" }, calls: [] };
    case "prepared":
      return { calls: list(body.calls).map((call, index) => preparedPart(fields(call), String(index))) };
    case "prepared_again":
      return { calls: [preparedPart(fields(body.call), "0")] };
    case "call_ended":
      return { calls: [envelopePart(fields(body.envelope), "0")] };
    case "handed_to_client":
      return { calls: [{ ...envelopePart(fields(body.pending), "0"), output: body.prepared_payload }] };
    case "approval_decided":
      return decisionParts(body);
    case "client_returned":
      return clientParts(fields(body.result));
    case "cancelled":
      return { text: text(body.message), calls: [] };
    default:
      return { calls: [] };
  }
}

function startParts(body: Fields): EntryParts {
  const messages = list(fields(fields(body.spec).request).messages).map(fields);
  const of = (role: string) =>
    messages
      .filter((message) => message.role === role)
      .map((message) => content(message.content))
      .join("\n\n");
  return { text: of("user") || undefined, prompt: of("system") || undefined, calls: [] };
}

function replyParts(reply: Fields, body: Fields): EntryParts {
  const calls = list(reply.tool_calls).map((call, index) => {
    const one = fields(call);
    return { key: text(one.id) ?? String(index), name: text(one.name) ?? "", input: argumentsOf(one.arguments), allowed: true };
  });
  const problem = text(body.schema_error);
  return { text: text(reply.content), error: problem === undefined ? undefined : { code: "answer_schema", message: problem }, calls };
}

/** Arguments are JSON, or the text of a reply that is not JSON. */
function argumentsOf(value: unknown): unknown {
  const parsed = fields(value);
  return "json" in parsed ? parsed.json : value;
}

function preparedPart(call: Fields, key: string): CallPart {
  if ("refused" in call) return envelopePart(fields(call.refused), key);
  const ready = fields(call.ready);
  return {
    key,
    name: text(ready.name) ?? "",
    version: text(ready.version),
    policy: text(ready.policy_id),
    principal: text(ready.principal),
    allowed: true,
  };
}

function envelopePart(envelope: Fields, key: string): CallPart {
  const error = envelope.error == null ? undefined : fields(envelope.error);
  const metadata = fields(envelope.metadata);
  return {
    key,
    name: text(envelope.name) ?? "",
    version: text(envelope.version),
    input: envelope.input,
    output: envelope.output ?? undefined,
    error: error && `${text(error.code) ?? ""}: ${text(error.message) ?? ""}`,
    policy: text(metadata.policy_id),
    principal: text(metadata.principal),
    allowed: text(error?.code) !== "POLICY_DENIED",
  };
}

function decisionParts(body: Fields): EntryParts {
  const decision = fields(body.decision);
  const reason = text(decision.reason) ?? text(body.reason);
  const edited = "input" in decision ? [{ key: "edit", name: "edited call", input: decision.input, allowed: true }] : [];
  return { text: reason, calls: edited };
}

function clientParts(result: Fields): EntryParts {
  const error = "error" in result ? fields(result.error) : undefined;
  if (error) return { error: { code: text(error.code) ?? "", message: text(error.message) ?? "" }, calls: [] };
  return { calls: [{ key: "output", name: "result of the client", output: result.output, allowed: true }] };
}

function content(value: unknown): string {
  if (typeof value === "string") return value;
  return list(value)
    .map((part) => text(fields(part).text) ?? "")
    .join("\n");
}

function fields(value: unknown): Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Fields) : {};
}

function list(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}

function text(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" ? value : undefined;
}
