/* SPDX-License-Identifier: MIT
 * In which buffer each weight lies: its layer's device, unless a pattern says otherwise or the device has no
 * kernel for its type; the input layer always stays on the host.
 *
 * Source: llama.cpp b10470, src/llama-arch.cpp (LLM_TENSOR_INFOS), src/llama-model-loader.cpp (create_tensor,
 * select_weight_buft), src/models/ (load_arch_tensors), common/common.h (LLM_FFN_EXPS_REGEX),
 * ggml/src/ggml-cuda/ggml-cuda.cu (supports_op), ggml/src/ggml-cpu/repack.cpp. */
#include "llama/pattern.h"
#include "llama/place.h"

#define EXPERTS "\\.ffn_(up|down|gate|gate_up)_(ch|)exps"
#define MOST_NAME 128 /* llama.cpp's names of tensors are under 64 bytes */

typedef struct placing {
    vr_lm_plan *plan;
    const vr_lm *lm;
    const vr_lm_params *p;
    const struct vr_pattern **patterns; /* of p->overrides */
    const struct vr_pattern *experts;
} placing;

static bool is_one_of(vr_str name, const char *const *list)
{
    for (; *list != NULL; list++) {
        if (vr_str_is(name, *list))
            return true;
    }
    return false;
}

static bool starts_one_of(vr_str name, const char *const *list)
{
    for (; *list != NULL; list++) {
        if (vr_str_starts(name, *list))
            return true;
    }
    return false;
}

/* ---- what a back end can do with a weight ---- */

static bool of_input(vr_str name)
{
    static const char *const names[] = { "token_embd.", "position_embd.", "token_types.",
                                         "per_layer_token_embd.", NULL };
    return starts_one_of(name, names);
}

static bool cuda_gathers(uint8_t type, uint64_t row)
{
    switch (type) {
    case VR_IQ4_NL:
    case VR_MXFP4:
        return row % 256 == 0;
    case VR_NVFP4:
    case VR_TQ1_0:
    case VR_TQ2_0:
    case VR_Q8_1:
    case VR_Q8_K:
        return false;
    default:
        return type == VR_F32 || type == VR_F16 || type == VR_BF16 || vr_dtype_ggml(type);
    }
}

static bool cuda_multiplies(uint8_t type)
{
    switch (type) {
    case VR_TQ1_0:
    case VR_TQ2_0:
    case VR_Q8_1:
        return false;
    default:
        return type == VR_F32 || type == VR_F16 || type == VR_BF16 || type == VR_I32 || vr_dtype_ggml(type);
    }
}

/* ssm_a of Mamba and Mamba-2, which decides by its shape which of them it is. */
static bool cuda_scans(const vr_lm *lm, const vr_lm_weight *w, const vr_lm_rules *r)
{
    static const char *const scanned[] = { "mamba",      "mamba2",         "jamba",
                                           "falcon-h1",  "plamo2",         "granitehybrid",
                                           "nemotron_h", "nemotron_h_moe", NULL };
    static const char *const once[] = { "kimi-linear", "kimi-k3", NULL }; /* taken for a scan's */
    uint64_t heads = w->ne[1], width = heads != 0 ? lm->ssm_inner / heads : 0;
    bool scan = is_one_of(lm->name, scanned) || (r->decay_alone == 0 && is_one_of(lm->name, once));
    if (!scan)
        return true;
    if (w->ne[0] == 1)
        return (lm->ssm_state == 128 || lm->ssm_state == 256) && width % 16 == 0;
    return w->ne[0] == 16 && width == 1 && heads % 128 == 0 && lm->ssm_groups <= 1;
}

static bool cuda_takes(const vr_lm *lm, const vr_lm_weight *w, const vr_lm_rules *r)
{
    if (of_input(w->name))
        return cuda_gathers(w->type, w->ne[0]);
    if (vr_str_is(w->name, "ffn_gate_tid2eid.weight"))
        return w->type == VR_I32 || cuda_gathers(w->type, w->ne[0]);
    if (vr_str_is(w->name, "ssm_a"))
        return cuda_scans(lm, w, r);
    if (vr_str_starts(w->name, "ssm_conv1d.") || vr_str_is(w->name, "shortconv.conv.weight"))
        return vr_str_ends(w->name, ".bias") || w->ne[1] % 128 == 0;
    return cuda_multiplies(w->type);
}

