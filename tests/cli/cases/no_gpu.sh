# Without a GPU all is in the computer's memory: the model of solve.sh, whose 1.58 billion weights are 5.87 GiB in F32, with
# the embedding, which here lies beside them, 6.11, and 24 x 2 x 1024 x 2 B = 96 KiB a token. How much there is, is said or not.
python3 -B - "$(dirname "$0")/.." <<'PY'
import sys
sys.path.insert(0, sys.argv[1])
import solver
solver.dense("dense-F32.gguf", solver.F32)
PY
vram fit dense-F32.gguf --gpu none || echo "exit $?"
vram fit dense-F32.gguf --gpu none --host-memory 16GiB
vram fit dense-F32.gguf --gpu none --host-memory 4GiB || echo "exit $?"
vram fit dense-F32.gguf --gpu none --free 16GiB --engine ollama
vram fit --gpu none --json -- llama-server -m dense-F32.gguf -c 8192 | sed -n '/"verdict"/p; /"kind"/p; /"headroom/p; /"output_bytes/p'
vram fit -- llama-cli -m dense-F32.gguf -dev none -c 4096 || echo "exit $?"
vram fit dense-F32.gguf --engine all --gpu none --host-memory 16GiB
vram fit dense-F32.gguf --gpu none --gpu 24GiB || echo "exit $?"
vram fit dense-F32.gguf --gpu none --solve context || echo "exit $?"
vram fit dense-F32.gguf --gpu none --engine transformers || echo "exit $?"
