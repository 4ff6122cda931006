/* SPDX-License-Identifier: MIT
 * Mamba-1 mixers: a convolution over x, a step, B and C made of it, a state [channels, state]; and what
 * consists of them: Mamba, Falcon-Mamba, and Jamba, with attention and experts in between (transformers 5.24,
 * models/mamba, falcon_mamba, jamba: configuration_*.py, modeling_*.py). */
#include "model/experts.h"
#include "model/recurrent.h"

typedef struct keys {
    const char *state, *taps, *expand, *rank, *conv_bias, *bias;
} keys;

/* "auto": hidden_size / 16, rounded up. */
static vram_status read_rank(vr_reading *r, const char *key, uint64_t *out)
{
    vr_json v;
    *out = (r->m->hidden + 15) / 16;
    if (!vr_config_get(r, key, &v) || vr_json_str_is(v, "auto"))
        return VRAM_OK;
    return vr_config_count(r, key, VR_MAX_WIDTH, *out, out);
}

static vram_status read_mixer(vr_reading *r, const keys *k, vr_layer *mixer)
{
    uint64_t state, taps, expand, rank;
    vram_status status = VRAM_OK;
    VR_TRY(vr_config_count(r, k->state, VR_MAX_HEAD_DIM, 16, &state));
    VR_TRY(vr_config_count(r, k->taps, VR_MAX_TAPS, 4, &taps));
    VR_TRY(vr_config_count(r, k->expand, VR_MAX_WIDTH, 2, &expand));
    VR_TRY(read_rank(r, k->rank, &rank));
    uint64_t channels = vr_mul_sat(expand, r->m->hidden);
    if (!vr_channels_fit(r, channels, &status))
        return status;
    *mixer = (vr_layer){ .recurrent = VR_RECURRENT_MAMBA1,
                         .conv_channels = (uint32_t)channels,
                         .conv_taps = (uint32_t)taps,
                         .state_heads = 1,
                         .state_rows = (uint32_t)channels,
                         .state_columns = (uint32_t)state,
                         .chunk = 1,
                         .conv_bias = true,
                         .step_rank = (uint32_t)rank };
    VR_TRY(vr_config_flag(r, k->conv_bias, &mixer->conv_bias));
    VR_TRY(vr_config_flag(r, k->bias, &mixer->mixer_bias));
    mixer->out_bias = mixer->mixer_bias;
    return VRAM_OK;
}

/* MambaMixer, JambaMambaMixer: modules first, then parameters of its own. */
static void declare_mixer(vr_declaring *d, const char *module, const vr_layer *l)
{
    const char *path = d->path;
    uint64_t h = d->m->hidden, inner = l->state_rows, state = l->state_columns, rank = l->step_rank;
    vr_declare_under(d, T(path), T(module));
    vr_declare_conv(d, "conv1d.weight", "conv1d.bias", l);
    vr_declare_linear(d, "in_proj", h, 2 * inner, l->mixer_bias);
    vr_declare_linear(d, "x_proj", inner, rank + 2 * state, false);
    vr_declare_linear(d, "dt_proj", rank, inner, true);
    vr_declare_linear(d, "out_proj", inner, h, l->out_bias);
    if (l->inputs_normed) {
        vr_declare_vector(d, "dt_layernorm.weight", rank);
        vr_declare_vector(d, "b_layernorm.weight", state);
        vr_declare_vector(d, "c_layernorm.weight", state);
    }
    vr_declare_matrix(d, "A_log", inner, state);
    vr_declare_vector(d, "D", inner);
    d->path = path;
}

/* ---- Mamba, Falcon-Mamba ---- */

static vram_status read_mamba(vr_reading *r)
{
    static const keys k = { "state_size",     "conv_kernel",   "expand",
                            "time_step_rank", "use_conv_bias", "use_bias" };
    vr_layer mixer;
    VR_TRY(read_mixer(r, &k, &mixer));
    if (r->m->not_understood == NULL)
        vr_all_recurrent(r->m, &mixer);
    return VRAM_OK;
}

static void declare_mamba(vr_declaring *d, const vr_layer *l)
{
    vr_declare_norms(d);
    declare_mixer(d, "mixer.", l);
}

const vr_special vr_special_mamba = {
    .name = "mamba",
    .own_kinds = true,
    .read = read_mamba,
    .declare_layer = declare_mamba,
};

/* ---- Jamba ---- */

/* Layers i with i % period == offset. */
typedef struct rhythm {
    uint64_t period, offset;
} rhythm;

static vram_status read_rhythm(vr_reading *r, const char *period, const char *offset, rhythm silent,
                               rhythm *out)
{
    vr_json v;
    VR_TRY(vr_config_count(r, period, VR_MAX_LAYERS, silent.period, &out->period));
    out->offset = silent.offset;
    if (vr_config_get(r, offset, &v) && (!vr_json_u64(v, &out->offset) || out->offset >= out->period))
        return vr_config_refuse(r, offset, v, "a whole number below its period");
    return out->offset < out->period
               ? VRAM_OK
               : vr_not_understood(r, T(offset), T(", "), U(out->offset), T(", is not below "), T(period));
}

/* One expert is a dense MLP. */
static vram_status read_experts(vr_reading *r)
{
    vram_model *m = r->m;
    rhythm with;
    uint64_t n;
    VR_TRY(vr_config_count(r, "num_experts", VR_MAX_EXPERTS, 16, &n));
    if (n == 1)
        return VRAM_OK;
    vr_layer *dense = VR_ARRAY(&m->arena, vr_layer, (size_t)m->n_layers);
    if (dense == NULL)
        return VRAM_ENOMEM;
    memcpy(dense, m->layers, (size_t)m->n_layers * sizeof *dense);
    VR_TRY(read_rhythm(r, "expert_layer_period", "expert_layer_offset", (rhythm){ 2, 1 }, &with));
    if (m->not_understood == NULL)
        VR_TRY(vr_read_experts(r, vr_moe_of("jamba")));
    for (uint64_t i = 0; i < m->n_layers && m->not_understood == NULL; i++)
        if (i % with.period != with.offset)
            m->layers[i] = dense[i];
    return VRAM_OK;
}

static vram_status read_jamba(vr_reading *r)
{
    static const keys k = { "mamba_d_state", "mamba_d_conv",    "mamba_expand",
                            "mamba_dt_rank", "mamba_conv_bias", "mamba_proj_bias" };
    vr_layer mixer;
    rhythm attends;
    VR_TRY(read_experts(r));
    if (r->m->not_understood == NULL)
        VR_TRY(read_mixer(r, &k, &mixer));
    if (r->m->not_understood == NULL)
        VR_TRY(read_rhythm(r, "attn_layer_period", "attn_layer_offset", (rhythm){ 8, 4 }, &attends));
    for (uint64_t i = 0; i < r->m->n_layers && r->m->not_understood == NULL; i++) {
        mixer.inputs_normed = true;
        if (i % attends.period != attends.offset)
            vr_layer_becomes_recurrent(r->m, i, &mixer);
    }
    return VRAM_OK;
}

static void declare_jamba(vr_declaring *d, const vr_layer *l)
{
    if (l->attention == VR_ATTENTION_RECURRENT)
        declare_mixer(d, "mamba.", l);
    else
        vr_declare_attention(d, l);
    vr_declare_any_mlp(d, l);
    vr_declare_norms(d);
}

const vr_special vr_special_jamba = {
    .name = "jamba",
    .own_kinds = true,
    .read = read_jamba,
    .declare_layer = declare_jamba,
};
