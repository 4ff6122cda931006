/* SPDX-License-Identifier: MIT
 * A GGUF file as llama.cpp reads it: numbers of keys with its defaults, weights sorted by layer. What a layer
 * is (sliding, with a state) was read with the model; here it is put in llama.cpp's own terms.
 *
 * Source: llama.cpp b10470, src/llama-model.cpp (load_hparams), src/llama-hparams.cpp, src/models/
 * (load_arch_hparams of each). */
#include "llama/generic.h"
#include "llama/traits.h"

#include <string.h>

#define MOST_KEY 160
#define MOST_LAYERS 4096
#define MOST_NUMBER UINT64_C(0x7fffffff) /* of a key: what llama.cpp keeps in 32 bits */

/* ---- keys ---- */

/* "attention.scale" to the value of "llama.attention.scale", or NULL. */
static const vr_meta *find_key(const vr_lm *lm, const char *key)
{
    char whole[MOST_KEY];
    size_t n = strlen(key);
    if (lm->name.n == 0 || lm->name.n + n + 2 > sizeof whole)
        return NULL;
    memcpy(whole, lm->name.s, lm->name.n);
    whole[lm->name.n] = '.';
    memcpy(whole + lm->name.n + 1, key, n + 1);
    return memchr(whole, 0, lm->name.n) == NULL ? vr_metadata_get(lm->keys, whole) : NULL;
}

bool vr_lm_u64(const vr_lm *lm, const char *key, uint32_t il, uint64_t *out)
{
    const vr_meta *v = find_key(lm, key);
    return v != NULL && vr_meta_u64(lm->keys, v, v->type == VR_META_ARRAY ? il : 0, out);
}

bool vr_lm_float(const vr_lm *lm, const char *key, double *out)
{
    const vr_meta *v = find_key(lm, key);
    return v != NULL && v->type != VR_META_ARRAY && vr_meta_double(lm->keys, v, 0, out);
}

bool vr_lm_float_at(const vr_lm *lm, const char *key, uint32_t il, double *out)
{
    const vr_meta *v = find_key(lm, key);
    return v != NULL && vr_meta_double(lm->keys, v, v->type == VR_META_ARRAY ? il : 0, out);
}

bool vr_lm_word(const vr_lm *lm, const char *key, vr_str *out)
{
    const vr_meta *v = find_key(lm, key);
    if (v == NULL || v->type != VR_META_STR)
        return false;
    *out = v->bytes;
    return true;
}

uint64_t vr_lm_number(const vr_lm *lm, const char *key, uint64_t otherwise)
{
    const vr_meta *v = find_key(lm, key);
    uint64_t n = 0;
    return v != NULL && v->type != VR_META_ARRAY && vr_meta_u64(lm->keys, v, 0, &n) ? n : otherwise;
}

/* As vr_lm_number of layer il, within 32 bits. */
static uint32_t at_layer(const vr_lm *lm, const char *key, uint32_t il, uint32_t otherwise)
{
    uint64_t n = otherwise;
    (void)vr_lm_u64(lm, key, il, &n);
    return (uint32_t)(n <= MOST_NUMBER ? n : MOST_NUMBER);
}

static uint32_t number(const vr_lm *lm, const char *key, uint32_t otherwise)
{
    uint64_t n = vr_lm_number(lm, key, otherwise);
    return (uint32_t)(n <= MOST_NUMBER ? n : MOST_NUMBER);
}

/* ---- weights ---- */

/* Asked some thousand times for one graph, mostly in vain: lengths are compared first. */
static const vr_lm_weight *find_in(const vr_lm_weight *list, size_t n, vr_str name)
{
    for (size_t i = 0; i < n; i++) {
        if (list[i].name.n == name.n && vr_str_eq(list[i].name, name))
            return &list[i];
    }
    return NULL;
}

const vr_lm_weight *vr_lm_find(const vr_lm *lm, uint32_t il, const char *name)
{
    const vr_lm_layer *l = il < lm->n_layer_all ? &lm->layers[il] : NULL;
    return l == NULL ? NULL : find_in(l->weights, l->n_weights, vr_str_of(name));
}

const vr_lm_weight *vr_lm_find_outside(const vr_lm *lm, const char *name)
{
    return find_in(lm->outside, lm->n_outside, vr_str_of(name));
}

/* "blk.17.attn_k.weight" to 17 and "attn_k.weight"; false: the tensor is of no layer. */
static bool split_name(vr_str *name, uint64_t *layer)
{
    vr_str digits, rest = *name;
    if (!vr_str_starts(rest, "blk."))
        return false;
    rest = (vr_str){ rest.s + 4, rest.n - 4 };
    if (!vr_str_split(&rest, '.', &digits) || digits.n > 9 || rest.s == NULL || !vr_parse_u64(digits, layer))
        return false;
    *name = rest;
    return true;
}

static vr_lm_weight weight_of(const vr_tensor *t, vr_str name)
{
    vr_lm_weight w = { .name = name, .tensor = t, .type = t->dtype };
    for (size_t i = 0; i < VR_GG_DIMS; i++)
        w.ne[i] = i < t->n_dims ? t->dims[i] : 1;
    return w;
}

