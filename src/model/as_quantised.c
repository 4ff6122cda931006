/* SPDX-License-Identifier: MIT
 * A configuration that says how its checkpoint is quantised, without the checkpoint: the packed tensors and
 * their scales, where their sizes follow from it. Which modules stay as they are is said by lists; what is in
 * a list and not understood, or names nothing, makes the whole not known: two bytes a parameter, or half a
 * byte, would be a guess. Sizes and lists: transformers 5.24 integrations/finegrained_fp8.py,
 * integrations/mxfp4.py and quantizers/quantizers_utils.py (should_convert_module); AutoGPTQ 0.7.1
 * qlinear_cuda.py; AutoAWQ 0.2.9 awq/modules/linear/gemm.py; ModelOpt 0.47 torch/export/quant_utils.py;
 * compressed-tensors 0.20 compressors/pack_quantized/base.py. */
#include "model/as_declared.h"

#include "model/quant_config.h"

#define MOST_LISTED 8192
#define MOST_TRIES UINT64_C(50000000) /* of patterns against names */
#define MXFP4_BLOCK 32
#define NVFP4_BLOCK 16

static const char WEIGHT[] = ".weight";

/* ---- lists of modules ---- */

typedef struct pattern {
    vr_str text;      /* '*' stands for anything */
    bool abbreviated; /* and "N" between dots for a number */
    bool used;
} pattern;

typedef struct quantising {
    vr_storing *s;
    vr_json q; /* quantization_config */
    uint64_t bits, group;
    uint64_t block[2];
    pattern *list;
    size_t n, packed;
    bool unclear;
} quantising;

/* Bytes of the name that one number of it has. */
static size_t digits(vr_str name, size_t at)
{
    size_t n = 0;
    while (at + n < name.n && name.s[at + n] >= '0' && name.s[at + n] <= '9')
        n++;
    return n;
}

/* Linear but for the last '*', to which it goes back. */
static bool glob(const pattern *p, vr_str name)
{
    size_t i = 0, at = 0, star = SIZE_MAX, mark = 0;
    while (at < name.n) {
        size_t number = i < p->text.n && p->abbreviated && p->text.s[i] == 'N' ? digits(name, at) : 0;
        if (i < p->text.n && p->text.s[i] == '*') {
            star = i++;
            mark = at;
        } else if (number != 0) {
            i++;
            at += number;
        } else if (i < p->text.n && p->text.s[i] == name.s[at]) {
            i++;
            at++;
        } else if (star != SIZE_MAX) {
            i = star + 1;
            at = ++mark;
        } else {
            return false;
        }
    }
    while (i < p->text.n && p->text.s[i] == '*')
        i++;
    return i == p->text.n;
}

/* The module itself, one that it lies in, or its last words. */
static bool matches(const pattern *p, vr_str module)
{
    vr_str part = module;
    if (glob(p, module))
        return true;
    for (size_t i = module.n; i-- > 1;) {
        part = (vr_str){ module.s, i };
        if (module.s[i] == '.' && glob(p, part))
            return true;
    }
    for (size_t i = 0; i < module.n; i++) {
        part = (vr_str){ module.s + i + 1, module.n - i - 1 };
        if (module.s[i] == '.' && glob(p, part))
            return true;
    }
    return false;
}

static vr_str module_of(const vr_declared *d)
{
    vr_str name = { d->name.s + d->skip, d->name.n - d->skip };
    size_t n = sizeof WEIGHT - 1;
    return vr_str_ends(name, WEIGHT) ? (vr_str){ name.s, name.n - n } : name;
}

static bool is_listed(quantising *z, const vr_declared *d)
{
    bool found = false;
    for (size_t i = 0; i < z->n; i++) {
        if (!matches(&z->list[i], module_of(d)))
            continue;
        z->list[i].used = true;
        found = true;
    }
    return found;
}

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* What the next characters of a plain expression stand for in a pattern; '\0': it is not plain. */
static char plain_char(vr_str *rest)
{
    char c = rest->s[0], next = rest->n > 1 ? rest->s[1] : '\0', out = '\0';
    size_t n = 1;
    if (c == '.' && next == '*')
        out = '*';
    else if (c == '\\' && next == '.')
        out = '.';
    else if (is_word(c))
        out = c;
    if (out != '\0' && out != c)
        n = 2;
    *rest = (vr_str){ rest->s + n, rest->n - n };
    return out;
}