/* On a CPU with AVX2: such matrices are laid out anew in a buffer of their own. */
static bool cpu_repacks(const vr_lm_weight *w)
{
    bool packed = w->type == VR_Q4_0 || w->type == VR_Q4_K || w->type == VR_IQ4_NL || w->type == VR_MXFP4;
    return packed && w->ne[1] % 8 == 0 && w->ne[2] == 1;
}

/* ---- patterns ---- */

/* "blk.17.ffn_up.weight", as patterns see it. */
static vr_str whole_name(const vr_lm_weight *w)
{
    return w->tensor->name;
}

/* The layer of blk.N., or n_layer_all. */
static bool experts_stay(const placing *c, uint32_t il, vr_str name)
{
    return c->experts != NULL && il < c->lm->n_layer_all && il < c->p->n_cpu_moe &&
           vr_lm_pattern_found(c->experts, name);
}

/* *buft: where a pattern sends it. */
static bool overridden(const placing *c, const vr_lm_weight *w, uint32_t il, uint8_t host, uint8_t *buft)
{
    for (size_t i = 0; i < c->p->n_overrides; i++) {
        uint8_t device = c->p->overrides[i].device;
        if (!vr_lm_pattern_found(c->patterns[i], whole_name(w)))
            continue;
        bool there = device != VR_LM_HOST && device < c->plan->n_devices;
        *buft = there ? c->plan->device_buft[device] : host;
        return true;
    }
    *buft = host;
    return experts_stay(c, il, whole_name(w));
}

/* ---- one weight ---- */

static uint8_t placed(const placing *c, const vr_lm_weight *w, uint32_t il, uint8_t device)
{
    const vr_lm_plan *plan = c->plan;
    bool takes = cuda_takes(c->lm, w, &c->plan->rules);
    uint8_t host = takes ? plan->pinned_buft : plan->host_buft, buft = host;
    if (overridden(c, w, il, host, &buft))
        return buft;
    return device == VR_LM_HOST || !takes ? host : plan->device_buft[device];
}

static vram_status place_layer(const placing *c, uint32_t il, vr_arena *a)
{
    const vr_lm_layer *l = &c->lm->layers[il];
    uint8_t *bufts = VR_ARRAY(a, uint8_t, l->n_weights);
    c->plan->weight_buft[il] = bufts;
    if (bufts == NULL)
        return VRAM_ENOMEM;
    for (size_t i = 0; i < l->n_weights; i++)
        bufts[i] = vr_lm_loaded(c->lm, c->p, &c->plan->rules, il, l->weights[i].name)
                       ? placed(c, &l->weights[i], il, c->plan->layer_device[il])
                       : VR_GG_NOWHERE;
    return VRAM_OK;
}

/* Tensors without a layer's number in their name; enc.blk.N and dec.blk.N have one. */
static uint32_t layer_of(const vr_lm *lm, vr_str name)
{
    static const char *const first[] = { "token_embd_norm.", "per_layer_model_proj.", "per_layer_proj_norm.",
                                         "rope_", NULL };
    uint64_t layer = 0;
    vr_str digits;
    /* what has this name in LFM2 is the norm of the output */
    bool of_output = vr_str_starts(lm->name, "lfm2") && vr_str_starts(name, "token_embd_norm.");
    if (!of_output && starts_one_of(name, first))
        return 0;
    if (vr_str_starts(name, "enc.blk.") || vr_str_starts(name, "dec.blk.")) {
        vr_str rest = { name.s + 8, name.n - 8 };
        if (vr_str_split(&rest, '.', &digits) && vr_parse_u64(digits, &layer) && layer < lm->n_layer_all)
            return (uint32_t)layer;
    }
    return lm->n_layer_all;
}

static bool unused(vr_str name)
{
    static const char *const names[] = { "masked_embd_", NULL };
    return starts_one_of(name, names) || vr_str_ends(name, ".cross_attn_rel_b.weight");
}

static vram_status place_outside(const placing *c, vr_arena *a)
{
    const vr_lm *lm = c->lm;
    vr_lm_plan *plan = c->plan;
    plan->outside_buft = VR_ARRAY(a, uint8_t, lm->n_outside);
    if (plan->outside_buft == NULL)
        return VRAM_ENOMEM;
    for (size_t i = 0; i < lm->n_outside; i++) {
        const vr_lm_weight *w = &lm->outside[i];
        uint32_t il = layer_of(lm, w->name);
        uint8_t device = of_input(w->name) ? VR_LM_HOST : plan->layer_device[il];
        plan->outside_buft[i] = unused(w->name) ? VR_GG_NOWHERE : placed(c, w, lm->n_layer_all, device);
    }
    return VRAM_OK;
}

