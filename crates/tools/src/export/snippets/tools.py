"""Tools of a Toolwright server for a model.

Pass TOOLS to the model. For each call that the model requests, pass the name and the arguments to `call_tool` and send its
result back to the model.

    export TOOLWRIGHT_URL=http://127.0.0.1:7411 TOOLWRIGHT_API_KEY=...
    python3 tools.py NAME '{"argument": "value"}'
"""

import json
import sys

from invoke import ToolError, invoke

# The tools, as the model gets them.
TOOLS = json.loads("[]")

# The names of the tools on the server.
REF_NAMES = json.loads("{}")


def call_tool(name, arguments):
    """Performs a call that the model requested. `arguments` is a dict, or its JSON."""
    if name not in REF_NAMES:
        raise ToolError(f"There is no tool {name}; use {', '.join(REF_NAMES)}")
    return invoke(REF_NAMES[name], json.loads(arguments) if isinstance(arguments, str) else arguments)


if __name__ == "__main__":
    # Run as a program: call one tool and print its result.
    if len(sys.argv) < 2:
        sys.exit(f"usage: python3 {sys.argv[0]} NAME [ARGUMENTS]\nNAME is one of: {', '.join(REF_NAMES)}")
    print(json.dumps(call_tool(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "{}")))
