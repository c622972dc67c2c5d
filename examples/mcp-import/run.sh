#!/usr/bin/env bash
# Imports the tools of an MCP server that the Toolwright server starts, and calls one of them.
# The server must listen on loopback, or have mcp.stdio = "on".
set -euo pipefail
. "$(dirname -- "${BASH_SOURCE[0]}")/../lib.sh"

toolwright tools import mcp --command python3 --arg "$here/server.py" --prefix examples/ --apply
toolwright tools run examples/add -p a=2 -p b=40
toolwright tools run examples/shout -p text=hello

# A second import changes nothing.
toolwright tools import mcp --command python3 --arg "$here/server.py" --prefix examples/ --apply
