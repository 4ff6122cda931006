#!/bin/sh
# SPDX-License-Identifier: MIT
# Reading GGUF headers: `vram inspect` beside the npm package @huggingface/gguf, on the same files. Says whether
# both read the same, then how long each takes, the peer with and without the start of node. By hand: needs
# node, npm and hyperfine; the package is installed into PEER (default /tmp/vram-gguf-peer).
#
#     bench/gguf_peer.sh VRAM FILE.gguf...
set -eu
here=$(cd "$(dirname "$0")" && pwd)
peer=${PEER:-/tmp/vram-gguf-peer}
vram=$1
shift
if [ ! -d "$peer/node_modules/@huggingface/gguf" ]; then
    mkdir -p "$peer"
    (cd "$peer" && npm init -y >/dev/null && npm install --silent @huggingface/gguf@0.4.6)
fi
failed=0
mean() {
    hyperfine -N -w 3 -r "$1" --export-json "$peer/times.json" "$2" >/dev/null 2>&1
    node -p "(JSON.parse(require('fs').readFileSync('$peer/times.json')).results[0].median*1000).toFixed(1)"
}
for file; do
    file=$(realpath "$file")
    echo "$file"
    "$vram" inspect "$file" --json --tensors | (cd "$peer" && node "$here/gguf_peer.mjs" "$file") || failed=1
    ours=$(mean 30 "$vram inspect $file")
    theirs=$(cd "$peer" && mean 5 "node $here/gguf_peer.mjs $file --time")
    alone=$(cd "$peer" && node "$here/gguf_peer.mjs" "$file" --time)
    node -p "'vram $ours ms; peer $theirs ms, without the start of node $alone ms: ' +
        ($theirs/$ours).toFixed(0) + ' and ' + ($alone/$ours).toFixed(0) + ' times as long'"
done
exit $failed
