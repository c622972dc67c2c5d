"""An MCP server over standard input and output, with two tools. It uses only the standard library."""

import json
import sys

TOOLS = [
    {
        "name": "add",
        "description": "Add two numbers.",
        "inputSchema": {
            "type": "object",
            "required": ["a", "b"],
            "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
        },
    },
    {
        "name": "shout",
        "description": "Return a text in capitals.",
        "inputSchema": {"type": "object", "required": ["text"], "properties": {"text": {"type": "string"}}},
    },
]


def call(name, arguments):
    if name == "add":
        return {"sum": arguments["a"] + arguments["b"]}
    return {"text": arguments["text"].upper()}


def result(method, params):
    if method == "initialize":
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "example", "version": "1.0.0"},
        }
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call":
        output = call(params["name"], params["arguments"])
        return {"content": [{"type": "text", "text": json.dumps(output)}], "structuredContent": output}
    if method == "ping":
        return {}
    return None


for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue  # A notification has no response.
    answer = {"jsonrpc": "2.0", "id": message["id"]}
    value = result(message["method"], message.get("params", {}))
    if value is None:
        answer["error"] = {"code": -32601, "message": f"unknown method {message['method']}"}
    else:
        answer["result"] = value
    print(json.dumps(answer), flush=True)
