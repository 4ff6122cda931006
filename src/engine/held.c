/* SPDX-License-Identifier: MIT
 * Which classes' tapes have been held against recorded runs (tests/oracle/facts), in bfloat16, several
 * sequences and single tokens included. A row only where every storage agrees, or differs for a named reason.
 */
#include "engine/pass.h"

/* clang-format off: a row a class */
static const struct {
    const char *model_type;
    bool sdpa, eager;
} held[] = {
    { "llama", true, true },
    { "mistral", true, true },
    { "qwen2", true, true },
    { "qwen3", true, true },
    { "phi3", true, true },
    { "gemma2", true, true },
    { "gemma3_text", true, true },
    { "gemma4_text", false, true },
    { "stablelm", true, true },
    { "llama4_text", true, true },
    { "mistral4", true, true },
    { "bloom", false, true },
    { "mimo_v2_flash", false, true },
    { "minicpm3", false, true },
    { "ernie4_5_moe", true, true },
    { "qwen3_vl_moe_text", true, true },
    { "exaone4", true, true },
    { "olmo2", true, true },
    { "granite", true, true },
    { "cohere2", true, true },
    { "opt", true, true },
    { "glm4", true, true },
    { "starcoder2", true, true },
    { "gpt_neox", true, true },
    { "gpt2", true, true },
    { "bert", true, true },
    { "xlm-roberta", true, true },
    { "t5", false, true },
    { "mt5", false, true },
    { "umt5", false, true },
    { "qwen3_next", true, true },
    { "qwen3_5_text", true, true },
    { "qwen3_5_moe_text", true, true },
    { "nemotron_h", true, true },
    { "granitemoehybrid", true, true },
    { "ministral3", true, true },
    { "smollm3", true, true },
    { "gemma", true, true },
    { "cohere", true, true },
    { "glm", true, true },
    { "phi", true, true },
    { "olmo3", true, true },
    { "ernie4_5", true, true },
    { "arcee", true, true },
    { "helium", true, true },
    { "olmo", true, true },
    { "nemotron", true, true },
    { "hunyuan_v1_dense", true, true },
    { "seed_oss", true, true },
    { "mixtral", true, true },
    { "qwen2_moe", true, true },
    { "qwen3_moe", true, true },
    { "olmoe", true, true },
    { "glm4_moe", true, true },
    { "granitemoe", true, true },
    { "granitemoeshared", true, true },
    { "hunyuan_v1_moe", true, true },
    { "minimax_m2", true, true },
    { "gpt_oss", false, true },
    { "deepseek_v2", false, true },
    { "deepseek_v3", false, true },
    { "qwen2_5_vl_text", true, true },
    { "qwen3_vl_text", true, true },
};
/* clang-format on */

/* Models around such a decoder that were recorded whole, reading text alone. */
static const struct {
    const char *model_type, *decoder;
} held_around[] = {
    { "qwen2_5_vl", "qwen2_5_vl_text" },
    { "qwen3_vl", "qwen3_vl_text" },
    { "qwen3_vl_moe", "qwen3_vl_moe_text" },
    { "gemma3", "gemma3_text" },
    { "llava", "llama" },
};

/* With a static cache too. */
static bool is_fixed_held(const vram_model *m)
{
    static const char *const types[] = { "llama", "qwen3", "gemma3_text" };
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (vr_str_is(vr_str_of(m->family->model_type), types[i]))
            return true;
    return false;
}

/* Recorded are bare calls, with positions and a mask for all sequences. generate(), which needs the last
 * logits, has them for each (generation/utils.py: prepare_inputs_for_generation of 4.57,
 * _prepare_position_ids_for_generation of 5). */
static bool is_called_otherwise(const vram_model *m, const vram_workload *w)
{
    return m->structure != VR_ENCODER && w->logits == VR_LOGITS_LAST && w->prefill_batch > 1;
}

bool vr_family_held(const vram_model *m, const vram_workload *w)
{
    if (vr_beams(w) > 1 || w->drafts != 0 || is_called_otherwise(m, w))
        return false;
    for (size_t i = 0; m->family != NULL && i < sizeof(held) / sizeof(held[0]); i++) {
        if (!vr_str_is(vr_str_of(m->family->model_type), held[i].model_type))
            continue;
        return (w->cache == VR_CACHE_DYNAMIC || (w->cache == VR_CACHE_STATIC && is_fixed_held(m))) &&
               (w->attention == VR_IMPL_EAGER ? held[i].eager : w->attention == VR_IMPL_SDPA && held[i].sdpa);
    }
    return false;
}

/* A model around the decoder finds the positions of tokens in its own way. */
bool vr_whole_held(const vram_model *m, const vram_workload *w)
{
    vr_str whole = vr_str_of(m->model_type), decoder = vr_str_of(m->family->model_type);
    if (w->images != 0)
        return false;
    for (size_t i = 0; i < sizeof(held_around) / sizeof(held_around[0]); i++) {
        if (vr_str_is(whole, held_around[i].model_type))
            return vr_str_is(decoder, held_around[i].decoder);
    }
    return vr_str_is(whole, m->family->model_type);
}
