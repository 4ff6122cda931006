/* SPDX-License-Identifier: MIT
 * Whether keys and tensors of a file say the same. llama.cpp works out each tensor's shape from the keys and
 * loads no file where one is another, so there is nothing to tell of such a file but that.
 *
 * Source: llama.cpp b10470, src/llama-model-loader.cpp (check_tensor_dims, get_key_or_arr,
 * done_getting_tensors), src/llama-hparams.h (LLAMA_MAX_LAYERS, LLAMA_MAX_EXPERTS), src/llama-model.cpp
 * (load_hparams). */
#include "llama/graph.h"

#define MOST_LAYERS 512
#define MOST_EXPERTS 1024
#define MOST_WEIGHTS 1024 /* of a layer, to look for one among the others */

typedef struct agreeing {
    const vr_lm *lm;
    vr_arena *a;
    const char *why; /* the first that was found */
    bool starved;
} agreeing;

static void found(agreeing *c, const char *why)
{
    if (c->why == NULL)
        c->why = why;
    c->starved = c->starved || why == NULL;
}

static void expect_length(agreeing *c, const vr_lm_weight *w, size_t dim, uint64_t expected, const char *key)
{
    if (w->ne[dim] != expected && c->why == NULL)
        found(c, vr_text(c->a, T("llama.cpp does not load the file: "), S(w->tensor->name), T(" has "),
                         U(w->ne[dim]), T(dim == 0 ? " columns, " : " rows, "), T(key), T(" says "),
                         U(expected)));
}

/* ---- keys ---- */

static const vr_meta *key_of(const agreeing *c, const char *key)
{
    const char *whole = vr_text(c->a, S(c->lm->name), T("."), T(key));
    return whole != NULL ? vr_metadata_get(c->lm->keys, whole) : NULL;
}

static void check_list(agreeing *c, const char *key, uint64_t layers)
{
    const vr_meta *v = key_of(c, key);
    if (v != NULL && v->type == VR_META_ARRAY && v->count != layers && c->why == NULL)
        found(c, vr_text(c->a, T("llama.cpp does not load the file: "), T(key), T(" lists "), U(v->count),
                         T(" layers of "), U(layers)));
}

static void check_most(agreeing *c, const char *key, uint64_t most)
{
    uint64_t n = vr_lm_number(c->lm, key, 0);
    if (n > most && c->why == NULL)
        found(c, vr_text(c->a, T("llama.cpp takes no more than "), U(most), T(" as "), T(key),
                         T(", it says "), U(n)));
}

/* Of these there is one for all layers. */
static void check_single(agreeing *c)
{
    static const char *const keys[] = {
        "block_count",
        "context_length",
        "embedding_length",
        "expert_count",
        "expert_used_count",
        "attention.key_length",
        "attention.key_length_mla",
        "attention.key_length_swa",
        "attention.value_length",
        "attention.value_length_mla",
        "attention.value_length_swa",
        "attention.kv_lora_rank",
        "attention.q_lora_rank",
        "attention.sliding_window",
        "attention.shared_kv_layers",
        "rope.dimension_count",
        "leading_dense_block_count",
        "nextn_predict_layers",
        "ssm.conv_kernel",
        "ssm.inner_size",
        "ssm.state_size",
        "ssm.time_step_rank",
        "ssm.group_count",
        "wkv.head_size",
    };
    for (size_t i = 0; i < sizeof keys / sizeof *keys && c->why == NULL; i++) {
        const vr_meta *v = key_of(c, keys[i]);
        if (v != NULL && v->type == VR_META_ARRAY)
            found(c, vr_text(c->a, T("llama.cpp does not load the file: "), T(keys[i]),
                             T(" is a list, not a number")));
    }
}

/* gguf.cpp; of the first version since November 2023, which is before the builds known here */
static void check_format(agreeing *c)
{
    if (c->lm->keys == NULL)
        return;
    if (c->lm->keys->version == 1)
        found(c,
              "llama.cpp does not load the file: it is of version 1 of the GGUF format, which no build since "
              "November 2023 reads; it has to be converted again");
    else if (c->lm->keys->big_endian)
        found(c, "llama.cpp does not load the file: it is for computers that are big-endian");
    else if (c->lm->name.n == 0)
        found(c, "llama.cpp does not load the file: it has no general.architecture");
}

