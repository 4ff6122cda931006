/* SPDX-License-Identifier: MIT
 * Settings of mixtures of experts (configuration_*.py, modeling_*.py of transformers 4.57 and 5.24). */
#include "model/experts.h"

#define MOST_EXPERTS 8192                      /* of a layer */
#define MOST_OF_ALL_LAYERS (UINT64_C(1) << 17) /* Kimi-K3, the largest, has 93 x 896 */

/* clang-format off */
/* The block of DeepSeek-V3, which other classes have as well. */
#define LIKE_DEEPSEEK_V3(name, which, ...)                                                                   \
    { .model_type = name, .router = VR_ROUTER_SIGMOID, .where = which, .block = "mlp.",                      \
      .router_name = "gate", .gate = "gate_proj", .up = "up_proj", .down = "down_proj",                      \
      .router_last = true, .router_last_5 = true,                                                            \
      .correction = VR_CORRECTION_OF_ROUTER, .correction_name = "gate.e_score_correction_bias",              \
      .shared = "shared_experts", .shared_key = "n_shared_experts", .shared_is_count = true,                 \
      .ffn_key = "moe_intermediate_size", .shared_default = 1, .normalised = true, .source = name,           \
      __VA_ARGS__ }

static const vr_moe rows[] = {
    { .model_type = "mixtral", .router = VR_ROUTER_SOFTMAX, .returns_logits = true,
      .block = "block_sparse_moe.", .block_5 = "mlp.",
      .router_name = "gate", .gate = "w1", .up = "w3", .down = "w2", .down_second = true,
      .wide_weights_5 = true,
      .experts = 8, .used = 2, .normalised = true, .source = "mixtral" },
    { .model_type = "phimoe", .router = VR_ROUTER_OTHER,
      .block = "block_sparse_moe.", .block_5 = "mlp.", .router_name = "gate", .router_name_5 = "router",
      .gate = "w1", .up = "w3", .down = "w2", .down_second = true,
      .experts = 16, .used = 2, .normalised = true, .source = "phimoe" },
    { .model_type = "ernie4_5_moe", .router = VR_ROUTER_CORRECTED, .where = VR_MOE_RANGE, .block = "mlp.",
      .router_name = "gate", .gate = "gate_proj", .up = "up_proj", .down = "down_proj",
      .correction = VR_CORRECTION_FIRST, .correction_name = "moe_statics.e_score_correction_bias",
      .shared = "shared_experts", .shared_key = "moe_num_shared_experts", .shared_is_count = true,
      .shared_first_5 = true,
      .ffn_key = "moe_intermediate_size", .experts = 64, .used = 6, .ffn = 1536, .shared_default = 2,
      .first_dense = 1, .normalised = true, .source = "ernie4_5_moe" },
    { .model_type = "qwen2_moe", .router = VR_ROUTER_SOFTMAX, .returns_logits = true,
      .where = VR_MOE_STEP, .block = "mlp.",
      .router_name = "gate", .gate = "gate_proj", .up = "up_proj", .down = "down_proj",
      .shared = "shared_expert", .shared_key = "shared_expert_intermediate_size",
      .shared_gate = "shared_expert_gate", .shared_first_5 = true, .ffn_key = "moe_intermediate_size",
      .experts = 60, .used = 4, .ffn = 1408, .shared_default = 5632, .step = 1, .source = "qwen2_moe" },
    { .model_type = "qwen3_next", .router = VR_ROUTER_SOFTMAX, .where = VR_MOE_STEP, .block = "mlp.",
      .router_name = "gate", .gate = "gate_proj", .up = "up_proj", .down = "down_proj",
      .shared = "shared_expert", .shared_key = "shared_expert_intermediate_size",
      .shared_gate = "shared_expert_gate", .shared_first_5 = true,
      .ffn_key = "moe_intermediate_size",
      .experts = 512, .used = 10, .ffn = 512, .shared_default = 512, .step = 1, .normalised = true,
      .source = "qwen3_next" },
    { .model_type = "qwen3_5_moe_text", .router = VR_ROUTER_SOFTMAX, .form = VR_EXPERTS_FUSED,
      .block = "mlp.", .router_name = "gate", .gate = "gate_up_proj", .down = "down_proj",
      .shared = "shared_expert", .shared_key = "shared_expert_intermediate_size",
      .shared_gate = "shared_expert_gate", .shared_first_5 = true,
      .ffn_key = "moe_intermediate_size",
      .experts = 256, .used = 8, .ffn = 512, .shared_default = 512, .normalised = true,
      .source = "qwen3_5_moe" },
    /* the same, as save_pretrained writes it */
    { .model_type = "qwen3_5_moe_text, listed", .router = VR_ROUTER_SOFTMAX,
      .block = "mlp.", .router_name = "gate", .gate = "gate_proj", .up = "up_proj", .down = "down_proj",
      .shared = "shared_expert", .shared_key = "shared_expert_intermediate_size",
      .shared_gate = "shared_expert_gate", .shared_first_5 = true,
      .ffn_key = "moe_intermediate_size",
      .experts = 256, .used = 8, .ffn = 512, .shared_default = 512, .normalised = true,
      .source = "qwen3_5_moe" },
    { .model_type = "granitemoehybrid", .router = VR_ROUTER_WIDE_TOP_SOFTMAX, .form = VR_EXPERTS_FUSED,
      .block = "block_sparse_moe.", .router_name = "router.layer", .router_name_5 = "router",
      .gate = "input_linear.weight", .down = "output_linear.weight",
      .shared = "shared_mlp", .shared_key = "shared_intermediate_size",
      .experts = 8, .used = 2, .shared_default = 1024, .normalised = true, .source = "granitemoehybrid" },
    { .model_type = "granitemoe", .router = VR_ROUTER_WIDE_TOP_SOFTMAX, .form = VR_EXPERTS_FUSED,
      .block = "block_sparse_moe.", .router_name = "router.layer", .router_name_5 = "router",
      .gate = "input_linear.weight", .down = "output_linear.weight",
      .experts = 8, .used = 2, .normalised = true, .source = "granitemoe" },
    { .model_type = "granitemoeshared", .router = VR_ROUTER_WIDE_TOP_SOFTMAX, .form = VR_EXPERTS_FUSED,
      .block = "block_sparse_moe.", .router_name = "router.layer", .router_name_5 = "router",
      .gate = "input_linear.weight", .down = "output_linear.weight",
      .shared = "shared_mlp", .shared_key = "shared_intermediate_size",
      .experts = 8, .used = 2, .normalised = true, .source = "granitemoeshared" },
    { .model_type = "hunyuan_v1_moe", .router = VR_ROUTER_WIDE_SOFTMAX, .block = "mlp.",
      .router_name = "gate.wg",
      .gate = "gate_proj", .up = "up_proj", .down = "down_proj", .shared = "shared_mlp",
      .shared_first_5 = true, .experts = 1, .used = 1, .normalised = true, .source = "hunyuan_v1_moe" },
    { .model_type = "jamba", .router = VR_ROUTER_OTHER, .block = "feed_forward.", .router_name = "router",
      .gate = "gate_proj", .up = "up_proj", .down = "down_proj",
      .experts = 16, .used = 2, .source = "jamba" },
    { .model_type = "lfm2_moe", .router = VR_ROUTER_OTHER, .where = VR_MOE_FIRST_DENSE,
      .block = "feed_forward.", .router_name = "gate", .gate = "w1", .up = "w3", .down = "w2",
      .router_last = true, .router_last_5 = true,
      .correction = VR_CORRECTION_OF_ROUTER, .correction_name = "expert_bias",
      .ffn_key = "moe_intermediate_size", .experts = 32, .used = 4, .ffn = 1792, .first_dense = 2,
      .normalised = true, .source = "lfm2_moe" },
    { .model_type = "nemotron_h", .router = VR_ROUTER_SIGMOID, .block = "mixer.",
      .router_name = "gate", .up = "up_proj", .down = "down_proj", .router_last = true, .router_last_5 = true,
      .correction = VR_CORRECTION_OF_ROUTER, .correction_name = "gate.e_score_correction_bias",
      .shared = "shared_experts", .shared_key = "moe_shared_expert_intermediate_size",
      .ffn_key = "moe_intermediate_size", .experts = 8, .used = 2, .ffn = 7688, .shared_default = 7688,
      .normalised = true, .source = "nemotron_h" },
    { .model_type = "kimi_linear", .router = VR_ROUTER_SIGMOID, .where = VR_MOE_FIRST_DENSE,
      .block = "block_sparse_moe.", .block_5 = "mlp.", .router_name = "gate",
      .gate = "w1", .up = "w3", .down = "w2", .router_last = true, .router_last_5 = true,
      .correction = VR_CORRECTION_OF_ROUTER, .correction_name = "gate.e_score_correction_bias",
      .shared = "shared_experts", .shared_key = "num_shared_experts", .shared_is_count = true,
      .ffn_key = "moe_intermediate_size", .experts = 256, .used = 8, .ffn = 1024, .shared_default = 1,
      .first_dense = 1, .normalised = true, .source = "kimi_linear" },
    { .model_type = "qwen3_moe", .router = VR_ROUTER_SOFTMAX, .returns_logits = true,
      .where = VR_MOE_STEP, .block = "mlp.",
      .router_name = "gate", .gate = "gate_proj", .up = "up_proj", .down = "down_proj", .router_last_5 = true,
      .ffn_key = "moe_intermediate_size",
      .experts = 128, .used = 8, .ffn = 768, .step = 1, .source = "qwen3_moe" },
    { .model_type = "olmoe", .router = VR_ROUTER_SOFTMAX, .loops_all = true, .returns_logits = true,
      .block = "mlp.",
      .router_name = "gate", .gate = "gate_proj", .up = "up_proj", .down = "down_proj",
      .experts = 64, .used = 8, .source = "olmoe" },
    { .model_type = "glm4_moe", .router = VR_ROUTER_SIGMOID, .where = VR_MOE_FIRST_DENSE, .block = "mlp.",
      .router_name = "gate", .gate = "gate_proj", .up = "up_proj", .down = "down_proj",
      .router_last = true, .router_last_5 = true,
      .correction = VR_CORRECTION_OF_ROUTER, .correction_name = "gate.e_score_correction_bias",
      .shared = "shared_experts", .shared_key = "n_shared_experts", .shared_is_count = true,
      .ffn_key = "moe_intermediate_size", .experts = 128, .used = 8, .ffn = 1408, .shared_default = 1,
      .first_dense = 1, .normalised = true, .source = "glm4_moe" },
    LIKE_DEEPSEEK_V3("deepseek_v3", VR_MOE_FIRST_DENSE,
                     .experts = 256, .used = 8, .ffn = 2048, .first_dense = 3, .groups = 8,
                     .groups_used = 4),
    { .model_type = "deepseek_v2", .router = VR_ROUTER_SCALED, .where = VR_MOE_FIRST_DENSE, .block = "mlp.",
      .router_name = "gate", .gate = "gate_proj", .up = "up_proj", .down = "down_proj",
      .router_last = true, .router_last_5 = true,
      .shared = "shared_experts", .shared_key = "n_shared_experts", .shared_is_count = true,
      .ffn_key = "moe_intermediate_size", .experts = 64, .ffn = 1407, .shared_default = 2,
      .source = "deepseek_v2" },
    LIKE_DEEPSEEK_V3("kimi_k2", VR_MOE_FIRST_DENSE,
                     .experts = 256, .used = 8, .ffn = 2048, .first_dense = 3, .groups = 8,
                     .groups_used = 4),
    LIKE_DEEPSEEK_V3("deepseek_v32", VR_MOE_TYPES,
                     .experts = 256, .used = 8, .ffn = 2048, .first_dense = 3, .groups = 8,
                     .groups_used = 4),
    LIKE_DEEPSEEK_V3("glm_moe_dsa", VR_MOE_TYPES,
                     .experts = 256, .used = 8, .ffn = 2048, .first_dense = 3),
    LIKE_DEEPSEEK_V3("glm4_moe_lite", VR_MOE_TYPES,
                     .experts = 64, .used = 4, .ffn = 1536, .first_dense = 1),
    { .model_type = "deepseek_v4", .router = VR_ROUTER_OTHER, .where = VR_MOE_ALL, .block = "mlp.",
      .router_name = "gate", .gate = "gate_proj", .up = "up_proj", .down = "down_proj",
      .correction = VR_CORRECTION_OF_ROUTER, .correction_name = "gate.e_score_correction_bias",
      .shared = "shared_experts", .shared_key = "n_shared_experts", .shared_is_count = true,
      .ffn_key = "moe_intermediate_size", .experts = 256, .used = 6, .ffn = 2048, .shared_default = 1,
      .normalised = true, .source = "deepseek_v4" },
    { .model_type = "mistral4", .router = VR_ROUTER_GROUPS, .form = VR_EXPERTS_FUSED,
      .where = VR_MOE_FIRST_DENSE, .block = "mlp.",
      .router_name = "gate", .gate = "gate_up_proj", .down = "down_proj",
      .router_last = true, .router_last_5 = true,
      .shared = "shared_experts", .shared_key = "n_shared_experts", .shared_is_count = true,
      .ffn_key = "moe_intermediate_size", .experts = 128, .used = 4, .ffn = 2048, .shared_default = 1,
      .normalised = true, .source = "mistral4" },
    { .model_type = "minimax_m2", .router = VR_ROUTER_SIGMOID,
      .block = "block_sparse_moe.", .block_5 = "mlp.",
      .router_name = "gate", .gate = "w1", .up = "w3", .down = "w2", .down_second = true,
      .correction = VR_CORRECTION_LAST, .correction_name = "e_score_correction_bias",
      .experts = 256, .used = 8, .normalised = true, .source = "minimax_m2" },
    { .model_type = "gpt_oss", .router = VR_ROUTER_TOP_SOFTMAX, .form = VR_EXPERTS_TRANSPOSED,
      .block = "mlp.",
      .router_name = "router", .gate = "gate_up_proj", .down = "down_proj", .biased = true, .clamped = true,
      .experts = 128, .used = 4, .normalised = true, .source = "gpt_oss" },
    { .model_type = "qwen3_vl_moe_text", .router = VR_ROUTER_SOFTMAX, .form = VR_EXPERTS_TRANSPOSED,
      .where = VR_MOE_STEP, .block = "mlp.",
      .router_name = "gate", .gate = "gate_up_proj", .down = "down_proj",
      .router_last = true, .router_last_5 = true, .ffn_key = "moe_intermediate_size",
      .experts = 60, .used = 4, .ffn = 1408, .step = 1, .normalised = true, .source = "qwen3_vl_moe" },
    { .model_type = "qwen3_vl_moe_text, outputs first", .router = VR_ROUTER_SOFTMAX,
      .form = VR_EXPERTS_FUSED, .where = VR_MOE_STEP, .block = "mlp.",
      .router_name = "gate", .gate = "gate_up_proj", .down = "down_proj",
      .router_last = true, .router_last_5 = true, .ffn_key = "moe_intermediate_size",
      .experts = 60, .used = 4, .ffn = 1408, .step = 1, .normalised = true, .source = "qwen3_vl_moe" },
    { .model_type = "mimo_v2_flash", .router = VR_ROUTER_SIGMOID, .where = VR_MOE_TYPES, .block = "mlp.",
      .router_name = "gate", .gate = "gate_proj", .up = "up_proj", .down = "down_proj",
      .router_last = true, .router_last_5 = true,
      .correction = VR_CORRECTION_OF_ROUTER, .correction_name = "gate.e_score_correction_bias",
      .ffn_key = "moe_intermediate_size", .experts = 256, .used = 8, .ffn = 2048, .first_dense = 1,
      .normalised = true, .source = "mimo_v2_flash" },
    { .model_type = "minimax_m3_vl_text", .router = VR_ROUTER_SIGMOID, .where = VR_MOE_TYPES,
      .block = "block_sparse_moe.", .block_5 = "mlp.",
      .router_name = "gate", .gate = "w1", .up = "w3", .down = "w2", .down_second = true,
      .correction = VR_CORRECTION_LAST, .correction_name = "e_score_correction_bias",
      .shared = "shared_experts", .shared_key = "shared_intermediate_size",
      .dense_ffn_key = "dense_intermediate_size", .dense_ffn = 12288,
      .experts = 128, .used = 4, .shared_default = 3072, .normalised = true, .source = "minimax_m3_vl" },
    { .model_type = "gemma4_text", .router = VR_ROUTER_BESIDE, .form = VR_EXPERTS_FUSED,
      .gate = "experts.gate_up_proj", .down = "experts.down_proj", .normalised = true,
      .source = "gemma4" },
    { .model_type = "llama4_text", .router = VR_ROUTER_TOP_SIGMOID, .form = VR_EXPERTS_TRANSPOSED,
      .where = VR_MOE_INTERLEAVED, .block = "feed_forward.", .router_name = "router",
      .gate = "gate_up_proj", .down = "down_proj", .router_last = true, .router_last_5 = true,
      .shared = "shared_expert", .dense_ffn_key = "intermediate_size_mlp",
      .experts = 16, .used = 1, .step = 1, .source = "llama4" },
};
/* clang-format on */

