/* SPDX-License-Identifier: MIT
 * Engine llama.cpp on one CUDA card: what of a GGUF file lies on the card, and its caches. Of another
 * checkpoint the file that llama.cpp's converter would write of it, in 16 bits.
 *
 * Source: llama.cpp b10470 of 2026-08-17. src/llama-model.cpp (load_tensors: which layer lies where),
 * ggml/src/ggml-cuda/ggml-cuda.cu (get_alloc_size: rows of quantised types are filled up to 512 elements,
 * alignment 128), src/llama-kv-cache.cpp, llama-kv-cache-iswa.cpp, llama-memory-recurrent.cpp,
 * llama-hparams.cpp, llama-context.cpp (cells); convert_hf_to_gguf.py (one-dimensional tensors stay in 32
 * bits). */
#include "engine/kv_rules.h"
#include "engine/options.h"

#define REST "its compute buffer, CUDA's context and the pool of its kernels are not worked out here yet"
#define ALIGNMENT 128
#define ROW_PADDING 512
#define CELLS 256 /* n_ctx and the cells of sliding layers are filled up to that since b6975 */
#define OLDEST 6975
#define BATCH 2048 /* -b */
#define UBATCH 512 /* -ub */
#define ALL_LAYERS UINT64_MAX

static vram_status version(vram_workload *w, vr_str text)
{
    unsigned build, minor;
    if (!vr_version_numbers(text, "b", &build, &minor) || minor != 0)
        return vr_fail(w->ctx, VRAM_ESETTING, T("--engine-version '"), S(text),
                       T("': must be a build of llama.cpp, such as b10470"));
    if (build < OLDEST)
        return vr_fail(w->ctx, VRAM_ESETTING, T("llama.cpp "), S(text),
                       T(" is not known; the oldest known is b"), U(OLDEST));
    w->version_major = build;
    w->version_minor = 0;
    w->torch_given = false;
    return VRAM_OK;
}

static const char *version_text(const vram_workload *w, vr_arena *a)
{
    return vr_text(a, T("b"), U(w->version_major));
}

/* ---- settings ---- */

static const vr_word types[] = {
    { "f16", VR_F16 },   { "f32", VR_F32 },   { "bf16", VR_BF16 }, { "q8_0", VR_Q8_0 },
    { "q4_0", VR_Q4_0 }, { "q4_1", VR_Q4_1 }, { "q5_0", VR_Q5_0 }, { "iq4_nl", VR_IQ4_NL },
    { "q5_1", VR_Q5_1 }, { NULL, 0 },
};

static vram_status set_layers(vram_workload *w, const vram_option *o, vr_str value)
{
    if (vr_str_is(value, "all") || vr_str_is(value, "-1")) {
        w->gpu_layers = ALL_LAYERS;
        return VRAM_OK;
    }
    return vr_option_count(w, o, value, &w->gpu_layers);
}

static const char *show_layers(const vram_workload *w, vr_arena *a)
{
    return w->gpu_layers == ALL_LAYERS ? "all" : vr_text(a, U(w->gpu_layers));
}

VR_OPTION_WORDS(k, types, cache_k)

VR_OPTION_WORDS(v, types, cache_v)

VR_OPTION_COUNT(ubatch, ubatch)

VR_OPTION_FLAG(swa_full, swa_full)
VR_OPTION_FLAG(kv_unified, kv_unified)
VR_OPTION_FLAG(no_kv_offload, no_kv_offload)

#define TYPES "f16|f32|bf16|q8_0|q4_0|q4_1|iq4_nl|q5_0|q5_1"