static void check_there(agreeing *c)
{
    static const char *const keys[] = { "context_length", "embedding_length", "block_count" };
    for (size_t i = 0; i < sizeof keys / sizeof *keys && c->why == NULL; i++)
        if (key_of(c, keys[i]) == NULL)
            found(c, vr_text(c->a, T("llama.cpp does not load the file: it has no "), T(keys[i])));
}

static void check_keys(agreeing *c)
{
    uint64_t layers = vr_lm_number(c->lm, "block_count", 0);
    uint64_t experts = vr_lm_number(c->lm, "expert_count", 0);
    check_format(c);
    check_there(c);
    check_single(c);
    check_most(c, "block_count", MOST_LAYERS);
    check_most(c, "expert_count", MOST_EXPERTS);
    check_most(c, "expert_used_count", experts);
    check_list(c, "feed_forward_length", layers);
    check_list(c, "attention.head_count", layers);
    check_list(c, "attention.head_count_kv", layers);
}

/* ---- tensors of no layer ---- */

/* Tokens of the list, or the key where there is none. */
static bool vocabulary(const agreeing *c, const char **key, uint64_t *out)
{
    const vr_meta *tokens = vr_metadata_get(c->lm->keys, "tokenizer.ggml.tokens");
    *key = "the vocabulary";
    if (tokens != NULL && tokens->type == VR_META_ARRAY) {
        *out = tokens->count;
        return true;
    }
    *key = "vocab_size";
    return vr_lm_u64(c->lm, "vocab_size", 0, out);
}

static void check_outside(agreeing *c)
{
    const vr_lm_weight *in = vr_lm_find_outside(c->lm, "token_embd.weight");
    const vr_lm_weight *head = vr_lm_find_outside(c->lm, "output.weight");
    const vr_lm_weight *norm = vr_lm_find_outside(c->lm, "output_norm.weight");
    uint64_t width = 0, words = 0;
    const char *key;
    if (!vr_lm_u64(c->lm, "embedding_length", 0, &width))
        return;
    if (in != NULL)
        expect_length(c, in, 0, width, "embedding_length");
    if (in != NULL && vocabulary(c, &key, &words))
        expect_length(c, in, 1, words, key);
    if (norm != NULL)
        expect_length(c, norm, 0, width, "embedding_length");
    if (head != NULL)
        expect_length(c, head, 0, width, "embedding_length");
    if (head != NULL && in != NULL && !vr_str_is(c->lm->name, "qwen3tts")) /* of sounds, not of words */
        expect_length(c, head, 1, in->ne[1], "token_embd.weight");
}

/* ---- tensors of layers ---- */

/* "attn_q.bias" of "attn_q.weight" */
static bool belongs(vr_str bias, vr_str weight)
{
    size_t stem = bias.n - 4;
    return weight.n == stem + 6 && vr_str_ends(weight, ".weight") &&
           vr_str_eq((vr_str){ weight.s, stem }, (vr_str){ bias.s, stem });
}

static void check_bias(agreeing *c, uint32_t il, const vr_lm_weight *bias)
{
    const vr_lm_layer *l = &c->lm->layers[il];
    for (size_t i = 0; i < l->n_weights; i++) {
        const vr_lm_weight *w = &l->weights[i];
        if (!belongs(bias->name, w->name))
            continue;
        if (w->tensor->n_dims == 1)
            expect_length(c, bias, 0, w->ne[0], "its weight");
        else if (bias->tensor->n_dims == 1)
            expect_length(c, bias, 0, w->ne[1], "its weight");
    }
}

static bool is_norm(vr_str name)
{
    return vr_str_is(name, "attn_norm.weight") || vr_str_is(name, "ffn_norm.weight") ||
           vr_str_is(name, "post_attention_norm.weight") || vr_str_is(name, "post_ffw_norm.weight") ||
           vr_str_is(name, "attn_norm_2.weight") || vr_str_is(name, "attn_output_norm.weight") ||
           vr_str_is(name, "layer_output_norm.weight");
}