const vr_moe *vr_moe_of(const char *model_type)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (vr_str_is(vr_str_of(model_type), rows[i].model_type))
            return &rows[i];
    return NULL;
}

/* ---- how many, how wide ---- */

/* All spellings: attribute_map of the configuration classes makes one of the other. */
static const char *const counts_of_experts[] = { "num_local_experts", "num_experts", "n_routed_experts",
                                                 "moe_num_experts", NULL };
static const char *const counts_used[] = { "num_experts_per_tok", "num_experts_per_token", "moe_topk",
                                           "moe_k", NULL };

typedef struct settings {
    uint64_t experts, used, ffn, dense_ffn, shared, groups, groups_used;
    bool normalised;
} settings;

/* One number for each layer (HunYuan): of it, when all are the same. */
static vram_status same_of_all(vr_reading *r, const char *key, vr_json list, uint64_t *out)
{
    vr_json_iter it = vr_json_each(list);
    uint64_t one, n = 0;
    vr_json v;
    for (; vr_json_next(&it, &v); n++) {
        if (!vr_json_u64(v, &one) || one < 1 || one > MOST_EXPERTS)
            return vr_config_refuse(r, key, v, "a whole number of experts");
        if (n != 0 && one != *out)
            return vr_not_understood(r, T(key), T(" differs from layer to layer"));
        *out = one;
    }
    return n >= r->m->n_layers ? VRAM_OK : vr_config_wrong_length(r, key, n);
}

