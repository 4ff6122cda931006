/* SPDX-License-Identifier: MIT
 * Engine SGLang: weights, and how large its pools must be for the tokens of the sequences. What it takes is a
 * share of what was free before it loaded the model, and the pools get what weights leave of it.
 *
 * Sources: SGLang 0.5.18 and main of 2026-08-22, python/sglang/srt/: mem_cache/kv_cache_configurator.py
 * (bytes of a token, the two pools of models with sliding layers), mem_cache/memory_pool.py (a pool has one
 * slot more), configs/model_config.py (is_hybrid_swa_model), server_args.py (mem_fraction_static). */
#include "engine/kv_rules.h"
#include "engine/options.h"

#define REST                                                                                                 \
    "what its passes, CUDA graphs and kernels take beside weights and cache is not worked out for SGLang "   \
    "yet"
#define SWA_RATIO 800  /* permille: swa_full_tokens_ratio */
#define RADIX_SLOTS 3  /* states of a running sequence with the prefix cache (MAMBA_CACHE_SIZE_..._RATIO) */
#define INDEX_SCALE 4  /* bytes: a fp32 scale of each index key in fp8 */
#define SPARSE_FP8 656 /* latent 512 and 4 scales, 64 rotated in 16 bits */
#define LARGE_CARD (60 * VR_GIB)

/* Two pools, for full and for sliding layers; of other models sliding layers keep every token. */
static const char *const two_pools[] = {
    "Llama4ForConditionalGeneration",
    "GptOssForCausalLM",
    "MiMoV2FlashForCausalLM",
    "Step3p5ForCausalLM",
    "Gemma4ForCausalLM",
    "Gemma4ForConditionalGeneration",
};

static vram_status version(vram_workload *w, vr_str text)
{
    unsigned major, minor;
    if (!vr_version_numbers(text, "v", &major, &minor))
        return vr_fail(w->ctx, VRAM_ESETTING, T("--engine-version '"), S(text),
                       T("': must be a version of SGLang, such as 0.5"));
    if (major == 0 && minor < 5)
        return vr_fail(w->ctx, VRAM_ESETTING, T("sglang "), S(text),
                       T(" is not known; the oldest known is 0.5"));
    w->version_major = major;
    w->version_minor = minor;
    w->torch_given = false;
    return VRAM_OK;
}

/* ---- what it takes of a card ---- */

/* By the card's total, in GiB below which a row holds: tokens of a prefill and the largest graph of decoding.
 */
static const struct {
    unsigned below;
    uint64_t prefill, decode, prefill_graphs;
} tiers[] = {
    { 20, 2048, 8, 42 },    { 35, 2048, 24, 42 },        { 60, 4096, 32, 50 },
    { 160, 8192, 256, 58 }, { 1 << 20, 16384, 512, 74 },
};

/* server_args.py: what is set aside for activations and graphs, in MiB. */
static uint32_t default_share(uint64_t usable)
{
    size_t i = 0;
    uint64_t mib = usable / VR_MIB, aside;
    while (usable / VR_GIB >= tiers[i].below && i + 1 < sizeof(tiers) / sizeof(tiers[0]))
        i++;
    aside = 512 + tiers[i].prefill * 3 / 2 + 2 * tiers[i].decode + 1024 / 8 + 8 * tiers[i].prefill_graphs;
    if (usable >= LARGE_CARD && aside < 10240)
        aside = 10240;
    return mib > aside ? (uint32_t)vr_mul_div(mib - aside, 1000, mib) : 1;
}

static uint32_t share_of(const vram_workload *w, uint64_t usable)
{
    if (w->set_by[VR_SET_STATIC_SHARE] == VR_BY_USER)
        return w->static_permille;
    return usable == 0 || usable == UINT64_MAX ? 1000 : default_share(usable);
}

/* ---- settings ---- */

VR_OPTION(share, vr_option_share(w, o, value, &w->static_permille),
          w->set_by[VR_SET_STATIC_SHARE] == VR_BY_USER ? vr_option_share_text(w->static_permille, a) : "")

static uint32_t ratio_of(const vram_workload *w)
{
    return w->swa_ratio_permille != 0 ? w->swa_ratio_permille : SWA_RATIO;
}

VR_OPTION(ratio, vr_option_share(w, o, value, &w->swa_ratio_permille), vr_option_share_text(ratio_of(w), a))