static void check_down(agreeing *c, uint32_t il, const vr_lm_weight *w)
{
    uint64_t n = 0;
    if (vr_str_is(c->lm->name, "arctic") || !vr_lm_u64(c->lm, "feed_forward_length", il, &n))
        return;
    expect_length(c, w, 0, vr_str_is(c->lm->name, "qwen") ? n / 2 : n, "feed_forward_length");
}

/* Latent attention: keys say which form the matrices have (is_mla of llama_hparams). */
static void check_latent(agreeing *c, uint32_t il)
{
    bool absorbed = c->lm->n_head_k_mla != 0 && c->lm->n_head_v_mla != 0;
    bool apart = vr_lm_find(c->lm, il, "attn_k_b.weight") != NULL;
    bool one = vr_lm_find(c->lm, il, "attn_kv_b.weight") != NULL;
    if (absorbed && one && !apart)
        found(c,
              "llama.cpp does not load the file: attention.key_length_mla says that there is attn_k_b, and "
              "there is attn_kv_b alone");
    else if (!absorbed && apart && !one)
        found(c, "llama.cpp does not load the file: there is attn_k_b, and no attention.key_length_mla");
}

static void check_layer(agreeing *c, uint32_t il)
{
    const vr_lm_layer *l = &c->lm->layers[il];
    for (size_t i = 0; i < l->n_weights && l->n_weights <= MOST_WEIGHTS && c->why == NULL; i++) {
        const vr_lm_weight *w = &l->weights[i];
        if (is_norm(w->name) && c->lm->n_embd != 0)
            expect_length(c, w, 0, c->lm->n_embd, "embedding_length");
        else if (vr_str_is(w->name, "ffn_down.weight"))
            check_down(c, il, w);
        else if (vr_str_ends(w->name, ".bias"))
            check_bias(c, il, w);
        else if (vr_str_is(w->name, "attn_kv_a_mqa.weight") && c->why == NULL)
            check_latent(c, il);
    }
}

/* llama.cpp counts the tensors that it asked for; here the tensors said how many layers there are. */
static void check_count(agreeing *c)
{
    const vram_model *m = c->lm->model;
    uint64_t layers = vr_lm_number(c->lm, "block_count", 0),
             seen = vr_add_sat(m->n_layers, m->n_predict_layers);
    size_t n = c->lm->n_outside;
    for (uint32_t il = 0; il < c->lm->n_layer_all; il++)
        n += c->lm->layers[il].n_weights;
    if (layers != seen)
        found(c, vr_text(c->a, T("llama.cpp does not load the file: block_count says "), U(layers),
                         T(", it has tensors of "), U(seen), T(" layers")));
    else if (n != m->checkpoint->n_tensors)
        found(c, "llama.cpp does not load the file: it has tensors of more layers than block_count says");
}

/* ---- experts apart ---- */

/* "ffn_gate.7.weight" */
static bool of_one_expert(vr_str name)
{
    vr_str rest = name, stem, number;
    uint64_t n;
    return vr_str_split(&rest, '.', &stem) && rest.s != NULL && vr_str_split(&rest, '.', &number) &&
           (vr_str_is(stem, "ffn_gate") || vr_str_is(stem, "ffn_up") || vr_str_is(stem, "ffn_down")) &&
           number.n <= 9 && vr_parse_u64(number, &n);
}

bool vr_lm_has_split_experts(const vr_lm *lm)
{
    for (uint32_t il = 0; il < lm->n_layer_all; il++) {
        const vr_lm_layer *l = &lm->layers[il];
        for (size_t i = 0; i < l->n_weights; i++) {
            if (of_one_expert(l->weights[i].name))
                return true;
        }
    }
    return false;
}

/* ---- the whole ---- */

vram_status vr_lm_agree(const char **why, const vr_lm *lm, vr_arena *a)
{
    agreeing c = { .lm = lm, .a = a };
    check_keys(&c);
    check_count(&c);
    check_outside(&c);
    for (uint32_t il = 0; il < lm->n_layer_all && c.why == NULL; il++)
        check_layer(&c, il);
    *why = c.why;
    return c.starved ? VRAM_ENOMEM : VRAM_OK;
}