/* "re:.*self_attn.*" is understood as what it says with dots and stars alone. */
static bool plain_regex(vr_arena *a, vr_str *text)
{
    vr_str rest = { text->s + 3, text->n - 3 };
    char *out = vr_arena_alloc(a, text->n + 2);
    size_t n = 0;
    while (out != NULL && rest.n > 0) {
        out[n] = plain_char(&rest);
        if (out[n++] == '\0')
            return false;
    }
    if (out == NULL)
        return false;
    out[n++] = '*'; /* re.match looks at the front alone */
    *text = (vr_str){ out, n };
    return true;
}

/* "layers.N*" of an abbreviated list: some whole layers, and which is lost. */
static bool is_lost(const pattern *p)
{
    size_t n = p->text.n;
    while (n > 0 && (p->text.s[n - 1] == '*' || p->text.s[n - 1] == '.'))
        n--;
    return p->abbreviated && n > 1 && p->text.s[n - 1] == 'N' && p->text.s[n - 2] == '.' &&
           !vr_str_starts(p->text, "mtp");
}

static bool add_patterns(quantising *z, const char *key, bool abbreviated)
{
    vr_arena *a = &z->s->m->arena;
    vr_json list, v;
    if (!vr_json_get(z->q, key, &list) || list.type == VR_JSON_NULL)
        return true;
    vr_json_iter it = vr_json_each(list);
    while (vr_json_next(&it, &v)) {
        pattern *p = &z->list[z->n];
        if (z->n == MOST_LISTED || !vr_json_str(v, a, &p->text))
            return false;
        if (vr_str_starts(p->text, "re:") && !plain_regex(a, &p->text))
            return false;
        p->abbreviated = abbreviated;
        if (is_lost(p))
            return false;
        /* layers that transformers has not; a head that is the embedding */
        p->used = vr_str_starts(p->text, "mtp") || (z->s->m->tied && vr_str_ends(p->text, "lm_head"));
        z->n++;
    }
    return list.type == VR_JSON_ARRAY;
}

static bool read_lists(quantising *z)
{
    static const struct {
        const char *key;
        bool abbreviated;
    } keys[] = { { "modules_to_not_convert", false },
                 { "ignore", false },
                 { "exclude_modules", false },
                 { "ignored_layers", false },
                 { "modules_to_not_convert_patterns", true },
                 { "ignore_patterns", true },
                 { "exclude_modules_patterns", true } };
    z->list = VR_ARRAY(&z->s->m->arena, pattern, MOST_LISTED);
    for (size_t i = 0; z->list != NULL && i < sizeof keys / sizeof *keys; i++) {
        if (!add_patterns(z, keys[i].key, keys[i].abbreviated))
            return false;
    }
    return z->list != NULL && z->n * z->s->m->n_declared <= MOST_TRIES;
}

/* ---- layouts: [out, in] of a linear layer ---- */

static uint64_t up(uint64_t n, uint64_t by)
{
    return n / by + (n % by != 0);
}

#define PUT(suffix, dtype, ...)                                                                              \
    vr_store(z->s, d, sizeof WEIGHT - 1, suffix, dtype, (const uint64_t[]){ __VA_ARGS__ },                   \
             sizeof((const uint64_t[]){ __VA_ARGS__ }) / sizeof(uint64_t))
#define PUT_ONE(suffix) vr_store(z->s, d, sizeof WEIGHT - 1, suffix, VR_F32, NULL, 0)

static void fp8_blocks(quantising *z, const vr_declared *d)
{
    uint64_t out = d->dims[0], in = d->dims[1];
    PUT(".weight", VR_F8_E4M3, out, in);
    PUT(".weight_scale_inv", VR_F32, up(out, z->block[0]), up(in, z->block[1]));
}

