/* SPDX-License-Identifier: MIT
 * The decoder's settings in config.json, each checked; what is absent has the default of its class, as in
 * transformers (models/<name>/configuration_<name>.py, 5.24; data/architectures.tsv). null means what None
 * means there: no window, as many key-value heads as heads, head_dim = hidden / heads. */
#include "model/special.h"

static vram_status check_count(const vr_reading *r, const char *key, vr_json v, uint64_t max, uint64_t *out)
{
    const char *expected = "a whole number";
    if (vr_json_u64(v, out) && *out >= 1 && *out <= max)
        return VRAM_OK;
    expected = vr_text(&r->m->arena, T("a whole number from 1 to "), U(max));
    return expected != NULL ? vr_config_refuse(r, key, v, expected) : VRAM_ENOMEM;
}

vram_status vr_config_count(const vr_reading *r, const char *key, uint64_t max, uint64_t fallback,
                            uint64_t *out)
{
    vr_json v;
    *out = fallback;
    if (vr_config_get(r, key, &v))
        return check_count(r, key, v, max, out);
    vr_note_silent(r, key, fallback);
    return VRAM_OK;
}

vram_status vr_config_count_or_none(const vr_reading *r, const char *key, uint64_t max, uint64_t fallback,
                                    uint64_t *out)
{
    vr_json v;
    uint64_t n;
    if (vr_config_get(r, key, &v) && vr_json_u64(v, &n) && n == 0) {
        *out = 0;
        return VRAM_OK;
    }
    return vr_config_count(r, key, max, fallback, out);
}

vram_status vr_config_count_each(const vr_reading *r, const vr_config_row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++)
        VR_TRY(vr_config_count(r, rows[i].key, rows[i].most, rows[i].silent, rows[i].to));
    return VRAM_OK;
}

vram_status vr_config_count_over(const vr_reading *r, const char *over, const char *key, uint64_t max,
                                 uint64_t fallback, uint64_t *out)
{
    VR_TRY(vr_config_count(r, key, max, fallback, out));
    return vr_config_count(r, over, max, *out, out);
}

static vram_status flag_in(const vr_reading *r, vr_json place, const char *key, bool *found, bool *out)
{
    vr_json v;
    *found = vr_json_get(place, key, &v) && v.type != VR_JSON_NULL;
    if (*found && !vr_json_bool(v, out))
        return vr_config_refuse(r, key, v, "true or false");
    return VRAM_OK;
}

vram_status vr_config_flag(const vr_reading *r, const char *key, bool *out)
{
    bool found;
    return flag_in(r, r->text, key, &found, out);
}

/* Where a model stands around the decoder, its word on tying counts (modeling_utils.py, 5.24). */
static vram_status read_tied(vr_reading *r)
{
    bool found;
    r->m->tied = r->family->tied_default;
    VR_TRY(flag_in(r, r->root, "tie_word_embeddings", &found, &r->m->tied));
    return found ? VRAM_OK : flag_in(r, r->text, "tie_word_embeddings", &found, &r->m->tied);
}

static vram_status read_flags(vr_reading *r)
{
    vram_model *m = r->m;
    const vr_family *f = r->family;
    const struct {
        const char *key;
        bool *value, by_class;
    } biases[] = { { f->qkv_bias_key, &m->qkv_bias, f->qkv_bias },
                   { f->o_bias_key, &m->o_bias, f->o_bias },
                   { f->mlp_bias_key, &m->mlp_bias, f->mlp_bias } };
    for (size_t i = 0; i < sizeof biases / sizeof *biases; i++) {
        *biases[i].value = biases[i].by_class;
        if (biases[i].key != NULL)
            VR_TRY(vr_config_flag(r, biases[i].key, biases[i].value));
    }
    return read_tied(r);
}

/* A cap that the class applies: unless the config says null, or only when it gives one. */
static vram_status softcap(const vr_reading *r, uint8_t kind, const char *key, uint64_t *out)
{
    vr_json v;
    bool there = kind != VR_SOFTCAP_NONE && vr_json_get(r->text, key, &v);
    if (there && v.type != VR_JSON_NUMBER && v.type != VR_JSON_NULL)
        return vr_config_refuse(r, key, v, "a number or null");
    *out = there ? v.type == VR_JSON_NUMBER : kind == VR_SOFTCAP_ON;
    return VRAM_OK;
}

