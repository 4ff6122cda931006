/* SPDX-License-Identifier: MIT
 * Settings that several engines have, how values are read, and the list of all: common ones first, then each
 * engine's own in the order of engines. One table drives command line, JSON, completion and the manual. */
#include "engine/options.h"

#define PERMILLE 1000

/* ---- reading values ---- */

vram_status vr_option_refuse(vram_workload *w, const vram_option *o, vr_str value, const char *expected)
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
    return expected == NULL ? VRAM_ENOMEM : vr_option_refuse(w, o, value, expected);
}

static bool word_value(const vr_word *words, vr_str text, uint8_t *value)
{
    for (; words->text != NULL; words++) {
        if (vr_str_is(text, words->text)) {
            *value = words->value;
            return true;
        }
    }
    return false;
}

vram_status vr_option_word(vram_workload *w, const vram_option *o, vr_str value, const vr_word *words,
                           uint8_t *field)
{
    return word_value(words, value, field) ? VRAM_OK : refuse_choice(w, o, value);
}

const char *vr_option_word_text(const vr_word *words, uint8_t value)
{
    while (words->text != NULL && words->value != value)
        words++;
    return words->text != NULL ? words->text : "";
}

vram_status vr_option_count(vram_workload *w, const vram_option *o, vr_str value, uint64_t *field)
{
    uint64_t n;
    if (!vr_parse_count(value, &n))
        return vr_option_refuse(w, o, value,
                                "must be a whole number, such as 4096, 16K (16,384) or 16k (16,000)");
    if (n < o->min)
        return vr_option_refuse(w, o, value, o->min == 1 ? "must be 1 or more" : "is too small");
    if (n > o->max)
        return vr_option_refuse(w, o, value, "is too large");
    *field = n;
    return VRAM_OK;
}

vram_status vr_option_share(vram_workload *w, const vram_option *o, vr_str value, uint32_t *field)
{
    uint64_t n, scale;
    if (!vr_parse_decimal(value, &n, &scale) || n == 0 || n > scale)
        return vr_option_refuse(w, o, value, "must be a share of 1, such as 0.9");
    if (vr_mul_div(n, PERMILLE, scale) == 0 || vr_mul_sat(n, PERMILLE) % scale != 0)
        return vr_option_refuse(w, o, value, "is taken in thousandths, such as 0.925");
    *field = (uint32_t)vr_mul_div(n, PERMILLE, scale);
    return VRAM_OK;
}

/* "0.92", "0.925", "1.0" */
const char *vr_option_share_text(uint32_t permille, vr_arena *a)
{
    unsigned decimals = permille % 10 != 0 ? 3 : permille % 100 != 0 ? 2 : 1;
    return vr_text(a, FIXED(permille, PERMILLE, decimals));
}

vram_status vr_option_flag(vram_workload *w, const vram_option *o, vr_str value, bool *field)
{
    *field = value.n == 0 || vr_str_is(value, "on");
    return *field || vr_str_is(value, "off") ? VRAM_OK : vr_option_refuse(w, o, value, "must be on or off");
}

const char *vr_option_flag_text(bool value)
{
    return value ? "on" : "off";
}

/* ---- what every engine has ---- */

static vram_status set_engine(vram_workload *w, const vram_option *o, vr_str value)
{
    const vr_engine *e = vr_engine_find(value);
    if (e == NULL && vr_str_is(value, VR_ALL_ENGINES))
        return vr_option_refuse(w, o, value, "a workload is of one engine");
    if (e == NULL)
        return refuse_choice(w, o, value);
    w->engine_given = true;
    if (w->engine == e)
        return VRAM_OK;
    w->engine = e;
    w->set_by[VR_SET_ENGINE_VERSION] = VR_BY_DEFAULT;
    return e->version(w, vr_str_of(e->default_version));
}

static const char *show_engine(const vram_workload *w, vr_arena *a)
{
    (void)a;
    return w->engine->name;
}

/* "b10470": a build of llama.cpp, whichever engine it would be otherwise. */
static bool is_build(vr_str value)
{
    uint64_t n;
    return value.n > 1 && value.s[0] == 'b' && vr_parse_u64((vr_str){ value.s + 1, value.n - 1 }, &n);
}

