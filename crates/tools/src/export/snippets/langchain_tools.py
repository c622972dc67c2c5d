"""Tools of a Toolwright server for LangChain.

    pip install langchain-core
    export TOOLWRIGHT_URL=http://127.0.0.1:7411 TOOLWRIGHT_API_KEY=...
    python3 langchain_tools.py NAME '{"argument": "value"}'
"""

import json
import sys

from langchain_core.tools import StructuredTool, ToolException

from invoke import ToolError, invoke

TOOLS = json.loads("[]")

# The names of the tools on the server.
REF_NAMES = json.loads("{}")


def structured_tool(name, description, schema):
    """Returns a tool whose results are texts. A result that is not a text is JSON."""

    def call(**params):
        try:
            result = invoke(REF_NAMES[name], params)
        except ToolError as error:
            raise ToolException(str(error)) from error
        return result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)

    return StructuredTool.from_function(func=call, name=name, description=description, args_schema=schema)


# The tools, for `model.bind_tools(tools)` or an agent.
tools = [structured_tool(**tool) for tool in TOOLS]

if __name__ == "__main__":
    # Run as a program: call one tool and print its result.
    by_name = {tool.name: tool for tool in tools}
    if len(sys.argv) < 2 or sys.argv[1] not in by_name:
        sys.exit(f"usage: python3 {sys.argv[0]} NAME [ARGUMENTS]\nNAME is one of: {', '.join(by_name)}")
    print(by_name[sys.argv[1]].invoke(json.loads(sys.argv[2] if len(sys.argv) > 2 else "{}")))
