/* SPDX-License-Identifier: MIT
 * MiMo-V2-Flash: values narrower than keys; layers that slide have twice the key-value heads and sinks
 * (transformers 5.24, models/mimo_v2_flash: configuration_*.py, modeling_*.py; conversion_mapping.py). */
#include "model/experts.h"
#include "model/special.h"

#define FULL_EVERY 6
#define DEFAULT_WINDOW 129

/* The class knows one pattern; publishers write it down. */
static vram_status check_pattern(vr_reading *r)
{
    vram_model *m = r->m;
    vr_json list;
    bool *slides = VR_ARRAY(&m->arena, bool, (size_t)m->n_layers);
    if (slides == NULL)
        return VRAM_ENOMEM;
    if (!vr_config_get(r, "hybrid_layer_pattern", &list))
        return VRAM_OK;
    VR_TRY(vr_config_flags(r, "hybrid_layer_pattern", list, slides));
    for (uint64_t i = 0; i < m->n_layers && m->not_understood == NULL; i++)
        if ((m->layers[i].attention == VR_ATTENTION_SLIDING) != slides[i])
            return vr_not_understood(r, T("hybrid_layer_pattern is not that of the class, at layer "), U(i));
    return VRAM_OK;
}

/* What publishers state of layers that slide and the class does not read. */
static vram_status check_stated(vr_reading *r, uint64_t value_dim)
{
    const vram_model *m = r->m;
    const struct {
        const char *key;
        uint64_t by_class;
    } stated[] = { { "swa_num_attention_heads", m->heads },
                   { "swa_num_key_value_heads", 2 * m->kv_heads },
                   { "swa_head_dim", m->head_dim },
                   { "swa_v_head_dim", value_dim } };
    for (size_t i = 0; i < sizeof stated / sizeof *stated; i++) {
        uint64_t n;
        VR_TRY(vr_config_count(r, stated[i].key, VR_MAX_WIDTH, stated[i].by_class, &n));
        if (n != stated[i].by_class)
            return vr_not_understood(r, T(stated[i].key), T(" is "), U(n), T(", the class makes it "),
                                     U(stated[i].by_class));
    }
    return VRAM_OK;
}

static vram_status read_window(vr_reading *r, uint64_t *window)
{
    uint64_t before;
    VR_TRY(vr_config_count(r, "sliding_window", UINT32_MAX, DEFAULT_WINDOW, window));
    VR_TRY(vr_config_count(r, "sliding_window_size", UINT32_MAX - 1, *window - 1, &before));
    *window = before + 1; /* and the query itself */
    return VRAM_OK;
}

/* Without a list the first layer and every sixth are full. */
static vram_status read_kinds(vr_reading *r, uint64_t window)
{
    static const char *const keys[] = { "layer_types", NULL };
    static const vr_layer_word words[] = { { "sliding_attention", VR_ATTENTION_SLIDING },
                                           { "full_attention", VR_ATTENTION_FULL },
                                           { NULL, 0 } };
    vram_model *m = r->m;
    bool given;
    uint8_t *kinds = VR_ARRAY(&m->arena, uint8_t, (size_t)m->n_layers);
    if (kinds == NULL)
        return VRAM_ENOMEM;
    VR_TRY(vr_config_layer_kinds(r, keys, words, kinds, &given));
    for (uint64_t i = 0; i < m->n_layers && m->not_understood == NULL; i++) {
        bool full = given ? kinds[i] == VR_ATTENTION_FULL : i == 0 || (i + 1) % FULL_EVERY == 0;
        m->layers[i].attention = full ? VR_ATTENTION_FULL : VR_ATTENTION_SLIDING;
        m->layers[i].window = full ? 0 : (uint32_t)window;
    }
    return VRAM_OK;
}

/* MiMoV2FlashConfig rotates 0.334 of a head when nobody says how much. */
static void rotate_by_default(vr_reading *r)
{
    vr_json v;
    if (vr_config_get(r, "partial_rotary_factor", &v) ||
        vr_config_get(r, "rope_parameters.partial_rotary_factor", &v))
        return;
    r->m->rotary_dim = vr_in_pairs(r->m->head_dim * 334 / 1000, r->m->head_dim);
    for (uint64_t i = 0; i < r->m->n_layers; i++)
        r->m->layers[i].rotary_dim = (uint32_t)r->m->rotary_dim;
}

static vram_status read(vr_reading *r)
{
    vram_model *m = r->m;
    uint64_t value, window;
    vr_json v;
    VR_TRY(vr_config_count(r, "v_head_dim", VR_MAX_HEAD_DIM, 128, &value));
    VR_TRY(read_window(r, &window));
    rotate_by_default(r);
    VR_TRY(read_kinds(r, window));
    if (m->not_understood == NULL)
        VR_TRY(check_pattern(r));
    if (m->not_understood == NULL)
        VR_TRY(check_stated(r, value));
    if (m->not_understood != NULL)
        return VRAM_OK;
    if (m->heads % (2 * m->kv_heads) != 0 && vr_config_get(r, "num_key_value_heads", &v))
        return vr_config_refuse(r, "num_key_value_heads", v, "a divisor of half of num_attention_heads");
    for (uint64_t i = 0; i < m->n_layers; i++) {
        vr_layer *l = &m->layers[i];
        l->value_dim = (uint32_t)value;
        l->sinks = l->attention == VR_ATTENTION_SLIDING;
        l->kv_heads = (uint32_t)(l->sinks ? 2 * m->kv_heads : m->kv_heads);
    }
    return vr_read_experts(r, vr_moe_of("mimo_v2_flash"));
}

static void declare_layer(vr_declaring *d, const vr_layer *l)
{
    vr_declare_attention(d, l);
    if (l->sinks)
        vr_declare_vector(d, "self_attn.attention_sink_bias", l->heads);
    vr_declare_any_mlp(d, l);
    vr_declare_norms(d);
}

const vr_special vr_special_mimo_v2 = {
    .name = "mimo_v2", .own_kinds = true, .read = read, .declare_layer = declare_layer
};
