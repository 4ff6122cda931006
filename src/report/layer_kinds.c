/* SPDX-License-Identifier: MIT
 *
 * Layers that are alike, told once: "36 recurrent", "12 full attention, 16 heads of 256, ...".
 */
#include "report/layer_kinds.h"

#define SHOWN_KINDS 12

typedef struct kind {
    const vr_layer *layer; /* the first of them */
    uint64_t n;
} kind;

const char *vr_attention_name(const vr_layer *l)
{
    static const char *const names[] = {
        [VR_ATTENTION_FULL] = "full",           [VR_ATTENTION_SLIDING] = "sliding",
        [VR_ATTENTION_CHUNKED] = "chunked",     [VR_ATTENTION_LATENT] = "latent",
        [VR_ATTENTION_RECURRENT] = "recurrent", [VR_ATTENTION_NONE] = "none",
    };
    return l->attention == VR_ATTENTION_NONE && l->state_bytes != 0 ? "recurrent" : names[l->attention];
}

static const char *mlp_name(const vr_layer *l)
{
    static const char *const names[] = {
        [VR_MLP_GATED] = "gated",     [VR_MLP_GATED_FUSED] = "gated", [VR_MLP_PLAIN] = "plain",
        [VR_MLP_EXPERTS] = "experts", [VR_MLP_NONE] = "none",
    };
    return names[l->mlp];
}

/* ---- numbers of a layer: the field, its key in JSON ---- */

#define NUMBERS(X)                                                                                           \
    X(window, "window")                                                                                      \
    X(heads, "heads")                                                                                        \
    X(kv_heads, "kv_heads")                                                                                  \
    X(key_dim, "key_dim")                                                                                    \
    X(value_dim, "value_dim")                                                                                \
    X(rotary_dim, "rotary_dim")                                                                              \
    X(latent, "latent")                                                                                      \
    X(query_latent, "query_latent")                                                                          \
    X(index_heads, "index_heads")                                                                            \
    X(index_dim, "index_dim")                                                                                \
    X(index_topk, "index_topk")                                                                              \
    X(compress_rate, "compress_rate")                                                                        \
    X(conv_channels, "conv_channels")                                                                        \
    X(conv_taps, "conv_taps")                                                                                \
    X(state_heads, "state_heads")                                                                            \
    X(state_rows, "state_rows")                                                                              \
    X(state_columns, "state_columns")                                                                        \
    X(ffn, "ffn")                                                                                            \
    X(experts, "experts")                                                                                    \
    X(experts_used, "experts_used")                                                                          \
    X(expert_ffn, "expert_ffn")                                                                              \
    X(shared_ffn, "shared_ffn")

static bool alike(const vr_layer *a, const vr_layer *b)
{
    bool same = a->attention == b->attention && a->mlp == b->mlp && (a->kv_from != 0) == (b->kv_from != 0);
#define X(field, key) same = same && a->field == b->field;
    NUMBERS(X)
#undef X
    return same;
}

/* NULL: out of memory. */
static const kind *find_kinds(const vram_model *m, vr_arena *a, size_t *n)
{
    kind *list = VR_ARRAY(a, kind, (size_t)m->n_layers);
    *n = 0;
    for (uint64_t i = 0; list != NULL && i < m->n_layers; i++) {
        size_t k = 0;
        while (k < *n && !alike(list[k].layer, &m->layers[i]))
            k++;
        if (k == *n)
            list[(*n)++].layer = &m->layers[i];
        list[k].n++;
    }
    return list;
}

/* ---- JSON ---- */

static void put_number(vr_json_out *o, const char *key, uint64_t v)
{
    if (v != 0)
        vr_json_kv_u64(o, key, v);
}

static void put_kind(vr_json_out *o, const kind *k)
{
    const vr_layer *l = k->layer;
    vr_json_open(o, '{');
    vr_json_kv_u64(o, "layers", k->n);
    vr_json_kv_text(o, "attention", vr_attention_name(l));
    vr_json_kv_text(o, "mlp", mlp_name(l));
#define X(field, key) put_number(o, key, l->field);
    NUMBERS(X)
#undef X
    vr_json_kv_u64(o, "key_elements", l->key_elements);
    vr_json_kv_u64(o, "value_elements", l->value_elements);
    vr_json_kv_u64(o, "conv_state_elements", vr_layer_conv_elements(l));
    vr_json_kv_u64(o, "recurrent_state_elements", vr_layer_state_elements(l));
    vr_json_kv_bool(o, "shares_cache", l->kv_from != 0);
    vr_json_close(o, '}');
}

void vr_json_layer_kinds(vr_json_out *o, const vram_model *m, vr_arena *a)
{
    size_t n = 0;
    const kind *list = m->family != NULL ? find_kinds(m, a, &n) : NULL;
    if (list == NULL) {
        vr_json_kv_null(o, "layer_kinds");
        return;
    }
    vr_json_key(o, "layer_kinds");
    vr_json_open(o, '[');
    for (size_t i = 0; i < n; i++)
        put_kind(o, &list[i]);
    vr_json_close(o, ']');
}

/* ---- words ---- */