/* ---- the head ---- */

/* Encoders have none. */
static bool headless(const vr_lm *lm)
{
    static const char *const names[] = {
        "bert",        "nomic-bert",   "nomic-bert-moe", "neo-bert",         "eurobert",
        "modern-bert", "jina-bert-v2", "jina-bert-v3",   "wavtokenizer-dec", NULL
    };
    return is_one_of(lm->name, names);
}

/* The embedding as a matrix: what takes rows of a type need not multiply with it. */
static uint8_t copy_buft(const placing *c, const vr_lm_weight *w)
{
    const vr_lm_plan *plan = c->plan;
    uint8_t device = plan->layer_device[c->lm->n_layer_all], buft;
    bool takes = cuda_multiplies(w->type);
    uint8_t host = takes ? plan->pinned_buft : plan->host_buft;
    if (overridden(c, w, c->lm->n_layer_all, host, &buft))
        return buft;
    return device == VR_LM_HOST || !takes ? host : plan->device_buft[device];
}

/* Those make the head first, before there is a matrix that it could share. */
static bool head_first(const vr_lm *lm)
{
    return vr_str_is(lm->name, "gemma3n") || vr_str_is(lm->name, "gemma4");
}

static void share_embedding(const placing *c, size_t i)
{
    const vr_lm_weight *w = &c->lm->outside[i];
    vr_lm_plan *plan = c->plan;
    if (vr_str_is(c->lm->name, "bitnet")) { /* multiplies with the very matrix that it looks up in */
        plan->head_buft = plan->outside_buft[i];
        return;
    }
    plan->head_buft = copy_buft(c, w);
    bool apart = plan->head_buft == plan->host_buft && !c->p->no_repack && cpu_repacks(w);
    plan->head_copied = apart || head_first(c->lm) || plan->head_buft != plan->outside_buft[i];
}

static void place_head(const placing *c)
{
    const vr_lm *lm = c->lm;
    vr_lm_plan *plan = c->plan;
    size_t embedding = lm->n_outside;
    plan->head_buft = VR_GG_NOWHERE;
    for (size_t i = 0; i < lm->n_outside; i++) {
        if (vr_str_is(lm->outside[i].name, "output.weight"))
            plan->head_buft = plan->outside_buft[i];
        if (vr_str_is(lm->outside[i].name, "token_embd.weight"))
            embedding = i;
    }
    if (plan->head_buft == VR_GG_NOWHERE && embedding < lm->n_outside && !headless(lm))
        share_embedding(c, embedding);
    if (embedding == lm->n_outside)
        plan->head_copied = plan->head_buft != VR_GG_NOWHERE && vr_str_is(lm->name, "codeshell");
}

/* ---- the whole ---- */

static vram_status read_patterns(placing *c, vr_arena *a)
{
    const char *why = NULL;
    c->patterns = VR_ARRAY(a, const struct vr_pattern *, c->p->n_overrides);
    if (c->patterns == NULL)
        return VRAM_ENOMEM;
    for (size_t i = 0; i < c->p->n_overrides; i++) {
        VR_TRY(vr_lm_pattern(&c->patterns[i], &why, c->p->overrides[i].pattern, a));
        if (c->patterns[i] == NULL) {
            c->plan->refused =
                vr_text(a, T("--override-tensor '"), T(c->p->overrides[i].pattern), T("': "), T(why));
            return c->plan->refused == NULL ? VRAM_ENOMEM : VRAM_OK;
        }
    }
    return c->p->n_cpu_moe == 0 ? VRAM_OK : vr_lm_pattern(&c->experts, &why, EXPERTS, a);
}

vram_status vr_lm_place_weights(vr_lm_plan *plan, const vr_lm *lm, const vr_lm_params *p, vr_arena *a)
{
    placing c = { .plan = plan, .lm = lm, .p = p };
    VR_TRY(read_patterns(&c, a));
    if (plan->refused != NULL)
        return VRAM_OK;
    plan->weight_buft = VR_ARRAY(a, uint8_t *, lm->n_layer_all);
    if (plan->weight_buft == NULL)
        return VRAM_ENOMEM;
    for (uint32_t il = 0; il < lm->n_layer_all; il++)
        VR_TRY(place_layer(&c, il, a));
    VR_TRY(place_outside(&c, a));
    place_head(&c);
    return VRAM_OK;
}