/* In the order of the file within each layer. Tensors of layers beyond the last are not loaded. */
static vram_status sort_weights(vr_lm *lm, vr_lm_layer *layers, vr_arena *a)
{
    const vram_checkpoint *ck = lm->model->checkpoint;
    vr_lm_weight *all = VR_ARRAY(a, vr_lm_weight, ck->n_tensors), *at = all;
    vr_lm_weight **next = VR_ARRAY(a, vr_lm_weight *, (size_t)lm->n_layer_all + 1);
    if (all == NULL || next == NULL)
        return VRAM_ENOMEM;
    for (size_t i = 0; i < ck->n_tensors; i++) {
        vr_str name = ck->tensors[i].name;
        uint64_t layer = 0;
        if (!split_name(&name, &layer))
            lm->n_outside++;
        else if (layer < lm->n_layer_all)
            layers[layer].n_weights++;
    }
    for (uint32_t il = 0; il < lm->n_layer_all; at += layers[il].n_weights, il++)
        layers[il].weights = next[il] = at;
    lm->outside = next[lm->n_layer_all] = at;
    for (size_t i = 0; i < ck->n_tensors; i++) {
        vr_str name = ck->tensors[i].name;
        uint64_t layer = lm->n_layer_all;
        bool inside = split_name(&name, &layer);
        if (!inside || layer < lm->n_layer_all)
            *next[inside ? layer : lm->n_layer_all]++ = weight_of(&ck->tensors[i], name);
    }
    return VRAM_OK;
}

/* ---- layers ---- */

static bool is_one_of(vr_str name, const char *const *list)
{
    for (; *list != NULL; list++) {
        if (vr_str_is(name, *list))
            return true;
    }
    return false;
}

/* Of every `period` layers one attends; others keep a state. */
static uint32_t recurrent_period(vr_str arch)
{
    static const char *const four[] = { "qwen3next", "qwen35", "qwen35moe", NULL };
    static const char *const eight[] = { "minimax-01", NULL };
    return is_one_of(arch, four) ? 4 : is_one_of(arch, eight) ? 8 : 0;
}

/* is_recr of llama_hparams; falcon-h1's layers have both. */
static bool recurs(const vr_lm *lm, uint32_t il, const vr_lm_layer *l)
{
    static const char *const without_heads[] = { "jamba",   "plamo2",      "granitehybrid", "lfm2",
                                                 "lfm2moe", "kimi-linear", "kimi-k3",       NULL };
    static const char *const nemotron[] = { "nemotron_h", "nemotron_h_moe", NULL };
    uint32_t period = recurrent_period(lm->name);
    uint64_t v = 0;
    if (vr_lm_has(lm, VR_LM_STATES) || vr_str_is(lm->name, "falcon-h1"))
        return true;
    if (il >= lm->n_layer)
        return false;
    if (is_one_of(lm->name, without_heads))
        return l->n_head_kv == 0;
    if (is_one_of(lm->name, nemotron))
        return l->n_head_kv == 0 && l->n_ff == 0;
    if (period == 0)
        return false;
    if (vr_lm_u64(lm, "attention.recurrent_layers", il, &v))
        return v != 0;
    period = number(lm, "full_attention_interval", period);
    return period == 0 || (il + 1) % period != 0;
}

static void read_heads(const vr_lm *lm, uint32_t il, vr_lm_layer *l, uint32_t heads)
{
    uint32_t even = heads != 0 ? lm->n_embd / heads : 0;
    bool attends = heads != 0;
    uint32_t k = attends ? number(lm, "attention.key_length", even) : 0;
    uint32_t v = attends ? number(lm, "attention.value_length", even) : 0;
    uint32_t rot = attends ? number(lm, "rope.dimension_count", k) : 0;
    if (is_one_of(lm->name, (const char *const[]){ "kimi-k3", NULL }))
        v = lm->n_lora_kv;
    if (vr_str_is(lm->name, "step35") && !l->swa)
        rot /= 2;
    l->head_k = l->swa ? number(lm, "attention.key_length_swa", k) : k;
    l->head_v = l->swa ? number(lm, "attention.value_length_swa", v) : v;
    l->n_rot = l->swa ? number(lm, "rope.dimension_count_swa", rot) : rot;
    (void)il;
}

/* Of an architecture that is not known: of as many layers the last sees every token. */
static uint64_t guessed_window(const vr_lm *lm, uint32_t il)
{
    uint64_t period = vr_lm_number(lm, "attention.sliding_window_pattern", 0);
    bool slides = period > 1 && ((uint64_t)il + 1) % period != 0;
    return slides && vr_lm_arch_find(lm->name) == NULL ? number(lm, "attention.sliding_window", 0) : 0;
}

