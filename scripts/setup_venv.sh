#!/usr/bin/env bash
# setup_venv.sh DIRECTORY : makes sure that there is a virtual environment with Python 3.11 or newer.
set -euo pipefail

venv=${1:?usage: setup_venv.sh DIRECTORY}
here=$(cd "$(dirname "$0")" && pwd)

# Runs the interpreter: a name on the PATH may be a shim for a version that is not installed.
new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

find_python() {
    local name
    for name in ${PYTHON:-} python3.13 python3.12 python3.11 python3; do
        if command -v "$name" >/dev/null && new_enough "$name"; then
            command -v "$name"
            return
        fi
    done
    return 1
}

if [ -x "$venv/bin/python" ] && new_enough "$venv/bin/python" && "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
    exit 0
fi

if ! python=$(find_python); then
    found=$(python3 --version 2>/dev/null || echo "no python3")
    echo "viewkeep needs Python 3.11 or newer, and here is $found." >&2
    echo "On Debian 12, Ubuntu 24.04 or newer: sudo apt-get install python3 python3-venv" >&2
    echo "An interpreter elsewhere: make setup PYTHON=/path/to/python3.12" >&2
    exit 1
fi

make_venv() {
    "$python" -m venv --clear "$venv"
}

# Debian ships Python without what venv needs, in a package of its own.
if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    "$here/apt_install.sh" "python$version-venv" || "$here/apt_install.sh" python3-venv || {
        echo "Python's venv module is missing. Install it: sudo apt-get install python$version-venv" >&2
        exit 1
    }
fi
make_venv