static vram_status set_version(vram_workload *w, const vram_option *o, vr_str value)
{
    (void)o;
    if (!w->engine_given && is_build(value))
        w->engine = &vr_engine_llamacpp;
    return w->engine->version(w, value);
}

static const char *show_version(const vram_workload *w, vr_arena *a)
{
    const char *own = w->engine->version_text != NULL
                          ? w->engine->version_text(w, a)
                          : vr_text(a, U(w->version_major), T("."), U(w->version_minor));
    if (own == NULL || !w->torch_given)
        return own;
    return vr_text(a, T(own), T("+torch"), U(w->torch_major), T("."), U(w->torch_minor));
}

VR_OPTION_COUNT(context, context)

VR_OPTION_COUNT(sequences, sequences)

static const vr_option_row common[] = {
    { { "engine", "--engine", VRAM_OPT_CHOICE, "NAME", VR_ENGINE_NAMES "|" VR_ALL_ENGINES,
        "transformers; llama.cpp for GGUF files",
        "What will run the model; all puts the engines side by side.", "fit", 0, 0 },
      VR_SETTING_COUNT,
      set_engine,
      show_engine },
    { { "engine_version", "--engine-version", VRAM_OPT_STRING, "VERSION", NULL, "5.17 of transformers",
        "Version of the engine; PyTorch's can follow it: 5.17 or 5.17+torch2.10.", "fit", 0, 0 },
      VR_SET_ENGINE_VERSION,
      set_version,
      show_version },
    { { "context", "--context -c --max-model-len --ctx-size --num-ctx", VRAM_OPT_COUNT, "TOKENS", NULL,
        "4096, or the model's maximum where that is less; 4 of speech", "Tokens of one sequence's prompt.",
        "fit", 1, VR_MOST_TOKENS },
      VR_SET_CONTEXT,
      set_context,
      show_context },
    { { "sequences", "--sequences --max-num-seqs -np", VRAM_OPT_COUNT, "N", NULL, "1",
        "Sequences whose keys and values are resident at once.", "fit", 1, VR_MOST_TOKENS },
      VR_SET_SEQUENCES,
      set_sequences,
      show_sequences },
};
#define N_COMMON (sizeof(common) / sizeof(common[0]))

/* ---- what several have ---- */

static vram_status set_dtype(vram_workload *w, const vram_option *o, vr_str value)
{
    vr_dtype t = VR_DTYPE_NONE;
    w->dtype_auto = vr_str_is(value, "auto");
    if (!w->dtype_auto && (!vr_dtype_from_word(value, &t) || (t != VR_BF16 && t != VR_F16 && t != VR_F32)))
        return vr_option_refuse(w, o, value,
                                "must be one of auto, bfloat16 (bf16), float16 (fp16, half), float32 (fp32)");
    w->dtype = t;
    return VRAM_OK;
}

