#!/usr/bin/env bash
# Calls tools and agents over HTTP from TypeScript. Needs a server with --demo, Node 20, and the compiler `tsc` (npm install typescript).
set -euo pipefail
. "$(dirname -- "${BASH_SOURCE[0]}")/../lib.sh"

toolwright apply -f "$here/../noter.yaml"
echo '{"type": "module"}' >"$scratch/package.json"
tsc --strict --target es2022 --module esnext --lib es2022,dom,dom.asynciterable --outDir "$scratch" "$here/call.ts"
node "$scratch/call.js"
