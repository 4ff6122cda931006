#!/bin/sh
# SPDX-License-Identifier: MIT
# The rows of data/catalogue.tsv are what tools/catalogue.py makes of the configurations (VRAM_DATA): nobody has changed
# one by hand.      catalogue.sh ROOT
set -eu
root=$1
data=${VRAM_DATA:-$root/../shared}
if [ ! -d "$data/data/configs" ]; then
    echo "skipped: there is no $data/data/configs"
    [ -z "${VRAM_DATA:-}" ] || exit 1
    exit 77
fi
python3 "$root/tools/catalogue.py" "$data/data/configs" | diff -u "$root/data/catalogue.tsv" -
