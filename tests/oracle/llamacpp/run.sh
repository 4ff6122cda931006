#!/bin/sh
# SPDX-License-Identifier: MIT
# Records facts of real llama.cpp (PyPI, 70 MB of source; a build of some minutes) in tests/oracle/llamacpp/facts: what
# it would allocate on CUDA cards, in bytes, for small models of every architecture. No card is needed and no part of
# the normal tests.
#
#   tests/oracle/llamacpp/run.sh [ARCHITECTURE ...]     record these, or all
#   tests/oracle/llamacpp/run.sh --projectors           record projectors.tsv and adapters.tsv
#   tests/oracle/llamacpp/run.sh --build                only build the recorder, and say where it is
#   tests/oracle/llamacpp/run.sh --again                the runs of facts/ with another version: those that differ, into
#                                                       VRAM_LLAMACPP_FACTS (facts-2026-10 is of 0.3.36)
#
# How: llama.cpp can load a model without memory, and then says what it would have taken (its fit-params tool lives off
# this). virtual_cuda.cpp is a ggml back end that answers for cards what ggml's CUDA back end answers at compute
# capability 8.9: which operations run there, how large a tensor is, which buffers it reads. Everything else, the
# model's graph, the scheduler, the graph allocator, is llama.cpp's own code; patch.py adds only prints to it.
# llama_model_init_from_user makes a model of metadata alone: so the tensors of any architecture are known without a
# real file, and llama-quantize's own rules give them types.
#
# The recorder takes llama.cpp's own options after "-m FILE" (-c -b -ub -np -fa -ctk -ctv -ngl -ts -sm -mg -nkvo -ot
# --cpu-moe --n-cpu-moe --swa-full --no-op-offload --no-repack ...), and
#
#   --devices N           cards (default 1; 0 is a build without CUDA)
#   --free MIB[,MIB...]   free memory of each (default 24576): it decides how layers are shared out without -ts
#   --server              as llama-server: one row of logits a slot; 4 slots and one cache for all unless -np is given
#   --n-outputs-max N     rows of logits in a micro-batch (default: the batch)
#   -kvu  --embeddings  --pooling none|mean|cls|last|rank
#   --dump FILE           every node of the graphs, where it runs, and each step of the graph allocator
#   --shapes FILE_TYPE    only print the tensors that a model of this metadata has
#
# and prints one line of JSON. In it and in the facts "pp" is the graph of a full micro-batch, which decides the size of
# the compute buffers, and "tg" that of one token a sequence. A dump has, for each of the two,
#
#   graph KIND nodes= leafs= splits= copies=
#   leaf  I NAME TYPE [ne] nb[...] FLAGS [weight@BUFFER|cache@BUFFER] be=BACKEND        flags: I input, O output
#   node  I OPERATION NAME TYPE [ne] nb[...] FLAGS [view=OF+BYTES] [cache@...] src=... be=BACKEND sp=SPLIT
#   split I BACKEND nodes=FIRST..END inputs=...
#   alloc|free BUFFER CHUNK:OFFSET SIZE TENSOR     reuse BUFFER CHUNK:OFFSET TENSOR <- PARENT    extra (of a parent)
#
# where n3(name) is node 3, l7(name) leaf 7, and c(name) a copy that the scheduler made.
#
# VRAM_LLAMACPP_VERSION  of llama-cpp-python, whose source package carries llama.cpp's (default 0.3.35)
# VRAM_LLAMACPP_DIR      where all this is built (default: build-oracle/llamacpp beside this repository's files)
# VRAM_LLAMACPP_SOURCE   a tree of llama.cpp instead of a package
# VRAM_LLAMACPP_FACTS    where the facts go (default: facts beside this file)
# Figures of a CPU_REPACK buffer depend on the processor; of cards they do not.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
version=${VRAM_LLAMACPP_VERSION:-0.3.35}
dir=${VRAM_LLAMACPP_DIR:-$root/build-oracle/llamacpp}/$version
facts=${VRAM_LLAMACPP_FACTS:-$here/facts}
source=${VRAM_LLAMACPP_SOURCE:-$dir/llama_cpp_python-$version/vendor/llama.cpp}
python=${PYTHON:-python3}
mkdir -p "$dir/patched" "$facts"

if [ ! -d "$source" ]; then
    "$python" -m pip download --quiet --no-deps --no-binary :all: -d "$dir" "llama-cpp-python==$version"
    tar -xzf "$dir/llama_cpp_python-$version.tar.gz" -C "$dir"
fi

