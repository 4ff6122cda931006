/* SPDX-License-Identifier: MIT
 * PYTORCH_ALLOC_CONF, the text by which users set PyTorch's allocator.
 *
 * Source of truth: AcceleratorAllocatorConfig::parseArgs in c10/core/AllocatorConfig.cpp and
 * CUDAAllocatorConfig::parseArgs in c10/cuda/CUDAAllocatorConfig.cpp, PyTorch 2.15: tokens parted by , : [ ],
 * white space left out, the last of two settings of one key counts, large_segment_size_mb is read first
 * because others are bounded by it. PyTorch lets some mistakes pass (a missing colon, "128MB" for 128); here
 * they are errors. */
#include "rehearsal/torch.h"

#define MOST_DIVISIONS (UINT64_C(1) << 31) /* above, no request is large enough to be rounded */

typedef struct reader {
    vram_ctx *ctx;
    vr_str rest;
    vr_alloc_conf *conf;
} reader;

/* ---- tokens ---- */

static bool is_mark(char c)
{
    return c == ',' || c == ':' || c == '[' || c == ']';
}

static void skip_space(reader *r)
{
    while (r->rest.n > 0 && vr_is_space(r->rest.s[0])) {
        r->rest.s++;
        r->rest.n--;
    }
}

/* Takes one mark; false: something else comes. */
static bool take(reader *r, char mark)
{
    skip_space(r);
    if (r->rest.n == 0 || r->rest.s[0] != mark)
        return false;
    r->rest.s++;
    r->rest.n--;
    return true;
}

/* Up to the next mark or white space; may be empty. */
static vr_str take_word(reader *r)
{
    skip_space(r);
    vr_str word = { r->rest.s, 0 };
    while (r->rest.n > 0 && !is_mark(r->rest.s[0]) && !vr_is_space(r->rest.s[0])) {
        r->rest.s++;
        r->rest.n--;
        word.n++;
    }
    return word;
}

/* ---- values ---- */

static vram_status refuse(const reader *r, const char *key, vr_str value, const char *must)
{
    return vr_fail(r->ctx, VRAM_ESETTING, T("allocator setting "), T(key), T(" "), T(must), T(", not '"),
                   S(value), T("'"));
}

static vram_status read_flag(reader *r, const char *key, bool *out)
{
    vr_str word = take_word(r);
    if (!vr_str_is(word, "True") && !vr_str_is(word, "False"))
        return refuse(r, key, word, "must be True or False");
    *out = vr_str_is(word, "True");
    return VRAM_OK;
}

/* Whole MiB of at least `least` MiB, as bytes; the largest number stands for all beyond it. */
static vram_status read_mib(reader *r, const char *key, uint64_t least, const char *must, uint64_t *bytes)
{
    vr_str word = take_word(r);
    uint64_t mib;
    if (!vr_parse_u64(word, &mib) || mib < least)
        return refuse(r, key, word, must);
    *bytes = vr_mul_sat(mib, VR_MIB);
    return VRAM_OK;
}

static vram_status read_large_segment(reader *r, const char *key)
{
    return read_mib(r, key, VR_MIN_LARGE_ALLOC / VR_MIB + 1, "must be a number of MiB above 10",
                    &r->conf->large_segment_bytes);
}

static uint64_t large_segment_mib(const vr_alloc_conf *c)
{
    return (c->large_segment_bytes != 0 ? c->large_segment_bytes : VR_LARGE_BUFFER) / VR_MIB;
}

static const char *const not_below_segment =
    "must be a number of MiB, at least large_segment_size_mb (20 unless set)";

static vram_status read_max_split(reader *r, const char *key)
{
    reader ahead = *r;
    if (vr_str_is(take_word(&ahead), "-1")) { /* becomes the largest number there is: unlimited */
        *r = ahead;
        r->conf->max_split_bytes = 0;
        return VRAM_OK;
    }
    VR_TRY(read_mib(r, key, large_segment_mib(r->conf), not_below_segment, &r->conf->max_split_bytes));
    if (r->conf->max_split_bytes == UINT64_MAX)
        r->conf->max_split_bytes = 0;
    return VRAM_OK;
}

static vram_status read_rounding(reader *r, const char *key)
{
    return read_mib(r, key, large_segment_mib(r->conf), not_below_segment, &r->conf->max_non_split_rounding);
}

/* A decimal between 0 and 1 in thousandths; more places are rounded, with a warning. */
static vram_status read_permille(reader *r, const char *key, bool one_is_fine, const char *must,
                                 unsigned *permille)
{
    vr_str word = take_word(r);
    uint64_t value, scale;
    if (!vr_parse_decimal(word, &value, &scale) || value == 0 || value > scale ||
        (value == scale && !one_is_fine))
        return refuse(r, key, word, must);
    uint64_t rounded = vr_mul_div(value, 1000, scale);
    if (rounded == 0)
        rounded = 1;
    *permille = (unsigned)rounded;
    if (scale > 1000 && value % (scale / 1000) != 0)
        return vr_warn(r->ctx, NULL, T("allocator setting "), T(key), T(" is taken as "),
                       FIXED(rounded, 1000, 3), T(" instead of "), S(word));
    return VRAM_OK;
}

