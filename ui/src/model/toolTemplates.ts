/** Definitions to start from. */

export type Template = "http" | "function";

export const TEMPLATES: Record<Template, { hint: string; definition: Record<string, unknown> }> = {
  http: {
    hint: "One request to an API. ${param.NAME} inserts an input. Private addresses must be allowed by the operator of the server.",
    definition: {
      refName: "example/get-item",
      description: "Read one item by its id.",
      toolType: "EXTERNAL_REST",
      sideEffects: "reads",
      inputJsonSchema: {
        type: "object",
        properties: { id: { type: "string", description: "The id of the item." } },
        required: ["id"],
        additionalProperties: false,
      },
      invocation: { method: "GET", path: "https://api.example.com/items/${param.id}" },
    },
  },
  function: {
    hint: "Python that runs in a sandbox, without files and network. The value of the last expression is the output.",
    definition: {
      refName: "example/total",
      description: "Add up the amounts.",
      toolType: "FUNCTION",
      sideEffects: "none",
      inputJsonSchema: {
        type: "object",
        properties: { amounts: { type: "array", items: { type: "number" }, description: "The amounts." } },
        required: ["amounts"],
        additionalProperties: false,
      },
      invocation: { path: "python", code: '{"total": sum(amounts)}' },
    },
  },
};
