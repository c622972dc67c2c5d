"""What a client does with the Python SDK, told as one line of JSON.

  python sdk.py http|stdio PROGRAM

The server is at TOOLWRIGHT_URL, the key is TOOLWRIGHT_API_KEY, and PROGRAM is the binary that serves over pipes.
"""

import json
import os
import sys

import anyio
import httpx2
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client


def server(way: str, program: str):
    if way == "stdio":
        return StdioServerParameters(command=program, args=["mcp"], env=dict(os.environ))
    headers = {"Authorization": f"Bearer {os.environ['TOOLWRIGHT_API_KEY']}"}
    http = httpx2.AsyncClient(headers=headers, timeout=60)
    return streamable_http_client(f"{os.environ['TOOLWRIGHT_URL']}/mcp", http_client=http)


async def refusal(call) -> int | None:
    try:
        await call
    except MCPError as error:
        return error.error.code
    return None


async def main() -> None:
    story = {}
    async with Client(server(*sys.argv[1:])) as client:
        story["server"] = client.server_info.name
        story["tools"] = [tool.name for tool in (await client.list_tools()).tools]
        called = await client.call_tool("calculator", {"expression": "6*7"})
        story["called"] = called.structured_content["value"] == 42 and float(called.content[0].text) == 42
        failed = await client.call_tool("calculator", {"expression": "6*"})
        story["failed"] = {"isError": failed.is_error, "code": failed.structured_content["error"]["code"]}
        story["unknown"] = await refusal(client.call_tool("nobody-has-this", {}))
        prompt = await client.get_prompt("greeting", {"who": "Ada"})
        story["prompt"] = prompt.messages[0].content.text
        first = str((await client.list_resources()).resources[0].uri)
        contents = (await client.read_resource(first)).contents
        story["resource"] = json.loads(contents[0].text)["runId"] == first.split("/")[-1]

        # Cancelled as soon as it is known to be under way.
        story["progress"] = []
        with anyio.CancelScope() as scope:

            async def abort(_done, _total, message):
                story["progress"].append(message)
                scope.cancel()

            await client.call_tool("slow", {}, progress_callback=abort)
        story["cancelled"] = scope.cancelled_caught
    print(json.dumps(story))


anyio.run(main)
