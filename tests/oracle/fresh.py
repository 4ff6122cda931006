# SPDX-License-Identifier: MIT
"""The same classes at depths, lengths and widths that no recorded run has: cases drawn anew from a seed."""
import copy


PER_LAYER = ("layer_types", "no_rope_layers")


def odd_multiple(random, unit, low, high):
    return unit * random.randrange(low, high + 1)


def layer_types(random, kinds, layers):
    """Each kind that was there at least once, if there is room."""
    known = list(dict.fromkeys(kinds))
    drawn = known[:layers] + [random.choice(known) for _ in range(layers - len(known[:layers]))]
    random.shuffle(drawn)
    return drawn


def draws(random, facts):
    """New values of every key that is known and there; what has to fit together is drawn together."""
    kv, groups = random.choice([1, 2, 3, 4]), random.choice([2, 3, 5])  # one head would be contiguous by chance
    if "swa_num_key_value_heads" in facts:  # MiMo-V2-Flash's class: twice as many where layers slide
        groups *= 2
    heads = kv * groups
    if facts.get("num_key_value_heads") in (None, facts.get("num_attention_heads")):
        kv = heads
    head = random.choice([32, 64, 80, 128])
    free = "head_dim" in facts or "qk_nope_head_dim" in facts or "d_kv" in facts
    hidden = odd_multiple(random, 64 * heads, 1, 3) if free else heads * head  # some classes want a multiple
    experts = random.choice([4, 6, 12])
    layers = random.choice([1, 3, 4, 5])
    # Routers with groups have a topk of 1 and one of 2, which the tracer would take for that of the experts.
    used = 3 if "n_group" in facts else random.choice([1, 2, 3])
    states = random.choice([2, 4])
    nope, rope, value = random.choice([32, 64, 128]), random.choice([16, 32, 64]), random.choice([32, 64, 128])
    if facts.get("v_head_dim") == facts.get("qk_nope_head_dim", 0) + facts.get("qk_rope_head_dim", 0):
        value = nope + rope  # where they differ the CPU has no kernel of sdpa's but plain products
    return {
        "hidden_size": hidden, "d_model": hidden, "num_attention_heads": heads, "num_key_value_heads": kv,
        "n_embd": heads * head, "n_head": heads, "n_layer": layers, "word_embed_proj_dim": hidden,
        "ffn_dim": odd_multiple(random, 64, 5, 23),
        "num_heads": heads, "encoder_attention_heads": heads, "decoder_attention_heads": heads,
        "num_global_key_value_heads": kv, "head_dim": head, "d_kv": head,
        "intermediate_size": odd_multiple(random, 64, 5, 23),
        "d_ff": odd_multiple(random, 64, 5, 23), "encoder_ffn_dim": odd_multiple(random, 64, 5, 23),
        "decoder_ffn_dim": odd_multiple(random, 64, 5, 23), "num_hidden_layers": layers, "num_layers": layers,
        "num_decoder_layers": random.choice([1, 3]), "encoder_layers": layers,
        "decoder_layers": random.choice([1, 3]), "vocab_size": random.randrange(300, 3000),
        "moe_intermediate_size": odd_multiple(random, 64, 2, 9),
        "shared_expert_intermediate_size": odd_multiple(random, 64, 2, 9),
        "moe_shared_expert_intermediate_size": odd_multiple(random, 64, 2, 9),
        "num_experts": experts, "num_local_experts": experts, "n_routed_experts": experts,
        "num_experts_per_tok": used, "n_group": 1, "topk_group": 1,
        "first_k_dense_replace": random.choice([0, 1]),
        "q_lora_rank": odd_multiple(random, 32, 2, 9), "kv_lora_rank": odd_multiple(random, 32, 2, 9),
        "qk_nope_head_dim": nope, "qk_rope_head_dim": rope,
        "v_head_dim": value, "swa_head_dim": head, "swa_v_head_dim": value,
        "n_heads": heads, "n_layers": layers, "swa_num_attention_heads": heads, "swa_num_key_value_heads": 2 * kv,
        "linear_num_key_heads": states, "linear_num_value_heads": states * random.choice([1, 2, 4]),
        "mamba_num_heads": 8 * states, "mamba_n_heads": 8 * states,
        "sliding_window": random.randrange(200, 600),
    }


def fresh_facts(random, facts):
    new, drawn = dict(facts), draws(random, facts)
    for key in facts:
        if key in drawn and facts[key] is not None:
            new[key] = drawn[key]
    if "global_head_dim" in facts:  # every Gemma 4 has a layer that slides
        new["num_hidden_layers"] = max(2, new["num_hidden_layers"])
    for key in PER_LAYER:
        if key in facts:
            new[key] = layer_types(random, facts[key], new["num_hidden_layers"])
    if "global_head_dim" in facts:  # and its class makes the last one full, whatever is listed
        new["layer_types"][0], new["layer_types"][-1] = "sliding_attention", "full_attention"
    for key in ("hybrid_layer_pattern", "moe_layer_freq"):
        if key in facts:  # MiMo-V2-Flash's class makes its own, of up to five layers these
            new[key] = [int(i > 0) for i in range(new["num_hidden_layers"])]
    if "hybrid_override_pattern" in facts:
        new["hybrid_override_pattern"] = "".join(
            layer_types(random, facts["hybrid_override_pattern"], new["num_hidden_layers"]))
    if "text_config" in facts:
        new["text_config"] = fresh_facts(random, facts["text_config"])
        for key in ("vocab_size", "image_token_index", "image_token_id"):  # the inputs name these
            if key in facts["text_config"]:
                new["text_config"][key] = facts["text_config"][key]
    return new


def fresh_run(random, run):
    run = copy.deepcopy(run)
    if "inputs" not in run:  # these have a length of their own
        run["tokens"] = run["tokens"] if "encoder" in run else random.randrange(17, 150)
        run["batch"] = random.choice([1, 1, 2, 3])
        run["decode"] = random.randrange(1, 4) if run.get("decode", 1) > 0 else 0
        if "tokens" in run.get("encoder", {}):
            run["encoder"]["tokens"] = random.randrange(17, 150)
            if "context" in run.get("workload", {}):  # the encoder's prompt
                run["workload"] = {**run["workload"], "context": run["encoder"]["tokens"]}
    if "sliding_window" in run.get("config", {}):
        run["config"]["sliding_window"] = random.randrange(8, run["tokens"])
    return run


def fresh(random, case):
    runs = [{"batch": 1, "tokens": 80, "decode": 1, **run} for run in case["runs"]]
    return {**case, "config": fresh_facts(random, case["config"]), "runs": [fresh_run(random, r) for r in runs]}
