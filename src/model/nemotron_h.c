/* SPDX-License-Identifier: MIT
 * Nemotron-H and Nemotron 3: each layer is one thing: a Mamba-2, full attention without positions, a plain
 * MLP or experts (transformers 5.24, models/nemotron_h: configuration_*.py, modeling_*.py). The letters of
 * hybrid_override_pattern say which: M, *, -, E; newer configurations list words. Experts may work on a
 * narrower vector than the layers do (moe_latent_size). */
#include "model/experts.h"
#include "model/recurrent.h"

#include <string.h>

typedef enum part { MIXER, ATTENTION, MLP, EXPERTS } part;

static vram_status kinds_of_pattern(vr_reading *r, vr_json v, uint8_t *kinds)
{
    static const char letters[] = "M*-E";
    vram_model *m = r->m;
    vr_str s;
    if (v.type != VR_JSON_STRING)
        return vr_config_refuse(r, "hybrid_override_pattern", v, "a string of the letters M, *, - and E");
    if (!vr_json_str(v, &m->arena, &s))
        return VRAM_ENOMEM;
    if (s.n != m->n_layers)
        return vr_not_understood(r, T("hybrid_override_pattern has "), U(s.n),
                                 T(s.n == 1 ? " layer" : " layers"), T(", num_hidden_layers is "),
                                 U(m->n_layers));
    for (size_t i = 0; i < s.n; i++) {
        const char *at = memchr(letters, s.s[i], sizeof letters - 1);
        if (at == NULL)
            return vr_not_understood(
                r, T("hybrid_override_pattern has a letter that is not known, at layer "), U(i));
        kinds[i] = (uint8_t)(at - letters);
    }
    return VRAM_OK;
}

static vram_status read_kinds(vr_reading *r, uint8_t *kinds)
{
    static const char *const keys[] = { "layers_block_type", "layer_types", NULL };
    static const vr_layer_word words[] = { { "mamba", MIXER },
                                           { "linear_attention", MIXER },
                                           { "attention", ATTENTION },
                                           { "full_attention", ATTENTION },
                                           { "mlp", MLP },
                                           { "moe", EXPERTS },
                                           { NULL, 0 } };
    vr_json v;
    bool given;
    VR_TRY(vr_config_layer_kinds(r, keys, words, kinds, &given));
    if (given)
        return VRAM_OK;
    if (vr_config_get(r, "hybrid_override_pattern", &v))
        return kinds_of_pattern(r, v, kinds);
    return vr_not_understood(
        r, T("neither layers_block_type nor hybrid_override_pattern says what the layers are"));
}

/* NemotronHConfig has as many layers as it lists; num_hidden_layers is left out of newer configurations. */
static vram_status count_layers(vr_reading *r)
{
    static const char *const keys[] = { "layers_block_type", "layer_types", "hybrid_override_pattern" };
    vram_model *m = r->m;
    uint64_t n = 0;
    vr_json v;
    size_t k = 0;
    if (vr_config_get(r, "num_hidden_layers", &v))
        return VRAM_OK;
    while (k < sizeof keys / sizeof *keys && !vr_config_get(r, keys[k], &v))
        k++;
    if (k == sizeof keys / sizeof *keys)
        return VRAM_OK;
    if (v.type == VR_JSON_STRING) {
        n = v.text.n - 2; /* without its quotes; an escape in it is no letter that is known */
    } else if (v.type == VR_JSON_ARRAY) {
        vr_json one;
        for (vr_json_iter it = vr_json_each(v); vr_json_next(&it, &one);)
            n++;
    }
    if (n < 1 || n > VR_MAX_LAYERS)
        return vr_config_refuse(r, keys[k], v, "as many layers as a model can have");
    vr_layer *layers = VR_ARRAY(&m->arena, vr_layer, (size_t)n);
    if (layers == NULL)
        return VRAM_ENOMEM;
    for (uint64_t i = 0; i < n; i++)
        layers[i] = m->layers[0];
    m->layers = layers;
    m->n_layers = n;
    vr_forget_silent(r, "num_hidden_layers");
    return VRAM_OK;
}

static vram_status read_mixer(vr_reading *r, vr_layer *mixer)
{
    static const vr_ssm_keys keys = { "mamba_num_heads",
                                      "mamba_head_dim",
                                      "n_groups",
                                      "ssm_state_size",
                                      "conv_kernel",
                                      "chunk_size",
                                      128,
                                      64,
                                      8,
                                      128,
                                      4,
                                      128,
                                      "use_conv_bias",
                                      "use_bias" };
    return vr_read_ssm(r, &keys, mixer);
}

