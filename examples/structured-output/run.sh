#!/usr/bin/env bash
# The answer of an agent as data. The server validates it, and asks again if it does not match the schema.
set -euo pipefail
. "$(dirname -- "${BASH_SOURCE[0]}")/../lib.sh"

toolwright apply -f "$here/definitions.yaml"
curl -sS --fail-with-body "$TOOLWRIGHT_URL/api/v1/ai/agents/examples%2Fgrader/execute" \
  -H "Authorization: Bearer $TOOLWRIGHT_API_KEY" -H 'Content-Type: application/json' \
  -d '{"userMessage": "The server is down. I restarted it."}' >"$scratch/answer"
echo "status: $(field status <"$scratch/answer")"
echo "model calls: $(field iterationsUsed <"$scratch/answer")"
echo "answer: $(field outputContext <"$scratch/answer")"
