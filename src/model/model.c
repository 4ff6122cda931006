/* SPDX-License-Identifier: MIT
 * From a checkpoint to a model: what it is, its settings, and the shapes that bear them out. A model that is
 * not understood is no error: its weights are still counted, and the reason is kept. */
#include "model/special.h"
#include "model/tower.h"

/* Under a quarter of a GiB nobody minds. */
static bool is_fp32(const vram_checkpoint *ck)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < ck->n_tensors; i++)
        bytes += ck->tensors[i].dtype == VR_F32 ? ck->tensors[i].end - ck->tensors[i].begin : 0;
    return bytes >= VR_GIB / 4 && bytes >= ck->tensor_bytes / 20 * 19;
}

static vr_dtype first_floating(const vram_model *m, vr_role role)
{
    const vram_checkpoint *ck = m->checkpoint;
    for (size_t i = 0; i < ck->n_tensors; i++)
        if (m->packing.role[i] == role && vr_dtype_floating((vr_dtype)ck->tensors[i].dtype))
            return (vr_dtype)ck->tensors[i].dtype;
    return VR_DTYPE_NONE;
}

/* Scales are no weights: their type says nothing of the model's. */
static void look_at_dtypes(vram_model *m)
{
    m->quantised = m->quantised || m->packing.quantised_matrices != 0;
    if (m->dtype == VR_DTYPE_NONE)
        m->dtype = first_floating(m, VR_ROLE_PLAIN);
    if (m->dtype == VR_DTYPE_NONE)
        m->dtype = first_floating(m, VR_ROLE_PACKED);
    m->fp32 = is_fp32(m->checkpoint);
}

static uint64_t of_heads(const vr_layer *l, uint64_t heads)
{
    return l->kv_from != 0 ? 0 : heads * l->key_dim + heads * l->value_dim;
}

uint64_t vr_layer_kv_elements(const vr_layer *l)
{
    return of_heads(l, l->all_heads_cached ? l->heads : l->kv_heads);
}

uint64_t vr_layer_latent_elements(const vr_layer *l)
{
    return l->kv_from != 0 || l->latent == 0 ? 0 : (uint64_t)l->latent + l->rotary_dim;
}

uint64_t vr_layer_index_elements(const vr_layer *l)
{
    return l->index_dim;
}

bool vr_layer_keeps_state(const vr_layer *l)
{
    return l->conv_channels != 0 || l->state_rows != 0;
}

uint64_t vr_layer_conv_elements(const vr_layer *l)
{
    bool newest = l->recurrent != VR_RECURRENT_LRU; /* RecurrentGemmaRecurrentBlock keeps what came before */
    return (uint64_t)l->conv_channels * (l->conv_taps - (newest || l->conv_taps == 0 ? 0 : 1));
}

uint64_t vr_layer_state_elements(const vr_layer *l)
{
    return vr_mul_sat((uint64_t)l->state_heads * l->state_rows, l->state_columns);
}

/* As little as any engine does: short vectors, where there are any. */
static uint64_t kept_elements(const vr_layer *l)
{
    bool small = l->attention == VR_ATTENTION_LATENT;
    return (small ? vr_layer_latent_elements(l) : of_heads(l, l->kv_heads)) + vr_layer_index_elements(l);
}

/* Keys and values of all layers at full length, 2 bytes an element (cache_utils.py, DynamicLayer: [B, nkv, S,
 * hd]). */
static void keep_kv(vram_model *m)
{
    m->kv_known = m->cache_unknown == NULL;
    if (!m->kv_known)
        return;
    for (uint64_t i = 0; i < m->n_layers; i++) {
        vr_layer *l = &m->layers[i];
        m->kv_bytes_per_token_16bit += m->structure != VR_ENCODER ? 2 * kept_elements(l) : 0;
        if (l->kv_from != 0 || m->structure == VR_ENCODER)
            continue;
        l->key_elements = (uint64_t)l->kv_heads * l->key_dim;
        l->value_elements = (uint64_t)l->kv_heads * l->value_dim;
        l->state_bytes =
            vr_add_sat(vr_mul_sat(2, vr_layer_conv_elements(l)), vr_mul_sat(4, vr_layer_state_elements(l)));
        m->state_bytes = vr_add_sat(m->state_bytes, l->state_bytes);
    }
}