static void become(vram_model *m, uint64_t i, part what, const vr_layer *mixer)
{
    vr_layer *l = &m->layers[i];
    if (what == MIXER)
        vr_layer_becomes_recurrent(m, i, mixer);
    else if (what != ATTENTION)
        vr_layer_loses_attention(l);
    if (what == MIXER || what == ATTENTION)
        vr_layer_loses_mlp(l);
}

/* The experts' settings are there in every configuration, the experts only where a layer is theirs. */
static vram_status read_experts(vr_reading *r, const uint8_t *kinds)
{
    vram_model *m = r->m;
    vr_layer *plain = VR_ARRAY(&m->arena, vr_layer, (size_t)m->n_layers);
    uint64_t latent;
    bool any = false;
    if (plain == NULL)
        return VRAM_ENOMEM;
    for (uint64_t i = 0; i < m->n_layers; i++) {
        m->layers[i].mlp = VR_MLP_PLAIN;
        plain[i] = m->layers[i];
        any = any || kinds[i] == EXPERTS;
    }
    if (!any)
        return VRAM_OK;
    VR_TRY(vr_config_count(r, "moe_latent_size", VR_MAX_WIDTH, 0, &latent));
    VR_TRY(vr_read_experts(r, vr_moe_of("nemotron_h")));
    for (uint64_t i = 0; i < m->n_layers && m->not_understood == NULL; i++)
        if (kinds[i] != EXPERTS)
            m->layers[i] = plain[i];
        else
            m->layers[i].expert_hidden = (uint32_t)latent;
    return VRAM_OK;
}

static vram_status read(vr_reading *r)
{
    vram_model *m = r->m;
    uint8_t *kinds;
    vr_layer mixer;
    VR_TRY(count_layers(r));
    kinds = VR_ARRAY(&m->arena, uint8_t, (size_t)m->n_layers);
    if (kinds == NULL)
        return VRAM_ENOMEM;
    VR_TRY(read_kinds(r, kinds));
    if (m->not_understood == NULL)
        VR_TRY(read_mixer(r, &mixer));
    if (m->not_understood == NULL)
        VR_TRY(read_experts(r, kinds));
    for (uint64_t i = 0; i < m->n_layers && m->not_understood == NULL; i++)
        become(m, i, (part)kinds[i], &mixer);
    return VRAM_OK;
}

/* NemotronHMoE: experts of two matrices on what fc1_latent_proj leaves, shared ones on the whole. */
static void declare_experts(vr_declaring *d, const vr_layer *l)
{
    const char *path = d->path;
    uint64_t h = d->m->hidden, in = l->expert_hidden != 0 ? l->expert_hidden : h, n = l->experts;
    bool bias = d->m->mlp_bias;
    for (uint64_t i = 0; i < n && d->status == VRAM_OK; i++) {
        vr_declare_under(d, T(path), T("experts."), U(i), T("."));
        d->role = VR_EXPERT_UP;
        vr_declare_linear(d, "up_proj", in, l->expert_ffn, false);
        d->role = VR_EXPERT_DOWN;
        vr_declare_linear(d, "down_proj", l->expert_ffn, in, false);
    }
    d->role = VR_EXPERT_ROUTER;
    d->path = path;
    vr_declare_linear(d, "gate", h, n, false);
    vr_declare(d, "gate.e_score_correction_bias", VR_PARAM_STATE_F32, &n, 1);
    d->role = VR_EXPERT_NONE;
    vr_declare_linear(d, "shared_experts.up_proj", h, l->shared_ffn, bias);
    vr_declare_linear(d, "shared_experts.down_proj", l->shared_ffn, h, bias);
    if (l->expert_hidden == 0)
        return;
    vr_declare_linear(d, "fc1_latent_proj", h, in, bias);
    vr_declare_linear(d, "fc2_latent_proj", in, h, bias);
}

static void declare_layer(vr_declaring *d, const vr_layer *l)
{
    const char *path = d->path;
    vr_declare_norms(d);
    if (l->attention == VR_ATTENTION_FULL) {
        vr_declare_attention(d, l);
    } else if (l->attention == VR_ATTENTION_RECURRENT) {
        vr_declare_ssm(d, "mixer.", l);
    } else if (l->mlp == VR_MLP_PLAIN) {
        vr_declare_mlp(d, l);
    } else {
        vr_declare_under(d, T(path), T("mixer."));
        declare_experts(d, l);
    }
    d->path = path;
}

const vr_special vr_special_nemotron_h = {
    .name = "nemotron_h",
    .own_kinds = true,
    .read = read,
    .declare_layer = declare_layer,
};
