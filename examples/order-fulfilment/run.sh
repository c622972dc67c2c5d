#!/usr/bin/env bash
# Runs a workflow twice: an order without exceptions, and orders that need an agent and an approval. Needs a server with
# --demo.
set -euo pipefail
. "$(dirname -- "${BASH_SOURCE[0]}")/../lib.sh"

start_peer "$here/warehouse.py" 0
sed "s#http://127.0.0.1:8002#$peer_url#" "$here/definitions.yaml" | toolwright apply -f -
toolwright workflows check examples/order-fulfilment
toolwright workflows run examples/order-fulfilment --input '{"orderIds": ["ord-1003"]}'

# `workflows run` exits with 8 if the run waits.
code=0
toolwright workflows run examples/order-fulfilment \
  --input '{"orderIds": ["ord-1003", "ord-1005", "ord-1012", "ord-1017"]}' || code=$?
[[ $code -eq 8 ]]
run=$(toolwright --json workflow-instances list --workflow examples/order-fulfilment --limit 1 | field items 0 id)
call=$(toolwright --json workflow-instances get "$run" | field approvals 0 callId)
toolwright runs approve "$run" "$call" --no-wait
toolwright workflow-instances watch "$run"

# The schedule of the example runs the workflow each night. `fire` runs it now.
toolwright triggers get examples/nightly-orders
run=$(toolwright triggers fire examples/nightly-orders)
toolwright workflow-instances watch "$run"
toolwright triggers firings examples/nightly-orders
