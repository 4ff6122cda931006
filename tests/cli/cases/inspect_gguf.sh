# A GGUF file, a set of two with a vision projector beside it, each of them named alone, and a set that lacks a part.
python3 - <<'PYTHON'
import os, struct
U32, F32, STR = 4, 6, 8
def text(s):
    return struct.pack("<Q", len(s)) + s.encode()
def gguf(name, keys, tensors):
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys))
    for key, value in keys:
        head += text(key) + (struct.pack("<I", STR) + text(value) if isinstance(value, str) else struct.pack("<II", U32, value))
    at = 0
    for tensor, kind, dims, size in tensors:
        head += text(tensor) + struct.pack("<I", len(dims)) + struct.pack("<%dQ" % len(dims), *dims) + struct.pack("<IQ", kind, at)
        at += -(-size // 32) * 32
    os.makedirs(os.path.dirname(name) or ".", exist_ok=True)
    with open(name, "wb") as f:
        f.write(head + bytes(-len(head) % 32))
        f.truncate(f.tell() + at)
F32_, Q8_0, Q4_K = 0, 8, 12
model = [("general.architecture", "gemma2"), ("general.file_type", 15), ("gemma2.block_count", 2),
         ("gemma2.embedding_length", 256), ("gemma2.context_length", 8192), ("gemma2.attention.head_count", 4),
         ("gemma2.attention.head_count_kv", 2), ("gemma2.attention.key_length", 64), ("gemma2.attention.value_length", 64),
         ("gemma2.feed_forward_length", 512), ("gemma2.attention.sliding_window", 4096)]
first = [("token_embd.weight", Q4_K, (256, 1000), 1000 * 144)]
rest = [("blk.%d.attn_%s.weight" % (i, part), Q8_0, (256, rows), rows * 8 * 34)
        for i in range(2) for part, rows in (("q", 256), ("k", 128), ("v", 128))] + [("output_norm.weight", F32_, (256,), 1024)]
gguf("one/model-Q4_K_M.gguf", model, first + rest)
split = lambda i: [("split.no", i), ("split.count", 2), ("split.tensors.count", 8)]
gguf("two/model-Q4_K_M-00001-of-00002.gguf", model + split(0), first)
gguf("two/model-Q4_K_M-00002-of-00002.gguf", split(1), rest)
gguf("two/mmproj-F32.gguf", [("general.architecture", "clip"), ("general.type", "mmproj")], [("v.patch_embd.weight", F32_, (14, 14, 3, 8), 18816)])
os.makedirs("lacks")
os.link("two/model-Q4_K_M-00001-of-00002.gguf", "lacks/model-Q4_K_M-00001-of-00002.gguf")
PYTHON
for path in one two two/model-Q4_K_M-00002-of-00002.gguf two/mmproj-F32.gguf lacks; do
    echo "== $path"
    echo "== $path" >&2
    vram inspect $path
done