static vram_status read_gc(reader *r, const char *key)
{
    return read_permille(r, key, false, "must lie between 0 and 1", &r->conf->gc_threshold_permille);
}

static vram_status read_fraction(reader *r, const char *key)
{
    reader ahead = *r;
    uint64_t value, scale;
    VR_TRY(read_permille(r, key, true, "must be above 0 and at most 1", &r->conf->memory_fraction_permille));
    if (vr_parse_decimal(take_word(&ahead), &value, &scale) && value == scale)
        r->conf->memory_fraction_permille = 0; /* the default: no fraction is set, nothing is collected */
    return VRAM_OK;
}

static vram_status read_expandable(reader *r, const char *key)
{
    return read_flag(r, key, &r->conf->expandable_segments);
}

static vram_status read_backend(reader *r, const char *key)
{
    vr_str word = take_word(r);
    if (vr_str_is(word, "native"))
        return VRAM_OK;
    if (vr_str_is(word, "cudaMallocAsync") || vr_str_is(word, "hipMallocAsync"))
        return vr_fail(r->ctx, VRAM_EUNSUPPORTED, T("allocator backend "), S(word),
                       T(" is the driver's own pool; none of PyTorch's allocator rules apply to it"));
    return refuse(r, key, word, "must be native or cudaMallocAsync");
}

/* ---- roundup_power2_divisions ---- */

static bool is_power_of_two(uint64_t x)
{
    return x != 0 && (x & (x - 1)) == 0;
}

static vram_status read_divisions(reader *r, const char *key, bool none_is_fine, uint32_t *out)
{
    vr_str word = take_word(r);
    uint64_t n;
    if (!vr_parse_u64(word, &n) || !(is_power_of_two(n) || (n == 0 && none_is_fine)))
        return refuse(r, key, word, "needs powers of two as divisions");
    *out = (uint32_t)(n < MOST_DIVISIONS ? n : MOST_DIVISIONS);
    return VRAM_OK;
}

static void fill(vr_alloc_conf *c, size_t from, size_t to, uint32_t divisions)
{
    for (size_t i = from; i < to; i++)
        c->roundup_divisions[i] = divisions;
}

/* The bucket of a boundary in MiB. */
static vram_status read_boundary(const reader *r, const char *key, vr_str word, size_t *bucket)
{
    uint64_t mib;
    if (!vr_parse_u64(word, &mib) || !is_power_of_two(mib))
        return refuse(r, key, word, "needs powers of two as boundaries in MiB, or >");
    for (*bucket = 0; mib > 1 && *bucket + 1 < VR_ROUNDUP_BUCKETS; (*bucket)++)
        mib /= 2;
    return VRAM_OK;
}

/* [256:1,512:2,>:4]: the first entry also holds for all smaller sizes, > for those above the last boundary
 * (up to PyTorch 2.8 it replaced the last boundary's own entry too). */
static vram_status read_division_list(reader *r, const char *key)
{
    size_t last = 0;
    for (bool first = true; !take(r, ']');) {
        vr_str boundary = take_word(r);
        uint32_t divisions = 0;
        size_t bucket = 0;
        if (!take(r, ':'))
            return refuse(r, key, boundary, "needs pairs like 256:2 between [ and ]");
        VR_TRY(read_divisions(r, key, true, &divisions));
        if (vr_str_is(boundary, ">")) {
            fill(r->conf, last + 1, VR_ROUNDUP_BUCKETS, divisions);
        } else {
            VR_TRY(read_boundary(r, key, boundary, &bucket));
            fill(r->conf, first ? 0 : bucket, bucket + 1, divisions);
            first = false;
            last = bucket;
        }
        if (!take(r, ',') && !(r->rest.n > 0 && r->rest.s[0] == ']'))
            return refuse(r, key, r->rest, "needs a ] at the end of its list");
    }
    return VRAM_OK;
}

static vram_status read_roundup(reader *r, const char *key)
{
    if (take(r, '['))
        return read_division_list(r, key);
    uint32_t divisions = 0;
    VR_TRY(read_divisions(r, key, false, &divisions));
    fill(r->conf, 0, VR_ROUNDUP_BUCKETS, divisions);
    return VRAM_OK;
}

/* ---- keys ---- */

static vram_status skip_value(reader *r, const char *key)
{
    if (take(r, '[')) {
        while (r->rest.n > 0 && r->rest.s[0] != ']') {
            r->rest.s++;
            r->rest.n--;
        }
        if (!take(r, ']'))
            return refuse(r, key, r->rest, "needs a ] at the end of its list");
    } else if (take_word(r).n == 0) {
        return refuse(r, key, r->rest, "needs a value");
    }
    return VRAM_OK;
}

static vram_status ignore(reader *r, const char *key)
{
    VR_TRY(skip_value(r, key));
    return vr_warn(r->ctx, NULL, T("allocator setting "), T(key),
                   T(" is not rehearsed: it does not change what is allocated"));
}

