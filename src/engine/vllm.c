/* SPDX-License-Identifier: MIT
 * Engine vLLM (V1): weights, and what the tokens of the sequences need in its cache of blocks. What it takes
 * is another matter: a share of the card, whatever is asked for, and the cache gets what the rest leaves of
 * it.
 *
 * Sources: vLLM main of 2026-08-17 (about 0.27) and the tags before it, vllm/v1/kv_cache_interface.py (pages
 * and blocks of each kind of layer), v1/core/kv_cache_utils.py (pages of one size, groups),
 * platforms/interface.py (blocks of hybrid models), model_executor/layers/mamba/mamba_utils.py (states),
 * engine/arg_utils.py (max_num_batched_tokens). */
#include "engine/kv_rules.h"
#include "engine/options.h"
#include "engine/vllm_cache.h"

#define REST                                                                                                 \
    "what its passes, CUDA graphs and kernels take beside weights and cache is not worked out for vLLM yet"
#define LARGE_CARD (70 * VR_GIB)
#define LARGEST_CARD (160 * VR_GIB)

/* From this version on. */
static const struct {
    unsigned major, minor;
    uint32_t share;        /* gpu_memory_utilization; 0.92 since pull request 38284 */
    unsigned in_flight;    /* batches whose tokens can hold blocks of sliding layers; 47728, asynchronous
                              scheduling */
    bool largest;          /* 16,384 tokens on cards of 160 GiB; 51726 */
    uint64_t latent_align; /* of blocks beside recurrent layers; logs of 0.11 have 64 */
} versions[] = {
    { 0, 11, 900, 1, false, 64 },  { 0, 12, 900, 1, false, 128 }, { 0, 21, 920, 1, false, 128 },
    { 0, 26, 920, 2, false, 128 }, { 0, 27, 920, 2, true, 128 },
};
#define N_VERSIONS (sizeof(versions) / sizeof(versions[0]))

static size_t rules_of(const vram_workload *w)
{
    size_t i = N_VERSIONS - 1;
    while (i > 0 && w->version_minor < versions[i].minor && w->version_major == 0)
        i--;
    return i;
}

static vram_status version(vram_workload *w, vr_str text)
{
    unsigned major, minor;
    if (!vr_version_numbers(text, "v", &major, &minor))
        return vr_fail(w->ctx, VRAM_ESETTING, T("--engine-version '"), S(text),
                       T("': must be a version of vLLM, such as 0.27"));
    if (major == 0 && minor < versions[0].minor)
        return vr_fail(w->ctx, VRAM_ESETTING, T("vllm "), S(text), T(" is not known; the oldest known is 0."),
                       U(versions[0].minor));
    w->version_major = major;
    w->version_minor = minor;
    w->torch_given = false;
    return VRAM_OK;
}

/* ---- settings ---- */

static const vr_word mode_words[] = {
    { "auto", VR_MAMBA_AUTO },
    { "none", VR_MAMBA_NONE },
    { "align", VR_MAMBA_ALIGN },
    { NULL, 0 },
};

static uint32_t share_of(const vram_workload *w, uint64_t usable)
{
    (void)usable;
    return w->set_by[VR_SET_UTILIZATION] == VR_BY_USER ? w->utilization_permille
                                                       : versions[rules_of(w)].share;
}

VR_OPTION(utilization, vr_option_share(w, o, value, &w->utilization_permille),
          vr_option_share_text(share_of(w, UINT64_MAX), a))

/* engine/arg_utils.py, of the server; A100 of 80 GB count as small there, which a size does not tell. */
static uint64_t batched_tokens(const vram_workload *w, uint64_t usable)
{
    if (w->set_by[VR_SET_BATCHED_TOKENS] == VR_BY_USER)
        return w->batched_tokens;
    if (usable != UINT64_MAX && usable >= LARGEST_CARD && versions[rules_of(w)].largest)
        return 16384;
    return usable >= LARGE_CARD ? 8192 : 2048;
}

VR_OPTION(batched, vr_option_count(w, o, value, &w->batched_tokens),
          w->set_by[VR_SET_BATCHED_TOKENS] == VR_BY_USER ? vr_text(a, U(w->batched_tokens)) : "")

VR_OPTION(block, vr_option_count(w, o, value, &w->block_size),
          w->block_size != 0 ? vr_text(a, U(w->block_size)) : "")

VR_OPTION_FLAG(no_hybrid, no_hybrid)

VR_OPTION_WORDS(mode, mode_words, mamba_mode)

static const vr_option_row own[] = {
    { { "gpu_memory_utilization", "--gpu-memory-utilization", VRAM_OPT_STRING, "SHARE", NULL,
        "0.92; 0.9 before vLLM 0.21", "vllm: share of the card that it takes for itself.", "fit", 0, 0 },
      VR_SET_UTILIZATION,
      set_utilization,
      show_utilization },
    { { "max_num_batched_tokens", "--max-num-batched-tokens", VRAM_OPT_COUNT, "TOKENS", NULL,
        "8192, below 70 GiB 2048", "vllm: tokens computed at once, which sliding layers hold until then.",
        "fit", 1, VR_MOST_TOKENS },
      VR_SET_BATCHED_TOKENS,
      set_batched,
      show_batched },
    { { "block_size", "--block-size", VRAM_OPT_COUNT, "TOKENS", NULL, "16; 64 with latent attention",
        "vllm: tokens of a block of the cache.", "fit", 1, 1024 },
      VR_SET_BLOCK_SIZE,
      set_block,
      show_block },
    { { "disable_hybrid_kv_cache_manager", "--disable-hybrid-kv-cache-manager", VRAM_OPT_FLAG, NULL, NULL,
        NULL, "vllm: sliding layers keep every token.", "fit", 0, 0 },
      VR_SET_NO_HYBRID,
      set_no_hybrid,
      show_no_hybrid },
    { { "mamba_cache_mode", "--mamba-cache-mode", VRAM_OPT_CHOICE, "MODE", "auto|none|align",
        "auto: as align", "vllm: whether a second copy of recurrent states is kept for the prefix cache.",
        "fit", 0, 0 },
      VR_SET_MAMBA_MODE,
      set_mode,
      show_mode },
};