static const vr_option_row own[] = {
    { { "n_gpu_layers", "--n-gpu-layers --gpu-layers -ngl", VRAM_OPT_STRING, "N", NULL, "all",
        "llama.cpp: layers that lie on the card, from the last on; all or a number.", "fit", 0,
        VR_MOST_TOKENS },
      VR_SET_GPU_LAYERS,
      set_layers,
      show_layers },
    { { "cache_type_k", "--cache-type-k -ctk", VRAM_OPT_CHOICE, "TYPE", TYPES, "f16",
        "llama.cpp: what keys are kept as.", "fit", 0, 0 },
      VR_SET_CACHE_TYPE_K,
      set_k,
      show_k },
    { { "cache_type_v", "--cache-type-v -ctv", VRAM_OPT_CHOICE, "TYPE", TYPES, "f16",
        "llama.cpp: what values are kept as.", "fit", 0, 0 },
      VR_SET_CACHE_TYPE_V,
      set_v,
      show_v },
    { { "ubatch_size", "--ubatch-size -ub", VRAM_OPT_COUNT, "TOKENS", NULL, "512",
        "llama.cpp: tokens computed at once, for which sliding layers have room beside their window.", "fit",
        1, VR_MOST_TOKENS },
      VR_SET_UBATCH,
      set_ubatch,
      show_ubatch },
    { { "swa_full", "--swa-full", VRAM_OPT_FLAG, NULL, NULL, NULL,
        "llama.cpp: sliding layers keep every token.", "fit", 0, 0 },
      VR_SET_SWA_FULL,
      set_swa_full,
      show_swa_full },
    { { "kv_unified", "--kv-unified -kvu", VRAM_OPT_FLAG, NULL, NULL, NULL,
        "llama.cpp: one cache for all sequences.", "fit", 0, 0 },
      VR_SET_KV_UNIFIED,
      set_kv_unified,
      show_kv_unified },
    { { "no_kv_offload", "--no-kv-offload -nkvo", VRAM_OPT_FLAG, NULL, NULL, NULL,
        "llama.cpp: the caches stay in host memory.", "fit", 0, 0 },
      VR_SET_NO_KV_OFFLOAD,
      set_no_kv_offload,
      show_no_kv_offload },
};

static const vr_option_row *const options[] = {
    &own[0], &own[1], &own[2], &own[3], &own[4], &own[5], &own[6],
};

static vram_status defaults(vram_workload *w, const vram_model *m)
{
    (void)m;
    if (w->set_by[VR_SET_GPU_LAYERS] != VR_BY_USER)
        w->gpu_layers = ALL_LAYERS;
    if (w->set_by[VR_SET_CACHE_TYPE_K] != VR_BY_USER)
        w->cache_k = VR_F16;
    if (w->set_by[VR_SET_CACHE_TYPE_V] != VR_BY_USER)
        w->cache_v = VR_F16;
    if (w->set_by[VR_SET_UBATCH] != VR_BY_USER)
        w->ubatch = UBATCH;
    return VRAM_OK;
}

/* ---- what lies on the card ---- */

typedef struct placing {
    const vram_model *m;
    const vram_workload *w;
    uint64_t layers; /* repeating ones; the output is one more */
    uint64_t first;  /* layer on the card */
} placing;

static placing place(const vram_model *m, const vram_workload *w)
{
    placing p = { .m = m, .w = w, .layers = m->n_layers + m->n_predict_layers };
    p.first = vr_sub_floor(p.layers + 1, w->gpu_layers);
    return p;
}

/* src/llama-arch.cpp, LLM_TENSOR_LAYER_INPUT: looked up in host memory. */
static bool of_input(vr_str name)
{
    static const char *const names[] = { "token_embd.", "token_embd_norm.", "token_types.", "position_embd.",
                                         "per_layer_token_embd." };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (vr_str_starts(name, names[i]))
            return true;
    }
    return false;
}

static bool on_card(const placing *p, vr_str name)
{
    vr_str digits, rest = name;
    uint64_t layer = p->layers;
    if (vr_str_starts(name, "rope_")) /* a copy for each device that has a layer */
        return p->first < p->layers;
    if (vr_str_starts(name, "blk.")) {
        rest = (vr_str){ name.s + 4, name.n - 4 };
        if (!vr_str_split(&rest, '.', &digits) || !vr_parse_u64(digits, &layer))
            layer = p->layers;
    }
    if (vr_str_is(name, "token_embd.weight") && p->m->tied) /* the head's copy */
        return p->first <= p->layers;
    return !of_input(name) && layer >= p->first;
}

/* Rows of blocks are filled up to ROW_PADDING elements, once at a tensor's end. */
static uint64_t row_bytes(vr_dtype t, uint64_t n)
{
    return vr_mul_sat(vr_cdiv(n, vr_dtype_block(t)), vr_dtype_block_bytes(t));
}

static uint64_t row_filling(vr_dtype t, uint64_t row)
{
    bool fills = vr_dtype_block(t) > 1 && row % ROW_PADDING != 0;
    return fills ? row_bytes(t, ROW_PADDING - row % ROW_PADDING) : 0;
}