/* The first that is there; *key then says which. null: none, as in DeepSeek's n_routed_experts. */
static vram_status first_count(vr_reading *r, const char *const *keys, uint64_t fallback, uint64_t *out,
                               const char **key)
{
    const char *first = *keys;
    vr_json v;
    *out = fallback;
    for (*key = *keys; *keys != NULL; keys++) {
        if (!vr_json_get(r->text, *keys, &v))
            continue;
        *key = *keys;
        if (v.type == VR_JSON_ARRAY)
            return same_of_all(r, *keys, v, out);
        return vr_config_count(r, *keys, MOST_EXPERTS, 0, out);
    }
    vr_note_silent(r, first, fallback);
    return VRAM_OK;
}

static vram_status refuse_count(const vr_reading *r, const char *key, const char *expected)
{
    vr_json v;
    if (vr_config_get(r, key, &v))
        return vr_config_refuse(r, key, v, expected);
    return VRAM_OK;
}

static vram_status read_groups(vr_reading *r, const vr_moe *moe, settings *s)
{
    uint32_t groups = moe->groups != 0 ? moe->groups : 1, used = moe->groups_used != 0 ? moe->groups_used : 1;
    VR_TRY(vr_config_count(r, "n_group", MOST_EXPERTS, groups, &s->groups));
    VR_TRY(vr_config_count(r, "topk_group", MOST_EXPERTS, used, &s->groups_used));
    if (s->experts % s->groups != 0)
        return refuse_count(r, "n_group", "a divisor of the number of experts");
    return s->groups_used > s->groups ? refuse_count(r, "topk_group", "n_group or less") : VRAM_OK;
}

