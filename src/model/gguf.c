/* SPDX-License-Identifier: MIT
 * A GGUF file's keys and tensors to the facts of a model. What runs such a file is llama.cpp, which has no
 * classes: the model is not understood as others are, but its shape is known.
 *
 * Sources: llama.cpp as in llama-cpp-python 0.3.36, src/llama-arch.cpp (names of keys and tensors),
 * src/models/ (load_arch_hparams of each: what is assumed when a key is absent, the pattern of sliding
 * layers), src/llama-model.cpp (load_swa_pattern; create_memory), src/llama-hparams.cpp (n_embd_r, n_embd_s:
 * recurrent state), src/llama-kv-cache.cpp (what is kept of a token), include/llama.h (enum llama_ftype). */
#include "model/reading.h"

#include <string.h>

#define MOST_KEY 160

typedef struct facts {
    vr_reading *r;
    const vr_metadata *keys;
    vr_str arch;
    uint64_t key_width, value_width;                 /* of a head, by the keys; 0: none */
    uint64_t sliding_key_width, sliding_value_width; /* the same of sliding layers */
    bool latent;                                     /* MLA: one vector of a token for all heads, keys only */
    bool warned;                                     /* of a layer whose cache is not as the keys say */
} facts;

/* ---- keys ---- */

/* "llama" and "block_count" to the value, or NULL. */
static const vr_meta *find(const facts *f, const char *name)
{
    char key[MOST_KEY];
    size_t n = strlen(name);
    if (f->arch.n == 0 || f->arch.n + n + 2 > sizeof(key))
        return NULL;
    memcpy(key, f->arch.s, f->arch.n);
    key[f->arch.n] = '.';
    memcpy(key + f->arch.n + 1, name, n + 1);
    return memchr(key, 0, f->arch.n) == NULL ? vr_metadata_get(f->keys, key) : NULL;
}

/* A number for all layers, or one for each of them. */
static bool get_at(const facts *f, const char *name, uint64_t layer, uint64_t *out)
{
    const vr_meta *v = find(f, name);
    return v != NULL && vr_meta_u64(f->keys, v, v->type == VR_META_ARRAY ? layer : 0, out);
}

static uint64_t get(const facts *f, const char *name)
{
    uint64_t v = 0;
    const vr_meta *found = find(f, name);
    return found != NULL && found->type != VR_META_ARRAY && vr_meta_u64(f->keys, found, 0, &v) ? v : 0;
}

/* The one number that all layers share which have any; 0 when they differ or it is beyond reason. */
static uint64_t shared(const facts *f, const char *name, uint64_t n_layers)
{
    uint64_t all = 0, v = 0;
    for (uint64_t i = 0; i < n_layers; i++) {
        if (!get_at(f, name, i, &v) || v == 0)
            continue;
        if (v > VR_MAX_WIDTH || (all != 0 && v != all))
            return 0;
        all = v;
    }
    return all;
}

/* ---- what kind of file it is ---- */

static const struct {
    const char *type, *arch; /* general.type, general.architecture; one of them says it */
    const char *what;
} no_models[] = {
    { "mmproj", "clip", "this is a multimodal projector (mmproj), which llama.cpp loads beside a model" },
    { "adapter", NULL, "this is an adapter (LoRA), which llama.cpp loads on top of a model" },
    { "imatrix", "imatrix", "this is an importance matrix for quantising, no model" },
    { "controlvector", "controlvector", "this is a control vector, which llama.cpp loads beside a model" },
    { "vocab", NULL, "this is a vocabulary without weights" },
};

static const char *not_a_model(const facts *f)
{
    vr_str type = { NULL, 0 };
    (void)vr_metadata_str(f->keys, "general.type", &type);
    for (size_t i = 0; i < sizeof no_models / sizeof *no_models; i++)
        if (vr_str_is(type, no_models[i].type) ||
            (no_models[i].arch != NULL && vr_str_is(f->arch, no_models[i].arch)))
            return no_models[i].what;
    return NULL;
}