static const vr_option_row *const options[] = {
    &vr_row_dtype, &vr_row_kv_dtype, &own[0], &own[1], &own[2], &own[3], &own[4],
};

static vram_status defaults(vram_workload *w, const vram_model *m)
{
    vr_dtype_of_serving(w, m);
    return VRAM_OK;
}

/* ---- the cache ---- */

static vr_vllm_settings settings_of(const vram_workload *w, uint64_t usable)
{
    return (vr_vllm_settings){ .block = w->block_size,
                               .in_flight =
                                   vr_mul_sat(batched_tokens(w, usable), versions[rules_of(w)].in_flight),
                               .fp8 = w->kv_dtype == VR_KV_FP8 || w->kv_dtype == VR_KV_FP8_E5M2,
                               .no_hybrid = w->no_hybrid,
                               .latent_align = versions[rules_of(w)].latent_align,
                               .states = w->mamba_mode == VR_MAMBA_NONE ? 1 : 2 };
}

static const char *words_of(const vr_vllm_cache *c, const vram_workload *w, const vr_vllm_settings *s,
                            vr_arena *a)
{
    const char *text = vr_text(a, GROUPED(c->blocks), T(c->blocks == 1 ? " block of " : " blocks of "),
                               GROUPED(c->block_bytes), T(" B ("), GROUPED(c->block), T(" tokens)"));
    if (w->sequences > 1 && text != NULL)
        text = vr_text(a, T(text), T(" x "), GROUPED(w->sequences), T(" sequences"));
    if (c->groups > 1 && text != NULL)
        text = vr_text(a, T(text), T(", in "), GROUPED(c->groups), T(" groups of layers"));
    if (c->steady < c->bytes && text != NULL)
        text = vr_text(a, T(text), T("; with "), GROUPED(s->in_flight),
                       T(" tokens of the prompt in flight, afterwards "), BYTES(c->steady));
    return text;
}

/* Of encoders with decoders it runs Whisper. */
static const char *why_no_cache(const vram_model *m)
{
    if (m->source_positions != 0 && m->kv_known)
        return NULL;
    return m->gguf ? m->not_understood : vr_why_no_layers(m);
}

static vram_status cache_of(vr_sum *kv, vr_vllm_cache *c, const vram_model *m, const vram_workload *w,
                            const vr_device_facts *device, vr_arena *a)
{
    vr_vllm_settings s = settings_of(w, device->usable);
    const char *why = why_no_cache(m);
    *c = (vr_vllm_cache){ .bytes = 0 };
    if (why == NULL)
        vr_vllm_cache_of(c, m, w, &s);
    if (why == NULL)
        why = c->why;
    *kv = (vr_sum){ .words = why };
    if (why != NULL || vr_keeps_nothing(kv, m))
        return VRAM_OK;
    *kv = (vr_sum){ true, vr_basis_of(m), c->bytes, words_of(c, w, &s, a) };
    return kv->words == NULL ? VRAM_ENOMEM : VRAM_OK;
}

/* Of the share what the weights leave: an upper bound, for the rest is not counted. */
static vram_status tell_pool(vr_plan *out, const vr_vllm_cache *c, const vram_workload *w, uint64_t usable,
                             vr_arena *a)
{
    uint32_t share = share_of(w, usable);
    if (!vr_claims(out, usable, share))
        return VRAM_OK;
    out->pool_tokens = c->bytes != 0 ? vr_vllm_pool_tokens(c, w, out->pool_most) : 0;
    const char *who = vr_text(a, T("vLLM takes "), T(vr_option_share_text(share, a)), T(" of the card"));
    return who == NULL ? VRAM_ENOMEM : vr_tell_claim(out, who, a);
}

static vram_status plan(vr_plan *out, const vram_model *m, const vram_workload *w,
                        const vr_device_facts *device, vr_arena *a)
{
    static const vr_device_facts any = { .usable = UINT64_MAX };
    vr_sum weights, kv;
    vr_vllm_cache cache;
    *out = (vr_plan){ 0 };
    device = device != NULL ? device : &any;
    VR_TRY(vr_weights_loaded(&weights, &out->n_parameters, m, w, a));
    VR_TRY(cache_of(&kv, &cache, m, w, device, a));
    VR_TRY(vr_plan_of_sums(out, m, &weights, &kv, m->gguf ? m->not_understood : REST, a));
    out->refused = m->gguf || m->foreign ? m->not_understood : m->contradicted;
    out->as_stored = true;
    out->kv_token = cache.token_bytes;
    return tell_pool(out, &cache, w, device->usable, a);
}

const vr_engine vr_engine_vllm = {
    .name = "vllm",
    .summary = "vLLM on one NVIDIA GPU: weights and cache",
    .default_version = "0.27",
    .version = version,
    .plan = plan,
    .defaults = defaults,
    .share = share_of,
    .plans_by_size = true,
    .kv_dtypes =
        1u << VR_KV_AS_MODEL | 1u << VR_KV_BF16 | 1u << VR_KV_F16 | 1u << VR_KV_FP8 | 1u << VR_KV_FP8_E5M2,
    .kv_words = "must be one of auto, bf16, fp16, fp8, fp8_e5m2 for vllm",
    .options = options,
    .n_options = sizeof(options) / sizeof(options[0]),
};
