# SPDX-License-Identifier: MIT
"""The model of a log as a sparse GGUF file: from the sizes that the log prints and, for what it leaves out, from the
published configuration; types from its list of types, when there is one way only to spread them that has the printed size."""
import itertools
import math
import re
import struct

GIB = 1 << 30
# By the name or a part of the file's: what the log does not say.
MORE = {
    "DeepSeek V2.5": {"ne": 160, "nu": 6, "ns": 2, "ffe": 1536, "lead": 1, "ql": 1536, "kvl": 512},
    "DeepSeek": {"ne": 256, "nu": 8, "ns": 1, "ffe": 2048, "lead": 3, "ql": 1536, "kvl": 512},
    "Kimi": {"ne": 384, "nu": 8, "ns": 1, "ffe": 2048, "lead": 1, "ql": 1536, "kvl": 512},
    "GLM 4.7 Flash": {"ne": 64, "nu": 4, "ns": 1, "ffe": 1536, "lead": 1, "ql": 768, "kvl": 512, "nope": 192, "vh": 256},
    "Qwen3 235B": {"ffe": 1536}, "Qwen3-235B": {"ffe": 1536}, "Qwen3 VL 235B": {"ffe": 1536, "d": 4096}, "Qwen3 30B": {"ffe": 768},
    "Qwen3-30B": {"ffe": 768},
    "GLM 4.5 Air": {"ffe": 1408, "lead": 1}, "GLM 4.5": {"ffe": 1536, "lead": 3}, "GLM 4.7": {"ffe": 1536, "lead": 3},
    "Qwen3.5 0.8B": {"heads_v": 16, "tied": True}, "Qwen3.5 4B": {"heads_v": 32, "tied": True}, "Qwen3.5 9B": {"heads_v": 32},
    "Qwen3.6 27B": {"heads_v": 48}, "Qwen3.6 35B": {"heads_v": 32, "ffe": 512},
    "Qwen3.5 122B": {"heads_v": 64, "ffe": 1024}, "Qwen3.5 397B": {"heads_v": 64, "ffe": 1024},
}
# Models that tools/make_gguf.py knows, by name, where the log prints no list of types.
MADE = {
    ("Qwen2.5 7B Instruct", "Q4_K"): ("qwen2.5-7b", "Q4_K_M"), ("Qwen2.5 14B Instruct", "Q4_K"): ("qwen2.5-14b", "Q4_K_M"),
    ("Qwen2.5 3B family", None): ("qwen2.5-3b", "Q4_K_M"), ("Meta Llama 3.1 8B Instruct", "Q4_K"): ("llama3.1-8b", "Q4_K_M"),
    ("Llama 3 8B Instruct", "Q8_0"): ("llama3-8b", "Q8_0"), ("Llama 3.2 3B Instruct", "Q4_K"): ("llama3.2-3b", "Q4_K_M"),
    ("gpt-oss-20b", "MXFP4"): ("gpt-oss-20b", "MXFP4"), ("Qwen3-1.7B", None): ("qwen3-1.7b", "Q4_K_M"),
    ("gemma-2-27b-it", None): ("gemma2-27b", "Q8_0"), ("Yi-34B merge IQ4_XS", None): ("yi-34b", "IQ4_XS"),
    ("Phi-3 mini 4k instruct", "Q4"): ("phi3-mini-4k", "Q4_K_M"),
}
# The same by a part of the file's name in the command, where the log prints no sizes.
NAMED = {"DeepSeek-V3": "deepseek-v3", "DeepSeek-R1": "deepseek-v3", "Qwen3-235B-A22B": "qwen3-235b-a22b"}
BY_MADE = ("llama", "qwen2", "qwen3", "qwen3moe", "gemma2", "gemma3", "phi3", "gpt-oss", "deepseek2")
# Elements and bytes of a block, and bytes of a row besides: types that only ik_llama.cpp has.
FOREIGN = {"iq2_k": (256, 76, 0), "iq3_k": (256, 110, 0), "iq4_k": (256, 144, 0), "iq5_k": (256, 176, 0), "iq6_k": (256, 212, 0),
           "iq2_ks": (256, 70, 2), "iq4_ks": (256, 136, 4), "iq5_ks": (256, 168, 4), "iq4_kss": (256, 128, 4), "iq3_kt": (256, 100, 4),
           "iq1_s_r4": (32, 6, 2), "iq1_m_r4": (32, 7, 2)}