VR_OPTION_FLAG(no_radix, no_radix)

static const vr_option_row own[] = {
    { { "mem_fraction_static", "--mem-fraction-static", VRAM_OPT_STRING, "SHARE", NULL,
        "by the card: 0.83 of 24 GiB and of 80", "sglang: share of the free memory for weights and cache.",
        "fit", 0, 0 },
      VR_SET_STATIC_SHARE,
      set_share,
      show_share },
    { { "swa_full_tokens_ratio", "--swa-full-tokens-ratio", VRAM_OPT_STRING, "RATIO", NULL, "0.8",
        "sglang: tokens of the pool for sliding layers over those of the other, where there are two.", "fit",
        0, 0 },
      VR_SET_SWA_RATIO,
      set_ratio,
      show_ratio },
    { { "disable_radix_cache", "--disable-radix-cache", VRAM_OPT_FLAG, NULL, NULL, NULL,
        "sglang: no prefix cache, so one recurrent state a sequence instead of three.", "fit", 0, 0 },
      VR_SET_NO_RADIX,
      set_no_radix,
      show_no_radix },
};

static const vr_option_row *const options[] = { &vr_row_dtype, &vr_row_kv_dtype, &own[0], &own[1], &own[2] };

static vram_status defaults(vram_workload *w, const vram_model *m)
{
    vr_dtype_of_serving(w, m);
    return VRAM_OK;
}

/* ---- the pools ---- */

typedef struct pools {
    uint64_t full, sliding,
        state; /* bytes of a token, of a token in the pool of sliding layers, of a sequence */
    uint64_t tokens, sliding_tokens, states; /* slots, the one more included */
    uint64_t bytes;
} pools;

static bool has_two(const vram_model *m)
{
    for (size_t i = 0; i < sizeof(two_pools) / sizeof(two_pools[0]); i++) {
        if (m->architecture != NULL && vr_str_is(vr_str_of(m->architecture), two_pools[i]))
            return true;
    }
    return false;
}

/* An index's keys are kept in every layer that chooses by one, also in those that take what another chose. */
static uint64_t index_bytes(const vram_model *m, const vr_layer *l)
{
    uint64_t most = 0;
    for (uint64_t i = 0; i < m->n_layers && l->index_topk != 0; i++) {
        uint64_t n = vr_layer_kept(&m->layers[i]).index;
        most = n > most ? n : most;
    }
    return most != 0 ? most + INDEX_SCALE : 0;
}

static uint64_t token_bytes(const vram_model *m, const vr_layer *l, const vram_workload *w)
{
    vr_kept k = vr_layer_kept(l);
    bool fp8 = w->kv_dtype == VR_KV_FP8 || w->kv_dtype == VR_KV_FP8_E5M2;
    uint64_t index = index_bytes(m, l);
    if (fp8 && index != 0)
        return SPARSE_FP8 + index;
    return vr_add_sat(vr_mul_sat(vr_add_sat(k.keys, k.values), fp8 ? 1 : vr_dtype_bits(w->dtype) / 8), index);
}

/* The convolution's inputs but for the current one in the model's dtype; states in fp32. */
static uint64_t state_bytes(const vr_layer *l, const vram_workload *w)
{
    uint64_t conv = vr_mul_sat(l->conv_channels, vr_sub_floor(l->conv_taps, 1));
    return vr_add_sat(vr_mul_sat(conv, vr_dtype_bits(w->dtype) / 8),
                      vr_mul_sat(vr_layer_state_elements(l), 4));
}

static pools pools_of(const vram_model *m, const vram_workload *w)
{
    pools p = { .tokens = vr_add_sat(vr_mul_sat(w->context, w->sequences), 1) };
    bool two = has_two(m);
    for (uint64_t i = 0; i < m->n_layers; i++) {
        const vr_layer *l = &m->layers[i];
        uint64_t *to = two && l->window != 0 ? &p.sliding : &p.full;
        *to = vr_add_sat(*to, token_bytes(m, l, w));
        if (vr_layer_keeps_state(l))
            p.state = vr_add_sat(p.state, state_bytes(l, w));
    }
    p.sliding_tokens = p.sliding != 0 ? vr_add_sat(vr_mul_sat(p.tokens - 1, ratio_of(w)) / 1000, 1) : 0;
    if (p.state != 0)
        p.states = vr_add_sat(vr_mul_sat(w->sequences, w->no_radix ? 1 : RADIX_SLOTS), 1);
    p.bytes = vr_add_sat(vr_mul_sat(p.full, p.tokens), vr_mul_sat(p.sliding, p.sliding_tokens));
    p.bytes = vr_add_sat(p.bytes, vr_mul_sat(p.state, p.states));
    return p;
}