static vram_status read_heads(vr_reading *r)
{
    vram_model *m = r->m;
    const vr_family *f = r->family;
    vr_json v;
    VR_TRY(vr_config_count(r, "num_attention_heads", VR_MAX_HEADS, f->heads_default, &m->heads));
    bool silent = !vr_config_says(r, "num_key_value_heads", &v);
    uint64_t fallback = silent && f->kv_heads_default != 0 ? f->kv_heads_default : m->heads;
    VR_TRY(vr_config_count(r, "num_key_value_heads", VR_MAX_HEADS, fallback, &m->kv_heads));
    if (m->heads % m->kv_heads != 0) {
        if (!silent && v.type != VR_JSON_NULL)
            return vr_config_refuse(r, "num_key_value_heads", v, "a divisor of num_attention_heads");
        return vr_not_understood(r, T("num_attention_heads, "), U(m->heads),
                                 T(", is no multiple of the class's "), U(m->kv_heads),
                                 T(" key-value heads"));
    }
    return vr_config_count(r, "head_dim", VR_MAX_HEAD_DIM, f->head_dim_default, &m->head_dim);
}

/* head_dim when nobody gives it. */
static vram_status divide_hidden(vr_reading *r)
{
    vram_model *m = r->m;
    vr_json v;
    if (m->head_dim != 0)
        return VRAM_OK;
    if (m->hidden % m->heads == 0 && m->hidden / m->heads <= VR_MAX_HEAD_DIM) {
        m->head_dim = m->hidden / m->heads;
        return VRAM_OK;
    }
    if (vr_config_get(r, "hidden_size", &v))
        return vr_config_refuse(r, "hidden_size", v,
                                "a multiple of num_attention_heads, and head_dim is absent");
    return vr_not_understood(r, T("hidden_size and head_dim are absent"));
}

/* inv_freq has an entry for each second of them, the last included, and cos and sin twice as many: that much
 * of a head is turned (modeling_rope_utils.py, compute_default_rope_parameters). */
uint64_t vr_in_pairs(uint64_t rotated, uint64_t head)
{
    return rotated + (rotated < head ? rotated & 1 : 0);
}

/* Rotated part of each head (modeling_phi3.py, compute_default_rope_parameters). */
vram_status vr_read_rotary(vr_reading *r)
{
    static const char *const keys[] = { "rope_parameters.partial_rotary_factor", "partial_rotary_factor" };
    vram_model *m = r->m;
    const vr_family *f = r->family;
    vr_json v;
    double factor;
    m->rotary_dim = m->head_dim;
    if (f->rotary_percent != 0)
        m->rotary_dim = vr_in_pairs(m->head_dim * f->rotary_percent / 100, m->head_dim);
    for (size_t i = 0; f->rotary_percent != 0 && i < 2; i++) {
        if (!vr_config_get(r, keys[i], &v))
            continue;
        if (!vr_json_double(v, &factor) || !(factor > 0) || factor > 1)
            return vr_config_refuse(r, "partial_rotary_factor", v, "a number over 0 and up to 1");
        m->rotary_dim = vr_in_pairs((uint64_t)((double)m->head_dim * factor), m->head_dim);
        return VRAM_OK;
    }
    return VRAM_OK;
}

/* Names of DeepSeek-V3 and what followed it. Only tells which left-out tensors are expected. */
static void read_predict_layers(vr_reading *r)
{
    vr_json v;
    uint64_t n;
    if (vr_config_get(r, "num_nextn_predict_layers", &v) && vr_json_u64(v, &n))
        r->m->n_predict_layers = n;
}

/* Whether config.json says of this key what the class is described for: true, false, a number, or the name of
 * another setting. Silence does. */
static vram_status says_only(vr_reading *r, const char *key, vr_str wanted, bool *good)
{
    vr_json v;
    uint64_t n, expected = r->m->hidden;
    *good = true;
    if (!vr_config_get(r, key, &v))
        return VRAM_OK;
    if (vr_str_is(wanted, "true") || vr_str_is(wanted, "false")) {
        VR_TRY(vr_config_flag(r, key, good));
        *good = *good == vr_str_is(wanted, "true");
        return VRAM_OK;
    }
    if (!vr_str_is(wanted, "hidden_size") && !vr_parse_u64(wanted, &expected))
        return VRAM_OK;
    *good = vr_json_u64(v, &n) && n == expected;
    return VRAM_OK;
}

