#!/usr/bin/env bash
# An agent delegates to another agent. The delegate has a run of its own. Needs a server with --demo.
set -euo pipefail
. "$(dirname -- "${BASH_SOURCE[0]}")/../lib.sh"

toolwright apply -f "$here/definitions.yaml"
toolwright agents run examples/front-desk ord-1002

# The tokens of the delegate also count for the run that called it.
toolwright runs list --agent examples/front-desk --limit 1
toolwright runs list --agent examples/specialist --limit 1
