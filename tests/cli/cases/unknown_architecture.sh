# An architecture that is not known, with tensors of the usual names: llama.cpp does not load it, so no verdict that it fits;
# weights and caches as assumed, a compute buffer of a plain graph in a band of 35 %. With a tensor that no other architecture
# has it is not counted. Only weights and caches that are too large by themselves are a verdict.
python3 -B - "$(dirname "$0")/.." <<'PY'
import sys
sys.path.insert(0, sys.argv[1])
import solver
solver.dense("llama.gguf", solver.Q8_0)
with open("llama.gguf", "rb") as f:
    whole = f.read()
with open("newly.gguf", "wb") as f:
    f.write(whole.replace(b"llama", b"newly"))
with open("other.gguf", "wb") as f:
    f.write(whole.replace(b"llama", b"newly").replace(b"ffn_gate.", b"ffn_frob."))
PY
vram fit newly.gguf --gpu 24GiB || echo "exit $?"
vram fit newly.gguf --gpu 1GiB || echo "exit $?"
vram fit newly.gguf --gpu 24GiB --json | sed -n '/"verdict"/p; /"activations"/,/}/p; /"kv_cache"/,/"basis"/p'
vram fit other.gguf --gpu 24GiB || echo "exit $?"
vram fit llama.gguf --gpu 2x24GiB -sm row --engine-version b9000
