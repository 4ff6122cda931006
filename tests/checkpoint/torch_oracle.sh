#!/bin/sh
# SPDX-License-Identifier: MIT
# Holds `vram inspect` against files that real PyTorch saves (torch_oracle.py). Skipped (77) where there is no PyTorch.
#
#   tests/checkpoint/torch_oracle.sh VRAM             with the PyTorch that is found
#   tests/checkpoint/torch_oracle.sh --install VRAM   makes an environment with it first (PyPI; 5.4 GB, some minutes)
#   tests/checkpoint/torch_oracle.sh --record         writes torch_facts/ anew, which the tests of a clone are held against
#
# VRAM_ORACLE_TORCH  a site-packages folder that has PyTorch and numpy
# VRAM_ORACLE_DIR    where the environment is or goes (default: build-oracle beside this repository's files)
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
dir=${VRAM_ORACLE_DIR:-$root/build-oracle}
python=${PYTHON:-python3}

if [ "$1" = --install ]; then
    shift
    [ -d "$dir/torch" ] || "$python" -m venv "$dir/torch"
    "$dir/torch/bin/pip" install --quiet torch==2.15.0 numpy
fi
if [ -n "${VRAM_ORACLE_TORCH:-}" ]; then
    export PYTHONPATH="$VRAM_ORACLE_TORCH"
elif [ -x "$dir/torch/bin/python" ]; then
    python=$dir/torch/bin/python
else
    echo "skipped: no PyTorch in $dir; see $0"
    exit 77
fi

if [ "$1" = --record ]; then
    facts=$root/tests/checkpoint/torch_facts
    mkdir -p "$facts"
    find "$facts" -mindepth 1 ! -name README.md -delete
    exec "$python" "$root/tests/checkpoint/torch_oracle.py" --record "$facts"
fi
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
"$python" "$root/tests/checkpoint/torch_oracle.py" "$1" "$made"
