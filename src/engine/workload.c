/* SPDX-License-Identifier: MIT
 * What the user wants to run: one table of settings drives command line, JSON, completion and the manual.
 * Known words of other tools are aliases. What is left open is filled from the model and from the engine's
 * defaults of its version. */
#include "engine/engine.h"

#define DEFAULT_CONTEXT 4096
#define MOST_TOKENS                                                                                          \
    (UINT64_C(1) << 40)                /* beyond: surely a slip; products are checked where they are made    \
                                        */
#define NOT_A_SETTING VR_SETTING_COUNT /* the engine itself */

/* ---- words and what they stand for ---- */

typedef struct word {
    const char *text; /* the first of a value is the one that is shown */
    uint8_t value;
} word;

static const word attention_words[] = {
    { "sdpa", VR_IMPL_SDPA },
    { "eager", VR_IMPL_EAGER },
    { "flash", VR_IMPL_FLASH },
    { "flash_attention_2", VR_IMPL_FLASH },
    { "flash_attention_3", VR_IMPL_FLASH },
    { NULL, 0 },
};
static const word logits_words[] = { { "last", VR_LOGITS_LAST }, { "all", VR_LOGITS_ALL }, { NULL, 0 } };
static const word map_words[] = {
    { "none", VR_MAP_NONE },
    { "auto", VR_MAP_AUTO },
    { "balanced", VR_MAP_BALANCED },
    { "balanced_low_0", VR_MAP_BALANCED_LOW_0 },
    { "sequential", VR_MAP_SEQUENTIAL },
    { "cuda", VR_MAP_CUDA },
    { NULL, 0 },
};
static const word quant_words[] = {
    { "none", VR_QUANT_NONE },
    { "bnb-8bit", VR_QUANT_BNB_8BIT },
    { "bnb-4bit", VR_QUANT_BNB_4BIT },
    { "bnb-4bit-dq", VR_QUANT_BNB_4BIT_DQ },
    { "dequantize", VR_QUANT_DEQUANTIZE },
    { NULL, 0 },
};
static const word kv_words[] = { { "auto", VR_KV_AS_MODEL }, { NULL, 0 } };

static bool word_value(const word *words, vr_str text, uint8_t *value)
{
    for (; words->text != NULL; words++) {
        if (vr_str_is(text, words->text)) {
            *value = words->value;
            return true;
        }
    }
    return false;
}

static const char *word_text(const word *words, uint8_t value)
{
    while (words->text != NULL && words->value != value)
        words++;
    return words->text != NULL ? words->text : "";
}

/* ---- setters ---- */

typedef vram_status setter(vram_workload *w, const vram_option *o, vr_str value);

static vram_status refuse(vram_workload *w, const vram_option *o, vr_str value, const char *expected)
{
    size_t n = 0;
    while (o->flags[n] != '\0' && o->flags[n] != ' ')
        n++;
    return vr_fail(w->ctx, VRAM_ESETTING, S(((vr_str){ o->flags, n })), T(" '"), S(value), T("': "),
                   T(expected));
}

static vram_status refuse_choice(vram_workload *w, const vram_option *o, vr_str value)
{
    const char *expected = vr_text(&w->ctx->arena, T("must be one of "), T(o->choices));
    return expected == NULL ? VRAM_ENOMEM : refuse(w, o, value, expected);
}

static vram_status set_word(vram_workload *w, const vram_option *o, vr_str value, const word *words,
                            uint8_t *field)
{
    return word_value(words, value, field) ? VRAM_OK : refuse_choice(w, o, value);
}

static vram_status set_count(vram_workload *w, const vram_option *o, vr_str value, uint64_t *field)
{
    uint64_t n;
    if (!vr_parse_count(value, &n))
        return refuse(w, o, value, "must be a whole number, such as 4096, 16K (16,384) or 16k (16,000)");
    if (n < o->min)
        return refuse(w, o, value, o->min == 1 ? "must be 1 or more" : "is too small");
    if (n > o->max)
        return refuse(w, o, value, "is too large");
    *field = n;
    return VRAM_OK;
}

static vram_status set_engine(vram_workload *w, const vram_option *o, vr_str value)
{
    const vr_engine *e = vr_engine_find(value);
    if (e == NULL)
        return refuse_choice(w, o, value);
    if (w->engine == e)
        return VRAM_OK;
    w->engine = e;
    w->set_by[VR_SET_ENGINE_VERSION] = VR_BY_DEFAULT;
    return e->version(w, vr_str_of(e->default_version));
}