static void read_layer(vr_lm *lm, uint32_t il, vr_lm_layer *l, uint32_t heads)
{
    const vram_model *m = lm->model;
    const vr_layer *seen = il < m->n_layers ? &m->layers[il] : NULL;
    uint32_t of = m->n_layers != 0 && il >= m->n_layers && lm->loops > 1 ? il % (uint32_t)m->n_layers : il;
    l->n_head = at_layer(lm, "attention.head_count", of, 0);
    l->n_head_kv = at_layer(lm, "attention.head_count_kv", of, l->n_head);
    l->n_ff = at_layer(lm, "feed_forward_length", of, 0);
    l->swa = seen != NULL && seen->attention == VR_ATTENTION_SLIDING && seen->window != 0;
    if (l->swa)
        lm->n_swa = seen->window;
    uint64_t guessed = l->swa ? 0 : guessed_window(lm, il);
    if (guessed != 0) {
        l->swa = true;
        lm->n_swa = (uint32_t)guessed;
    }
    read_heads(lm, il, l, heads);
    l->recurrent = recurs(lm, il, l);
}

static vram_status read_layers(vr_lm *lm, vr_arena *a)
{
    vr_lm_layer *layers = VR_ARRAY(a, vr_lm_layer, lm->n_layer_all);
    if (layers == NULL)
        return VRAM_ENOMEM;
    uint32_t heads = at_layer(lm, "attention.head_count", 0, 0);
    for (uint32_t il = 0; il < lm->n_layer_all; il++)
        read_layer(lm, il, &layers[il], heads);
    lm->layers = layers;
    return sort_weights(lm, layers, a);
}

/* ---- the whole ---- */

/* Of a file whose keys do not say its shape. */
static uint32_t layers_named(const vram_checkpoint *ck)
{
    uint32_t n = 0;
    for (size_t i = 0; i < ck->n_tensors; i++) {
        vr_str name = ck->tensors[i].name;
        uint64_t layer = 0;
        if (split_name(&name, &layer) && layer < MOST_LAYERS && layer >= n)
            n = (uint32_t)layer + 1;
    }
    return n;
}

static void read_numbers(vr_lm *lm)
{
    const vram_model *m = lm->model;
    lm->n_layer_nextn = (uint32_t)m->n_predict_layers;
    lm->n_layer = m->n_layers != 0 ? (uint32_t)m->n_layers : layers_named(m->checkpoint);
    lm->loops = vr_str_is(lm->name, "nanbeige") ? number(lm, "num_loops", 1) : 1;
    if (lm->loops > 1 && lm->loops <= MOST_LAYERS && lm->n_layer <= MOST_LAYERS / lm->loops)
        lm->n_layer *= lm->loops;
    else
        lm->loops = 1;
    lm->n_layer_all = lm->n_layer + lm->n_layer_nextn;
    lm->n_embd = (uint32_t)m->hidden;
    lm->n_vocab = (uint32_t)m->vocab;
    lm->n_ctx_train = (uint32_t)(m->max_context <= MOST_NUMBER ? m->max_context : MOST_NUMBER);
    lm->n_expert = number(lm, "expert_count", 0);
    lm->n_expert_used = number(lm, "expert_used_count", 0);
    lm->n_lora_q = number(lm, "attention.q_lora_rank", 0);
    lm->n_lora_kv = number(lm, "attention.kv_lora_rank", 0);
    lm->n_head_k_mla = number(lm, "attention.key_length_mla", 0);
    lm->n_head_v_mla = number(lm, "attention.value_length_mla", 0);
    lm->ssm_conv = number(lm, "ssm.conv_kernel", 0);
    lm->ssm_inner = number(lm, "ssm.inner_size", 0);
    lm->ssm_state = number(lm, "ssm.state_size", 0);
    lm->ssm_rank = number(lm, "ssm.time_step_rank", 0);
    lm->ssm_groups = number(lm, "ssm.group_count", 0);
    lm->causal = number(lm, "attention.causal", 1) != 0;
    lm->tied = m->tied;
}

static const char *why_none(const vram_model *m)
{
    if (!m->gguf)
        return "it is no GGUF file";
    if (m->foreign)
        return m->not_understood;
    return m->hidden > MOST_NUMBER || m->vocab > MOST_NUMBER ? "its numbers make no sense" : NULL;
}

static void find_graph(vr_lm *lm)
{
    lm->arch = vr_lm_arch_find(lm->name);
    if (lm->arch != NULL)
        return;
    lm->why_no_graph = vr_lm_not_generic(lm);
    lm->guessed = lm->why_no_graph == NULL;
    if (lm->guessed)
        lm->arch = &vr_lm_arch_generic;
}

vram_status vr_lm_of(const vr_lm **out, const char **why, const vram_model *m, vr_arena *a)
{
    *out = NULL;
    *why = why_none(m);
    if (*why != NULL)
        return VRAM_OK;
    vr_lm *lm = VR_NEW(a, vr_lm);
    if (lm == NULL)
        return VRAM_ENOMEM;
    lm->model = m;
    lm->keys = m->checkpoint->metadata;
    lm->name = vr_str_of(m->architecture);
    lm->traits = vr_lm_traits_of(lm->name);
    read_numbers(lm);
    VR_TRY(read_layers(lm, a));
    lm->split_experts = vr_lm_has_split_experts(lm);
    find_graph(lm);
    VR_TRY(vr_lm_agree(&lm->disagrees, lm, a));
    *out = lm;
    return VRAM_OK;
}