static const char *words_of(const pools *p, vr_arena *a)
{
    const char *text =
        p->full != 0 ? vr_text(a, GROUPED(p->tokens), T(" slots x "), GROUPED(p->full), T(" B")) : "";
    if (text != NULL && p->sliding != 0)
        text = vr_text(a, T(text), T(" and "), GROUPED(p->sliding_tokens), T(" of sliding layers x "),
                       GROUPED(p->sliding), T(" B"));
    if (text != NULL && p->state != 0)
        text = vr_text(a, T(text), T(*text != '\0' ? " and " : ""), GROUPED(p->states), T(" states of "),
                       BYTES(p->state));
    return text;
}

static vram_status cache_of(vr_sum *kv, pools *p, const vram_model *m, const vram_workload *w, vr_arena *a)
{
    const char *why = m->gguf ? m->not_understood : vr_why_no_layers(m);
    for (uint64_t i = 0; why == NULL && i < m->n_layers; i++)
        if (m->layers[i].recurrent == VR_RECURRENT_MAMBA1)
            why = "what SGLang keeps of a Mamba-1 is not known";
    *p = (pools){ .full = 0 };
    *kv = (vr_sum){ .words = why };
    if (why != NULL || vr_keeps_nothing(kv, m))
        return VRAM_OK;
    *p = pools_of(m, w);
    *kv = (vr_sum){ true, vr_basis_of(m), p->bytes, words_of(p, a) };
    return kv->words == NULL ? VRAM_ENOMEM : VRAM_OK;
}

/* Of the share what the weights leave: an upper bound, for the share is of what is free beside CUDA's
 * context. */
static vram_status tell_pool(vr_plan *out, const pools *p, const vram_workload *w, uint64_t usable,
                             vr_arena *a)
{
    uint32_t share = share_of(w, usable);
    uint64_t token = p->tokens != 0 ? p->bytes / p->tokens : 0;
    if (!vr_claims(out, usable, share))
        return VRAM_OK;
    out->pool_tokens = token != 0 && p->state == 0 ? out->pool_most / token : 0;
    const char *who = vr_text(a, T("SGLang gives weights and cache "), T(vr_option_share_text(share, a)),
                              T(" of the card at most"));
    return who == NULL ? VRAM_ENOMEM : vr_tell_claim(out, who, a);
}

static vram_status plan(vr_plan *out, const vram_model *m, const vram_workload *w,
                        const vr_device_facts *device, vr_arena *a)
{
    static const vr_device_facts any = { .usable = UINT64_MAX };
    vr_sum weights, kv;
    pools p;
    *out = (vr_plan){ 0 };
    device = device != NULL ? device : &any;
    VR_TRY(vr_weights_loaded(&weights, &out->n_parameters, m, w, a));
    VR_TRY(cache_of(&kv, &p, m, w, a));
    VR_TRY(vr_plan_of_sums(out, m, &weights, &kv, m->gguf ? m->not_understood : REST, a));
    out->refused = m->gguf || m->foreign ? m->not_understood : m->contradicted;
    out->as_stored = true;
    out->kv_token = vr_add_sat(p.full, vr_mul_div(p.sliding, ratio_of(w), 1000));
    return tell_pool(out, &p, w, device->usable, a);
}

const vr_engine vr_engine_sglang = {
    .name = "sglang",
    .summary = "SGLang on one NVIDIA GPU: weights and cache",
    .default_version = "0.5",
    .version = version,
    .plan = plan,
    .defaults = defaults,
    .share = share_of,
    .plans_by_size = true,
    .kv_dtypes = 1u << VR_KV_AS_MODEL | 1u << VR_KV_BF16 | 1u << VR_KV_FP8 | 1u << VR_KV_FP8_E5M2,
    .kv_words = "must be one of auto, bf16, fp8, fp8_e5m2 for sglang",
    .options = options,
    .n_options = sizeof(options) / sizeof(options[0]),
};
