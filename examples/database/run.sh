#!/usr/bin/env bash
# Imports the tables of a database as entity types, queries them, and calls a generated tool. The example uses SQLite:
# start the server with TOOLWRIGHT_SQLITE_FOLDER=FOLDER and set SQLITE_FOLDER to the same folder. For Postgres, the
# secret is postgres://user:password@host/database, and the server needs no folder.
set -euo pipefail
. "$(dirname -- "${BASH_SOURCE[0]}")/../lib.sh"

python3 - "$here/shop.sql" "${SQLITE_FOLDER:?is the folder of TOOLWRIGHT_SQLITE_FOLDER}/shop.db" <<'PYTHON'
import os, sqlite3, sys
script, file = sys.argv[1:]
if os.path.exists(file):
    os.remove(file)
sqlite3.connect(file).executescript(open(script).read())
PYTHON
echo sqlite:shop.db | toolwright secrets set shop-db

toolwright types import database --secret shop-db          # shows what would be created
toolwright types import database --secret shop-db --apply
toolwright records find Invoice 'state:open && total:>#500'
toolwright records find Invoice 'expand(client) && state:paid' --fields '+id, +client'
toolwright tools run count_invoices -p 'query=state:open'