/* Settings that change the modules of a class to what its row does not describe. */
static vram_status check_only(vr_reading *r)
{
    vr_str key, wanted, rest = vr_str_of(r->family->only);
    while (r->m->not_understood == NULL && vr_next_pair(&rest, &key, &wanted)) {
        bool good;
        const char *name = vr_arena_copy(&r->m->arena, key);
        if (name == NULL)
            return VRAM_ENOMEM;
        VR_TRY(says_only(r, name, wanted, &good));
        if (!good)
            VR_TRY(vr_not_understood(r, T(r->family->class_name), T(" is known only with "), S(key), T(" "),
                                     S(wanted)));
    }
    return VRAM_OK;
}

uint8_t vr_activation_named(vr_str word)
{
    static const struct {
        const char *word;
        uint8_t kind;
    } known[] = { { "silu", VR_ACT_ONE },         { "swish", VR_ACT_ONE },
                  { "gelu", VR_ACT_ONE },         { "gelu_pytorch_tanh", VR_ACT_ONE },
                  { "relu", VR_ACT_ONE },         { "relu2", VR_ACT_RELU2 },
                  { "gelu_new", VR_ACT_GELU_NEW } };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (vr_str_is(word, known[i].word))
            return known[i].kind;
    return VR_ACT_UNKNOWN;
}

static vram_status read_activation(vr_reading *r)
{
    static const char *const keys[] = { "hidden_activation", "hidden_act" };
    vr_json v;
    vr_str word = { NULL, 0 };
    r->m->activation = r->family->activation;
    for (size_t k = 0; k < 2; k++) {
        if (!vr_config_get(r, keys[k], &v))
            continue;
        if (v.type == VR_JSON_STRING && !vr_json_str(v, &r->m->arena, &word))
            return VRAM_ENOMEM;
        r->m->activation = vr_activation_named(word);
        return VRAM_OK;
    }
    return VRAM_OK;
}

/* A multimodal model has its decoder's settings in text_config. Where somebody wrote them flat, the class's
 * defaults stand for none of them. */
static vram_status check_flat(vr_reading *r)
{
    static const char *const keys[] = { "hidden_size", "intermediate_size", "num_hidden_layers",
                                        "vocab_size" };
    vr_json v;
    if (!vr_family_wrapped(r->family, vr_str_of(r->m->model_type)) || vr_json_get(r->root, "text_config", &v))
        return VRAM_OK;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (!vr_config_get(r, keys[i], &v))
            return vr_not_understood(r, T("config.json has no text_config and does not state "), T(keys[i]));
    return VRAM_OK;
}

/* Where there may be one for each layer, its kind reads them. */
static vram_status read_ffn(vr_reading *r)
{
    uint64_t silent = r->family->ffn_default != 0 ? r->family->ffn_default : 4 * r->m->hidden;
    vr_json v;
    r->m->ffn = silent;
    if (r->family->ffn_by_layer && vr_config_get(r, "intermediate_size", &v) && v.type == VR_JSON_ARRAY)
        return VRAM_OK;
    return vr_config_count(r, "intermediate_size", VR_MAX_WIDTH, silent, &r->m->ffn);
}

vram_status vr_read_counts(vr_reading *r)
{
    vram_model *m = r->m;
    const vr_family *f = r->family;
    VR_TRY(check_flat(r));
    if (m->not_understood != NULL)
        return VRAM_OK;
    VR_TRY(vr_config_count(r, "num_hidden_layers", VR_MAX_LAYERS, f->layers_default, &m->n_layers));
    VR_TRY(vr_config_count(r, "hidden_size", VR_MAX_WIDTH, f->hidden_default, &m->hidden));
    VR_TRY(read_ffn(r));
    VR_TRY(vr_config_count(r, "vocab_size", VR_MAX_VOCAB, f->vocab_default, &m->vocab));
    VR_TRY(
        vr_config_count(r, "max_position_embeddings", VR_MAX_CONTEXT, f->context_default, &m->max_context));
    VR_TRY(read_heads(r));
    if (m->not_understood == NULL)
        VR_TRY(divide_hidden(r));
    VR_TRY(softcap(r, f->attention_softcap, "attn_logit_softcapping", &m->attention_softcap));
    VR_TRY(softcap(r, f->final_softcap, "final_logit_softcapping", &m->final_softcap));
    read_predict_layers(r);
    VR_TRY(check_only(r));
    VR_TRY(read_activation(r));
    return read_flags(r);
}

/* ---- attention kind of each layer ---- */