class Unbuildable(Exception):
    """Why there is no such file."""


def known_of(model):
    for (name, ftype), made in MADE.items():
        if model.get("name") == name and (ftype is None or (model.get("ftype") or "").startswith(ftype)):
            return made
    return None


def named(G, log):
    text = (log["options"].get("command") or "") + (log["model"].get("name") or "")
    for part, made in NAMED.items():
        if part in text:
            return dict(G.MODELS[made])
    raise Unbuildable("the log does not say which model it is")


def shape_of(G, log):
    """As tools/make_gguf.py writes shapes."""
    model = log["model"]
    if not model.get("n_embd") or not model.get("arch"):
        return named(G, log)
    shape = {"arch": model["arch"], "n": model["n_layer"], "d": model["n_embd"], "h": model["n_head"], "ff": model["n_ff"],
             "vocab": model["n_vocab"], "ctx": model.get("n_ctx_train") or (512 if model["arch"] == "bert" else 4096), "hd": model["n_embd_head_k"], "tied": False}
    heads = model["n_head_kv"]
    shape["hk"] = heads if isinstance(heads, int) else [int(x) for x in re.findall(r"\d+", heads)]
    if model.get("n_expert"):
        shape.update(ne=model["n_expert"], nu=model["n_expert_used"])
    if model.get("n_swa"):
        shape["swa"] = model["n_swa"]
    shape["tied"] = shape["arch"] in ("gemma2", "gemma3", "gemma4")
    names = ((model.get("name") or "") + " " + (model.get("file") or "")).replace("Deepseek", "DeepSeek").replace("DeepSeek-", "DeepSeek ")
    for name, more in MORE.items():
        if name in names:
            shape.update({k: v for k, v in more.items() if k not in shape or k in ("tied", "ne", "nu", "d")})
            break
    if shape["arch"] == "chatglm":
        shape["arch"] = "glm4"
    if shape["arch"] == "qwen3vlmoe":
        shape["arch"] = "qwen3moe"
    return shape


# ---- tensors of architectures that tools/make_gguf.py does not know ----

def block_attention(b, s, i, wide=1):
    heads = s["hk"][i] if isinstance(s["hk"], list) else s["hk"]
    d, hd = s["d"], s["hd"]
    return [(b + "attn_q.weight", [d, s["h"] * hd * wide]), (b + "attn_k.weight", [d, heads * hd]), (b + "attn_v.weight", [d, heads * hd]),
            (b + "attn_output.weight", [s["h"] * hd, d])]


def gated(b, d, ff, end=""):
    return [(b + f"ffn_gate{end}.weight", [d, ff]), (b + f"ffn_up{end}.weight", [d, ff]), (b + f"ffn_down{end}.weight", [ff, d])]


def experts(b, s):
    d, e, f = s["d"], s["ne"], s["ffe"]
    return [(b + "ffn_gate_inp.weight", [d, e]), (b + "ffn_gate_exps.weight", [d, f, e]), (b + "ffn_up_exps.weight", [d, f, e]),
            (b + "ffn_down_exps.weight", [f, d, e])]


def vectors(b, *pairs):
    return [(b + name, [size]) for name, size in pairs]


def glm4(s, i, b):
    d = s["d"]
    return (block_attention(b, s, i) + vectors(b, ("attn_norm.weight", d), ("post_attention_norm.weight", d), ("ffn_norm.weight", d),
                                               ("post_ffw_norm.weight", d)) +
            [(b + "ffn_up.weight", [d, 2 * s["ff"]]), (b + "ffn_down.weight", [s["ff"], d])])


