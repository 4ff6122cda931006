/* SPDX-License-Identifier: MIT
 * What changed when, in transformers and in the PyTorch below it, as far as memory goes. Read in the sources
 * of the releases named (4.48, 4.50, 4.53 to 4.57, 5.0, 5.2 to 5.5, 5.12 to 5.24); recorded runs exist
 * of 4.57, 5.17, 5.24. */
#include "engine/pass.h"

/* What a version has, on top of the one before. */
#define V4_56 .gqa = true, .warms_up = true
#define V5_0                                                                                                 \
    V4_56, .warmup_with_head = true, .dtype_auto = true, .natural_order = true, .two_inv_freq = true,        \
           .window_tensor = true, .plain_masks = true, .own_maps = true, .fused_experts = true
#define V5_2 V5_0, .warmup_of_total = true
#define V5_5 V5_2, .positions_added = true, .gemma2_scales = true
#define V5_14 V5_5, .balance_by_all = true
#define V5_15 V5_14, .latent_cache = true
#define V5_17 V5_15, .masks_experts = true
#define V5_18 V5_17, .balance_by_largest = true, .masks_rarely = true, .sparse_latent_cache = true
#define V5_19 V5_18, .rotary_product = true, .returns_features = true
#define V5_21 V5_19, .gemma2_eager = true
#define V5_23 V5_21, .packs_gqa = true, .leaves_out = true
#define V5_24                                                                                                \
    V5_23, .wide_routers = true, .groups_inside = true, .opt_unmasked = true, .ssm_products = true,          \
           .norms_widened = true, .umt5_asks = true

static const vr_rules rules[] = {
    /* cache_utils.py: the first keys are appended; sdpa_attention.py: repeat_kv always, then .contiguous() */
    { .major = 4, .minor = 48, .appends = true, .contiguous = true },
    { .major = 4, .minor = 50, .appends = true, .contiguous = true, .warms_up = true },
    /* use_gqa_in_sdpa */
    { .major = 4, .minor = 54, .appends = true, .contiguous = true, .gqa = true, .warms_up = true },
    /* layers of a cache, which concatenate from the start */
    { .major = 4, .minor = 56, V4_56 },
    { .major = 5, .minor = 0, V5_0 },
    { .major = 5, .minor = 2, V5_2 },
    { .major = 5, .minor = 5, V5_5 },
    { .major = 5, .minor = 14, V5_14 },
    { .major = 5, .minor = 15, V5_15 },
    { .major = 5, .minor = 17, V5_17 },
    { .major = 5, .minor = 18, V5_18 },
    { .major = 5, .minor = 19, V5_19 },
    { .major = 5, .minor = 21, V5_21 },
    { .major = 5, .minor = 23, V5_23 },
    { .major = 5, .minor = 24, V5_24 },
};

#define NEWEST_MAJOR 5
#define NEWEST_MINOR 24

/* 2.9: pull request 156495; 2.11: 175344; 2.12: 175879; 2.15: TORCH_CUBLAS_WORKSPACE_CACHE, off by default.
 */
static const vr_torch_rules torch_rules[] = {
    { .major = 2, .minor = 1 },
    { .major = 2, .minor = 5, .gqa = true },
    { .major = 2, .minor = 9, .gqa = true, .lt_stays = true },
    { .major = 2, .minor = 11, .gqa = true, .lt_stays = true, .blackwell_large = true },
    { .major = 2, .minor = 12, .gqa = true, .lt_stays = true, .blackwell_large = true, .unified = true },
    { .major = 2, .minor = 15, .gqa = true, .blackwell_large = true, .by_call = true },
};

#define NEWEST_TORCH_MAJOR 2
#define NEWEST_TORCH_MINOR 15
#define DEFAULT_TORCH_MAJOR 2
#define DEFAULT_TORCH_MINOR 10

static const unsigned traced[][2] = { { 4, 57 }, { 5, 17 }, { 5, 24 } };

static bool at_least(unsigned major, unsigned minor, unsigned least_major, unsigned least_minor)
{
    return major > least_major || (major == least_major && minor >= least_minor);
}

const vr_rules *vr_rules_of(const vram_workload *w)
{
    size_t i = sizeof(rules) / sizeof(rules[0]) - 1;
    while (i > 0 && !at_least(w->version_major, w->version_minor, rules[i].major, rules[i].minor))
        i--;
    return &rules[i];
}