static const struct {
    uint16_t number;
    const char *name;
} file_types[] = {
    { 0, "F32" },      { 1, "F16" },      { 2, "Q4_0" },    { 3, "Q4_1" },    { 7, "Q8_0" },
    { 8, "Q5_0" },     { 9, "Q5_1" },     { 10, "Q2_K" },   { 11, "Q3_K_S" }, { 12, "Q3_K_M" },
    { 13, "Q3_K_L" },  { 14, "Q4_K_S" },  { 15, "Q4_K_M" }, { 16, "Q5_K_S" }, { 17, "Q5_K_M" },
    { 18, "Q6_K" },    { 19, "IQ2_XXS" }, { 20, "IQ2_XS" }, { 21, "Q2_K_S" }, { 22, "IQ3_XS" },
    { 23, "IQ3_XXS" }, { 24, "IQ1_S" },   { 25, "IQ4_NL" }, { 26, "IQ3_S" },  { 27, "IQ3_M" },
    { 28, "IQ2_S" },   { 29, "IQ2_M" },   { 30, "IQ4_XS" }, { 31, "IQ1_M" },  { 32, "BF16" },
    { 36, "TQ1_0" },   { 37, "TQ2_0" },   { 38, "MXFP4" },  { 39, "NVFP4" },  { 40, "Q1_0" },
    { 41, "Q2_0" },
};

/* The mixture's name as people know it; the tensors say what they are. */
static const char *file_type(const facts *f)
{
    uint64_t v = 0;
    if (!vr_metadata_u64(f->keys, "general.file_type", &v))
        return NULL;
    v &= ~UINT64_C(1024); /* LLAMA_FTYPE_GUESSED */
    for (size_t i = 0; i < sizeof file_types / sizeof *file_types; i++)
        if (file_types[i].number == v)
            return file_types[i].name;
    return NULL;
}

/* ---- sizes ---- */

static vram_status too_large(facts *f, const char *name, uint64_t value)
{
    return vr_warn(f->r->ctx, f->r->ck->files[0].name, S(f->arch), T("."), T(name), T(" is "), GROUPED(value),
                   T(", more than any model's: the shape is not read"));
}

/* *good becomes false when a number is beyond all reason. */
static vram_status read_sizes(facts *f, bool *good)
{
    vram_model *m = f->r->m;
    const struct {
        const char *name;
        uint64_t most, *to;
    } rows[] = {
        { "block_count", VR_MAX_LAYERS, &m->n_layers },
        { "embedding_length", VR_MAX_WIDTH, &m->hidden },
        { "context_length", VR_MAX_CONTEXT, &m->max_context },
        { "vocab_size", VR_MAX_VOCAB, &m->vocab },
        { "nextn_predict_layers", VR_MAX_LAYERS, &m->n_predict_layers },
        { "attention.key_length", VR_MAX_HEAD_DIM, &f->key_width },
        { "attention.value_length", VR_MAX_HEAD_DIM, &f->value_width },
        { "attention.key_length_swa", VR_MAX_HEAD_DIM, &f->sliding_key_width },
        { "attention.value_length_swa", VR_MAX_HEAD_DIM, &f->sliding_value_width },
        { "expert_count", VR_MAX_WIDTH, &m->experts },
        { "expert_used_count", VR_MAX_WIDTH, &m->experts_used },
        { "expert_feed_forward_length", VR_MAX_WIDTH, &m->expert_ffn },
        { "rope.dimension_count", VR_MAX_HEAD_DIM, &m->rotary_dim },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        *rows[i].to = get(f, rows[i].name);
        if (*rows[i].to <= rows[i].most)
            continue;
        *good = false;
        return too_large(f, rows[i].name, *rows[i].to);
    }
    *good = m->n_layers != 0 && m->n_predict_layers < m->n_layers;
    return VRAM_OK;
}

