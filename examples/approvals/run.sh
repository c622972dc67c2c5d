#!/usr/bin/env bash
# A run waits until a person decides. One run is denied, one is approved. Needs a server with --demo.
set -euo pipefail
. "$(dirname -- "${BASH_SOURCE[0]}")/../lib.sh"

toolwright apply -f "$here/definitions.yaml"
order=$(toolwright --json tools run orders/create -p customerId=cus-1 \
  -p 'items=[{"sku": "KB-200", "quantity": 1, "unitPriceCents": 8900}]' | field output id)

# `agents run` exits with 8 if the run waits.
ask() {
  local code=0
  toolwright --json agents run examples/cancel-clerk "$order" >/dev/null 2>&1 || code=$?
  [[ $code -eq 8 ]] || return 1
  run=$(toolwright --json runs list --agent examples/cancel-clerk --status awaiting_approval | field items 0 id)
  call=$(toolwright --json approvals list --run "$run" | field items 0 callId)
}

ask
toolwright approvals list
toolwright runs deny "$run" "$call" --reason 'The customer called back.'
ask
toolwright runs approve "$run" "$call"
