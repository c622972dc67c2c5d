"""Exercises the server with the Python SDK and prints a report as one line of JSON.

  python sdk.py http|stdio PROGRAM

The server is at TOOLWRIGHT_URL, the key is TOOLWRIGHT_API_KEY, and PROGRAM is the binary that serves over stdio.
"""

import json
import os
import sys

import anyio
import httpx2
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client


def server(transport: str, program: str):
    if transport == "stdio":
        return StdioServerParameters(command=program, args=["mcp"], env=dict(os.environ))
    headers = {"Authorization": f"Bearer {os.environ['TOOLWRIGHT_API_KEY']}"}
    http = httpx2.AsyncClient(headers=headers, timeout=60)
    return streamable_http_client(f"{os.environ['TOOLWRIGHT_URL']}/mcp", http_client=http)


async def error_code(call) -> int | None:
    try:
        await call
    except MCPError as error:
        return error.error.code
    return None


async def main() -> None:
    report = {}
    async with Client(server(*sys.argv[1:])) as client:
        report["server"] = client.server_info.name
        report["tools"] = [tool.name for tool in (await client.list_tools()).tools]
        called = await client.call_tool("calculator", {"expression": "6*7"})
        report["called"] = called.structured_content["value"] == 42 and float(called.content[0].text) == 42
        failed = await client.call_tool("calculator", {"expression": "6*"})
        report["failed"] = {"isError": failed.is_error, "code": failed.structured_content["error"]["code"]}
        report["unknown"] = await error_code(client.call_tool("no-such-tool", {}))
        prompt = await client.get_prompt("greeting", {"who": "Ada"})
        report["prompt"] = prompt.messages[0].content.text
        first = str((await client.list_resources()).resources[0].uri)
        contents = (await client.read_resource(first)).contents
        report["resource"] = json.loads(contents[0].text)["runId"] == first.split("/")[-1]

        # Cancel the call after its first progress message.
        report["progress"] = []
        with anyio.CancelScope() as scope:

            async def abort(_done, _total, message):
                report["progress"].append(message)
                scope.cancel()

            await client.call_tool("slow", {}, progress_callback=abort)
        report["cancelled"] = scope.cancelled_caught
    print(json.dumps(report))


anyio.run(main)
