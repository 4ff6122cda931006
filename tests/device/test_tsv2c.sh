#!/bin/sh
# SPDX-License-Identifier: MIT
# The table compiler refuses whatever is not a fact, names file and line, and leaves no half table behind.
# usage: test_tsv2c.sh TSV2C SOURCE_ROOT
set -eu
tsv2c=$1 root=$2
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
failed=0

# expect LINE TEXT SED-SCRIPT TABLE: the table changed by the script is refused at that line with that text
expect() {
    line=$1 text=$2 script=$3 table=${4:-gpus}
    sed "$script" "$root/data/$table.tsv" >"$dir/in.tsv"
    rm -f "$dir/out.c"
    if "$tsv2c" "$table" "$dir/in.tsv" "$dir/out.c" 2>"$dir/message"; then
        echo "accepted: $script"
        failed=1
    elif ! grep -qF "in.tsv:$line: " "$dir/message" || ! grep -qF "$text" "$dir/message"; then
        echo "$script: expected line $line, \"$text\", got: $(cat "$dir/message")"
        failed=1
    elif [ -e "$dir/out.c" ]; then
        echo "$script: left a table behind"
        failed=1
    fi
}

for table in gpus architectures namings remedies; do
    "$tsv2c" $table "$root/data/$table.tsv" "$dir/out.c"
    grep -q "_table_n = " "$dir/out.c"
done
expect 3 'unknown column "colour"' '3s/arch/colour/'
expect 3 'column "id" comes twice' '3s/vendor/id/'
expect 3 'columns, the table gpus has' '3s/	notes$//'
expect 4 'fields, the header has' '4s/$/	more/'
expect 5 'fields, the header has' '5s/	[^	]*$//'
expect 7 '"twelve" is not a number' '7s/	6	/	twelve	/'
expect 7 '"-6" is not a number' '7s/	6	/	-6	/'
expect 7 '"6 " is not a number' '7s/	6	/	6 	/'
expect 7 '"6.5" is not a number' '7s/	6	/	6.5	/'
expect 7 '0 would read as unknown' '7s/	6	/	0	/'
expect 7 'is too large' '7s/	6	/	99999999999999999999	/'
expect 7 'is neither like 8.6 nor a gfx target' '7s/	6.1	/	6	/'
expect 7 'is not one of' '7s/	linux	/	bsd	/'
expect 7 'column vendor must not be empty' '7s/	NVIDIA	/		/'
expect 7 'is there twice' '7s/^[^	]*/gtx-1060-3gb/'
expect 7 'control character' '7s/$/\r/'
expect 4 '"maybe" is neither yes nor no' '4s/	no	/	maybe	/' namings
expect 8 '"qk_nrm" is not one of' '8s/	qk_norm	/	qk_nrm	/' architectures
expect 4 'column norm must not be empty' '4s/	rms	/		/' architectures
expect 4 '"kv_cach" is not one of' '4s/	kv_cache	/	weights kv_cach	/' remedies
printf 'id' >"$dir/in.tsv"
if "$tsv2c" gpus "$dir/in.tsv" "$dir/out.c" 2>/dev/null || "$tsv2c" gpus /dev/null "$dir/out.c" 2>/dev/null; then
    echo "accepted a file without lines"
    failed=1
fi
"$tsv2c" cards "$root/data/gpus.tsv" "$dir/out.c" 2>/dev/null && failed=1
"$tsv2c" gpus "$dir/none.tsv" "$dir/out.c" 2>/dev/null && failed=1
exit $failed
