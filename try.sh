#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds vram and runs its main job on a built-in example: a 7B model on a 12 GB card. Needs no network once the
# compiler is installed. Arguments, if any, are given to vram instead: ./try.sh fit DIR --gpu rtx-4090
set -eu
cd "$(dirname "$0")"

sh tools/setup.sh gcc libc6-dev meson ninja-build pkg-config
[ -f build/build.ninja ] || meson setup build --buildtype=release -Dtests=false >build-setup.log 2>&1 ||
    { cat build-setup.log >&2; exit 1; }
rm -f build-setup.log
ninja -C build -v >build/build.log 2>&1 || { tail -n 40 build/build.log >&2; exit 1; }

if [ $# -gt 0 ]; then
    exec build/src/cli/vram "$@"
fi
exec build/src/cli/vram example
