#!/bin/sh
# SPDX-License-Identifier: MIT
# Records facts of real transformers (PyPI; several GB with PyTorch) in tests/oracle/facts. No part of the
# normal tests.
#
#   tests/oracle/run.sh [--cases FILE[:NAME,NAME...]]... [VERSION ...]
#   tests/oracle/run.sh --fresh BUILD [--cases ...]... [VERSION ...]
#
# FILE is one of tests/oracle/cases/ ("moe" or "moe.json") or a path; without it all of them are recorded. What a
# case can say is told at the head of trace_transformers.py. VERSION: default 4.57.6, 5.17.0 and 5.24.0, those
# whose tapes are called verified. Then
#
#   VRAM_ORACLE_ONLY=qwen3_moe BUILD/tests/engine/test_engine_oracle      (and test_engine_order)
#
# plays our own tapes against the facts whose file names contain that word.
#
# --fresh draws a depth, a length and widths for each recorded case (VRAM_ORACLE_SEED, default the time), records
# that in a temporary folder, and plays the tapes of the build folder BUILD against it.
#
# VRAM_ORACLE_DIR    where the virtual environments go (default: build-oracle beside this repository's files)
# VRAM_ORACLE_TORCH  a site-packages folder that has PyTorch and numpy already
# VRAM_ORACLE_QUANTO a folder that has optimum-quanto already (pip install --target)
# VRAM_ORACLE_KERNELS  a copy of github.com/huggingface/kernels-community, for the cases with packed weights
# Sizes are the same on every computer but oneDNN's scratch in fp16, which depends on the processor.
#
# VRAM_ORACLE_FACTS  where the facts go (default: tests/oracle/facts); the tests read the same variable
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
dir=${VRAM_ORACLE_DIR:-$root/build-oracle}
facts=${VRAM_ORACLE_FACTS:-$root/tests/oracle/facts}
python=${PYTHON:-python3}
torch=${VRAM_ORACLE_TORCH:-}

cases=
build=
while true; do
    case ${1:-} in
        --cases) cases="$cases --cases $2" ;;
        --fresh) build=$2 ;;
        *) break ;;
    esac
    shift 2
done
if [ -n "$build" ]; then
    seed=${VRAM_ORACLE_SEED:-$(date +%s)}
    facts=$(mktemp -d)
    cases="$cases --fresh $seed"
    echo "seed $seed, facts in $facts"
fi
[ $# -gt 0 ] || set -- 4.57.6 5.17.0 5.24.0

if [ -z "$torch" ]; then
    [ -d "$dir/torch" ] || "$python" -m venv "$dir/torch"
    "$dir/torch/bin/python" -c 'import torch' 2> /dev/null || "$dir/torch/bin/pip" install --quiet torch==2.15.0 numpy
    torch=$("$dir/torch/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
fi

# Some classes walk a set of words (the tables of gemma4_text, the masks of llama4_text), in an order that differs
# from one process to the next; with this, full attention comes first.
export PYTHONHASHSEED=0

quanto=${VRAM_ORACLE_QUANTO:-$dir/quanto}
[ -d "$quanto" ] || "$python" -m pip install --quiet --no-deps --target "$quanto" optimum-quanto==0.2.7
export PYTHONPATH="$quanto"

for version in "$@"; do
    venv=$dir/transformers-$version
    if [ ! -d "$venv" ]; then
        "$python" -m venv "$venv"
        site=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
        # One PyTorch for all: behind each environment's own packages on the path.
        echo "$torch" > "$site/zz_torch.pth"
        "$venv/bin/pip" install --quiet "transformers==$version"
    fi
    log=$(mktemp)
    # shellcheck disable=SC2086
    "$venv/bin/python" "$root/tests/oracle/trace_transformers.py" $cases "$facts" 2> "$log" ||
        { tail -n 20 "$log" >&2; rm "$log"; exit 1; }
    rm "$log"
done

if [ -n "$build" ]; then
    [ -n "$(ls "$facts")" ] || { echo "nothing was recorded (packed weights need VRAM_ORACLE_KERNELS)" >&2; exit 1; }
    VRAM_ORACLE_FACTS=$facts "$build/tests/engine/test_engine_order"
    VRAM_ORACLE_FACTS=$facts "$build/tests/engine/test_engine_oracle"
    rm -r "$facts"
fi
