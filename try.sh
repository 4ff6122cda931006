#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds vram and runs its main job on a built-in example: a 7B model on a 12 GB card. Needs no network once the
# compiler is installed. Arguments, if any, are given to vram instead: ./try.sh fit DIR --gpu rtx-4090
set -eu
here=$(cd "$(dirname "$0")" && pwd)

sh "$here/tools/setup.sh" gcc libc6-dev meson ninja-build pkg-config libcurl4-openssl-dev zlib1g-dev ca-certificates
build=$here/build
log=$(mktemp)
trap 'rm -f "$log"' EXIT
{ [ -f "$build/build.ninja" ] || meson setup "$build" "$here" --buildtype=release -Dtests=false; } >"$log" 2>&1 &&
    ninja -C "$build" >>"$log" 2>&1 || { tail -n 40 "$log" >&2; exit 1; }

[ $# -gt 0 ] || set -- example
"$build/src/cli/vram" "$@"
