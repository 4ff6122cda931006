#!/bin/sh
# SPDX-License-Identifier: MIT
# Nothing that the core reads of a configuration is among what tools/catalogue.py leaves out; and the rows of
# data/catalogue.tsv are what it makes of the configurations (VRAM_DATA): nobody has changed one by hand.
#     catalogue.sh ROOT
set -eu
root=$1
data=${VRAM_DATA:-$root/../shared}
python3 - "$root" <<'EOF'
import pathlib, re, sys
root = pathlib.Path(sys.argv[1])
sys.path.insert(0, str(root / "tools"))
sys.dont_write_bytecode = True
import catalogue
read = set()
for room in ("model", "engine"):
    for path in (root / "src" / room).glob("*.c"):
        for words in re.findall(r'"([a-z_0-9.]+)"', path.read_text(encoding="utf-8")):
            read.update(words.split("."))
lost = sorted(read & catalogue.DROP)
if lost:
    sys.exit("tools/catalogue.py leaves out what is read: " + " ".join(lost))
EOF
if [ ! -d "$data/data/configs" ]; then
    echo "skipped: there is no $data/data/configs"
    [ -z "${VRAM_DATA:-}" ] || exit 1
    exit 77
fi
python3 "$root/tools/catalogue.py" "$data/data/configs" | diff -u "$root/data/catalogue.tsv" -
