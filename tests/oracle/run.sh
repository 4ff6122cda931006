#!/bin/sh
# SPDX-License-Identifier: MIT
# Records the facts in tests/oracle/facts anew from real transformers (PyPI; several GB with PyTorch).
# No part of the normal tests.
#
#   tests/oracle/run.sh [VERSION ...]      default: the versions whose tapes are called verified
#
# VRAM_ORACLE_DIR    where the virtual environments go (default: build-oracle beside this repository's files)
# VRAM_ORACLE_TORCH  a site-packages folder that has PyTorch and numpy already
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
dir=${VRAM_ORACLE_DIR:-$root/build-oracle}
python=${PYTHON:-python3}
torch=${VRAM_ORACLE_TORCH:-}
[ $# -gt 0 ] || set -- 4.57.6 5.17.0 5.24.0

if [ -z "$torch" ]; then
    [ -d "$dir/torch" ] || "$python" -m venv "$dir/torch"
    "$dir/torch/bin/pip" install --quiet torch==2.15.0 numpy
    torch=$("$dir/torch/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
fi

for version in "$@"; do
    venv=$dir/transformers-$version
    if [ ! -d "$venv" ]; then
        "$python" -m venv "$venv"
        site=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
        # One PyTorch for all: behind each environment's own packages on the path.
        echo "$torch" > "$site/zz_torch.pth"
        "$venv/bin/pip" install --quiet "transformers==$version"
    fi
    "$venv/bin/python" "$root/tests/oracle/trace_transformers.py" "$root/tests/oracle/facts" 2> "$venv/log" ||
        { tail -n 20 "$venv/log" >&2; exit 1; }
done