static vram_status read_config(vr_reading *r)
{
    vram_model *m = r->m;
    vr_json q;
    static vram_status (*const steps[])(vr_reading *) = { vr_read_identity, vr_read_counts, vr_check_shapes,
                                                          vr_read_rotary,   vr_read_layers, vr_read_special,
                                                          vr_read_tower };
    if (r->ck->adapter_only)
        return vr_read_adapter(r);
    if (r->ck->pipeline != NULL) {
        m->architecture = r->ck->pipeline;
        return vr_not_understood(r, T("pipelines of diffusers are not rehearsed yet"));
    }
    if (!r->ck->has_config)
        return vr_not_understood(r, T("there is no config.json"));
    r->root = r->text = r->ck->config;
    if (r->root.type != VR_JSON_OBJECT)
        return vr_config_refuse(r, r->ck->config_file, r->root, "an object");
    for (size_t i = 0; i < sizeof steps / sizeof *steps && m->not_understood == NULL; i++)
        VR_TRY(steps[i](r));
    m->quantised = vr_config_get(r, "quantization_config", &q) ||
                   (vr_json_get(r->root, "quantization_config", &q) && q.type != VR_JSON_NULL) ||
                   (r->ck->config_only && r->ck->quantised_elsewhere);
    return VRAM_OK;
}

/* Nothing half known may be taken for known. */
static void forget(vram_model *m)
{
    m->family = NULL;
    m->n_layers = m->hidden = m->heads = m->kv_heads = m->head_dim = m->ffn = m->vocab = m->max_context = 0;
    m->contradicted = m->cache_unknown = NULL;
    m->n_assumed = 0;
    m->n_predict_layers = 0;
    m->rotary_dim = m->attention_softcap = m->final_softcap = 0;
    m->tied = m->qkv_bias = m->o_bias = m->mlp_bias = m->has_head = false;
    m->prefix = m->head_name = NULL;
    m->naming = NULL;
    m->layers = NULL;
}

static vram_status build(vram_model *m)
{
    vr_reading r = { .m = m, .ck = m->checkpoint, .ctx = m->ctx };
    VR_TRY(vr_read_quantised(m));
    if (m->checkpoint->metadata != NULL) {
        VR_TRY(vr_read_gguf(&r));
        return vr_sum_parameters(m);
    }
    VR_TRY(read_config(&r));
    look_at_dtypes(m);
    m->family = r.family;
    if (m->not_understood != NULL) {
        forget(m);
        return vr_sum_parameters(m);
    }
    VR_TRY(vr_tell_silent(&r));
    keep_kv(m);
    VR_TRY(vr_declare_all(m));
    VR_TRY(vr_count_ahead(&r));
    return vr_sum_parameters(m);
}

static void release(vr_object *self)
{
    vr_arena a = ((vram_model *)(void *)self)->arena;
    vr_arena_free(&a);
}

static uint64_t stored_elements(const vram_model *m)
{
    uint64_t n = 0;
    for (size_t i = 0; i < m->n_declared; i++)
        n = vr_add_sat(n, vr_param_is_stored(m->declared[i].kind) ? m->declared[i].elements : 0);
    return n;
}

/* Without files, what the class declares stands for them; all is then read as if it were stored. */
static vram_status build_on(vram_model *m, const vram_checkpoint *ck)
{
    vram_checkpoint *declared = NULL;
    bool silent = false;
    *m = (vram_model){ .ctx = ck->ctx, .arena = m->arena, .checkpoint = ck };
    VR_TRY(build(m));
    if (!ck->config_only || ck->n_tensors != 0)
        return VRAM_OK;
    VR_TRY(vr_as_declared(&declared, m));
    silent = m->dtype == VR_DTYPE_NONE;
    if (declared != NULL) {
        VR_TRY(build_on(m, declared));
        m->dtype_assumed = silent;
        if (m->parameters == stored_elements(m) && !m->packing.uncountable)
            return VRAM_OK;
        *m = (vram_model){ .ctx = ck->ctx, .arena = m->arena, .checkpoint = ck };
        VR_TRY(build(m)); /* the layouts do not read what was written: then it is not understood */
        VR_TRY(vr_weights_unknown(m));
    }
    m->parameters = m->family != NULL && m->uncounted_part == NULL ? m->declared_parameters : 0;
    m->packing.uncountable = m->parameters == 0;
    return VRAM_OK;
}

vram_status vram_model_new(vram_model **out, const vram_checkpoint *ck)
{
    vr_arena a;
    vr_arena_init(&a, ck->ctx);
    vram_model *m = VR_NEW(&a, vram_model);
    if (m == NULL)
        return VRAM_ENOMEM;
    m->arena = a;
    vram_status s = vr_checkpoint_placed(ck, build_on(m, ck));
    if (s == VRAM_OK && m->arena.starved)
        s = VRAM_ENOMEM;
    if (s != VRAM_OK) {
        a = m->arena;
        vr_arena_free(&a);
        return s;
    }
    vr_object_register(ck->ctx, &m->object, release);
    *out = m;
    return VRAM_OK;
}