static void read_heads(facts *f)
{
    vram_model *m = f->r->m;
    uint64_t n = m->n_layers;
    m->heads = shared(f, "attention.head_count", n);
    m->kv_heads =
        find(f, "attention.head_count_kv") != NULL ? shared(f, "attention.head_count_kv", n) : m->heads;
    m->ffn = shared(f, "feed_forward_length", n);
    uint64_t even = m->heads != 0 ? m->hidden / m->heads : 0;
    if (f->key_width == 0)
        f->key_width = even;
    if (f->value_width == 0)
        f->value_width = even;
    if (f->sliding_key_width == 0)
        f->sliding_key_width = f->key_width;
    if (f->sliding_value_width == 0)
        f->sliding_value_width = f->value_width;
    f->latent = get(f, "attention.key_length_mla") != 0 && get(f, "attention.value_length_mla") != 0;
    m->head_dim = f->latent ? get(f, "attention.key_length_mla") : f->key_width;
    m->rotary_dim = m->rotary_dim != 0 ? m->rotary_dim : m->head_dim;
}

static vram_status read_vocabulary(facts *f)
{
    vram_model *m = f->r->m;
    const vr_meta *tokens = vr_metadata_get(f->keys, "tokenizer.ggml.tokens");
    if (m->vocab == 0 && tokens != NULL && tokens->type == VR_META_ARRAY && tokens->count <= VR_MAX_VOCAB)
        m->vocab = tokens->count;
    return VRAM_OK;
}

/* ---- the tensors win ---- */

static vram_status adopt(facts *f, const char *what, uint64_t *value, uint64_t found, const vr_tensor *by)
{
    uint64_t said = *value;
    *value = found;
    if (said == found || said == 0)
        return VRAM_OK;
    return vr_warn(f->r->ctx, f->r->ck->files[by->file].name, S(f->arch), T("."), T(what), T(" would be "),
                   U(said), T(", the tensor "), S(by->name), T(" makes it "), U(found),
                   T(": taken from the tensor"));
}

static vram_status adopt_embedding(facts *f)
{
    vram_model *m = f->r->m;
    const vr_tensor *t = vr_checkpoint_find(f->r->ck, VR_LIT("token_embd.weight"));
    m->head_name = "output.weight";
    m->has_head = vr_checkpoint_find(f->r->ck, VR_LIT("output.weight")) != NULL;
    m->tied = t != NULL && !m->has_head && !f->r->ck->incomplete;
    if (t == NULL || t->n_dims != 2 || t->dims[0] > VR_MAX_WIDTH || t->dims[1] > VR_MAX_VOCAB)
        return VRAM_OK;
    VR_TRY(adopt(f, "embedding_length", &m->hidden, t->dims[0], t));
    return adopt(f, "vocab_size", &m->vocab, t->dims[1], t);
}

/* What the tensors of a layer say of it. */
typedef struct evidence {
    const vr_tensor *k, *v, *latent;
    bool any, fused, absorbed, ssm, conv, rwkv;
} evidence;

static void look_at(evidence *e, const vr_tensor *t, vr_str name)
{
    e->any = true;
    if (vr_str_is(name, "attn_k.weight"))
        e->k = t;
    else if (vr_str_is(name, "attn_v.weight"))
        e->v = t;
    else if (vr_str_is(name, "attn_kv_a_mqa.weight"))
        e->latent = t;
    e->absorbed = e->absorbed || vr_str_is(name, "attn_k_b.weight");
    e->fused = e->fused || vr_str_is(name, "attn_qkv.weight");
    e->ssm = e->ssm || vr_str_starts(name, "ssm_");
    e->conv = e->conv || vr_str_starts(name, "shortconv");
    e->rwkv = e->rwkv || vr_str_starts(name, "time_mix_");
}

/* "blk.17.attn_k.weight" to 17 and "attn_k.weight". */
static bool split(vr_str *name, uint64_t *layer)
{
    vr_str digits;
    if (!vr_str_starts(*name, "blk."))
        return false;
    *name = (vr_str){ name->s + 4, name->n - 4 };
    return vr_str_split(name, '.', &digits) && digits.n <= 9 && name->s != NULL &&
           vr_parse_u64(digits, layer);
}