static vram_status set_version(vram_workload *w, const vram_option *o, vr_str value)
{
    (void)o;
    return w->engine->version(w, value);
}

static vram_status set_context(vram_workload *w, const vram_option *o, vr_str value)
{
    return set_count(w, o, value, &w->context);
}

static vram_status set_sequences(vram_workload *w, const vram_option *o, vr_str value)
{
    return set_count(w, o, value, &w->sequences);
}

static vram_status set_prefill_batch(vram_workload *w, const vram_option *o, vr_str value)
{
    return set_count(w, o, value, &w->prefill_batch);
}

static vram_status set_decode(vram_workload *w, const vram_option *o, vr_str value)
{
    return set_count(w, o, value, &w->decode);
}

static vram_status set_dtype(vram_workload *w, const vram_option *o, vr_str value)
{
    vr_dtype t = VR_DTYPE_NONE;
    w->dtype_auto = vr_str_is(value, "auto");
    if (!w->dtype_auto && (!vr_dtype_from_word(value, &t) || (t != VR_BF16 && t != VR_F16 && t != VR_F32)))
        return refuse(w, o, value,
                      "must be one of auto, bfloat16 (bf16), float16 (fp16, half), float32 (fp32)");
    w->dtype = t;
    return VRAM_OK;
}

static vram_status set_kv_dtype(vram_workload *w, const vram_option *o, vr_str value)
{
    if (!word_value(kv_words, value, &w->kv_dtype))
        return refuse(w, o, value,
                      "transformers keeps keys and values in the model's own dtype: only auto is known");
    return VRAM_OK;
}

static vram_status set_attention(vram_workload *w, const vram_option *o, vr_str value)
{
    return set_word(w, o, value, attention_words, &w->attention);
}

static vram_status set_logits(vram_workload *w, const vram_option *o, vr_str value)
{
    return set_word(w, o, value, logits_words, &w->logits);
}

static vram_status set_device_map(vram_workload *w, const vram_option *o, vr_str value)
{
    return set_word(w, o, value, map_words, &w->device_map);
}

static vram_status set_quantization(vram_workload *w, const vram_option *o, vr_str value)
{
    return set_word(w, o, value, quant_words, &w->weight_quant);
}

static vram_status set_host_memory(vram_workload *w, const vram_option *o, vr_str value)
{
    uint64_t bytes;
    if (!vr_parse_bytes(value, &bytes) || bytes == 0)
        return refuse(w, o, value, "must be a size, such as 64GiB");
    w->host_text = vr_arena_copy(&w->arena, value);
    w->host_memory = bytes;
    return w->host_text == NULL ? VRAM_ENOMEM : VRAM_OK;
}

static vram_status set_alloc_conf(vram_workload *w, const vram_option *o, vr_str value)
{
    vr_alloc_conf conf;
    (void)o;
    VR_TRY(vr_alloc_conf_parse(&conf, w->ctx, value));
    const char *text = vr_arena_copy(&w->arena, value);
    if (text == NULL)
        return VRAM_ENOMEM;
    w->alloc = conf;
    w->alloc_text = text;
    return VRAM_OK;
}

/* ---- the table ---- */

