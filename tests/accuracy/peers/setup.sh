#!/bin/sh
# SPDX-License-Identifier: MIT
# What others say: node-llama-cpp with its prebuilt llama.cpp, which measures without allocating, on virtual cards
# (virtual_cuda_plugin.cpp); @huggingface/gguf; gguf-parser-go. Into the folder PEERS (default /tmp/vram-peers). By hand:
# needs node, npm, git, go and a C++ compiler.
#
#     tests/accuracy/peers/setup.sh
set -eu
here=$(cd "$(dirname "$0")" && pwd)
peers=${PEERS:-/tmp/vram-peers}
mkdir -p "$peers" && cd "$peers"
if [ ! -d node_modules/node-llama-cpp ]; then
    npm init -y >/dev/null
    NODE_LLAMA_CPP_SKIP_DOWNLOAD=true npm install --silent node-llama-cpp@3.22.1 @huggingface/gguf@0.4.6
fi
# Its build for CUDA, with the virtual cards in place of the back end that needs a driver.
rm -rf llama && mkdir llama
cp node_modules/@node-llama-cpp/linux-x64-cuda/bins/linux-x64-cuda/* llama/
[ -d source ] || git clone -q node_modules/node-llama-cpp/llama/gitRelease.bundle source
c++ -std=gnu++17 -O1 -shared -fPIC -DVIRTUAL_CUDA_MMAP_CAP -I source/ggml/include -I source/ggml/src \
    -I "$here/../../oracle/llamacpp" "$here/virtual_cuda_plugin.cpp" -o llama/libggml-cuda.so \
    -L llama -lggml-base -Wl,-rpath,'$ORIGIN'
if [ ! -x gguf_parser ]; then
    mkdir -p go && cp "$here/gguf_parser.go" go/main.go
    (cd go && { [ -f go.mod ] || go mod init gguf_parser; } && go get github.com/gpustack/gguf-parser-go@v0.28.2 &&
        go mod tidy && go build -o ../gguf_parser .)
fi
