#!/usr/bin/env bash
# An agent calls a tool that the client performs. This script is the client: it reads a file on this machine.
set -euo pipefail
. "$(dirname -- "${BASH_SOURCE[0]}")/../lib.sh"

toolwright apply -f "$here/definitions.yaml"
echo 'the meeting is at ten' >"$scratch/notes.txt"

# `agents run` exits with 8 if the run waits.
code=0
toolwright --json agents run examples/reader "$scratch/notes.txt" >/dev/null 2>&1 || code=$?
[[ $code -eq 8 ]]
run=$(toolwright --json runs list --agent examples/reader --status awaiting_client | field items 0 id)

# The action has the payload that the server prepared from `bodyTemplate`.
action=$(toolwright --json runs get "$run" | field clientActions 0)
call=$(field callId <<<"$action")
path=$(field preparedPayload open <<<"$action")

# The client performs the action and returns its result.
python3 -c 'import json, sys; print(json.dumps({"text": open(sys.argv[1]).read().strip()}))' "$path" |
  toolwright runs results "$run" "$call" --output -