/* key, flags, type, placeholder, choices, default, help, least, most, setting, setter */
#define ROWS(X)                                                                                              \
    X("engine", "--engine", CHOICE, "NAME", "transformers", "transformers", "What will run the model.", 0,   \
      0, NOT_A_SETTING, set_engine)                                                                          \
    X("engine_version", "--engine-version", STRING, "VERSION", NULL, "5.17",                                 \
      "Version of the engine; PyTorch's can follow it: 5.17 or 5.17+torch2.10.", 0, 0,                       \
      VR_SET_ENGINE_VERSION, set_version)                                                                    \
    X("context", "--context -c --max-model-len --ctx-size --num-ctx", COUNT, "TOKENS", NULL,                 \
      "4096, or the model's maximum where that is less", "Tokens of one sequence's prompt.", 1, MOST_TOKENS, \
      VR_SET_CONTEXT, set_context)                                                                           \
    X("sequences", "--sequences --max-num-seqs -np", COUNT, "N", NULL, "1",                                  \
      "Sequences whose keys and values are resident at once.", 1, MOST_TOKENS, VR_SET_SEQUENCES,             \
      set_sequences)                                                                                         \
    X("prefill_batch", "--prefill-batch", COUNT, "N", NULL, "all sequences",                                 \
      "Sequences whose prompts are computed at once.", 1, MOST_TOKENS, VR_SET_PREFILL_BATCH,                 \
      set_prefill_batch)                                                                                     \
    X("decode", "--decode", COUNT, "TOKENS", NULL, "0",                                                      \
      "Tokens that every sequence generates after its prompt.", 0, MOST_TOKENS, VR_SET_DECODE, set_decode)   \
    X("dtype", "--dtype --torch-dtype", STRING, "DTYPE", NULL,                                               \
      "auto from transformers 5 on, float32 before",                                                         \
      "What the weights are loaded as: auto (as stored), bfloat16, float16 or float32.", 0, 0, VR_SET_DTYPE, \
      set_dtype)                                                                                             \
    X("kv_cache_dtype", "--kv-cache-dtype", CHOICE, "DTYPE", "auto", "auto",                                 \
      "What keys and values are kept as.", 0, 0, VR_SET_KV_DTYPE, set_kv_dtype)                              \
    X("attention", "--attention --attn-implementation", CHOICE, "KIND",                                      \
      "sdpa|eager|flash|flash_attention_2|flash_attention_3", "what the engine takes for the model",         \
      "How attention is computed.", 0, 0, VR_SET_ATTENTION, set_attention)                                   \
    X("logits", "--logits", CHOICE, "WHICH", "all|last", "last",                                             \
      "Positions whose logits are computed: generate() needs the last, a plain forward pass computes all.",  \
      0, 0, VR_SET_LOGITS, set_logits)                                                                       \
    X("device_map", "--device-map", CHOICE, "MAP", "none|auto|balanced|balanced_low_0|sequential|cuda",      \
      "none",                                                                                                \
      "How the weights reach the cards: none is .to(\"cuda\"), auto spreads them, cuda is all onto the "     \
      "first.",                                                                                              \
      0, 0, VR_SET_DEVICE_MAP, set_device_map)                                                               \
    X("host_memory", "--host-memory", BYTES, "SIZE", NULL, "as much as it takes",                            \
      "Memory of the computer that programs may take: what --device-map puts there, the rest on disk.", 0,   \
      0, VR_SET_HOST_MEMORY, set_host_memory)                                                                \
    X("quantization", "--quantization", CHOICE, "KIND", "none|bnb-8bit|bnb-4bit|bnb-4bit-dq|dequantize",     \
      "none",                                                                                                \
      "Quantise the weights while loading (dq: the scales of 4 bits as well), or unpack what is stored "     \
      "quantised.",                                                                                          \
      0, 0, VR_SET_WEIGHT_QUANT, set_quantization)                                                           \
    X("alloc_conf", "--alloc-conf", STRING, "SETTINGS", NULL, NULL,                                          \
      "PyTorch's allocator settings, as in PYTORCH_ALLOC_CONF.", 0, 0, VR_SET_ALLOC_CONF, set_alloc_conf)

static const vram_option options[] = {
#define X(key, flags, type, argument, choices, fallback, help, min, max, setting, function)                  \
    { key, flags, VRAM_OPT_##type, argument, choices, fallback, help, "fit", min, max },
    ROWS(X)
#undef X
};

static const struct {
    vr_setting setting;
    setter *set;
} setters[] = {
#define X(key, flags, type, argument, choices, fallback, help, min, max, setting, function)                  \
    { (vr_setting)(setting), function },
    ROWS(X)
#undef X
};

const vram_option *vram_workload_options(size_t *n)
{
    *n = sizeof(options) / sizeof(options[0]);
    return options;
}

/* ---- the object ---- */

static void release(vr_object *self)
{
    vr_arena a = ((vram_workload *)(void *)self)->arena;
    vr_arena_free(&a);
}

vram_status vram_workload_new(vram_workload **out, vram_ctx *ctx, const char *engine)
{
    size_t n;
    const vr_engine *e = engine == NULL ? vr_engines(&n)[0] : vr_engine_find(vr_str_of(engine));
    if (e == NULL)
        return vr_fail(ctx, VRAM_ESETTING, T("--engine '"), T(engine), T("': must be one of "),
                       T(options[0].choices));
    vr_arena a;
    vr_arena_init(&a, ctx);
    vram_workload *w = VR_NEW(&a, vram_workload);
    if (w == NULL)
        return VRAM_ENOMEM;
    w->ctx = ctx;
    w->arena = a;
    w->engine = e;
    w->engine_given = engine != NULL;
    vr_object_register(ctx, &w->object, release);
    VR_TRY(e->version(w, vr_str_of(e->default_version)));
    *out = w;
    return VRAM_OK;
}

vram_status vram_workload_set(vram_workload *w, const char *key, const char *value)
{
    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
        if (!vr_str_is(vr_str_of(key), options[i].key))
            continue;
        VR_TRY(setters[i].set(w, &options[i], vr_str_of(value)));
        if (setters[i].setting != NOT_A_SETTING)
            w->set_by[setters[i].setting] = VR_BY_USER;
        return VRAM_OK;
    }
    return vr_fail(w->ctx, VRAM_ESETTING, T("there is no setting '"), T(key), T("'"));
}