static uint64_t tensor_bytes(const vr_tensor *t)
{
    uint64_t bytes = vr_add_sat(t->end - t->begin, row_filling((vr_dtype)t->dtype, t->dims[0]));
    return vr_round_up(bytes, ALIGNMENT);
}

static vram_status gguf_weights(vr_sum *out, uint64_t *elements, const placing *p, vr_arena *a)
{
    const vram_checkpoint *ck = p->m->checkpoint;
    uint64_t n = 0, host = 0;
    *out = (vr_sum){ .counted = true, .basis = VR_BASIS_EXACT };
    *elements = 0;
    for (size_t i = 0; i < ck->n_tensors; i++) {
        const vr_tensor *t = &ck->tensors[i];
        bool card = on_card(p, t->name);
        if (!card || of_input(t->name))
            host = vr_add_sat(host, t->end - t->begin);
        if (!card)
            continue;
        out->bytes = vr_add_sat(out->bytes, tensor_bytes(t));
        *elements = vr_add_sat(*elements, p->m->packing.parameters[i]);
        n++;
    }
    out->words = vr_text(a, GROUPED(n), T(" of "), GROUPED(ck->n_tensors),
                         T(ck->n_tensors == 1 ? " tensor" : " tensors"), T(" on the card"));
    if (out->words != NULL && host != 0)
        out->words = vr_text(a, T(out->words), T("; "), BYTES(host), T(" in host memory"));
    return out->words == NULL ? VRAM_ENOMEM : VRAM_OK;
}

/* Whatever the class calls it. */
static bool is_embedding(const vram_model *m, vr_str name)
{
    static const char end[] = ".weight";
    size_t n = m->embedding.n, rest = sizeof end - 1;
    if (!vr_str_ends(name, end) || n == 0 || name.n < n + rest)
        return false;
    return memcmp(name.s + name.n - rest - n, m->embedding.s, n) == 0;
}

/* Of a model that is no GGUF file yet: matrices in 16 bits, the others in 32; what sees or hears is a file of
 * its own. */
static vram_status converted_weights(vr_sum *out, uint64_t *elements, const vram_model *m, vr_arena *a)
{
    *out = (vr_sum){ .words =
                         "the model has to be converted to a GGUF file first, and how large that would be is "
                         "not known" };
    *elements = 0;
    if (m->family == NULL || m->declared == NULL || m->source_positions != 0)
        return VRAM_OK;
    out->counted = true;
    out->basis = VR_BASIS_ASSUMED;
    for (size_t i = 0; i < m->n_declared; i++) {
        const vr_declared *d = &m->declared[i];
        bool parameter = d->kind <= VR_PARAM_CONV, language = d->part <= VR_PART_ENCODER;
        bool embedding = is_embedding(m, d->name) || vr_str_is(d->name, "shared.weight");
        bool side = vr_str_ends(d->name, "embed_tokens_per_layer.weight"); /* read in host memory */
        if (!parameter || !language || (embedding && !m->tied) || side)
            continue;
        bool matrix = d->n_dims >= 2 && d->kind != VR_PARAM_CONV;
        out->bytes = vr_add_sat(out->bytes, vr_round_up(vr_mul_sat(d->elements, matrix ? 2 : 4), ALIGNMENT));
        *elements = vr_add_sat(*elements, d->elements);
    }
    out->words = vr_text(a, GROUPED(*elements),
                         T(" parameters on the card as a GGUF file in 16 bits, vectors in "
                           "32; a quantised one takes less"));
    return out->words == NULL ? VRAM_ENOMEM : VRAM_OK;
}

/* ---- the caches ---- */

typedef struct cells {
    uint64_t streams, full, sliding;
} cells;

/* src/llama-context.cpp: -c is that of all sequences together, which share it unless the cache is one. */
static cells cells_of(const vram_workload *w, uint64_t window)
{
    uint64_t all = vr_mul_sat(w->context, w->sequences), batch = w->context < BATCH ? w->context : BATCH;
    uint64_t context = vr_round_up(all, CELLS), ubatch = w->ubatch < batch ? w->ubatch : batch;
    cells c = { .streams = w->kv_unified ? 1 : w->sequences };
    c.full = w->kv_unified ? context : vr_round_up(context / w->sequences, CELLS);
    uint64_t most = vr_add_sat(vr_mul_sat(window, w->kv_unified ? w->sequences : 1), ubatch);
    c.sliding = w->swa_full || window == 0 ? c.full : vr_round_up(most < c.full ? most : c.full, CELLS);
    return c;
}