build=$dir/build
if [ ! -f "$build/src/libllama.a" ]; then
    cmake -S "$source" -B "$build" -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS_RELEASE=-O1 -DCMAKE_C_FLAGS_RELEASE=-O1 \
        -DBUILD_SHARED_LIBS=OFF -DGGML_OPENMP=OFF -DLLAMA_CURL=OFF -DLLAMA_OPENSSL=OFF -DLLAMA_BUILD_TESTS=OFF \
        -DLLAMA_BUILD_TOOLS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_SERVER=OFF > "$dir/cmake.log"
    cmake --build "$build" --target llama -j "${JOBS:-$(nproc)}" > "$dir/build.log"
fi

includes="-I$here -I$source/ggml/include -I$source/ggml/src -I$source/include -I$source/src -I$source/common -I$source/vendor"
flags='-w -O1 -DGGML_SCHED_MAX_COPIES=4 -D_GNU_SOURCE -DGGML_VERSION="" -DGGML_COMMIT=""'
grep -q mmap_support "$source/ggml/include/ggml-backend.h" && flags="$flags -DVIRTUAL_CUDA_MMAP_CAP"
grep -q add_alloc_dep "$source/ggml/src/ggml-backend-impl.h" && flags="$flags -DVIRTUAL_CUDA_ALLOC_DEPS"
grep -q GGML_CUDA_FA_QUANTS "$source/ggml/CMakeLists.txt" && flags="$flags -DVIRTUAL_CUDA_ANY_CACHE"
grep -q SWIGLU_CLAMP "$source/ggml/include/ggml.h" && flags="$flags -DVIRTUAL_CUDA_SWIGLU_CLAMP"
grep -q ggml_prec_set_src "$source/ggml/include/ggml.h" && flags="$flags -DVIRTUAL_CUDA_PREC_SRC"
grep -q 'd_state == 96' "$source/ggml/src/ggml-cuda/ggml-cuda.cu" && flags="$flags -DVIRTUAL_CUDA_SCALE_F32"
grep -q load_mtp "$source/include/llama.h" && flags="$flags -DLLAMA_HAS_LOAD_MTP"
"$python" "$here/patch.py" "$source" "$dir/patched"
# shellcheck disable=SC2086
{
    ${CC:-cc} $flags $includes -c "$dir/patched/ggml-alloc.c" -o "$dir/ggml-alloc.o"
    for file in "$dir/patched/ggml-backend.cpp" "$here/virtual_cuda.cpp" "$here/virtual_fusion.cpp" \
        "$here/shapes.cpp" "$here/parameters.cpp" "$here/recorder.cpp"; do
        ${CXX:-c++} -std=gnu++17 $flags $includes -c "$file" -o "$dir/$(basename "$file" .cpp).o"
    done
    libraries="$build/src/libllama.a $build/ggml/src/libggml.a $build/ggml/src/libggml-cpu.a
        $build/ggml/src/libggml-base.a -lpthread -ldl"
    # Objects before archives: the patched ones stand in for ggml's own.
    hooks="$dir/ggml-alloc.o $dir/ggml-backend.o $dir/virtual_cuda.o $dir/virtual_fusion.o $dir/shapes.o $dir/parameters.o"
    ${CXX:-c++} -o "$dir/recorder" -Wl,--wrap=gguf_find_key "$dir/recorder.o" $hooks $libraries
}
if [ "${1:-}" = --projectors ]; then
    cmake --build "$build" --target llama-common -j "${JOBS:-$(nproc)}" > "$dir/build.log"
    common="$build/common/libllama-common.a $build/common/libllama-common-base.a $build/vendor/cpp-httplib/libcpp-httplib.a"
    mtmd=$source/tools/mtmd
    mkdir -p "$dir/mtmd"
    # shellcheck disable=SC2086
    {
        for file in "$mtmd/clip.cpp" "$mtmd/mtmd.cpp" "$mtmd/mtmd-audio.cpp" "$mtmd/mtmd-image.cpp" "$mtmd"/models/*.cpp \
            "$here/projector_recorder.cpp"; do
            ${CXX:-c++} -std=gnu++17 $flags $includes "-I$mtmd" -c "$file" -o "$dir/mtmd/$(basename "$file" .cpp).o"
        done
        ${CXX:-c++} -std=gnu++17 $flags $includes -c "$here/beside_recorder.cpp" -o "$dir/beside_recorder.o"
        ${CXX:-c++} -o "$dir/beside_recorder" -Wl,--wrap=gguf_find_key "$dir/beside_recorder.o" $hooks $common $libraries
        ${CXX:-c++} -o "$dir/projector_recorder" -Wl,--wrap=gguf_find_key "$dir"/mtmd/*.o $hooks $common $libraries
    }
    "$python" "$here/projectors.py" --record "$dir/projector_recorder" "$here/projectors.tsv"
    exec "$python" "$here/adapters.py" --record "$dir/beside_recorder" "$here/adapters.tsv"
fi
if [ "${1:-}" = --build ]; then
    echo "$dir/recorder"
    exit
fi
exec "$python" "$here/record.py" "$dir/recorder" "$facts" "$version" "$@"