/* The shared experts' width all together; absent counts have the class's default, null none. */
static vram_status read_shared(vr_reading *r, const vr_moe *moe, settings *s)
{
    vr_json v;
    s->shared = moe->shared_default;
    if (moe->shared == NULL)
        return VRAM_OK;
    if (moe->shared_key == NULL) {
        s->shared = r->m->ffn;
        return VRAM_OK;
    }
    bool zero = vr_json_get(r->text, moe->shared_key, &v) &&
                (v.type == VR_JSON_NULL || (vr_json_u64(v, &s->shared) && s->shared == 0));
    if (zero)
        s->shared = 0;
    else
        VR_TRY(vr_config_count(r, moe->shared_key, moe->shared_is_count ? MOST_EXPERTS : VR_MAX_WIDTH,
                               moe->shared_default, &s->shared));
    if (moe->shared_is_count)
        s->shared *= s->ffn;
    return s->shared > VR_MAX_WIDTH ? refuse_count(r, moe->shared_key, "so many that their width is real")
                                    : VRAM_OK;
}

static vram_status read_settings(vr_reading *r, const vr_moe *moe, settings *s)
{
    const char *experts, *used;
    *s = (settings){ .ffn = r->m->ffn, .dense_ffn = r->m->ffn, .normalised = moe->normalised };
    VR_TRY(first_count(r, counts_of_experts, moe->experts, &s->experts, &experts));
    VR_TRY(first_count(r, counts_used, moe->used, &s->used, &used));
    if (s->experts != 0 && s->used > s->experts)
        VR_TRY(refuse_count(r, used, "at most the number of experts"));
    if (s->experts != 0 && (s->used == 0 || s->used > s->experts))
        return vr_not_understood(r, T("of "), U(s->experts), T(" experts a token takes "), U(s->used));
    if (moe->ffn_key != NULL)
        VR_TRY(vr_config_count(r, moe->ffn_key, VR_MAX_WIDTH, moe->ffn, &s->ffn));
    if (moe->dense_ffn_key != NULL)
        VR_TRY(vr_config_count(r, moe->dense_ffn_key, VR_MAX_WIDTH,
                               moe->dense_ffn != 0 ? moe->dense_ffn : 2 * r->m->ffn, &s->dense_ffn));
    if (moe->router == VR_ROUTER_SIGMOID || moe->router == VR_ROUTER_SOFTMAX ||
        moe->router == VR_ROUTER_GROUPS)
        VR_TRY(vr_config_flag(r, "norm_topk_prob", &s->normalised));
    VR_TRY(read_groups(r, moe, s));
    return read_shared(r, moe, s);
}

