# What llama.cpp does by itself, and what the computer has for it, of models that solver.py makes: 24 layers of 62.9 million weights
# and the output's 65.5, in F32 5.87 GiB, 0.234 a layer. --fit leaves 1 GiB of a card free.
mkdir made
python3 -B - "$(dirname "$0")/.." <<'PY'
import sys
sys.path.insert(0, sys.argv[1])
import solver
for kind, name in ((solver.Q8_0, "Q8_0"), (solver.F32, "F32")):
    solver.dense("made/dense-%s.gguf" % name, kind)
solver.experts("experts-Q8_0.gguf")
PY
exec 2>&1
vram fit --gpu gtx-1060-3gb -- llama-server -m made/dense-F32.gguf -c 4096
vram fit --gpu gtx-1060-3gb --fit off -- llama-server -m made/dense-F32.gguf -c 4096 || echo "exit $?"
vram fit --gpu rtx-3060-12gb -- llama-cli -m made/dense-Q8_0.gguf
vram fit --gpu rtx-3060-12gb -- llama-server -m made/dense-Q8_0.gguf -c 4096 -ngl 99
vram fit --gpu 2xgtx-1060-3gb -- llama-server -m made/dense-F32.gguf
vram fit --gpu 24GiB --engine-version b6000 -- llama-server -m made/dense-Q8_0.gguf
# What stays on the CPU is held against the memory of the computer.
vram fit experts-Q8_0.gguf --gpu gtx-1060-3gb --free 1.5GiB --solve experts --host-memory 64GiB
vram fit experts-Q8_0.gguf --gpu gtx-1060-3gb --free 1.5GiB --solve experts --host-memory 256MiB || echo "exit $?"
vram fit made/dense-Q8_0.gguf --gpu rtx-3060-12gb -ctk q8_0 --host-memory 16GiB | grep -e warning -e host -e assumed
