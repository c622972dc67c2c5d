"""An MCP server with tools of a Toolwright server. Its client starts it as a child process.

    pip install "mcp>=2"
    TOOLWRIGHT_URL=http://127.0.0.1:7411 TOOLWRIGHT_API_KEY=... python3 server.py
"""

import json
import urllib.parse

import anyio
from mcp import types
from mcp.server import Server
from mcp.server.stdio import stdio_server

from invoke import ToolError, invoke, request

NAME = "toolwright"
VERSION = "1.0.0"

TOOLS = json.loads("[]")

# The names of the tools on the server.
REF_NAMES = json.loads("{}")

# Reference data: the names and ids that inputs may contain.
RESOURCES = json.loads("[]")


async def list_tools(_context, _params):
    return types.ListToolsResult(tools=[types.Tool.model_validate(tool) for tool in TOOLS])


async def call_tool(_context, params):
    try:
        if params.name not in REF_NAMES:
            raise ToolError(f"There is no tool {params.name}")
        result = await anyio.to_thread.run_sync(invoke, REF_NAMES[params.name], params.arguments or {}, "mcpTool")
    except ToolError as error:
        return types.CallToolResult(content=[types.TextContent(type="text", text=str(error))], is_error=True)
    text = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
    structured = result if isinstance(result, dict) else None
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], structured_content=structured)


async def list_resources(_context, _params):
    return types.ListResourcesResult(resources=[types.Resource.model_validate(resource) for resource in RESOURCES])


async def read_resource(_context, params):
    uri = str(params.uri)
    if uri not in [resource["uri"] for resource in RESOURCES]:
        raise ValueError(f"There is no resource {uri}")
    items = await anyio.to_thread.run_sync(reference_data, *uri.removeprefix("toolwright://").split("/"))
    content = types.TextResourceContents(uri=uri, mime_type="application/json", text=json.dumps(items, ensure_ascii=False))
    return types.ReadResourceResult(contents=[content])


def reference_data(provider, data_type):
    path = f"/api/v1/ai/tool-providers/{provider}/reference-data?limit=100&dataType={data_type}"
    items, cursor = [], ""
    while True:
        _, page = request(path + (f"&cursor={urllib.parse.quote(cursor, safe='')}" if cursor else ""))
        items += page["items"]
        cursor = page["nextCursor"]
        if cursor is None:
            return items


async def main():
    handlers = {"on_list_tools": list_tools, "on_call_tool": call_tool}
    if RESOURCES:
        handlers |= {"on_list_resources": list_resources, "on_read_resource": read_resource}
    server = Server(NAME, version=VERSION, **handlers)
    async with stdio_server() as (reader, writer):
        await server.run(reader, writer, server.create_initialization_options())


if __name__ == "__main__":
    anyio.run(main)