const vr_torch_rules *vr_torch_rules_of(const vram_workload *w)
{
    size_t i = sizeof(torch_rules) / sizeof(torch_rules[0]) - 1;
    while (i > 0 && !at_least(w->torch_major, w->torch_minor, torch_rules[i].major, torch_rules[i].minor))
        i--;
    return &torch_rules[i];
}

bool vr_version_traced(const vram_workload *w)
{
    for (size_t i = 0; i < sizeof(traced) / sizeof(traced[0]); i++) {
        if (w->version_major == traced[i][0] && w->version_minor == traced[i][1])
            return true;
    }
    return false;
}

static bool is_newer(unsigned major, unsigned minor, unsigned newest_major, unsigned newest_minor)
{
    return at_least(major, minor, newest_major, newest_minor) &&
           !(major == newest_major && minor == newest_minor);
}

static vram_status warn_newer(vram_ctx *ctx, const char *what, vr_str version, unsigned major, unsigned minor)
{
    return vr_warn(ctx, NULL, T(what), S(version), T(" is newer than what is known here; taken as "),
                   U(major), T("."), U(minor));
}

/* "5.17", also "5.17.0" and "v5.17" */
static bool read_version(vr_str text, unsigned *major, unsigned *minor)
{
    vr_str word;
    uint64_t number[3] = { 0, 0, 0 };
    size_t n = 0;
    if (vr_str_starts(text, "v"))
        text = (vr_str){ text.s + 1, text.n - 1 };
    while (vr_str_split(&text, '.', &word)) {
        if (n == 3 || !vr_parse_u64(word, &number[n]) || number[n] > 999)
            return false;
        n++;
    }
    *major = (unsigned)number[0];
    *minor = (unsigned)number[1];
    return n >= 2;
}

static vram_status set_torch(vram_workload *w, vr_str text)
{
    unsigned major, minor;
    vr_str number = vr_str_starts(text, "torch") ? (vr_str){ text.s + 5, text.n - 5 } : (vr_str){ NULL, 0 };
    if (vr_str_starts(number, "-") || vr_str_starts(number, "="))
        number = (vr_str){ number.s + 1, number.n - 1 };
    if (!read_version(number, &major, &minor))
        return vr_fail(w->ctx, VRAM_ESETTING, T("--engine-version: '"), S(text),
                       T("' is not a version of PyTorch, such as torch2.10"));
    if (!at_least(major, minor, torch_rules[0].major, torch_rules[0].minor))
        return vr_fail(w->ctx, VRAM_ESETTING, T("--engine-version: PyTorch "), U(major), T("."), U(minor),
                       T(" is not known; the oldest known is "), U(torch_rules[0].major), T("."),
                       U(torch_rules[0].minor));
    w->torch_major = major;
    w->torch_minor = minor;
    w->torch_given = true;
    return is_newer(major, minor, NEWEST_TORCH_MAJOR, NEWEST_TORCH_MINOR)
               ? warn_newer(w->ctx, "PyTorch ", number, NEWEST_TORCH_MAJOR, NEWEST_TORCH_MINOR)
               : VRAM_OK;
}

vram_status vr_transformers_version(vram_workload *w, vr_str text)
{
    unsigned major, minor;
    vr_str own, rest = text;
    if (!vr_str_split(&rest, '+', &own) || !read_version(own, &major, &minor))
        return vr_fail(w->ctx, VRAM_ESETTING, T("--engine-version '"), S(text),
                       T("': must be a version, such as 5.17, or with PyTorch's, 5.17+torch2.10"));
    if (!at_least(major, minor, rules[0].major, rules[0].minor))
        return vr_fail(w->ctx, VRAM_ESETTING, T("transformers "), S(own),
                       T(" is not known; the oldest known is "), U(rules[0].major), T("."),
                       U(rules[0].minor));
    w->version_major = major;
    w->version_minor = minor;
    w->torch_major = DEFAULT_TORCH_MAJOR;
    w->torch_minor = DEFAULT_TORCH_MINOR;
    w->torch_given = false;
    if (own.n != text.n)
        VR_TRY(set_torch(w, (vr_str){ text.s + own.n + 1, text.n - own.n - 1 }));
    return is_newer(major, minor, NEWEST_MAJOR, NEWEST_MINOR)
               ? warn_newer(w->ctx, "transformers ", own, NEWEST_MAJOR, NEWEST_MINOR)
               : VRAM_OK;
}