/* ---- which layers ---- */

/* Numbers of layers in a list: those get `value`. Others of the model stay. */
static vram_status mark_listed(vr_reading *r, const char *key, vr_json list, bool *with, bool value)
{
    vr_json_iter it = vr_json_each(list);
    vr_json v;
    uint64_t i;
    if (list.type != VR_JSON_ARRAY)
        return vr_config_refuse(r, key, list, "an array of numbers of layers");
    while (vr_json_next(&it, &v)) {
        if (!vr_json_u64(v, &i))
            return vr_config_refuse(r, key, v, "the number of a layer");
        if (i < r->m->n_layers)
            with[i] = value;
    }
    return VRAM_OK;
}

/* Qwen2MoeDecoderLayer */
static vram_status where_step(vr_reading *r, const vr_moe *moe, bool *with)
{
    uint64_t step;
    vr_json list;
    VR_TRY(vr_config_count(r, "decoder_sparse_step", VR_MAX_LAYERS, moe->step, &step));
    for (uint64_t i = 0; i < r->m->n_layers; i++)
        with[i] = (i + 1) % step == 0;
    return vr_config_get(r, "mlp_only_layers", &list) ? mark_listed(r, "mlp_only_layers", list, with, false)
                                                      : VRAM_OK;
}

vram_status vr_config_flags(vr_reading *r, const char *key, vr_json list, bool *with)
{
    vr_json_iter it = vr_json_each(list);
    vr_json v;
    uint64_t n = 0, one;
    if (list.type != VR_JSON_ARRAY)
        return vr_config_refuse(r, key, list, "an array");
    for (; vr_json_next(&it, &v); n++) {
        if (!vr_json_u64(v, &one) || one > 1)
            return vr_config_refuse(r, key, v, "0 or 1");
        if (n < r->m->n_layers)
            with[n] = one == 1;
    }
    return n == r->m->n_layers ? VRAM_OK : vr_config_wrong_length(r, key, n);
}