/* Tokens of a sliding layer; 0: there are none. */
static vram_status read_window(vr_reading *r, uint64_t *window)
{
    const vr_family *f = r->family;
    vr_json v;
    bool use = false, both_ways = false;
    *window = f->window_default;
    if (vr_config_says(r, "sliding_window", &v)) {
        *window = 0;
        if (v.type != VR_JSON_NULL)
            VR_TRY(check_count(r, "sliding_window", v, VR_MAX_CONTEXT, window));
    }
    if (f->window_rule == VR_WINDOW_LAYERS)
        VR_TRY(vr_config_flag(r, "use_sliding_window", &use));
    if (f->window_rule == VR_WINDOW_LAYERS && !use)
        *window = 0;
    if (f->reads_bidirectional)
        VR_TRY(vr_config_flag(r, "use_bidirectional_attention", &both_ways));
    if (both_ways && *window != 0)
        *window = *window / 2 + 1;
    *window =
        *window > UINT32_MAX ? UINT32_MAX : *window; /* longer than any context that could be computed */
    return VRAM_OK;
}

/* Layers that turn nothing by position: those of full attention beside sliding ones (cohere2, exaone4). */
static uint32_t rotated(const vram_model *m, const vr_family *f, bool slides, uint64_t window)
{
    bool none = f->rope == VR_ROPE_NONE || (f->full_unrotated && !slides && window != 0);
    return none ? 0 : (uint32_t)m->rotary_dim;
}

static void set_layer(const vram_model *m, const vr_family *f, uint64_t i, bool slides, uint64_t window)
{
    vr_layer *l = &m->layers[i];
    *l = (vr_layer){ .mlp = f->mlp,
                     .heads = (uint32_t)m->heads,
                     .kv_heads = (uint32_t)m->kv_heads,
                     .key_dim = (uint32_t)m->head_dim,
                     .value_dim = (uint32_t)m->head_dim,
                     .rotary_dim = rotated(m, f, slides, window),
                     .ffn = (uint32_t)m->ffn };
    l->attention = slides ? VR_ATTENTION_SLIDING : VR_ATTENTION_FULL;
    l->window = slides ? (uint32_t)window : 0;
}

static const vr_layer_word *find_word(const vr_layer_word *words, vr_json v)
{
    for (; words->word != NULL; words++)
        if (vr_json_str_is(v, words->word))
            return words;
    return NULL;
}

vram_status vr_config_words(vr_reading *r, const char *key, vr_json list, const vr_layer_word *words,
                            uint8_t *kinds, uint64_t *n)
{
    vr_json_iter it = vr_json_each(list);
    vr_json v;
    *n = 0;
    if (list.type != VR_JSON_ARRAY)
        return vr_config_refuse(r, key, list, "an array");
    for (; vr_json_next(&it, &v); ++*n) {
        const vr_layer_word *w = find_word(words, v);
        if (w == NULL)
            return vr_not_understood(r, T(key), T(" has a kind of layer that is not known, at layer "),
                                     U(*n));
        if (*n < r->m->n_layers)
            kinds[*n] = w->kind;
    }
    return VRAM_OK;
}

vram_status vr_config_wrong_length(vr_reading *r, const char *key, uint64_t n)
{
    return vr_not_understood(r, T(key), T(" has "), U(n), T(n == 1 ? " layer" : " layers"),
                             T(", num_hidden_layers is "), U(r->m->n_layers));
}

vram_status vr_config_layer_kinds(vr_reading *r, const char *const *keys, const vr_layer_word *words,
                                  uint8_t *kinds, bool *given)
{
    vr_json list;
    uint64_t n;
    for (*given = false; *keys != NULL && !*given; keys++) {
        *given = vr_config_get(r, *keys, &list);
        if (!*given)
            continue;
        VR_TRY(vr_config_words(r, *keys, list, words, kinds, &n));
        if (r->m->not_understood == NULL && n != r->m->n_layers)
            return vr_config_wrong_length(r, *keys, n);
    }
    return VRAM_OK;
}

