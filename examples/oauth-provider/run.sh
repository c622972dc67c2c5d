#!/usr/bin/env bash
# A tool whose provider needs an OAuth 2.0 token. The server requests one token and uses it for both calls.
set -euo pipefail
. "$(dirname -- "${BASH_SOURCE[0]}")/../lib.sh"

start_peer "$here/peer.py" 0
sed "s#http://127.0.0.1:8001#$peer_url#" "$here/definitions.yaml" | toolwright apply -f -
echo client-secret | toolwright secrets set bank-client
toolwright tools run examples/balance
toolwright tools run examples/balance

# With a wrong secret, the call fails and names the cause.
echo wrong | toolwright secrets set bank-client
toolwright tools run examples/balance || echo "exit code $?"