static const char *heads_words(vr_report *r, const vr_layer *l)
{
    const char *text = vr_say(r, T(vr_count(r, l->heads, "head", "heads")), T(" of "), U(l->key_dim));
    if (l->value_dim != l->key_dim)
        text = vr_say(r, T(text), T(" (values "), U(l->value_dim), T(")"));
    if (l->attention != VR_ATTENTION_LATENT && l->kv_heads != l->heads)
        text = vr_say(r, T(text), T(", "), U(l->kv_heads), T(" for keys and values"));
    return text;
}

static const char *state_words(vr_report *r, const vr_layer *l)
{
    const char *text = "recurrent";
    if (l->state_heads != 0)
        text = vr_say(r, T(text), T(", state "), U(l->state_heads), T(" x "), U(l->state_rows), T(" x "),
                      U(l->state_columns));
    if (l->conv_taps != 0)
        text = vr_say(r, T(text), T(", convolution "), GROUPED(l->conv_channels), T(" x "), U(l->conv_taps));
    return text;
}

/* Sparse attention: how tokens are chosen. */
static const char *index_words(vr_report *r, const vr_layer *l)
{
    if (l->index_topk == 0)
        return "";
    if (l->index_heads == 0)
        return vr_say(r, T(", to the tokens that the last index chose"));
    return vr_say(r, T(", to "), GROUPED(l->index_topk), T(" tokens that an index chooses ("),
                  U(l->index_heads), T(" heads of "), U(l->index_dim), T(")"));
}

static const char *compressed_words(vr_report *r, const vr_layer *l)
{
    return l->compress_rate == 0 ? ""
                                 : vr_say(r, T(", and one entry for "), U(l->compress_rate), T(" tokens"));
}

static const char *attention_words(vr_report *r, const vr_layer *l)
{
    const char *heads = l->heads != 0 ? vr_say(r, T(", "), T(heads_words(r, l))) : "";
    const char *shared = l->kv_from != 0 ? ", uses another layer's cache" : "";
    switch (l->attention) {
    case VR_ATTENTION_SLIDING:
        return vr_say(r, T("last "), T(vr_count(r, l->window, "token", "tokens")), T(heads), T(shared),
                      T(compressed_words(r, l)), T(index_words(r, l)));
    case VR_ATTENTION_CHUNKED:
        return vr_say(r, T("chunks of "), T(vr_count(r, l->window, "token", "tokens")), T(heads), T(shared));
    case VR_ATTENTION_LATENT:
        return vr_say(r, T("latent attention, "), U(l->latent), T(" + "), U(l->rotary_dim), T(" a token"),
                      T(heads), T(index_words(r, l)));
    case VR_ATTENTION_RECURRENT:
        return state_words(r, l);
    case VR_ATTENTION_NONE:
        return "no attention";
    default:
        return vr_say(r, T("full attention"), T(heads), T(shared), T(l->conv_taps != 0 ? "; " : ""),
                      T(l->conv_taps != 0 ? state_words(r, l) : ""));
    }
}

static const char *mlp_words(vr_report *r, const vr_layer *l)
{
    if (l->mlp == VR_MLP_NONE)
        return "";
    const char *text = "";
    if (l->mlp != VR_MLP_EXPERTS) /* experts may stand beside it (Gemma 4) */
        text = vr_say(r, T(vr_dot(r)), T("MLP "), GROUPED(l->ffn));
    if (l->experts == 0)
        return text;
    text = vr_say(r, T(text), T(*text != '\0' ? ", " : vr_dot(r)),
                  T(vr_count(r, l->experts, "expert", "experts")), T(" of "), GROUPED(l->expert_ffn), T(", "),
                  U(l->experts_used), T(" for a token"));
    if (l->shared_ffn != 0)
        text = vr_say(r, T(text), T(", shared "), GROUPED(l->shared_ffn));
    return text;
}

bool vr_layers_plain(const vram_model *m)
{
    const vr_layer *l = m->layers;
    for (uint64_t i = 1; i < m->n_layers; i++) {
        if (!alike(l, &m->layers[i]))
            return false;
    }
    return l == NULL ||
           (l->attention == VR_ATTENTION_FULL && l->mlp != VR_MLP_EXPERTS && !vr_layer_keeps_state(l));
}

void vr_say_layer_kinds(vr_report *r, const vram_model *m, unsigned indent)
{
    size_t n = 0;
    const kind *list = m->family != NULL && !vr_layers_plain(m) ? find_kinds(m, &r->arena, &n) : NULL;
    for (size_t i = 0; list != NULL && i < n && i < SHOWN_KINDS; i++)
        vr_para(r, VR_INK_BOLD, i == 0 ? "layers" : "", indent,
                vr_say(r, T(n > 1 ? vr_count(r, list[i].n, "layer: ", "layers: ") : ""),
                       T(attention_words(r, list[i].layer)), T(mlp_words(r, list[i].layer))));
    if (list != NULL && n > SHOWN_KINDS)
        vr_para(r, VR_INK_FAINT, "", indent,
                vr_say(r, T("and "), T(vr_count(r, n - SHOWN_KINDS, "other kind", "other kinds"))));
}