static void fp8_tensor(quantising *z, const vr_declared *d)
{
    PUT(".weight", VR_F8_E4M3, d->dims[0], d->dims[1]);
    PUT_ONE(".weight_scale");
    PUT_ONE(".input_scale");
}

static void nvfp4(quantising *z, const vr_declared *d)
{
    uint64_t out = d->dims[0], in = d->dims[1];
    z->unclear = z->unclear || in % NVFP4_BLOCK != 0;
    PUT(".weight", VR_U8, out, in / 2);
    PUT(".weight_scale", VR_F8_E4M3, out, in / NVFP4_BLOCK);
    PUT_ONE(".weight_scale_2");
    PUT_ONE(".input_scale");
}

static void gptq(quantising *z, const vr_declared *d)
{
    uint64_t out = d->dims[0], in = d->dims[1], groups = z->group != 0 ? up(in, z->group) : 1;
    z->unclear = z->unclear || in * z->bits % 32 != 0 || out * z->bits % 32 != 0;
    PUT(".qweight", VR_I32, in * z->bits / 32, out);
    PUT(".qzeros", VR_I32, groups, out * z->bits / 32);
    PUT(".scales", VR_F16, groups, out);
    PUT(".g_idx", VR_I32, in);
}

static void awq(quantising *z, const vr_declared *d)
{
    uint64_t out = d->dims[0], in = d->dims[1], groups = z->group != 0 ? in / z->group : 1;
    z->unclear = z->unclear || out % 8 != 0 || (z->group != 0 && in % z->group != 0);
    PUT(".qweight", VR_I32, in, out / 8);
    PUT(".qzeros", VR_I32, groups, out / 8);
    PUT(".scales", VR_F16, groups, out);
}

static void packed_words(quantising *z, const vr_declared *d)
{
    uint64_t out = d->dims[0], in = d->dims[1];
    z->unclear = z->unclear || in * z->bits % 32 != 0 || in % z->group != 0;
    PUT(".weight_packed", VR_I32, out, in * z->bits / 32);
    PUT(".weight_scale", z->s->dtype, out, in / z->group);
    PUT(".weight_shape", VR_I64, 2);
}

/* Experts of gpt-oss: declared [experts, in, out], stored the other way round. */
static void mxfp4(quantising *z, const vr_declared *d)
{
    uint64_t e = d->dims[0], in = d->dims[1], out = d->dims[2], blocks = in / MXFP4_BLOCK;
    z->unclear = z->unclear || in % MXFP4_BLOCK != 0;
    vr_store(z->s, d, 0, "_blocks", VR_U8, (const uint64_t[]){ e, out, blocks, MXFP4_BLOCK / 2 }, 4);
    vr_store(z->s, d, 0, "_scales", VR_U8, (const uint64_t[]){ e, out, blocks }, 3);
}

/* ---- which of them ---- */

typedef struct layout {
    const char *method;
    bool (*is)(quantising *z);
    void (*store)(quantising *z, const vr_declared *d);
    uint8_t kind;      /* vr_param_kind of what it packs */
    bool layers_alone; /* only what is in a layer of the decoder */
} layout;

static bool has(const quantising *z, const char *key)
{
    vr_json v;
    return vr_json_get(z->q, key, &v) && v.type != VR_JSON_NULL && v.type != VR_JSON_FALSE;
}

static bool has_word(const quantising *z, const char *key, const char *word)
{
    vr_json v;
    return vr_json_get(z->q, key, &v) && vr_json_str_is(v, word);
}

static bool in_blocks(quantising *z)
{
    vr_json list, v;
    size_t n = 0;
    if (!vr_json_get(z->q, "weight_block_size", &list) || list.type != VR_JSON_ARRAY || has(z, "scale_fmt") ||
        has(z, "quantized_layers_patterns") || has(z, "quantized_layers"))
        return false;
    vr_json_iter it = vr_json_each(list);
    while (vr_json_next(&it, &v)) {
        if (n == 2 || !vr_json_u64(v, &z->block[n]) || z->block[n] == 0)
            return false;
        n++;
    }
    return n == 2;
}

