/* SPDX-License-Identifier: MIT
 * quantization_config of config.json: the method, bits and group size, wherever each method puts them.
 * Sources: transformers 5.24, utils/quantization_config.py and quantizers/auto.py; compressed-tensors 0.20,
 * quantization/quant_config.py and base.py (compression_config); ModelOpt, hf_quant_config.json as it stands
 * in config.json; mlx-lm 0.32, utils.py (quantization, with objects of single modules inside). */
#include "model/quant_config.h"

#include "model/layouts.h"
#include "model/reading.h"

#define MOST_GROUP (UINT64_C(1) << 24)
#define MOST_OWN 100000 /* modules with settings of their own; more are left out */

static const struct method {
    const char *word, *title;
} methods[] = {
    { "aqlm", "AQLM" },
    { "auto-round", "AutoRound" },
    { "intel/auto-round", "AutoRound" },
    { "awq", "AWQ" },
    { "bitnet", "BitNet" },
    { "bitsandbytes", "bitsandbytes" },
    { "bitsandbytes_4bit", "bitsandbytes" },
    { "bitsandbytes_8bit", "bitsandbytes" },
    { "eetq", "EETQ" },
    { "exl2", "ExLlamaV2" },
    { "exl3", "ExLlamaV3" },
    { "fbgemm_fp8", "FBGEMM FP8" },
    { "fp8", "FP8" },
    { "fp_quant", "FP-Quant" },
    { "gptq", "GPTQ" },
    { "higgs", "HIGGS" },
    { "hqq", "HQQ" },
    { "mlx", "MLX" },
    { "metal", "MLX" },
    { "modelopt", "ModelOpt" },
    { "modelopt_fp4", "ModelOpt" },
    { "modelopt_mixed", "ModelOpt" },
    { "mxfp4", "MXFP4" },
    { "quanto", "Quanto" },
    { "spqr", "SpQR" },
    { "vptq", "VPTQ" },
};

static const char *title_of(const char *method)
{
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (vr_str_is(vr_str_of(method), methods[i].word))
            return methods[i].title;
    return method;
}

/* What the method's name leaves open. */
static const char *format_of(const char *layout)
{
    static const struct method formats[] = {
        { "nvfp4", "NVFP4" }, { "mxfp4", "MXFP4" }, { "fp8", "FP8" },
        { "int8", "INT8" },   { "fp4", "FP4" },     { "int4-awq", "AWQ" }
    };
    for (size_t i = 0; layout != NULL && i < sizeof formats / sizeof *formats; i++)
        if (vr_str_is(vr_str_of(layout), formats[i].word))
            return formats[i].title;
    return "";
}

const char *vr_quant_title(vr_arena *a, const char *method, const char *layout)
{
    const char *title = title_of(method), *format = format_of(layout);
    if (*format == '\0' || vr_str_find(vr_str_of(title), format, NULL))
        return title;
    return vr_text(a, T(title), T(" "), T(format));
}

/* ---- numbers ---- */

/* A setting that is absent, null, -1 (a whole row), a fraction (a mean of bits) or "auto" says nothing. */
static vram_status number_of(const vram_model *m, vr_json from, const char *path, uint64_t most,
                             uint64_t *out)
{
    vr_json v;
    uint64_t n;
    if (*out != 0 || !vr_json_get(from, path, &v) || v.type != VR_JSON_NUMBER)
        return VRAM_OK;
    if (vr_json_u64(v, &n) && n >= 1 && n <= most) {
        *out = n;
        return VRAM_OK;
    }
    if (v.text.s[0] == '-' || memchr(v.text.s, '.', v.text.n) != NULL)
        return VRAM_OK;
    vr_str shown = { v.text.s, v.text.n < 24 ? v.text.n : 24 };
    return vr_warn(m->ctx, m->checkpoint->config_file, T(path), T(" of quantization_config is "), S(shown),
                   T(": left out"));
}

static vram_status first_number(const vram_model *m, vr_json q, const char *const *paths, size_t n,
                                uint64_t most, uint64_t *out)
{
    for (size_t i = 0; i < n; i++)
        VR_TRY(number_of(m, q, paths[i], most, out));
    return VRAM_OK;
}

static vram_status read_numbers(vr_quant_config *c, const vram_model *m, vr_json q)
{
    static const char *const bits[] = { "bits", "w_bit", "nbits", "weight_bits",
                                        "quant_config.weight_quant_params.nbits" };
    static const char *const groups[] = { "group_size", "q_group_size",
                                          "quant_config.weight_quant_params.group_size",
                                          "quant_type.default._data.group_size" };
    VR_TRY(first_number(m, q, bits, sizeof bits / sizeof *bits, VR_MOST_BITS, &c->bits));
    return first_number(m, q, groups, sizeof groups / sizeof *groups, MOST_GROUP, &c->group);
}

/* weight_block_size: [128, 128] */
static void read_block(vr_quant_config *c, vr_json q)
{
    vr_json list, v;
    uint64_t n;
    if (c->group != 0 || !vr_json_get(q, "weight_block_size", &list))
        return;
    vr_json_iter it = vr_json_each(list);
    while (list.type == VR_JSON_ARRAY && vr_json_next(&it, &v))
        if (vr_json_u64(v, &n) && n >= 1 && n <= MOST_GROUP)
            c->group = n;
}

/* Quanto: "weights": "int4" */
static void read_word(vr_quant_config *c, vr_json q)
{
    static const struct {
        const char *word;
        uint64_t bits;
    } words[] = { { "int2", 2 }, { "int4", 4 }, { "int8", 8 }, { "float8", 8 } };
    vr_json v;
    for (size_t i = 0; i < 4 && c->bits == 0 && vr_json_get(q, "weights", &v); i++)
        if (vr_json_str_is(v, words[i].word))
            c->bits = words[i].bits;
}

