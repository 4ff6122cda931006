#!/bin/sh
# SPDX-License-Identifier: MIT
# Each public header alone, without a warning, as strict C99 and C11, and as C++11 where there is a C++ compiler.
#
#   headers.sh INCLUDE-DIRECTORY COMPILER...
set -eu
include=$1
shift
try() {
    printf '#include "%s"\nint main(void) { return 0; }\n' "$name" |
        "$@" -I "$include" -Wall -Wextra -pedantic -Werror -fsyntax-only -
}
n=0
for path in "$include"/*.h; do
    name=$(basename "$path")
    try "$@" -x c -std=c99
    try "$@" -x c -std=c11
    if echo 'int main() {}' | "$@" -x c++ -fsyntax-only - 2>/dev/null; then
        try "$@" -x c++ -std=c++11
    fi
    n=$((n + 1))
done
[ "$n" -ge 2 ] # vram.h, vram_io.h
