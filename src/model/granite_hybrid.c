/* SPDX-License-Identifier: MIT
 * Granite 4 hybrids: Mamba-2 layers, a few of full attention, each with experts and a dense MLP beside them
 * (transformers 5.24, models/granitemoehybrid: configuration_*.py, modeling_*.py). Without
 * position_embedding_type "rope" nothing is rotated.
 *
 * Granite 3 with experts: the same blocks in a plain decoder (models/granitemoe, granitemoeshared). */
#include "model/experts.h"
#include "model/recurrent.h"

/* mamba_d_head: a number, or "auto": mamba_expand x hidden_size over the heads. */
static vram_status read_mixer(vr_reading *r, vr_layer *mixer)
{
    uint64_t expand;
    VR_TRY(vr_config_count(r, "mamba_expand", VR_MAX_WIDTH, 2, &expand));
    return vr_read_ssm_of(r, &vr_ssm_of_groups, vr_mul_sat(expand, r->m->hidden), mixer);
}

/* Silent, the class takes all layers for recurrent. No published model is so, but excerpts of
 * configurations are silent too. */
static vram_status read_kinds(vr_reading *r, uint8_t *kinds)
{
    static const char *const keys[] = { "layer_types", "layers_block_type", NULL };
    static const vr_layer_word words[] = {
        { "mamba", VR_ATTENTION_RECURRENT },
        { "linear_attention", VR_ATTENTION_RECURRENT },
        { "attention", VR_ATTENTION_FULL },
        { "full_attention", VR_ATTENTION_FULL },
        { NULL, 0 },
    };
    bool given;
    VR_TRY(vr_config_layer_kinds(r, keys, words, kinds, &given));
    if (given || r->m->not_understood != NULL)
        return VRAM_OK;
    return vr_not_understood(r, T("config.json does not state which layers attend (layer_types)"));
}

static vram_status read_rotary(vr_reading *r)
{
    vr_json v;
    if (vr_config_get(r, "position_embedding_type", &v) && vr_json_str_is(v, "rope"))
        return VRAM_OK;
    r->m->rotary_dim = 0;
    for (uint64_t i = 0; i < r->m->n_layers; i++)
        r->m->layers[i].rotary_dim = 0;
    return VRAM_OK;
}

/* num_local_experts 0: only the dense MLP, which stands beside experts otherwise. */
static vram_status read_mlp(vr_reading *r)
{
    vr_json v;
    uint64_t n, shared;
    if (!vr_config_get(r, "num_local_experts", &v) || !vr_json_u64(v, &n) || n != 0)
        return vr_read_experts(r, vr_moe_of("granitemoehybrid"));
    VR_TRY(vr_config_count(r, "shared_intermediate_size", VR_MAX_WIDTH, 1024, &shared));
    for (uint64_t i = 0; i < r->m->n_layers; i++) {
        r->m->layers[i].ffn = (uint32_t)shared;
        r->m->layers[i].mlp = VR_MLP_GATED_FUSED;
    }
    r->m->ffn = shared;
    return VRAM_OK;
}

static vram_status read(vr_reading *r)
{
    vram_model *m = r->m;
    uint8_t *kinds = VR_ARRAY(&m->arena, uint8_t, (size_t)m->n_layers);
    vr_layer mixer;
    if (kinds == NULL)
        return VRAM_ENOMEM;
    VR_TRY(read_rotary(r));
    VR_TRY(read_mlp(r));
    if (m->not_understood == NULL)
        VR_TRY(read_mixer(r, &mixer));
    if (m->not_understood == NULL)
        VR_TRY(read_kinds(r, kinds));
    for (uint64_t i = 0; i < m->n_layers && m->not_understood == NULL; i++)
        if (kinds[i] == VR_ATTENTION_RECURRENT)
            vr_layer_becomes_recurrent(m, i, &mixer);
    return VRAM_OK;
}

static void declare_mlp(vr_declaring *d, const vr_layer *l)
{
    const char *path = d->path;
    uint64_t h = d->m->hidden, n = l->experts, f = l->expert_ffn;
    uint64_t shared = n != 0 ? l->shared_ffn : l->ffn;
    if (n != 0) {
        vr_declare_under(d, T(path), T("block_sparse_moe."));
        d->role = VR_EXPERT_ROUTER;
        vr_declare_linear(d, "router.layer", h, n, false);
        d->role = VR_EXPERT_NONE;
        vr_declare_experts(d, "input_linear.weight", n, 2 * f, h);
        vr_declare_experts(d, "output_linear.weight", n, h, f);
        d->path = path;
    }
    if (shared == 0)
        return;
    vr_declare_linear(d, "shared_mlp.input_linear", h, 2 * shared, false);
    vr_declare_linear(d, "shared_mlp.output_linear", shared, h, false);
}

static void declare_layer(vr_declaring *d, const vr_layer *l)
{
    vr_declare_norms(d);
    declare_mlp(d, l);
    if (l->attention == VR_ATTENTION_RECURRENT)
        vr_declare_ssm(d, "mamba.", l);
    else
        vr_declare_attention(d, l);
}

const vr_special vr_special_granite_hybrid = {
    .name = "granite_hybrid",
    .own_kinds = true,
    .read = read,
    .declare_layer = declare_layer,
};

static vram_status read_plain(vr_reading *r)
{
    return vr_read_experts(r, vr_moe_of(r->family->model_type));
}

static void declare_plain_layer(vr_declaring *d, const vr_layer *l)
{
    vr_declare_attention(d, l);
    vr_declare_norms(d);
    declare_mlp(d, l);
}

const vr_special vr_special_granite_moe = {
    .name = "granite_moe",
    .read = read_plain,
    .declare_layer = declare_plain_layer,
};