/* DeepseekV2DecoderLayer and what followed: `layer_idx >= first_k_dense_replace and layer_idx % freq == 0`;
 * MiMo and MiniMax list the layers instead. */
static vram_status where_first_dense(vr_reading *r, const vr_moe *moe, bool *with)
{
    uint64_t first = moe->first_dense, every;
    vr_json v;
    if (vr_config_get(r, "moe_layer_freq", &v) && v.type == VR_JSON_ARRAY)
        return vr_config_flags(r, "moe_layer_freq", v, with);
    VR_TRY(vr_config_count(r, "moe_layer_freq", VR_MAX_LAYERS, 1, &every));
    if (vr_config_get(r, "first_k_dense_replace", &v) && !vr_json_u64(v, &first))
        return vr_config_refuse(r, "first_k_dense_replace", v, "a whole number");
    for (uint64_t i = 0; i < r->m->n_layers; i++)
        with[i] = i >= first && i % every == 0;
    return VRAM_OK;
}

/* DeepseekV32Config, GlmMoeDsaConfig: mlp_layer_types, or else the first few are dense */
static vram_status where_types(vr_reading *r, const vr_moe *moe, bool *with)
{
    static const vr_layer_word words[] = { { "dense", false }, { "sparse", true }, { NULL, 0 } };
    vr_json list;
    uint64_t n, n_layers = r->m->n_layers;
    if (!vr_config_get(r, "mlp_layer_types", &list))
        return where_first_dense(r, moe, with);
    uint8_t *kinds = VR_ARRAY(&r->m->arena, uint8_t, (size_t)n_layers);
    if (kinds == NULL)
        return VRAM_ENOMEM;
    VR_TRY(vr_config_words(r, "mlp_layer_types", list, words, kinds, &n));
    for (uint64_t i = 0; i < n_layers; i++)
        with[i] = kinds[i] != 0;
    return r->m->not_understood != NULL || n >= n_layers ? VRAM_OK
                                                         : vr_config_wrong_length(r, "mlp_layer_types", n);
}

