#!/bin/sh
# SPDX-License-Identifier: MIT
# Installs the Debian packages that are named as arguments and not there yet. Run by try.sh and test.sh.
set -eu

missing=
for package in "$@"; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

as_root=
if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || { echo "setup: run as root, or install sudo first:$missing are missing" >&2; exit 1; }
    as_root=sudo
fi
echo "setup: installing$missing" >&2
export DEBIAN_FRONTEND=noninteractive
$as_root apt-get update -qq >&2
# shellcheck disable=SC2086 # a list of package names
$as_root apt-get install -y -qq --no-install-recommends $missing >&2