static vram_status look(facts *f, evidence **out)
{
    const vram_checkpoint *ck = f->r->ck;
    vram_model *m = f->r->m;
    uint64_t layer = 0, n = 0;
    const vr_tensor *last = NULL;
    for (size_t i = 0; i < ck->n_tensors; i++) {
        vr_str name = ck->tensors[i].name;
        if (split(&name, &layer) && layer < VR_MAX_LAYERS && layer >= n) {
            n = layer + 1;
            last = &ck->tensors[i];
        }
    }
    if (last != NULL && (n > m->n_layers || !ck->incomplete))
        VR_TRY(adopt(f, "block_count", &m->n_layers, n, last));
    evidence *all = *out = VR_ARRAY(&m->arena, evidence, (size_t)m->n_layers);
    for (size_t i = 0; all != NULL && i < ck->n_tensors; i++) {
        vr_str name = ck->tensors[i].name;
        if (split(&name, &layer) && layer < m->n_layers)
            look_at(&all[layer], &ck->tensors[i], name);
    }
    return all != NULL ? VRAM_OK : VRAM_ENOMEM;
}

/* ---- layers ---- */

/* Architectures whose layers slide: every `period`-th is full, the last of the period or the first; 0: none
 * is. Others ignore a window unless attention.sliding_window_pattern says which layers it is for. */
typedef struct pattern {
    const char *arch;
    uint8_t period;
    bool full_first;
    uint16_t absent; /* the window when no key has it; 0: none then */
    uint16_t fixed;  /* the window whatever the key has, but for 0; 0: the key's */
    uint8_t layers;  /* only of models with so many; 0: of all */
    bool lists;      /* a list in the file is read; others know a period only and ignore it */
} pattern;

static const pattern patterns[] = {
    { "gemma2", 2, .absent = 4096 },
    { "gemma3", 6 },
    { "gemma3n", 5 },
    { "gemma-embedding", 6 },
    { "modern-bert", 3, .full_first = true },
    { "gpt-oss", 2 },
    { "cohere2", 4 },
    { "cohere2moe", 4, .full_first = true, .lists = true },
    { "llama4", 4, .absent = 8192, .fixed = 8192 },
    { "exaone4", 4, .absent = 4096, .layers = 64 },
    { "exaone-moe", 4 },
    { "olmo2", 4 },
    { "plamo3", 8 },
    { "smallthinker", 4, .full_first = true, .fixed = 4096 },
    { "afmoe", 4 },
    { "laguna", 4, .full_first = true },
    { "mellum", 4, .lists = true },
    { "muse-glimmer", 4, .lists = true },
    { "lfm2", 0 },
};

static const pattern *pattern_of(const facts *f)
{
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++)
        if (vr_str_is(f->arch, patterns[i].arch) &&
            (patterns[i].layers == 0 || patterns[i].layers == f->r->m->n_layers))
            return &patterns[i];
    return NULL;
}

static bool slides(const facts *f, const pattern *p, uint64_t layer)
{
    const vr_meta *said = find(f, "attention.sliding_window_pattern");
    uint64_t period = p != NULL ? p->period : 1, v = 0;
    bool list = said != NULL && said->type == VR_META_ARRAY;
    if (list && (p == NULL || p->lists))
        return vr_meta_u64(f->keys, said, layer, &v) && v != 0;
    if (p != NULL && said != NULL && !list)
        (void)vr_meta_u64(f->keys, said, 0, &period);
    if (period == 0)
        return true;
    return p != NULL && p->full_first ? layer % period != 0 : layer % period < period - 1;
}

/* 0: the layer does not slide. */
static uint64_t window_of(const facts *f, uint64_t layer)
{
    const pattern *p = pattern_of(f);
    bool said = find(f, "attention.sliding_window") != NULL;
    uint64_t window = get(f, "attention.sliding_window");
    if (p != NULL && !said)
        window = p->absent;
    else if (p != NULL && p->fixed != 0 && window != 0)
        window = p->fixed;
    return window <= UINT32_MAX && slides(f, p, layer) ? window : 0;
}