static const char *show_dtype(const vram_workload *w, vr_arena *a)
{
    (void)a;
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

const vr_option_row vr_row_dtype = {
    { "dtype", "--dtype --torch-dtype", VRAM_OPT_STRING, "DTYPE", NULL,
      "auto; of transformers before 5 float32",
      "What the weights are loaded as: auto (as stored), bfloat16, float16 or float32.", "fit", 0, 0 },
    VR_SET_DTYPE,
    set_dtype,
    show_dtype,
};

static const vr_word kv_words[] = {
    { "auto", VR_KV_AS_MODEL },     { "bf16", VR_KV_BF16 },
    { "bfloat16", VR_KV_BF16 },     { "fp16", VR_KV_F16 },
    { "float16", VR_KV_F16 },       { "fp8", VR_KV_FP8 },
    { "fp8_e4m3", VR_KV_FP8 },      { "fp8_ds_mla", VR_KV_FP8 },
    { "fp8_e5m2", VR_KV_FP8_E5M2 }, { NULL, 0 },
};

/* Which of them an engine has is asked when it is known which engine it will be. */
static vram_status set_kv_dtype(vram_workload *w, const vram_option *o, vr_str value)
{
    uint8_t v;
    if (!word_value(kv_words, value, &v) || (w->engine_given && (w->engine->kv_dtypes & (1u << v)) == 0))
        return vr_option_refuse(w, o, value, w->engine->kv_words);
    w->kv_dtype = v;
    return VRAM_OK;
}

static const char *show_kv_dtype(const vram_workload *w, vr_arena *a)
{
    (void)a;
    return vr_option_word_text(kv_words, w->kv_dtype);
}

const vr_option_row vr_row_kv_dtype = {
    { "kv_cache_dtype", "--kv-cache-dtype", VRAM_OPT_STRING, "DTYPE", NULL, "auto",
      "What keys and values are kept as: auto (the model's own); of vllm and sglang also bf16, fp8, "
      "fp8_e5m2.",
      "fit", 0, 0 },
    VR_SET_KV_DTYPE,
    set_kv_dtype,
    show_kv_dtype,
};

static vram_status set_host_memory(vram_workload *w, const vram_option *o, vr_str value)
{
    uint64_t bytes;
    if (!vr_parse_bytes(value, &bytes) || bytes == 0)
        return vr_option_refuse(w, o, value, "must be a size, such as 64GiB");
    w->host_text = vr_arena_copy(&w->arena, value);
    w->host_memory = bytes;
    return w->host_text == NULL ? VRAM_ENOMEM : VRAM_OK;
}

static const char *show_host_memory(const vram_workload *w, vr_arena *a)
{
    (void)a;
    return w->host_text != NULL ? w->host_text : "";
}

const vr_option_row vr_row_host_memory = {
    { "host_memory", "--host-memory", VRAM_OPT_BYTES, "SIZE", NULL, "as much as it takes",
      "Memory of the computer: llama.cpp and ollama are judged by what stays there, with --gpu none by all; "
      "what --device-map lets lie there, the rest goes to disk.",
      "fit", 0, 0 },
    VR_SET_HOST_MEMORY,
    set_host_memory,
    show_host_memory,
};

/* ---- all rows ---- */

/* Row i of the common ones and then of each engine, those of earlier engines left out; NULL behind the last.
 */
static const vr_option_row *row_at(size_t i)
{
    size_t n_engines;
    const vr_engine *const *engines = vr_engines(&n_engines);
    if (i < N_COMMON)
        return &common[i];
    i -= N_COMMON;
    for (size_t e = 0; e < n_engines; e++) {
        for (size_t k = 0; k < engines[e]->n_options; k++) {
            const vr_option_row *row = engines[e]->options[k];
            bool before = false;
            for (size_t b = 0; b < e && !before; b++)
                before = vr_engine_has(engines[b], row->setting);
            if (!before && i-- == 0)
                return row;
        }
    }
    return NULL;
}

const vram_option *vram_workload_option(size_t i)
{
    const vr_option_row *row = row_at(i);
    return row != NULL ? &row->option : NULL;
}

static const vr_option_row *row_of(const vr_engine *e, vr_setting s)
{
    for (size_t i = 0; i < N_COMMON; i++) {
        if (common[i].setting == s)
            return &common[i];
    }
    for (size_t i = 0; i < e->n_options; i++) {
        if (e->options[i]->setting == s)
            return e->options[i];
    }
    return NULL;
}

bool vr_engine_has(const vr_engine *e, vr_setting s)
{
    return row_of(e, s) != NULL;
}

const vram_option *vr_setting_option(const vr_engine *e, vr_setting s)
{
    const vr_option_row *row = row_of(e, s);
    return row != NULL ? &row->option : NULL;
}

const char *vr_workload_value(const vram_workload *w, vr_setting s, vr_arena *a)
{
    const vr_option_row *row = row_of(w->engine, s);
    return row != NULL ? row->show(w, a) : "";
}

/* ---- as it is typed ---- */

/* The one of letters where there is one: "-ngl". */
static vr_str short_name(const vram_option *o)
{
    vr_str rest = vr_str_of(o->flags), best = { NULL, 0 }, word;
    while (vr_str_split(&rest, ' ', &word)) {
        if (best.n == 0 || (!vr_str_starts(word, "--") && vr_str_starts(best, "--")))
            best = word;
    }
    return best;
}

const char *vr_workload_typed(const vram_workload *w, vr_setting s, vr_arena *a)
{
    const vr_option_row *row = row_of(w->engine, s);
    if (row == NULL)
        return "";
    if (row->option.type == VRAM_OPT_FLAG)
        return vr_text(a, S(short_name(&row->option)));
    const char *value = row->show(w, a);
    return value == NULL ? NULL : vr_text(a, S(short_name(&row->option)), T(" "), T(value));
}

bool vr_workload_same(const vram_workload *w, const vram_workload *asked, vr_setting s, vr_arena *a)
{
    const vr_option_row *row = row_of(w->engine, s);
    if (row == NULL || asked->set_by[s] != VR_BY_USER)
        return false;
    const char *now = row->show(w, a), *then = row->show(asked, a);
    return now != NULL && then != NULL && vr_str_is(vr_str_of(now), then);
}

const char *vr_workload_typed_beside(const vram_workload *w, const vram_workload *asked, vr_arena *a)
{
    const char *list = "";
    for (int i = 0; i < VR_SETTING_COUNT && list != NULL; i++) {
        vr_setting s = (vr_setting)i;
        if (w->set_by[s] != VR_BY_USER || !vr_engine_has(w->engine, s) || vr_workload_same(w, asked, s, a) ||
            (s == VR_SET_CONTEXT && w->n_ctx != 0))
            continue;
        const char *typed = vr_workload_typed(w, s, a);
        list = typed == NULL ? NULL : vr_text(a, T(list), T(*list != '\0' ? " " : ""), T(typed));
    }
    return list;
}

/* ---- what an engine lacks ---- */

static const char *owners_of(const vr_option_row *row, vr_arena *a)
{
    size_t n;
    const vr_engine *const *engines = vr_engines(&n);
    const char *list = "";
    for (size_t i = 0; i < n && list != NULL; i++) {
        if (vr_engine_has(engines[i], row->setting))
            list = vr_text(a, T(list), T(*list != '\0' ? ", " : ""), T(engines[i]->name));
    }
    return list;
}

/* "--swa-full is an option of llama.cpp, and transformers has none of that name" */
static vram_status lacks(const vram_workload *w, const vr_option_row *row)
{
    const char *owners = owners_of(row, &w->ctx->arena);
    vr_str rest = vr_str_of(row->option.flags), name;
    if (owners == NULL || !vr_str_split(&rest, ' ', &name))
        return VRAM_ENOMEM;
    vram_status s = vr_fail(w->ctx, VRAM_ESETTING, S(name), T(" is an option of "), T(owners), T(", and "),
                            T(w->engine->name), T(" has nothing like it"));
    vr_hint(w->ctx, "--engine NAME says what will run the model");
    return s;
}

vram_status vr_workload_check(const vram_workload *w)
{
    const vr_option_row *row;
    for (size_t i = N_COMMON; (row = row_at(i)) != NULL; i++) {
        if (w->set_by[row->setting] == VR_BY_USER && !vr_engine_has(w->engine, row->setting))
            return lacks(w, row);
    }
    if ((w->engine->kv_dtypes & (1u << w->kv_dtype)) != 0)
        return VRAM_OK;
    return vr_option_refuse((vram_workload *)(uintptr_t)w, &vr_row_kv_dtype.option,
                            vr_str_of(vr_option_word_text(kv_words, w->kv_dtype)), w->engine->kv_words);
}

vram_status vram_workload_set(vram_workload *w, const char *key, const char *value)
{
    const vr_option_row *row;
    for (size_t i = 0; (row = row_at(i)) != NULL; i++) {
        if (!vr_str_is(vr_str_of(key), row->option.key))
            continue;
        if (row->setting != VR_SETTING_COUNT && w->engine_given && !vr_engine_has(w->engine, row->setting))
            return lacks(w, row);
        VR_TRY(row->set(w, &row->option, vr_str_of(value)));
        if (row->setting != VR_SETTING_COUNT)
            w->set_by[row->setting] = VR_BY_USER;
        return VRAM_OK;
    }
    return vr_fail(w->ctx, VRAM_ESETTING, T("there is no setting '"), T(key), T("'"));
}