/* Llama4TextConfig: range(step - 1, layers, step) unless moe_layers says which */
static vram_status where_interleaved(vr_reading *r, const vr_moe *moe, bool *with)
{
    uint64_t step;
    vr_json list;
    if (vr_config_get(r, "moe_layers", &list))
        return mark_listed(r, "moe_layers", list, with, true);
    VR_TRY(vr_config_count(r, "interleave_moe_layer_step", VR_MAX_LAYERS, moe->step, &step));
    for (uint64_t i = 0; i < r->m->n_layers; i++)
        with[i] = (i + 1) % step == 0;
    return VRAM_OK;
}

/* Ernie4_5_MoeDecoderLayer; an end of -1 is the last layer */
static vram_status where_range(vr_reading *r, const vr_moe *moe, bool *with)
{
    uint64_t first = moe->first_dense, last = r->m->n_layers - 1, every;
    double end;
    vr_json v;
    VR_TRY(vr_config_count(r, "moe_layer_interval", VR_MAX_LAYERS, 1, &every));
    if (vr_config_get(r, "moe_layer_start_index", &v) && !vr_json_u64(v, &first))
        return vr_config_refuse(r, "moe_layer_start_index", v, "a whole number");
    if (vr_config_get(r, "moe_layer_end_index", &v) && !vr_json_u64(v, &last) &&
        !(vr_json_double(v, &end) && end >= -1 && end <= -1))
        return vr_config_refuse(r, "moe_layer_end_index", v, "a whole number or -1");
    for (uint64_t i = 0; i < r->m->n_layers; i++)
        with[i] = i >= first && i <= last && (i + 1) % every == 0;
    return VRAM_OK;
}

