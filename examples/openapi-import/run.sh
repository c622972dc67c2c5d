#!/usr/bin/env bash
# Imports an API from its OpenAPI document, calls a tool, and runs an agent that uses the tools.
# docs/tutorial.md explains each step.
set -euo pipefail
. "$(dirname -- "${BASH_SOURCE[0]}")/../lib.sh"

start_peer "$here/tickets.py" 0
sed "s#http://127.0.0.1:8000#$peer_url#" "$here/provider.yaml" | toolwright apply -f -
echo tickets-secret | toolwright secrets set tickets-token
toolwright tools import openapi "$here/tickets.openapi.yaml" --provider tickets --apply
toolwright tools run tickets/get -p id=1

toolwright apply -f "$here/agent.yaml"
toolwright agents run support 'Please close the ticket about the invoice.' --yes
toolwright runs list --agent support --limit 1
