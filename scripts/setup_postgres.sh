#!/usr/bin/env bash
# setup_postgres.sh : makes sure that PostgreSQL's server programs are there, for tests and benchmarks.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)

installed() {
    compgen -G "/usr/lib/postgresql/*/bin/initdb" >/dev/null || command -v initdb >/dev/null
}

installed && exit 0
"$here/apt_install.sh" postgresql && installed && exit 0

echo "The tests need PostgreSQL's server programs (initdb, postgres). Install them, then run this again:" >&2
echo "  Debian, Ubuntu: sudo apt-get install postgresql" >&2
exit 1