def glm4moe(s, i, b):
    d, q, kv = s["d"], s["h"] * s["hd"], s["hk"] * s["hd"]
    t = block_attention(b, s, i) + vectors(b, ("attn_norm.weight", d), ("post_attention_norm.weight", d), ("attn_q.bias", q),
                                           ("attn_k.bias", kv), ("attn_v.bias", kv))
    if s["lead"] == 3:  # the larger ones
        t += vectors(b, ("attn_q_norm.weight", s["hd"]), ("attn_k_norm.weight", s["hd"]))
    if i < s["lead"]:
        return t + gated(b, d, s["ff"])
    t += experts(b, s) + vectors(b, ("exp_probs_b.bias", s["ne"])) + gated(b, d, s["ffe"], "_shexp")
    if i == s["n"] - 1:  # predicts a further token
        t += vectors(b, ("nextn.enorm.weight", d), ("nextn.hnorm.weight", d), ("nextn.shared_head_norm.weight", d))
        t += [(b + "nextn.eh_proj.weight", [2 * d, d]), (b + "nextn.embed_tokens.weight", [d, s["vocab"]]),
              (b + "nextn.shared_head_head.weight", [d, s["vocab"]])]
    return t


def qwen35(s, i, b):
    d, state = s["d"], 128
    t = vectors(b, ("attn_norm.weight", d), ("post_attention_norm.weight", d))
    if (i + 1) % 4 == 0:
        t += block_attention(b, s, i, 2) + vectors(b, ("attn_q_norm.weight", s["hd"]), ("attn_k_norm.weight", s["hd"]))
    else:
        value, channels, heads = state * s["heads_v"], state * (s["heads_v"] + 32), s["heads_v"]
        t += [(b + "attn_qkv.weight", [d, channels]), (b + "attn_gate.weight", [d, value]), (b + "ssm_conv1d.weight", [4, channels]),
              (b + "ssm_beta.weight", [d, heads]), (b + "ssm_alpha.weight", [d, heads]), (b + "ssm_out.weight", [value, d])]
        t += vectors(b, ("ssm_dt.bias", heads), ("ssm_a", heads), ("ssm_norm.weight", state))
    if s.get("ne"):
        return t + experts(b, s) + vectors(b, ("ffn_gate_inp_shexp.weight", d)) + gated(b, d, s["ffe"], "_shexp")
    return t + gated(b, d, s["ff"])


def gemma4(s, i, b):
    d, slides = s["d"], (i + 1) % 6 != 0
    one = dict(s, hd=s["hd"] if slides else 2 * s["hd"])
    t = block_attention(b, one, i)
    if not slides:
        t = [x for x in t if "attn_v" not in x[0]]
    names = ("attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm")
    t += vectors(b, *((n + ".weight", d) for n in names), ("layer_output_scale.weight", 1), ("attn_q_norm.weight", one["hd"]),
                 ("attn_k_norm.weight", one["hd"]))
    return t + gated(b, d, s["ff"])