/* compressed-tensors and ModelOpt: config_groups, each with its weights; only what all agree on is kept. */
static vram_status read_groups(vr_quant_config *c, const vram_model *m, vr_json q)
{
    vr_json groups, key, one;
    uint64_t bits = 0, size = 0;
    bool first = true;
    if (!vr_json_get(q, "config_groups", &groups) || groups.type != VR_JSON_OBJECT)
        return VRAM_OK;
    vr_json_iter it = vr_json_each(groups);
    while (vr_json_next_member(&it, &key, &one)) {
        uint64_t its_bits = 0, its_size = 0;
        VR_TRY(number_of(m, one, "weights.num_bits", VR_MOST_BITS, &its_bits));
        VR_TRY(number_of(m, one, "weights.group_size", MOST_GROUP, &its_size));
        bits = first || bits == its_bits ? its_bits : 0;
        size = first || size == its_size ? its_size : 0;
        first = false;
    }
    c->bits = c->bits != 0 ? c->bits : bits;
    c->group = c->group != 0 ? c->group : size;
    return VRAM_OK;
}

/* ---- modules with settings of their own ---- */

static vram_status keep_own(vr_quant_config *c, vram_model *m, vr_json key, vr_quant_one one)
{
    vr_str name;
    bool was_there;
    uint32_t old;
    if (!vr_json_str(key, &m->arena, &name))
        return VRAM_ENOMEM;
    if (c->n_own == c->room) {
        c->room = c->room != 0 ? 2 * c->room : 64;
        c->own = vr_arena_grow(&m->arena, c->own, c->n_own, c->room, sizeof *c->own);
        if (c->own == NULL)
            return VRAM_ENOMEM;
    }
    c->own[c->n_own] = one;
    VR_TRY(vr_map_put(&c->by_stem, name, (uint32_t)c->n_own, &was_there, &old));
    c->n_own += !was_there;
    return VRAM_OK;
}

static vram_status read_own(vr_quant_config *c, vram_model *m, vr_json q)
{
    vr_json_iter it = vr_json_each(q);
    vr_json key, value;
    while (q.type == VR_JSON_OBJECT && vr_json_next_member(&it, &key, &value) && c->n_own < MOST_OWN) {
        vr_quant_one one = { 0 };
        if (value.type != VR_JSON_OBJECT)
            continue;
        VR_TRY(number_of(m, value, "bits", VR_MOST_BITS, &one.bits));
        VR_TRY(number_of(m, value, "group_size", MOST_GROUP, &one.group));
        if (one.bits != 0 || one.group != 0)
            VR_TRY(keep_own(c, m, key, one));
    }
    return VRAM_OK;
}

void vr_quant_of(const vr_quant_config *c, vr_str stem, uint64_t *bits, uint64_t *group)
{
    uint32_t at;
    bool own = c->n_own != 0 && vr_map_get(&c->by_stem, stem, &at);
    *bits = own && c->own[at].bits != 0 ? c->own[at].bits : c->bits;
    *group = own && c->own[at].group != 0 ? c->own[at].group : c->group;
}

/* ---- the method ---- */

/* Not all write quant_method: what only one of them has. */
static const char *method_by_keys(vr_json q)
{
    static const struct {
        const char *key, *method;
    } keys[] = { { "load_in_4bit", "bitsandbytes" },
                 { "load_in_8bit", "bitsandbytes" },
                 { "quant_algo", "modelopt" },
                 { "config_groups", "compressed-tensors" },
                 { "weight_block_size", "fp8" } };
    vr_json v;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (vr_json_get(q, keys[i].key, &v))
            return keys[i].method;
    return NULL;
}

static vram_status read_method(vr_quant_config *c, vram_model *m, vr_json q)
{
    vr_json v;
    vr_str s;
    if (!vr_json_get(q, "quant_method", &v) || v.type != VR_JSON_STRING) {
        c->method = method_by_keys(q);
        return VRAM_OK;
    }
    if (!vr_json_str(v, &m->arena, &s))
        return VRAM_ENOMEM;
    c->method = vr_arena_copy(&m->arena, s);
    return c->method != NULL ? VRAM_OK : VRAM_ENOMEM;
}

/* The first object that is there; *mlx: by the key that only MLX writes. */
static bool find(const vram_model *m, vr_json *q, bool *mlx)
{
    static const char *const paths[] = { "quantization_config", "text_config.quantization_config",
                                         "compression_config",  "text_config.compression_config",
                                         "quantization",        "text_config.quantization" };
    for (size_t i = 0; i < sizeof paths / sizeof *paths && m->checkpoint->has_config; i++) {
        *mlx = i >= 4;
        if (vr_json_get(m->checkpoint->config, paths[i], q) && q->type == VR_JSON_OBJECT)
            return true;
    }
    return false;
}

bool vr_quant_object(const vram_model *m, vr_json *q)
{
    bool mlx;
    return find(m, q, &mlx);
}

vram_status vr_read_quant_config(vr_quant_config *out, vram_model *m)
{
    vr_json q, twin;
    bool mlx;
    *out = (vr_quant_config){ .method = NULL };
    VR_TRY(vr_map_init(&out->by_stem, &m->arena, 0, 0));
    if (!find(m, &q, &mlx))
        return VRAM_OK;
    VR_TRY(read_method(out, m, q));
    /* mlx-lm writes the same object under both names */
    if (out->method == NULL && (mlx || vr_json_get(m->checkpoint->config, "quantization", &twin)))
        out->method = "mlx";
    VR_TRY(read_numbers(out, m, q));
    read_block(out, q);
    read_word(out, q);
    VR_TRY(read_groups(out, m, q));
    return read_own(out, m, q);
}
