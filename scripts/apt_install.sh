#!/usr/bin/env bash
# apt_install.sh PACKAGE... : installs Debian or Ubuntu packages where this user may.
# Fails, quietly, where that is not possible: the caller knows what to tell the user.
set -euo pipefail

command -v apt-get >/dev/null || exit 1

as_root=()
if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || exit 1
    as_root=(sudo)
    # nobody is there to type a password
    [ -t 0 ] || as_root=(sudo -n)
    "${as_root[@]}" true 2>/dev/null || exit 1
fi

apt() {
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq "$@" </dev/null >/dev/null
}

echo "installing $* with apt-get"
# a list that cannot be updated may still be good enough to install from
apt update || true
apt install --yes --no-install-recommends "$@"