static vram_status layers_by_list(vr_reading *r, uint64_t window, bool *given)
{
    static const char *const keys[] = { "layer_types", NULL };
    static const vr_layer_word words[] = { { "sliding_attention", VR_ATTENTION_SLIDING },
                                           { "full_attention", VR_ATTENTION_FULL },
                                           { "attention", VR_ATTENTION_FULL }, /* the older word */
                                           { NULL, 0 } };
    vram_model *m = r->m;
    uint8_t *kinds = VR_ARRAY(&m->arena, uint8_t, (size_t)m->n_layers);
    if (kinds == NULL)
        return VRAM_ENOMEM;
    VR_TRY(vr_config_layer_kinds(r, keys, words, kinds, given));
    for (uint64_t i = 0; *given && m->not_understood == NULL && i < m->n_layers; i++) {
        bool slides = kinds[i] == VR_ATTENTION_SLIDING;
        if (slides && window == 0)
            return vr_not_understood(r, T("layer_types has sliding layers but there is no sliding_window"));
        set_layer(m, r->family, i, slides, window);
    }
    return VRAM_OK;
}

/* max_window_layers may be 0: all layers slide. */
static vram_status first_sliding(vr_reading *r, uint64_t *from)
{
    vr_json v;
    *from = r->family->max_window_layers;
    if (!vr_config_get(r, "max_window_layers", &v))
        return VRAM_OK;
    return vr_json_u64(v, from) ? VRAM_OK : vr_config_refuse(r, "max_window_layers", v, "a whole number");
}

static vram_status layers_by_rule(vr_reading *r, uint64_t window)
{
    const vr_family *f = r->family;
    vram_model *m = r->m;
    uint64_t from = 0, pattern = f->sliding_pattern;
    if (f->window_rule == VR_WINDOW_LAYERS)
        VR_TRY(first_sliding(r, &from));
    if (f->reads_pattern)
        VR_TRY(vr_config_count(r, "sliding_window_pattern", VR_MAX_LAYERS, pattern, &pattern));
    if (f->window_rule == VR_WINDOW_PATTERN && window == 0)
        return vr_not_understood(r, T("this architecture has sliding layers but there is no sliding_window"));
    for (uint64_t i = 0; i < m->n_layers; i++) {
        bool slides = window != 0 && i >= from;
        if (f->window_rule == VR_WINDOW_PATTERN)
            slides = (i + 1) % pattern != 0;
        set_layer(m, f, i, slides, window);
    }
    return VRAM_OK;
}

static void all_full(vram_model *m, const vr_family *f)
{
    for (uint64_t i = 0; i < m->n_layers; i++)
        set_layer(m, f, i, false, 0);
}

/* no_rope_layers: 1 where a layer is rotated; else all but every no_rope_layer_interval-th are (smollm3). */
static vram_status unrotate_some(vr_reading *r)
{
    vram_model *m = r->m;
    uint64_t interval, i = 0, rotates;
    vr_json list, v;
    VR_TRY(vr_config_count(r, "no_rope_layer_interval", VR_MAX_LAYERS, 4, &interval));
    if (!vr_config_get(r, "no_rope_layers", &list)) {
        for (i = interval - 1; i < m->n_layers; i += interval)
            m->layers[i].rotary_dim = 0;
        return VRAM_OK;
    }
    if (list.type != VR_JSON_ARRAY)
        return vr_config_refuse(r, "no_rope_layers", list, "an array");
    for (vr_json_iter it = vr_json_each(list); vr_json_next(&it, &v) && i < m->n_layers; i++) {
        if (!vr_json_u64(v, &rotates) || rotates > 1)
            return vr_config_refuse(r, "no_rope_layers", v, "0 or 1");
        m->layers[i].rotary_dim = rotates != 0 ? m->layers[i].rotary_dim : 0;
    }
    return VRAM_OK;
}

static vram_status set_layers(vr_reading *r, uint64_t window)
{
    bool given;
    VR_TRY(layers_by_list(r, window, &given));
    return given ? VRAM_OK : layers_by_rule(r, window);
}

vram_status vr_read_layers(vr_reading *r)
{
    const vr_special *special = vr_special_of(r->family);
    vram_model *m = r->m;
    uint64_t window;
    if (special != NULL && special->own_kinds) {
        m->layers = VR_ARRAY(&m->arena, vr_layer, (size_t)m->n_layers);
        if (m->layers != NULL)
            all_full(m, r->family);
        return m->layers != NULL ? VRAM_OK : VRAM_ENOMEM;
    }
    VR_TRY(read_window(r, &window));
    m->layers = VR_ARRAY(&m->arena, vr_layer, (size_t)m->n_layers);
    if (m->layers == NULL)
        return VRAM_ENOMEM;
    VR_TRY(set_layers(r, window));
    return r->family->some_unrotated ? unrotate_some(r) : VRAM_OK;
}
