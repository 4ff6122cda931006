#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds vram and runs every test: gcc, clang with the address and undefined-behaviour sanitizers, valgrind, lint, docs.
# VRAM_DATA names a folder with the large data sets; when it is set, tests that need it fail instead of being skipped.
set -eu
cd "$(dirname "$0")"

sh tools/setup.sh gcc libc6-dev clang libclang-rt-14-dev meson ninja-build pkg-config libcurl4-openssl-dev \
    zlib1g-dev libcmocka-dev valgrind python3 jq mandoc bash openssl nginx
if [ -z "${VRAM_DATA:-}" ] && [ -d ../shared/data ]; then
    VRAM_DATA=$(cd ../shared && pwd)
    export VRAM_DATA
fi

# name, compiler, meson options, options of meson test
run() {
    name=$1 compiler=$2 options=$3 selection=$4
    echo "== $name" >&2
    [ -f "build-test/$name/build.ninja" ] ||
        CC=$compiler meson setup "build-test/$name" --werror $options >/dev/null
    ninja -C "build-test/$name" >"build-test/$name/build.log" 2>&1 ||
        { tail -n 60 "build-test/$name/build.log" >&2; return 1; }
    # shellcheck disable=SC2086 # lists of words
    meson test -C "build-test/$name" --no-rebuild --print-errorlogs --num-processes 2 $selection || status=1
}

status=0
mkdir -p build-test
rm -f build-test/*/meson-logs/testlog*.json
run gcc gcc "--buildtype=release" ""
run clang-asan clang "-Db_sanitize=address,undefined -Db_lundef=false" "--no-suite bench"
run valgrind gcc "--buildtype=debugoptimized" "--wrap=$PWD/tools/valgrind.sh --no-suite lint --no-suite script --no-suite slow --timeout-multiplier=6"

python3 tools/count_tests.py build-test/*/meson-logs/testlog*.json || status=1
exit $status
