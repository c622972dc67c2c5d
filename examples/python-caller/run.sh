#!/usr/bin/env bash
# Calls tools and agents over HTTP from Python. Needs a server with --demo.
set -euo pipefail
. "$(dirname -- "${BASH_SOURCE[0]}")/../lib.sh"

toolwright apply -f "$here/../noter.yaml"
python3 "$here/call.py"