def bert(s, i, b):
    d, ff = s["d"], s["ff"]
    t = block_attention(b, s, i) + [(b + "ffn_up.weight", [d, ff]), (b + "ffn_down.weight", [ff, d])]
    return t + vectors(b, *((f"{n}.bias", d) for n in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_down")), ("ffn_up.bias", ff),
                       *((f"{n}.{e}", d) for n in ("attn_output_norm", "layer_output_norm") for e in ("weight", "bias")))


BLOCKS = {"glm4": glm4, "glm4moe": glm4moe, "qwen35": qwen35, "qwen35moe": qwen35, "gemma4": gemma4, "bert": bert}


def tensors_of(G, shape, old):
    arch, d = shape["arch"], shape["d"]
    if arch in BY_MADE:
        found = G.tensors(shape)
        return unsplit(found, shape) if old else found
    if arch not in BLOCKS:
        raise Unbuildable(f"no description of {arch} here")
    found = [("token_embd.weight", [d, shape["vocab"]])]
    if arch == "bert":
        found += [("position_embd.weight", [d, shape["ctx"]]), ("token_types.weight", [d, 2]), ("token_embd_norm.weight", [d]),
                  ("token_embd_norm.bias", [d])]
    else:
        found += ([] if shape["tied"] else [("output.weight", [d, shape["vocab"]])]) + [("output_norm.weight", [d])]
    found += [("rope_freqs.weight", [shape["hd"]])] if arch == "gemma4" else []
    for i in range(shape["n"]):
        found += BLOCKS[arch](shape, i, f"blk.{i}.")
    return found


def unsplit(found, s):
    """Keys and values of latent attention in one matrix, as in files of early 2025 and before."""
    made = []
    for name, dims in found:
        if name.endswith("attn_k_b.weight"):
            made.append((name.replace("attn_k_b", "attn_kv_b"), [s["kvl"], s["h"] * (s["nope"] + s["vh"])]))
        elif not name.endswith("attn_v_b.weight"):
            made.append((name, dims))
    return made


# ---- types ----

def bare(kind):
    """Rows in another order have the same size."""
    return kind if kind in FOREIGN else kind.replace("_r4", "")


def is_foreign(kind):
    return bare(kind) in FOREIGN


def size_of(G, kind, dims):
    kind = bare(kind)
    block, size, row = FOREIGN.get(kind) or (*G.TYPES[kind.upper()][1:], 0)
    rows = math.prod(dims[1:])
    return rows * (-(-dims[0] // block) * size + row)


def plain(name, dims):
    """Always in 32 bits."""
    flat = [d for d in dims if d != 1]
    return (len(flat) < 2 or "_norm." in name or "ffn_gate_inp." in name or "ssm_conv1d" in name or not name.endswith("weight")
            or name in ("position_embd.weight", "token_types.weight"))


ROLES = ("token_embd", "output", "gate_up", "down", "attn_v", "attn_k_b", "rest")


def role_of(name):
    if name in ("token_embd.weight", "output.weight"):
        return name.split(".", maxsplit=1)[0]
    part = name.split(".")[-2]
    if part in ("attn_v", "attn_k_b"):
        return part
    return "down" if part == "ffn_down_exps" else "gate_up" if "_exps." in name else "rest"


def head_is_smaller(G, types):
    """Which no quantiser makes it."""
    one = [256, 1]
    return "output" in types and size_of(G, types["output"], one) < size_of(G, types["token_embd"], one)


def by_role(G, matrices, told, size):
    """One type for each role; every way to spread the told counts that has the printed size."""
    counts = {}
    for name, _ in matrices:
        counts[role_of(name)] = counts.get(role_of(name), 0) + 1
    roles, kinds, found = [r for r in ROLES if r in counts], list(told), []
    if len(kinds) > 8:
        return found
    for choice in itertools.product(kinds, repeat=len(roles)):
        got = dict.fromkeys(kinds, 0)
        for role, kind in zip(roles, choice):
            got[kind] += counts[role]
        types = dict(zip(roles, choice))
        if got != told or head_is_smaller(G, types):
            continue
        whole = sum(size_of(G, types[role_of(n)], dims) for n, dims in matrices)
        if size is None or abs(whole - size[0]) <= size[1]:
            found.append(types)
    return found


def printed_size(model, vectors_bytes):
    """Bytes of the matrices by "205.811 GiB (...)", and by how much they may be off."""
    text = re.match(r"([\d.]+) ([GM])iB", model.get("size") or "")
    if not text:
        return None
    unit = GIB if text.group(2) == "G" else GIB >> 10
    decimals = len(text.group(1).partition(".")[2])
    return float(text.group(1)) * unit - vectors_bytes, 0.51 * unit / 10 ** decimals


def types_of(G, model, shape, tensors):
    told = {k.lower(): n for k, n in (model.get("tensor_types") or {}).items()}
    flat = told.pop("f32", 0)
    matrices = [t for t in tensors if not plain(*t)]
    if not told:
        raise Unbuildable("the log has no list of types")
    if flat != len(tensors) - len(matrices) or sum(told.values()) != len(matrices):
        raise Unbuildable(f"it has {flat} vectors and {sum(told.values())} matrices, this description {len(tensors) - len(matrices)} "
                          f"and {len(matrices)}")
    sizes = printed_size(model, sum(4 * math.prod(d) for n, d in tensors if plain(n, d)))
    ftype = (model.get("ftype") or "").split(" - ")
    name = ftype[0] + ("_M" if ftype[-1] == "Medium" else "")
    if name in G.FTYPES and shape["arch"] in BY_MADE:
        chosen = [c.lower() for c in G.choose(shape, tensors, name)]
        if {c: chosen.count(c) for c in set(chosen)} == dict(told, f32=flat):
            return chosen
    ways = by_role(G, matrices, told, sizes)
    if len({tuple(sorted(w.items())) for w in ways}) != 1:
        raise Unbuildable(f"{len(told)} types, and which tensor has which is not logged")
    return ["f32" if plain(*t) else ways[0][role_of(t[0])] for t in tensors]


# ---- the file ----

def keys_of(G, shape, old):
    arch, out = shape["arch"], None
    if arch in BY_MADE:
        out = G.metadata("of a log", dict(shape, hk=1) if arch == "deepseek2" else shape, "F16", "none")
        return unsplit_keys(G, out, shape) if old else out
    a = arch + "."
    out = [G.kv_str("general.architecture", arch), G.kv_u32(a + "block_count", shape["n"]), G.kv_u32(a + "context_length", shape["ctx"]),
           G.kv_u32(a + "embedding_length", shape["d"]), G.kv_u32(a + "feed_forward_length", shape["ff"]),
           G.kv_u32(a + "vocab_size", shape["vocab"]), G.kv_u32(a + "attention.head_count", shape["h"]),
           G.kv_f32(a + "attention.layer_norm_rms_epsilon", 1e-6), G.kv_str("tokenizer.ggml.model", "none")]
    if isinstance(shape["hk"], list):
        out.append(G.kv_arr_i32(a + "attention.head_count_kv", shape["hk"]))
    else:
        out.append(G.kv_u32(a + "attention.head_count_kv", shape["hk"]))
    wide = 2 * shape["hd"] if arch == "gemma4" else shape["hd"]
    out += [G.kv_u32(a + "attention.key_length", wide), G.kv_u32(a + "attention.value_length", wide)]
    if shape.get("ne"):
        out += [G.kv_u32(a + "expert_count", shape["ne"]), G.kv_u32(a + "expert_used_count", shape["nu"]),
                G.kv_u32(a + "expert_feed_forward_length", shape["ffe"]), G.kv_u32(a + "expert_shared_count", 1),
                G.kv_u32(a + "expert_shared_feed_forward_length", shape["ffe"])]
    if arch == "glm4moe":
        out += [G.kv_u32(a + "leading_dense_block_count", shape["lead"]), G.kv_u32(a + "nextn_predict_layers", 1)]
    if arch.startswith("qwen35"):
        out += [G.kv_u32(a + "ssm." + k, v) for k, v in (("conv_kernel", 4), ("inner_size", 128 * shape["heads_v"]), ("state_size", 128),
                                                           ("time_step_rank", shape["heads_v"]), ("group_count", 16))]
        out += [G.kv_u32(a + "full_attention_interval", 4), G.kv_arr_i32(a + "rope.dimension_sections", [11, 11, 10, 0])]
        out += [G.kv_u32(a + "rope.dimension_count", 64)]
    if arch == "gemma4":
        slides = bytes(1 if (i + 1) % 6 else 0 for i in range(shape["n"]))
        out += [G.s(a + "attention.sliding_window_pattern") + struct.pack("<IIQ", 9, 7, len(slides)) + slides,
                G.kv_u32(a + "attention.sliding_window", shape["swa"]), G.kv_u32(a + "embedding_length_per_layer_input", 0),
                G.kv_u32(a + "attention.key_length_swa", shape["hd"]), G.kv_u32(a + "attention.value_length_swa", shape["hd"]),
                G.kv_u32(a + "attention.shared_kv_layers", 0)]
    if arch == "bert":
        out += [G.kv_f32(a + "attention.layer_norm_epsilon", 1e-12), G.kv_bool(a + "attention.causal", 0),
                G.kv_u32("tokenizer.ggml.token_type_count", 2)]
    return out


def unsplit_keys(G, keys, shape):
    a = "deepseek2."
    out = [k for k in keys if not any(G.s(a + w) == k[:len(G.s(a + w))] for w in (
        "attention.key_length", "attention.value_length", "attention.key_length_mla", "attention.value_length_mla", "attention.head_count_kv"))]
    return out + [G.kv_u32(a + "attention.key_length", shape["nope"] + shape["rope"]), G.kv_u32(a + "attention.value_length", shape["vh"]),
                  G.kv_u32(a + "attention.head_count_kv", shape["h"])]


def write(G, path, keys, tensors, types):
    head = struct.pack("<IIQQ", 0x46554747, 3, len(tensors), len(keys)) + b"".join(keys)
    at = 0
    for (name, dims), kind in zip(tensors, types):
        head += G.s(name) + struct.pack("<I", len(dims)) + struct.pack(f"<{len(dims)}Q", *dims)
        head += struct.pack("<IQ", G.TYPES[kind][0], at)
        at += -(-G.nbytes(kind, dims) // 32) * 32
    head += bytes(-len(head) % 32)
    with open(path, "wb") as f:
        f.write(head)
        f.truncate(len(head) + at)


def fill(shape):
    if shape["arch"] == "deepseek2":
        shape.setdefault("nope", 128)
        shape.setdefault("vh", 128)
        shape.update(rope=64, hk=1, hd=shape["nope"] + 64, sigmoid=True)
        if shape["ne"] == 160:
            shape["sigmoid"] = False
    return shape


def host_only(overrides, name):
    """Whether -ot leaves a tensor in host memory; None: no pattern says."""
    for pattern, where in overrides:
        if re.search(pattern, name):
            return where == "CPU"
    return None


def beside(tensors, s, told):
    """attn_kv_b of files that have it as well as attn_k_b and attn_v_b: ik_llama.cpp loads it, llama.cpp would not."""
    if s["arch"] != "deepseek2" or told != len(tensors) + s["n"]:
        return []
    return [(f"blk.{i}.attn_kv_b.weight", [s["kvl"], s["h"] * (s["nope"] + s["vh"])]) for i in range(s["n"])]


class Made:
    """A file: why weights on the cards, and on the host, are not to be compared, and bytes on the cards that it leaves out."""

    def __init__(self, cards=None, host=None, left_out=0):
        self.why, self.left_out = {True: cards, False: host}, left_out


def spread(G, log, shape, tensors, overrides):
    """The types of the tensors, and what Made says of the file."""
    told = sum((log["model"].get("tensor_types") or {}).values())
    more = beside(tensors, shape, told)
    try:
        types = types_of(G, log["model"], shape, tensors + more)
    except Unbuildable as unknown:
        return ["f32" if plain(*t) else "f16" for t in tensors], Made(str(unknown), str(unknown))
    foreign = [n for (n, _), k in zip(tensors + more, types) if is_foreign(k)]
    cards = host = None
    if foreign:
        host = "types that only ik_llama.cpp has"
        cards = None if all(host_only(overrides, n) for n in foreign) else host + " lie on the cards"
    left_out = 0 if cards else sum(size_of(G, k, d) for (_, d), k in zip(more, types[len(tensors):]))
    return types[:len(tensors)], Made(cards, host, left_out)


def make(G, log, path, overrides):
    """Writes the file; whether types that llama.cpp does not know are in host memory only is what `overrides` say."""
    model, old = log["model"], old_cache(log)
    known = known_of(model)
    if known:
        G.make(*known, path)
        return Made()
    shape = fill(shape_of(G, log))
    tensors = tensors_of(G, shape, old)
    told = sum((model.get("tensor_types") or {}).values())
    if told == len(tensors) - 1 and not shape["tied"]:
        shape["tied"] = True
        tensors = tensors_of(G, shape, old)
    types, made = spread(G, log, shape, tensors, overrides)
    types = [fitting(G, known_type(k), d) for k, (_, d) in zip(types, tensors)]
    write(G, path, keys_of(G, shape, old), tensors, types)
    return made


def known_type(kind):
    """In the place of what llama.cpp does not know is a type that it knows."""
    return "Q4_K" if is_foreign(kind) else bare(kind).upper()


def fitting(G, kind, dims):
    return kind if dims[0] % G.TYPES[kind][1] == 0 else "F16"


def old_cache(log):
    """Latent attention of files without attn_k_b keeps the keys and values of all heads, and so does ik_llama.cpp with -mla 0."""
    if log["model"].get("arch") != "deepseek2":
        return False
    return log["options"].get("mla_attn") == 0 or (log["options"].get("mla_attn") is None and "pre-MLA" in (log.get("note") or ""))
