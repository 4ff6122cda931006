/* SPDX-License-Identifier: MIT
 * Parameters that a class keeps in fp32 whatever it is loaded as: _keep_in_fp32_modules, which counts when it
 * is loaded in fp16, and _keep_in_fp32_modules_strict, which counts for bfloat16 too. Read in modeling_*.py
 * of transformers 4.57, 5.0, 5.17, 5.19, 5.21, 5.23 and 5.24. */
#include "engine/loading.h"

typedef struct kept {
    const char *model_type, *word;
    bool strict;
    unsigned major, minor; /* from this version on */
} kept;

#define GATES(type)                                                                                          \
    {                                                                                                        \
        type, "gate.weight", true, 5, 24                                                                     \
    }
#define INDEXER(type)                                                                                        \
    {                                                                                                        \
        type, "indexer.weights_proj", false, 5, 0                                                            \
    }

static const kept rows[] = {
    { "t5", "wo", false, 4, 0 },
    { "mt5", "wo", false, 4, 0 },
    { "umt5", "wo", false, 4, 0 },
    { "gpt_oss", "post_attention_layernorm", false, 4, 55 },
    { "gpt_oss", "input_layernorm", false, 4, 55 },
    { "gpt_oss", "norm", false, 4, 55 },
    { "ernie4_5_moe", "gate.weight", true, 4, 54 },
    { "ernie4_5_moe", "moe_statics", true, 4, 54 },
    INDEXER("deepseek_v32"),
    INDEXER("glm_moe_dsa"),
    GATES("deepseek_v2"),
    GATES("deepseek_v3"),
    GATES("kimi_k2"), /* DeepseekV3ForCausalLM */
    GATES("deepseek_v32"),
    GATES("dots1"),
    GATES("exaone_moe"),
    GATES("glm4_moe"),
    GATES("glm4_moe_lite"),
    GATES("glm_moe_dsa"),
    GATES("hy_v3"),
    GATES("nemotron_h"),
    GATES("solar_open"),
    GATES("kimi_linear"),
    GATES("mimo_v2_flash"),
};

/* 4: whole words between dots (get_keep_in_fp32_regex); 5: anywhere in the name (build_glob_alternation). */
static bool names(vr_str name, vr_str word, bool whole)
{
    for (size_t at = 0; at + word.n <= name.n; at++) {
        bool begins = at == 0 || name.s[at - 1] == '.',
             ends = at + word.n == name.n || name.s[at + word.n] == '.';
        vr_str here = { name.s + at, word.n };
        if (vr_str_cmp(here, word) == 0 && (!whole || (begins && ends)))
            return true;
    }
    return false;
}

static bool kept_in_fp32(const vram_model *m, const vram_workload *w, vr_str name)
{
    bool quantised_in_4 =
        w->weight_quant != VR_QUANT_NONE && w->version_major < 5; /* use_keep_in_fp32_modules */
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const kept *k = &rows[i];
        bool counts = w->dtype == VR_F16 || (w->dtype == VR_BF16 && (k->strict || quantised_in_4));
        bool known =
            w->version_major > k->major || (w->version_major == k->major && w->version_minor >= k->minor);
        if (counts && known && vr_str_is(vr_str_of(m->family->model_type), k->model_type) &&
            names(name, vr_str_of(k->word), w->version_major < 5))
            return true;
    }
    return false;
}

unsigned vr_param_width(const vram_model *m, const vram_workload *w, const vr_param *p)
{
    if (p->wide)
        return 4;
    if (p->packed)
        return vr_dtype_bits((vr_dtype)p->tensor->dtype) / 8;
    switch (p->kind) {
    case VR_PARAM_STATE_F32:
        return p->narrow ? vr_dtype_bits(w->dtype) / 8 : 4;
    case VR_PARAM_BUFFER_F32:
        return 4;
    case VR_PARAM_BUFFER_I64:
        return 8;
    case VR_PARAM_BUFFER_BOOL:
        return 1;
    case VR_PARAM_BUFFER:
        return vr_dtype_bits(w->dtype) / 8;
    default:
        return kept_in_fp32(m, w, p->name) ? 4 : vr_dtype_bits(w->dtype) / 8;
    }
}