static vram_status ignore_early(reader *r, const char *key)
{
    VR_TRY(skip_value(r, key));
    return vr_warn(r->ctx, NULL, T("allocator setting "), T(key), T(" is not rehearsed"));
}

/* Keys of PyTorch 2.15 and how their values are read; pass 0 comes before pass 1 */
static const struct {
    const char *key;
    vram_status (*read)(reader *r, const char *key);
    int pass;
} keys[] = {
    { "large_segment_size_mb", read_large_segment, 0 },
    { "max_split_size_mb", read_max_split, 1 },
    { "max_non_split_rounding_mb", read_rounding, 1 },
    { "garbage_collection_threshold", read_gc, 1 },
    { "roundup_power2_divisions", read_roundup, 1 },
    { "expandable_segments", read_expandable, 1 },
    { "per_process_memory_fraction", read_fraction, 1 },
    { "backend", read_backend, 1 },
    /* locks, host memory, address space */
    { "release_lock_on_cudamalloc", ignore, 1 },
    { "release_lock_on_hipmalloc", ignore, 1 },
    { "pinned_use_background_threads", ignore, 1 },
    { "pinned_use_cuda_host_register", ignore, 1 },
    { "pinned_use_hip_host_register", ignore, 1 },
    { "pinned_num_register_threads", ignore, 1 },
    { "pinned_reserve_segment_size_mb", ignore, 1 },
    { "pinned_free_catch_all", ignore, 1 },
    { "expandable_segments_reserve", ignore, 1 },
    { "expandable_segments_reserve_by_class", ignore, 1 },
    /* changes when a refusal comes, and which blocks a graph capture may use again */
    { "throw_on_cudamalloc_oom", ignore_early, 1 },
    { "graph_capture_record_stream_reuse", ignore_early, 1 },
};
#define N_KEYS (sizeof(keys) / sizeof(keys[0]))

static vram_status unknown_key(const reader *r, vr_str key)
{
    return vr_fail(r->ctx, VRAM_ESETTING, T("unknown allocator setting '"), S(key),
                   T("'; those that change what is allocated are expandable_segments, max_split_size_mb, "
                     "roundup_power2_divisions, garbage_collection_threshold, max_non_split_rounding_mb, "
                     "large_segment_size_mb, per_process_memory_fraction and backend"));
}

static vram_status read_setting(reader *r, int pass)
{
    vr_str word = take_word(r);
    size_t i = 0;
    while (i < N_KEYS && !vr_str_is(word, keys[i].key))
        i++;
    if (i == N_KEYS)
        return unknown_key(r, word);
    if (!take(r, ':'))
        return refuse(r, keys[i].key, r->rest, "needs a colon and a value");
    return keys[i].pass == pass ? keys[i].read(r, keys[i].key) : skip_value(r, keys[i].key);
}

static vram_status read_all(reader *r, int pass)
{
    for (skip_space(r); r->rest.n > 0; skip_space(r)) {
        VR_TRY(read_setting(r, pass));
        skip_space(r);
        if (r->rest.n > 0 && !take(r, ','))
            return vr_fail(r->ctx, VRAM_ESETTING, T("allocator settings must be parted by commas, before '"),
                           S(r->rest), T("'"));
    }
    return VRAM_OK;
}

vram_status vr_alloc_conf_parse(vr_alloc_conf *out, vram_ctx *ctx, vr_str text)
{
    vr_alloc_conf conf = { 0 };
    for (int pass = 0; pass < 2; pass++) {
        reader r = { .ctx = ctx, .rest = text, .conf = &conf };
        VR_TRY(read_all(&r, pass));
    }
    if (conf.gc_threshold_permille != 0 && conf.memory_fraction_permille == 0)
        VR_TRY(vr_warn(ctx, NULL,
                       T("garbage_collection_threshold does nothing unless a memory fraction is set "
                         "(per_process_memory_fraction)")));
    *out = conf;
    return VRAM_OK;
}

static uint64_t or_else(uint64_t x, uint64_t fallback)
{
    return x != 0 ? x : fallback;
}

bool vr_alloc_conf_is_default(const vr_alloc_conf *c)
{
    for (size_t i = 0; i < VR_ROUNDUP_BUCKETS; i++) {
        if (c->roundup_divisions[i] > 1)
            return false;
    }
    /* max_non_split_rounding and the gc threshold do nothing without max_split_size and a memory fraction */
    return !c->expandable_segments && or_else(c->max_split_bytes, UINT64_MAX) == UINT64_MAX &&
           or_else(c->large_segment_bytes, VR_LARGE_BUFFER) == VR_LARGE_BUFFER &&
           c->memory_fraction_permille == 0;
}

bool vr_alloc_conf_verified(const vr_alloc_conf *c)
{
    /* Recorded runs at hand (tests/rehearsal/test_replay.c) were all made with the defaults. */
    return vr_alloc_conf_is_default(c);
}
