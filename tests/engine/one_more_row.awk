# SPDX-License-Identifier: MIT
# The table of architectures with two more rows, of families that nobody published: all that a new one costs.
# A cell is named by its column, so that this file does not change when the table gets another.
BEGIN { FS = OFS = "\t" }
{ print }
/^model_type\t/ { columns = NF; for (i = 1; i <= NF; i++) name[i] = $i }

function row(cells, i, line) {
    for (i = 1; i <= columns; i++)
        line = line (i > 1 ? "\t" : "") cells[name[i]]
    print line
}

END {
    # as llama, under another name
    a["model_type"] = "twin"; a["class_name"] = "TwinForCausalLM"; a["naming"] = "llama"
    a["norm"] = "rms"; a["mlp"] = "gated"; a["rope"] = "half"
    a["vocab"] = 1000; a["hidden"] = 512; a["ffn"] = 1024; a["layers"] = 4; a["heads"] = 8; a["context"] = 4096
    a["window_rule"] = "attribute"; a["source"] = "this test"
    row(a)
    # a mixture that no class has: parallel, other norms and rotation, a plain MLP, norms over whole projections
    for (k in a) b[k] = a[k]
    b["model_type"] = "mixture"; b["class_name"] = "MixtureForCausalLM"; b["naming"] = "olmo2"
    b["norm"] = "layer_cohere"; b["mlp"] = "plain"; b["activation"] = "relu2"; b["rope"] = "pairs_all"
    b["traits"] = "qk_norm qk_norm_whole residual_multiplied logits_multiplied"; b["biases"] = "qkv"
    b["keys"] = "num_hidden_layers=depth"
    row(b)
}
