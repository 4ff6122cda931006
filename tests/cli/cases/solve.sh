# Settings that are sought, of models of llama.cpp that solver.py makes (and types again): 24 layers and an output in three types,
# 16 layers with experts. 24 layers of 62.9 million weights and the output's 65.5 are 1.58 billion: 0.83 GiB in Q4_0, which has
# 4.5 bits a weight, 1.56 in Q8_0, 5.87 in F32. A token keeps 24 x 2 x 1024 x 2 B = 96 KiB.
mkdir made
python3 -B - "$(dirname "$0")/.." <<'PY'
import sys
sys.path.insert(0, sys.argv[1])
import solver
for kind, name in ((solver.Q4_0, "Q4_0"), (solver.Q8_0, "Q8_0"), (solver.F32, "F32")):
    solver.dense("made/dense-%s.gguf" % name, kind)
solver.experts("experts-Q8_0.gguf")
PY
vram fit made/dense-Q4_0.gguf --gpu rtx-3060-12gb
vram fit made/dense-Q4_0.gguf --gpu rtx-3060-12gb --solve context -np 2 -ctk q8_0 -ctv q8_0
vram fit made/dense-F32.gguf --gpu gtx-1060-3gb --solve ngl
COLUMNS=100 vram fit made/dense-F32.gguf --gpu gtx-1060-3gb --color always | sed 's/\x1b\[[0-9;]*m//g'
COLUMNS=100 vram fit experts-Q8_0.gguf --gpu 1.5GiB --color always | sed 's/\x1b\[[0-9;]*m//g'
vram fit made/dense-F32.gguf --gpu rtx-3060-12gb --gpu gtx-1060-3gb --solve split -c 64K
vram fit made --gpu gtx-1060-3gb --solve quant || echo "exit $?"
vram fit made --gpu gtx-1060-3gb --solve quant --json | sed -n '/"quants"/,$p'
vram fit made/dense-F32.gguf --gpu gtx-1060-3gb --solve experts || echo "exit $?"
vram fit made/dense-F32.gguf --solve ngl || echo "exit $?"
vram fit made/dense-F32.gguf --gpu 3GiB --solve quant || echo "exit $?"
vram fit qwen3-32b --gpu 80GiB --solve context || echo "exit $?"