/* llama-hparams.cpp: n_embd_r and n_embd_s, always 32-bit floats. */
static uint64_t state_bytes(const facts *f, const evidence *e)
{
    uint64_t d = f->r->m->hidden, inner = get(f, "ssm.inner_size"), state = get(f, "ssm.state_size");
    uint64_t conv = get(f, "ssm.conv_kernel"), groups = get(f, "ssm.group_count"), n = 0;
    uint64_t shift = get(f, "token_shift_count");
    if (e->ssm)
        n = vr_add_sat(
            vr_mul_sat(vr_sub_floor(conv, 1), vr_add_sat(inner, vr_mul_sat(2, vr_mul_sat(groups, state)))),
            vr_mul_sat(state, inner));
    if (e->conv)
        n = vr_mul_sat(d, vr_sub_floor(get(f, "shortconv.l_cache"), 1));
    if (e->rwkv)
        n = vr_mul_sat(d, vr_add_sat(shift != 0 ? shift : 2, get(f, "wkv.head_size")));
    return vr_mul_sat(n, 4);
}

static uint64_t rows_of(const vr_tensor *t)
{
    return t->n_dims == 2 && t->dims[1] <= VR_MAX_WIDTH ? t->dims[1] : 0;
}

/* Said of the first layer only: all may be so. */
static vram_status adopt_rows(facts *f, const char *what, uint64_t *value, const vr_tensor *by)
{
    uint64_t found = by != NULL ? rows_of(by) : 0;
    if (found == 0 || *value == found)
        return VRAM_OK;
    if (f->warned)
        *value = found;
    f->warned = true;
    return adopt(f, what, value, found, by);
}

/* Elements kept of each token; the tensors' rows where they say it, heads times width otherwise. */
static vram_status read_cache(facts *f, const evidence *e, uint64_t layer, vr_layer *to)
{
    uint64_t heads = f->r->m->heads;
    (void)get_at(f, "attention.head_count", layer, &heads);
    uint64_t kv = heads;
    (void)get_at(f, "attention.head_count_kv", layer, &kv);
    if (kv > VR_MAX_HEADS)
        kv = 0;
    bool sliding = to->attention == VR_ATTENTION_SLIDING;
    to->key_elements = kv * (sliding ? f->sliding_key_width : f->key_width);
    to->value_elements = kv * (sliding ? f->sliding_value_width : f->value_width);
    if (e->latent != NULL && e->absorbed && rows_of(e->latent) != 0) {
        to->value_elements = 0;
        return adopt_rows(f, "attention.key_length", &to->key_elements, e->latent);
    }
    VR_TRY(adopt_rows(f, "attention.head_count_kv times key_length", &to->key_elements, e->k));
    return adopt_rows(f, "attention.head_count_kv times value_length", &to->value_elements, e->v);
}

static bool has_attention(const facts *f, const evidence *e, uint64_t layer)
{
    uint64_t kv = 1;
    if (e->any)
        return e->k != NULL || e->latent != NULL || (e->fused && !e->ssm);
    (void)get_at(f, "attention.head_count_kv", layer, &kv);
    return kv != 0 && f->r->m->heads != 0;
}

static vram_status read_layer(facts *f, const evidence *e, uint64_t layer, vr_layer *to)
{
    uint64_t window = window_of(f, layer);
    to->state_bytes = state_bytes(f, e);
    to->attention = VR_ATTENTION_NONE;
    if (!has_attention(f, e, layer))
        return VRAM_OK;
    to->attention = VR_ATTENTION_FULL;
    if (window != 0) {
        to->attention = VR_ATTENTION_SLIDING;
        to->window = (uint32_t)window;
    }
    return read_cache(f, e, layer, to);
}

/* Architectures and settings with caches of their own kind, or with none at all (those that llama.cpp creates
 * no memory for), which are not worked out here. */