/* All of one kind: no modules with settings of their own. */
static bool is_uniform(const quantising *z)
{
    return !has(z, "quantized_layers") && !has(z, "quantized_layers_patterns") &&
           !has(z, "config_groups.group_1") && !has(z, "dynamic");
}

static bool is_fp8_tensor(quantising *z)
{
    return is_uniform(z) && has_word(z, "quant_algo", "FP8") && z->n != 0;
}

static bool is_nvfp4(quantising *z)
{
    return is_uniform(z) && has_word(z, "quant_algo", "NVFP4") && z->group == NVFP4_BLOCK && z->n != 0;
}

static bool is_gptq(quantising *z)
{
    return is_uniform(z) && (z->bits == 2 || z->bits == 4 || z->bits == 8) && !has(z, "lm_head") &&
           !has(z, "modules_in_block_to_quantize") && !has_word(z, "checkpoint_format", "marlin");
}

static bool is_awq(quantising *z)
{
    return is_uniform(z) && z->bits == 4 && has(z, "zero_point") &&
           (has_word(z, "version", "gemm") || has_word(z, "version", "GEMM"));
}

static bool is_packed(quantising *z)
{
    return is_uniform(z) && has_word(z, "format", "pack-quantized") && (z->bits == 4 || z->bits == 8) &&
           z->group != 0 && has_word(z, "config_groups.group_0.weights.type", "int") &&
           has(z, "config_groups.group_0.weights.symmetric") &&
           !has(z, "config_groups.group_0.weights.actorder") && z->n != 0;
}

static bool is_mxfp4(quantising *z)
{
    return vr_str_is(vr_str_of(z->s->m->model_type), "gpt_oss");
}

static const layout layouts[] = {
    { "fp8", in_blocks, fp8_blocks, VR_PARAM_LINEAR, false },
    { "modelopt", is_fp8_tensor, fp8_tensor, VR_PARAM_LINEAR, false },
    { "modelopt", is_nvfp4, nvfp4, VR_PARAM_LINEAR, false },
    { "gptq", is_gptq, gptq, VR_PARAM_LINEAR, true },
    { "awq", is_awq, awq, VR_PARAM_LINEAR, true },
    { "compressed-tensors", is_packed, packed_words, VR_PARAM_LINEAR, false },
    { "mxfp4", is_mxfp4, mxfp4, VR_PARAM_EXPERTS, true },
};

static const layout *find_layout(quantising *z, const char *method)
{
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
        if (vr_str_is(vr_str_of(method), layouts[i].method) && layouts[i].is(z))
            return &layouts[i];
    return NULL;
}

/* Routers are no linear layers of the classes; what else is one of many experts in one tensor would be left
 * as it is, and nobody can say whether it is. */
static void store_one(quantising *z, const layout *l, const vr_declared *d)
{
    bool inside = d->layer != VR_NO_LAYER && d->part == VR_PART_DECODER;
    bool listed = is_listed(z, d);
    bool packs = d->kind == l->kind && d->role != VR_EXPERT_ROUTER && (inside || !l->layers_alone);
    z->unclear = z->unclear || (d->kind == VR_PARAM_EXPERTS && l->kind != VR_PARAM_EXPERTS && !listed);
    if (!packs || listed) {
        vr_store_plain(z->s, d);
        return;
    }
    l->store(z, d);
    z->packed++;
}

bool vr_store_quantised(vr_storing *s)
{
    quantising z = { .s = s };
    vr_quant_config config;
    s->status = vr_read_quant_config(&config, s->m);
    if (s->status != VRAM_OK || config.method == NULL || config.n_own != 0 || !vr_quant_object(s->m, &z.q))
        return false;
    z.bits = config.bits;
    z.group = config.group;
    if (!read_lists(&z))
        return false;
    const layout *l = find_layout(&z, config.method);
    for (size_t i = 0; l != NULL && i < s->m->n_declared; i++)
        if (vr_param_is_stored(s->m->declared[i].kind))
            store_one(&z, l, &s->m->declared[i]);
    for (size_t i = 0; i < z.n; i++)
        z.unclear = z.unclear || !z.list[i].used;
    return l != NULL && z.packed != 0 && !z.unclear && s->status == VRAM_OK;
}