static uint64_t cache_bytes(vr_dtype t, uint64_t width, uint64_t rows)
{
    uint64_t bytes = vr_add_sat(vr_mul_sat(row_bytes(t, width), rows), row_filling(t, width));
    return width == 0 ? 0 : vr_round_up(bytes, ALIGNMENT);
}

/* Architectures whose windows llama.cpp keeps to (src/llama-model.cpp); of others every layer is full. A GGUF
 * file's layers were read so already. */
static bool slides(const vram_model *m)
{
    static const char *const names[] = {
        "gemma2",      "gemma3",       "gemma3_text", "gemma3n", "gemma3n_text", "gemma4",
        "gemma4_text", "gpt_oss",      "cohere2",     "llama4",  "llama4_text",  "exaone4",
        "olmo3",       "smallthinker", "exaone_moe",  "afmoe",
    };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (m->model_type != NULL && vr_str_is(vr_str_of(m->model_type), names[i]))
            return true;
    }
    return m->gguf;
}

/* Always 32 bits; of a convolution all inputs but the current one. */
static uint64_t state_bytes(const vram_model *m, const vr_layer *l)
{
    uint64_t conv = vr_mul_sat(l->conv_channels, vr_sub_floor(l->conv_taps, 1));
    return m->gguf ? l->state_bytes : vr_mul_sat(vr_add_sat(conv, vr_layer_state_elements(l)), 4);
}

typedef struct caches {
    uint64_t full, sliding, state; /* bytes on the card */
    uint64_t n_full, n_sliding, n_recurrent, host_layers;
    cells cells;
} caches;

static void add_layer(caches *c, const placing *p, uint64_t i)
{
    const vr_layer *l = &p->m->layers[i];
    const vram_workload *w = p->w;
    vr_kept k = vr_layer_kept(l);
    bool windowed = l->window != 0 && slides(p->m);
    cells n = cells_of(w, windowed ? l->window : 0);
    uint64_t rows = vr_mul_sat(n.streams, windowed ? n.sliding : n.full);
    uint64_t kv = vr_add_sat(cache_bytes((vr_dtype)w->cache_k, k.keys, rows),
                             cache_bytes((vr_dtype)w->cache_v, k.values, rows));
    uint64_t state = vr_mul_sat(state_bytes(p->m, l), w->sequences);
    if (i < p->first || w->no_kv_offload) {
        c->host_layers += kv != 0 || state != 0;
        return;
    }
    uint64_t *to = windowed ? &c->sliding : &c->full;
    *to = vr_add_sat(*to, kv);
    *(windowed ? &c->n_sliding : &c->n_full) += kv != 0;
    c->state = vr_add_sat(c->state, state);
    c->n_recurrent += state != 0;
    if (windowed)
        c->cells.sliding = n.sliding;
    c->cells.full = n.full;
    c->cells.streams = n.streams;
}

static bool joined(vr_arena *a, const char **list, const char *more)
{
    if (more != NULL && *list != NULL)
        *list = vr_text(a, T(*list), T(**list != '\0' ? "; " : ""), T(more));
    return more != NULL && *list != NULL;
}

static const char *of_layers(vr_arena *a, uint64_t layers, uint64_t n, uint64_t streams, const char *what,
                             uint64_t bytes)
{
    const char *times = streams > 1 ? vr_text(a, U(streams), T(" x ")) : "";
    if (times == NULL)
        return NULL;
    return vr_text(a, GROUPED(layers), T(layers == 1 ? " layer of " : " layers of "), T(times), GROUPED(n),
                   T(" cells"), T(what), T(": "), BYTES(bytes));
}