static vram_status where_all(vr_reading *r, const vr_moe *moe, bool *with)
{
    (void)moe;
    for (uint64_t i = 0; i < r->m->n_layers; i++)
        with[i] = true;
    return VRAM_OK;
}

/* ---- into the layers ---- */

static void set_experts(vr_layer *l, const vr_moe *moe, const settings *s)
{
    l->mlp = VR_MLP_EXPERTS;
    l->moe = moe;
    l->ffn = 0;
    l->experts = (uint32_t)s->experts;
    l->experts_used = (uint32_t)s->used;
    l->expert_ffn = (uint32_t)s->ffn;
    l->shared_ffn = (uint32_t)s->shared;
    l->expert_groups = (uint32_t)s->groups;
    l->groups_used = (uint32_t)s->groups_used;
    l->weights_normalised = s->normalised;
}

static vram_status set_layers(vr_reading *r, const vr_moe *moe, const settings *s, const bool *with)
{
    vram_model *m = r->m;
    uint64_t n = 0;
    for (uint64_t i = 0; i < m->n_layers; i++) {
        vr_layer *l = &m->layers[i];
        if (!with[i] || s->experts == 0) {
            l->ffn = (uint32_t)s->dense_ffn;
            l->moe = moe;
            continue;
        }
        set_experts(l, moe, s);
        n++;
    }
    if (n * s->experts > MOST_OF_ALL_LAYERS)
        return vr_not_understood(r, U(n), T(" layers of "), U(s->experts),
                                 T(" experts are more than any model has"));
    m->experts = n != 0 ? s->experts : 0;
    m->experts_used = n != 0 ? s->used : 0;
    m->expert_ffn = n != 0 ? s->ffn : 0;
    return VRAM_OK;
}

vram_status vr_read_experts(vr_reading *r, const vr_moe *moe)
{
    static vram_status (*const where[])(vr_reading *, const vr_moe *, bool *) = {
        [VR_MOE_ALL] = where_all,
        [VR_MOE_STEP] = where_step,
        [VR_MOE_FIRST_DENSE] = where_first_dense,
        [VR_MOE_INTERLEAVED] = where_interleaved,
        [VR_MOE_TYPES] = where_types,
        [VR_MOE_RANGE] = where_range,
    };
    settings s;
    bool *with = VR_ARRAY(&r->m->arena, bool, (size_t)r->m->n_layers);
    if (with == NULL)
        return VRAM_ENOMEM;
    VR_TRY(read_settings(r, moe, &s));
    if (r->m->not_understood == NULL)
        VR_TRY(where[moe->where](r, moe, with));
    return r->m->not_understood == NULL ? set_layers(r, moe, &s, with) : VRAM_OK;
}
