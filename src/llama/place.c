/* SPDX-License-Identifier: MIT
 * Which device each layer goes to, and the sizes of a run as they end up.
 *
 * Source: llama.cpp b10470, src/llama.cpp (llama_prepare_model_devices), src/llama-model.cpp (load_tensors),
 * src/llama-context.cpp (llama_context::llama_context). */
#include "llama/place.h"

#define PADDING 256            /* of a context, in tokens */
#define MOST_SEQUENCES 256     /* LLAMA_MAX_SEQ */
#define MAX_COPIES 4           /* GGML_SCHED_MAX_COPIES */
#define MOST_TOKENS UINT32_MAX /* llama.cpp keeps counts of tokens in 32 bits */

/* ---- devices ---- */

static vram_status add_devices(vr_lm_plan *plan, const vr_lm_params *p, const vr_lm_device *devices, size_t n,
                               vr_arena *a)
{
    vr_gg_machine *m = &plan->machine;
    bool single = p->split_mode == VR_LM_SPLIT_NONE && n > 0;
    unsigned cc = 0;
    for (size_t i = 0; i < n; i++) {
        plan->device_buft[i] = VR_GG_NOWHERE;
        if (single && i != p->main_gpu)
            continue;
        const char *name = vr_text(a, T("CUDA"), U(i));
        if (name == NULL)
            return VRAM_ENOMEM;
        plan->backend_device[m->n_backends] = (uint8_t)i;
        if (cc == 0 || (devices[i].cc != 0 && devices[i].cc < cc))
            cc = devices[i].cc;
        vr_gg_add_cuda(m, name, &plan->device_buft[i]);
    }
    plan->backend_device[m->n_backends] = VR_LM_HOST;
    bool any = m->n_backends != 0;
    vr_gg_add_cpu(m, &plan->pinned_buft, &plan->host_buft);
    if (!any)
        plan->pinned_buft = plan->host_buft;
    m->cc = cc != 0 ? cc : 89;
    m->op_offload = p->op_offload;
    return VRAM_OK;
}

static const char *refusal(const vr_lm_params *p, size_t n)
{
    if (p->split_mode == VR_LM_SPLIT_NONE && n > 0 && p->main_gpu >= n)
        return "--main-gpu names a GPU that is not there";
    if (p->split_mode == VR_LM_SPLIT_ROW && n > 0)
        return "CUDA's split buffers are gone from llama.cpp: --split-mode row does not start";
    if (p->n_seq_max > MOST_SEQUENCES)
        return "llama.cpp takes no more than 256 sequences";
    return NULL;
}

/* ---- layers ---- */

/* Ends of the devices' shares, the last at 1; llama.cpp reckons in single precision, and the borders between
 * devices depend on it. */
static void split_points(float *ends, const vr_lm_params *p, const vr_lm_device *devices, size_t n)
{
    float sum = 0;
    bool given = false, known = false;
    for (size_t i = 0; i < n; i++) {
        given = given || (float)p->tensor_split[i] != 0;
        known = known || devices[i].free_bytes != 0;
    }
    for (size_t i = 0; i < n; i++) {
        sum += given ? (float)p->tensor_split[i] : known ? (float)devices[i].free_bytes : 1.0F;
        ends[i] = sum;
    }
    for (size_t i = 0; i < n; i++)
        ends[i] /= sum;
}

static uint8_t device_at(const float *ends, size_t n, float at)
{
    size_t i = 0;
    while (i < n && !(at < ends[i]))
        i++;
    return (uint8_t)(i < n ? i : n - 1);
}