static const char *words_of(const caches *c, const vram_workload *w, vr_arena *a)
{
    const char *list = "";
    if (c->n_full != 0)
        (void)joined(a, &list, of_layers(a, c->n_full, c->cells.full, c->cells.streams, "", c->full));
    if (c->n_sliding != 0)
        (void)joined(a, &list,
                     of_layers(a, c->n_sliding, c->cells.sliding, c->cells.streams,
                               " for the window and a batch", c->sliding));
    if (c->n_recurrent != 0)
        (void)joined(a, &list,
                     vr_text(a, GROUPED(w->sequences), T(w->sequences == 1 ? " state: " : " states: "),
                             BYTES(c->state)));
    if (c->host_layers != 0)
        (void)joined(a, &list,
                     vr_text(a, T("those of "), GROUPED(c->host_layers),
                             T(c->host_layers == 1 ? " layer" : " layers"), T(" in host memory")));
    return list != NULL && *list == '\0' ? "no layer keeps anything" : list;
}

/* Rows of quantised types are whole blocks (src/llama-context.cpp refuses others); what it keeps of an index
 * is not worked out. */
static const char *why_not(const placing *p)
{
    for (uint64_t i = 0; i < p->m->n_layers; i++) {
        vr_kept k = vr_layer_kept(&p->m->layers[i]);
        if (p->m->layers[i].weights_from != 0)
            return "what llama.cpp keeps of blocks that layers share is not known";
        if (k.index != 0)
            return "what llama.cpp keeps for an index that chooses tokens is not worked out";
        if (k.keys % vr_dtype_block((vr_dtype)p->w->cache_k) != 0 ||
            k.values % vr_dtype_block((vr_dtype)p->w->cache_v) != 0)
            return "its keys or values are no whole blocks of the type of the cache";
    }
    return NULL;
}

static vram_status caches_of(vr_sum *kv, const placing *p, vr_arena *a)
{
    const char *why = vr_why_no_layers(p->m);
    caches c = { .full = 0 };
    if (why == NULL)
        why = why_not(p);
    *kv = (vr_sum){ .words = why };
    if (why != NULL || vr_keeps_nothing(kv, p->m))
        return VRAM_OK;
    for (uint64_t i = 0; i < p->m->n_layers; i++)
        add_layer(&c, p, i);
    *kv = (vr_sum){ true, vr_basis_of(p->m), vr_add_sat(vr_add_sat(c.full, c.sliding), c.state), NULL };
    kv->words = words_of(&c, p->w, a);
    return kv->words == NULL ? VRAM_ENOMEM : VRAM_OK;
}

static uint64_t token_bytes(const placing *p)
{
    uint64_t sum = 0;
    for (uint64_t i = p->first; i < p->m->n_layers && !p->w->no_kv_offload; i++) {
        vr_kept k = vr_layer_kept(&p->m->layers[i]);
        sum = vr_add_sat(sum, row_bytes((vr_dtype)p->w->cache_k, k.keys));
        sum = vr_add_sat(sum, row_bytes((vr_dtype)p->w->cache_v, k.values));
    }
    return sum;
}

static vram_status plan(vr_plan *out, const vram_model *m, const vram_workload *w,
                        const vr_device_facts *device, vr_arena *a)
{
    placing p = place(m, w);
    vr_sum weights, kv;
    (void)device;
    *out = (vr_plan){ 0 };
    VR_TRY(m->gguf ? gguf_weights(&weights, &out->n_parameters, &p, a)
                   : converted_weights(&weights, &out->n_parameters, m, a));
    VR_TRY(caches_of(&kv, &p, a));
    VR_TRY(vr_plan_of_sums(out, m, &weights, &kv, REST, a));
    out->refused = m->foreign                             ? m->not_understood
                   : m->source_positions != 0 && !m->gguf ? "Whisper is run by whisper.cpp, a program apart"
                                                          : NULL;
    out->as_stored = true;
    out->kv_token = kv.counted ? token_bytes(&p) : 0;
    return VRAM_OK;
}

const vr_engine vr_engine_llamacpp = {
    .name = "llama.cpp",
    .summary = "llama.cpp on one NVIDIA GPU: weights and caches",
    .default_version = "b10470",
    .version = version,
    .version_text = version_text,
    .plan = plan,
    .defaults = defaults,
    .kv_dtypes = 1u << VR_KV_AS_MODEL,
    .kv_words = "llama.cpp keeps keys and values as -ctk and -ctv say",
    .solvable = &vr_solvable_llamacpp,
    .options = options,
    .n_options = sizeof(options) / sizeof(options[0]),
};
