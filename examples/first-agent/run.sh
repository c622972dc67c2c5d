#!/usr/bin/env bash
# The smallest agent, in gram notation and as YAML. Both use the tool `sayHello`.
set -euo pipefail
. "$(dirname -- "${BASH_SOURCE[0]}")/../lib.sh"

toolwright apply -f "$here/../hello_world.gram"
toolwright agents run hello_world_agent Ada

toolwright apply -f "$here/../greeter.yaml"
toolwright agents run greeter World --context language=English