/* The output is one layer more. */
static vram_status place_layers(vr_lm_plan *plan, const vr_lm *lm, const vr_lm_params *p,
                                const vr_lm_device *devices, size_t n, vr_arena *a)
{
    float ends[VR_LM_MOST_DEVICES];
    uint64_t all = (uint64_t)lm->n_layer_all + 1;
    uint64_t on = n == 0 ? 0 : p->n_gpu_layers < all ? p->n_gpu_layers : all;
    bool single = p->split_mode == VR_LM_SPLIT_NONE;
    plan->layer_device = VR_ARRAY(a, uint8_t, all);
    if (plan->layer_device == NULL)
        return VRAM_ENOMEM;
    split_points(ends, p, devices, n);
    for (uint64_t i = 0; i < all; i++) {
        if (i < all - on)
            plan->layer_device[i] = VR_LM_HOST;
        else
            plan->layer_device[i] =
                single ? p->main_gpu : device_at(ends, n, (float)(i - (all - on)) / (float)on);
    }
    plan->pipelined = n > 1 && p->n_gpu_layers >= all && p->split_mode == VR_LM_SPLIT_LAYER &&
                      p->offload_kqv && !plan->overridden;
    plan->machine.copies = plan->pipelined ? MAX_COPIES : 1;
    return VRAM_OK;
}

uint8_t vr_lm_plain_buft(const vr_lm_plan *plan, uint32_t il)
{
    uint8_t device = plan->layer_device[il];
    return device == VR_LM_HOST ? plan->pinned_buft : plan->device_buft[device];
}

/* ---- sizes ---- */

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static bool has_encoder(const vr_lm *lm)
{
    return vr_str_is(lm->name, "t5") || vr_str_is(lm->name, "t5encoder") || vr_str_is(lm->name, "eagle3") ||
           vr_str_is(lm->name, "dflash");
}

void vr_lm_normalise(vr_lm_plan *plan, const vr_lm *lm, const vr_lm_params *p)
{
    uint64_t context = least(p->n_ctx == 0 ? lm->n_ctx_train : p->n_ctx, MOST_TOKENS);
    plan->n_seq_max = p->n_seq_max == 0 ? 1 : p->n_seq_max;
    plan->n_batch = lm->causal ? least(context, p->n_batch) : p->n_batch;
    plan->n_ubatch = least(plan->n_batch, p->n_ubatch == 0 ? p->n_batch : p->n_ubatch);
    plan->n_outputs_max = p->n_outputs_max == 0 || has_encoder(lm) ? plan->n_batch : p->n_outputs_max;
    plan->n_stream = p->kv_unified ? 1 : plan->n_seq_max;
    plan->n_ctx = vr_round_up(context, PADDING);
    plan->n_ctx_seq = plan->n_ctx;
    if (!p->kv_unified) {
        plan->n_ctx_seq = vr_round_up(plan->n_ctx / plan->n_seq_max, PADDING);
        plan->n_ctx = plan->n_ctx_seq * plan->n_seq_max;
    }
    if (plan->n_ctx_seq == 0)
        plan->refused = "there is no context: -c and the file's context_length are both 0";
}

/* ---- the whole ---- */

vram_status vr_lm_plan_of(vr_lm_plan *out, const vr_lm *lm, const vr_lm_params *p,
                          const vr_lm_device *devices, size_t n, vr_arena *a)
{
    if (n > VR_LM_MOST_DEVICES)
        n = VR_LM_MOST_DEVICES;
    *out = (vr_lm_plan){ .n_devices = n, .refused = refusal(p, n) };
    if (out->refused != NULL)
        return VRAM_OK;
    if (p->split_mode == VR_LM_SPLIT_TENSOR && n > 0) {
        out->unknown = "how --split-mode tensor cuts the weights is not worked out";
        return VRAM_OK;
    }
    out->overridden = p->n_overrides != 0 || p->n_cpu_moe != 0;
    VR_TRY(add_devices(out, p, devices, n, a));
    VR_TRY(place_layers(out, lm, p, devices, n, a));
    vr_lm_normalise(out, lm, p);
    VR_TRY(vr_lm_place_weights(out, lm, p, a));
    return vr_lm_place_caches(out, lm, p, a);
}