vram_workload *vr_workload_copy(const vram_workload *w, vr_arena *a)
{
    vram_workload *copy = VR_NEW(a, vram_workload);
    if (copy != NULL)
        *copy = *w;
    return copy;
}

/* ---- what the user left open ---- */

static void fill_context(vram_workload *w, const vram_model *m)
{
    if (w->set_by[VR_SET_CONTEXT] == VR_BY_USER)
        return;
    w->context = DEFAULT_CONTEXT;
    if (m->max_context != 0 && m->max_context < w->context) {
        w->context = m->max_context;
        w->set_by[VR_SET_CONTEXT] = VR_BY_MODEL;
    }
}

static vram_status fill_sequences(vram_workload *w)
{
    if (w->sequences == 0)
        w->sequences = 1;
    if (w->prefill_batch == 0)
        w->prefill_batch = w->sequences;
    if (w->prefill_batch > w->sequences)
        return vr_fail(w->ctx, VRAM_ESETTING, T("--prefill-batch "), U(w->prefill_batch),
                       T(" is more than --sequences "), U(w->sequences));
    return VRAM_OK;
}

static vram_status check_length(const vram_workload *w, const vram_model *m)
{
    uint64_t longest = vr_add_sat(w->context, w->decode);
    if (m->max_context == 0 || longest <= m->max_context)
        return VRAM_OK;
    return vr_warn(w->ctx, NULL, GROUPED(longest), T(" tokens are more than the "), GROUPED(m->max_context),
                   T(" that the model was made for"));
}

vram_status vr_workload_resolve(vram_workload **out, const vram_workload *w, const vram_model *m, vr_arena *a)
{
    vram_workload *r = vr_workload_copy(w, a);
    if (r == NULL)
        return VRAM_ENOMEM;
    fill_context(r, m);
    VR_TRY(fill_sequences(r));
    VR_TRY(r->engine->defaults(r, m));
    VR_TRY(check_length(r, m));
    if (r->prepared == NULL && r->engine->prepare != NULL) /* a lever's workload comes with it */
        VR_TRY(r->engine->prepare(r, m, a));
    *out = r;
    return VRAM_OK;
}

/* ---- values in words ---- */

static const char *dtype_word(const vram_workload *w)
{
    switch (w->dtype) {
    case VR_BF16:
        return "bf16";
    case VR_F16:
        return "fp16";
    case VR_F32:
        return "fp32";
    default:
        return w->dtype_auto ? "auto" : vr_dtype_name(w->dtype);
    }
}

static const char *version_word(const vram_workload *w, vr_arena *a)
{
    const char *own = vr_text(a, U(w->version_major), T("."), U(w->version_minor));
    if (own == NULL || !w->torch_given)
        return own;
    return vr_text(a, T(own), T("+torch"), U(w->torch_major), T("."), U(w->torch_minor));
}

/* As the user wrote it. */
static const char *text_given(const vram_workload *w, vr_setting s)
{
    const char *text = s == VR_SET_HOST_MEMORY ? w->host_text : s == VR_SET_ALLOC_CONF ? w->alloc_text : NULL;
    return text != NULL ? text : "";
}

const char *vr_workload_value(const vram_workload *w, vr_setting s, vr_arena *a)
{
    switch (s) {
    case VR_SET_ENGINE_VERSION:
        return version_word(w, a);
    case VR_SET_CONTEXT:
        return vr_text(a, U(w->context));
    case VR_SET_SEQUENCES:
        return vr_text(a, U(w->sequences));
    case VR_SET_PREFILL_BATCH:
        return vr_text(a, U(w->prefill_batch));
    case VR_SET_DECODE:
        return vr_text(a, U(w->decode));
    case VR_SET_DTYPE:
        return dtype_word(w);
    case VR_SET_KV_DTYPE:
        return word_text(kv_words, w->kv_dtype);
    case VR_SET_ATTENTION:
        return word_text(attention_words, w->attention);
    case VR_SET_LOGITS:
        return word_text(logits_words, w->logits);
    case VR_SET_DEVICE_MAP:
        return word_text(map_words, w->device_map);
    case VR_SET_WEIGHT_QUANT:
        return word_text(quant_words, w->weight_quant);
    default:
        return text_given(w, s);
    }
}