static bool plain_cache(const facts *f)
{
    static const char *const others[] = {
        "t5",
        "t5encoder",
        "kimi-linear",
        "kimi-k3",
        "deepseek32",
        "deepseek4",
        "dots3note",
        "glm-dsa",
        "glm5-next",
        "minimax-01",
        "minimax-m3",
        "bailingmoe3",
        "qwen4exp",
        "hy-v4",
        "dflash",
        "bert",
        "modern-bert",
        "nomic-bert",
        "nomic-bert-moe",
        "neo-bert",
        "eurobert",
        "jina-bert-v2",
        "jina-bert-v3",
        "gemma-embedding",
        "wavtokenizer-dec",
        "dream",
        "llada",
        "llada-moe",
        "rnd1",
    };
    const vr_meta *causal = find(f, "attention.causal");
    uint64_t v = 1;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (vr_str_is(f->arch, others[i]))
            return false;
    if (causal != NULL)
        (void)vr_meta_u64(f->keys, causal, 0, &v);
    return v != 0 && find(f, "attention.indexer.head_count") == NULL;
}

/* Layers that use the cache of an earlier one; gemma3n's first 20 have one of their own. */
static uint64_t own_caches(const facts *f)
{
    uint64_t n = f->r->m->n_layers;
    if (vr_str_is(f->arch, "gemma3n"))
        return n < 20 ? n : 20;
    return vr_sub_floor(n, get(f, "attention.shared_kv_layers"));
}

static vram_status read_layers(facts *f)
{
    vram_model *m = f->r->m;
    evidence *e = NULL;
    VR_TRY(look(f, &e));
    m->n_layers = vr_sub_floor(m->n_layers, m->n_predict_layers);
    m->layers = VR_ARRAY(&m->arena, vr_layer, (size_t)m->n_layers);
    if (m->layers == NULL)
        return VRAM_ENOMEM;
    m->kv_known = plain_cache(f);
    for (uint64_t i = 0; i < m->n_layers; i++) {
        vr_layer *l = &m->layers[i];
        VR_TRY(read_layer(f, &e[i], i, l));
        if (i >= own_caches(f))
            l->key_elements = l->value_elements = 0;
        m->kv_bytes_per_token_16bit += 2 * (l->key_elements + l->value_elements);
        m->state_bytes = vr_add_sat(m->state_bytes, l->state_bytes);
    }
    return VRAM_OK;
}

/* ---- the whole ---- */

/* The type that most bytes are of. */
static vr_dtype main_dtype(const vram_checkpoint *ck)
{
    uint64_t bytes[VR_DTYPE_COUNT] = { 0 };
    vr_dtype best = VR_DTYPE_NONE;
    for (size_t i = 0; i < ck->n_tensors; i++) {
        const vr_tensor *t = &ck->tensors[i];
        bytes[t->dtype] += t->end - t->begin;
        if (bytes[t->dtype] > bytes[best])
            best = (vr_dtype)t->dtype;
    }
    return best;
}

static vram_status read_shape(facts *f)
{
    vram_model *m = f->r->m;
    bool good = false;
    VR_TRY(read_sizes(f, &good));
    if (!good) {
        m->n_layers = m->n_predict_layers = m->hidden = m->max_context = m->vocab = 0;
        m->experts = m->experts_used = m->expert_ffn = m->rotary_dim = 0;
        return VRAM_OK;
    }
    read_heads(f);
    VR_TRY(read_vocabulary(f));
    VR_TRY(adopt_embedding(f));
    VR_TRY(read_layers(f));
    m->shape_known = true;
    return VRAM_OK;
}

vram_status vr_read_gguf(vr_reading *r)
{
    vram_model *m = r->m;
    facts f = { .r = r, .keys = r->ck->metadata };
    m->dtype = main_dtype(r->ck);
    m->quantised = m->gguf = true;
    m->file_type = file_type(&f);
    (void)vr_metadata_str(f.keys, "general.architecture", &f.arch);
    if (f.arch.n != 0 && memchr(f.arch.s, 0, f.arch.n) == NULL) {
        m->architecture = m->model_type = vr_arena_copy(&m->arena, f.arch);
        if (m->architecture == NULL)
            return VRAM_ENOMEM;
    }
    m->not_understood = not_a_model(&f);
    m->foreign = m->not_understood != NULL;
    if (m->foreign)
        return VRAM_OK;
    m->not_understood = "of the engines here llama.cpp and ollama run GGUF files";
    return read_shape(&f);
}
