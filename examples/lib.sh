# Functions that the examples share. Source this file; it runs nothing by itself. shellcheck shell=bash

here=$(cd -- "$(dirname -- "${BASH_SOURCE[1]}")" && pwd)
peer_pid=''
peer_url=''
scratch=$(mktemp -d "${TMPDIR:-/tmp}/toolwright-example.XXXXXX")

clean_up() {
  [[ -z $peer_pid ]] || kill "$peer_pid" 2>/dev/null || true
  rm -rf -- "$scratch"
}
trap clean_up EXIT

# Starts a Python program that prints its URL, and sets `peer_url`.
start_peer() {
  : >"$scratch/peer"
  python3 "$@" >"$scratch/peer" &
  peer_pid=$!
  local poll
  for ((poll = 0; poll < 100; poll++)); do
    peer_url=$(head -n 1 "$scratch/peer")
    [[ -z $peer_url ]] || return 0
    kill -0 "$peer_pid" 2>/dev/null || break
    sleep 0.1
  done
  echo "$1 did not start" >&2
  return 1
}

# Prints one field of the JSON on standard input: `field runId`, `field approvals 0 callId`.
field() {
  python3 -c 'import json, sys
value = json.load(sys.stdin)
for key in sys.argv[1:]:
    value = value[int(key)] if key.isdigit() else value[key]
print(value if isinstance(value, str) else json.dumps(value))' "$@"
}
