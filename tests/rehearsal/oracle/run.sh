#!/bin/sh
# SPDX-License-Identifier: MIT
# Plays scenarios.h through the allocator of an installed PyTorch with CUDA (pip install torch; no GPU is
# needed) and prints the facts that test_oracle compares with: ./run.sh SITE-PACKAGES > facts.txt
#
# Not part of the tests: it needs a PyTorch of 3 GB. The facts are recorded and are part of them.
set -eu
site=${1:?usage: run.sh SITE-PACKAGES [NUMBER-OF-SCENARIO -v]}
here=$(cd "$(dirname "$0")" && pwd)
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
cuda=$(dirname "$(find "$site/nvidia" -name cuda_runtime_api.h | head -1)")
crt=$(dirname "$(dirname "$(find "$site" -path '*nvidia*/crt/host_defines.h' | head -1)")") # of Triton
lib=$(dirname "$(find "$site/nvidia" -name 'libcudart.so.*' | head -1)")
cc -O1 -w -fPIC -shared -I"$cuda" -I"$crt" -o "$build/fake_driver.so" "$here/fake_driver.c"
c++ -std=c++20 -O1 -w -I"$site/torch/include" -I"$cuda" -I"$crt" -o "$build/drive" "$here/drive.cpp" \
    -L"$site/torch/lib" -lc10_cuda -lc10 -Wl,-rpath,"$site/torch/lib" -Wl,-rpath,"$lib" \
    -Wl,--allow-shlib-undefined

play() { # number, conf, capacity, more
    env PYTORCH_CUDA_ALLOC_CONF="$2" ORACLE_CAPACITY="$3" LD_PRELOAD="$build/fake_driver.so" \
        "$build/drive" "$1" $4
}

cat > "$build/list.c" <<'END'
#include <inttypes.h>
#include <stdio.h>
#include "scenarios.h"
int main(void)
{
    for (size_t i = 0; i < ORACLE_SCENARIOS; i++)
        printf("%zu|%s|%" PRIu64 "\n", i, oracle_scenarios[i].conf, oracle_scenarios[i].capacity);
}
END
cc -w -I"$here" -o "$build/list" "$build/list.c"

sed -n "s/^__version__ = '\(.*\)'/# PyTorch \1/p" "$site/torch/version.py"
echo "# scenario, step, allocated, reserved, requested, retries, refused, digest"
"$build/list" | while IFS='|' read -r number conf capacity; do
    if [ $# -lt 2 ] || [ "$2" = "$number" ]; then
        play "$number" "$conf" "$capacity" "${3:-}"
    fi
done
