/* SPDX-License-Identifier: MIT
 * Which device each layer goes to, and the sizes of a run as they end up.
 *
 * Source: llama.cpp b10470, src/llama.cpp (llama_prepare_model_devices), src/llama-model.cpp (load_tensors),
 * src/llama-context.cpp (llama_context::llama_context). */
#include "llama/place.h"
#include "llama/traits.h"

#define MAX_COPIES 4 /* GGML_SCHED_MAX_COPIES */
#define WHOLE_EXPERTS                                                                                        \
    3990 /* 2024-10-30, "refactor model loader with backend registry": no more merged from parts */

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
    m->cc = cc;
    const vr_lm_rules *r = &plan->rules;
    m->op_offload = p->op_offload && r->offload != 0;
    m->past = (vr_gg_past){ .sinks_decide = r->small_offload == 0,
                            .f16_in_pool = r->flash_copy == 0,
                            .fill_apart = r->fill_in_place == 0,
                            .split_inputs = r->split_inputs,
                            .full_goes_on = r->full_goes_on != 0,
                            .keeps_fused = r->keeps_fused != 0,
                            .cache_types_mix = r->cache_types_mix != 0,
                            .inputs_last = r->inputs_last != 0 };
    return VRAM_OK;
}

static bool names_what_is_not_there(const vr_lm_params *p, size_t n)
{
    for (size_t i = 0; i < p->n_overrides; i++) {
        if (p->overrides[i].device != VR_LM_HOST && p->overrides[i].device >= n)
            return true;
    }
    return false;
}

static const char *split_refusal(const vr_lm_rules *r, const vr_lm_params *p, size_t n)
{
    bool one = p->split_mode == VR_LM_SPLIT_NONE ||
               (p->split_mode == VR_LM_SPLIT_ROW && p->build < VR_LM_LAYERS_SPREAD);
    if (one && p->main_gpu >= n)
        return "--main-gpu names a GPU that is not there";
    if (p->split_mode == VR_LM_SPLIT_ROW && r->row_split == 0)
        return "this build's CUDA devices do not support split buffers, which --split-mode row needs";
    if (p->split_mode == VR_LM_SPLIT_TENSOR && r->tensor_split == 0)
        return "this build has no --split-mode tensor";
    return NULL;
}

static const char *refusal(const vr_lm_rules *r, const vr_lm_params *p, size_t n)
{
    const char *why = n > 0 ? split_refusal(r, p, n) : NULL;
    if (names_what_is_not_there(p, n))
        return "a tensor override names a GPU that is not there";
    if (why != NULL)
        return why;
    if (r->most_sequences != 0 && p->n_seq_max > r->most_sequences)
        return r->most_sequences == 64 ? "this build takes no more than 64 sequences"
                                       : "it takes no more than 256 sequences";
    return NULL;
}

static const char *not_known(const vr_lm *lm, const vr_lm_rules *r, const vr_lm_params *p, size_t n)
{
    if (lm->disagrees != NULL)
        return lm->disagrees;
    if (lm->split_experts && p->build >= WHOLE_EXPERTS)
        return "llama.cpp does not load the file: each expert has tensors of its own, which builds "
               "from b3990 on do not read; it has to be converted again";
    if (n > 0 && r->quantised_v == 0 && vr_dtype_ggml((vr_dtype)p->type_v))
        return "what this build does with a quantised V cache on a card is not known";
    if (p->split_mode == VR_LM_SPLIT_ROW && n > 1)
        return vr_lm_rows_unknown(lm, p->build);
    if (p->split_mode == VR_LM_SPLIT_TENSOR && n > 0)
        return "how --split-mode tensor cuts the weights is not worked out";
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

/* Layers on the devices, the output being one more; older builds left the output for the last to come. */
typedef struct range {
    uint64_t first, n;
    bool output;
} range;

static range on_devices(const vr_lm_plan *plan, const vr_lm *lm, const vr_lm_params *p)
{
    uint64_t all = (uint64_t)lm->n_layer_all + 1, asked = p->n_gpu_layers < all ? p->n_gpu_layers : all;
    if (plan->rules.output_first != 0)
        return (range){ all - asked, asked, asked != 0 };
    return (range){ vr_sub_floor(lm->n_layer_all, p->n_gpu_layers), asked, asked == all };
}

static uint8_t device_of(const vr_lm_plan *plan, const vr_lm_params *p, const range *on, const float *ends,
                         size_t n, uint64_t layer)
{
    if (p->split_mode == VR_LM_SPLIT_NONE || plan->on_main_gpu)
        return p->main_gpu;
    return device_at(ends, n, (float)(layer - on->first) / (float)on->n);
}

static vram_status place_layers(vr_lm_plan *plan, const vr_lm *lm, const vr_lm_params *p,
                                const vr_lm_device *devices, size_t n, vr_arena *a)
{
    float ends[VR_LM_MOST_DEVICES];
    range on = on_devices(plan, lm, p);
    plan->layer_device = VR_ARRAY(a, uint8_t, (size_t)lm->n_layer_all + 1);
    if (plan->layer_device == NULL)
        return VRAM_ENOMEM;
    split_points(ends, p, devices, n);
    for (uint64_t i = 0; i <= lm->n_layer_all; i++) {
        bool there = i < lm->n_layer_all ? i >= on.first : on.output;
        plan->layer_device[i] = VR_LM_HOST;
        if (n != 0 && on.n != 0 && there)
            plan->layer_device[i] = device_of(plan, p, &on, ends, n, i);
    }
    plan->pipelined = n > 1 && plan->rules.pipeline != 0 && p->n_gpu_layers > lm->n_layer_all &&
                      p->split_mode == VR_LM_SPLIT_LAYER && !plan->overridden &&
                      (p->offload_kqv || plan->rules.pipeline_kv == 0);
    plan->machine.copies = plan->pipelined ? MAX_COPIES : 1;
    return VRAM_OK;
}

uint8_t vr_lm_plain_buft(const vr_lm_plan *plan, uint32_t il)
{
    uint8_t device = plan->layer_device[il];
    return device == VR_LM_HOST ? plan->pinned_buft : plan->device_buft[device];
}

/* ---- sizes ---- */

static bool has_encoder(const vr_lm *lm)
{
    return vr_str_is(lm->name, "t5") || vr_str_is(lm->name, "t5encoder") || vr_str_is(lm->name, "eagle3") ||
           vr_str_is(lm->name, "dflash");
}

static void count(vr_lm_plan *plan, const vr_lm *lm, const vr_lm_params *p)
{
    vr_lm_cells c;
    vr_lm_cells_of(&c, &plan->rules, lm, p, vr_lm_has(lm, VR_LM_HYBRID));
    plan->n_ctx = c.n_ctx;
    plan->n_ctx_seq = c.n_ctx_seq;
    plan->n_seq_max = c.n_seq_max;
    plan->n_stream = c.n_stream;
    plan->n_batch = c.n_batch;
    plan->n_ubatch = c.n_ubatch;
    plan->n_tokens = c.n_tokens;
    plan->cells = c.full;
    plan->swa_cells = c.sliding;
    plan->n_outputs_max = p->n_outputs_max == 0 || has_encoder(lm) ? c.n_batch : p->n_outputs_max;
    if (plan->n_ctx_seq == 0)
        plan->refused = "there is no context: neither -c nor the file's context_length says one";
}

/* ---- the whole ---- */

/* ggml's own part of what a build does otherwise. */
static vr_gg_past past_of(const vr_lm_rules *r)
{
    return (vr_gg_past){ .sinks_decide = r->small_offload == 0,
                         .f16_in_pool = r->flash_copy == 0,
                         .fill_apart = r->fill_in_place == 0,
                         .split_inputs = r->split_inputs };
}

vram_status vr_lm_plan_of(vr_lm_plan *out, const vr_lm *lm, const vr_lm_params *p,
                          const vr_lm_device *devices, size_t n, vr_arena *a)
{
    if (n > VR_LM_MOST_DEVICES)
        n = VR_LM_MOST_DEVICES;
    *out = (vr_lm_plan){ .n_devices = n };
    vr_lm_rules_of(&out->rules, p->build);
    out->refused = refusal(&out->rules, p, n);
    out->unknown = not_known(lm, &out->rules, p, n);
    if (out->refused != NULL || out->unknown != NULL)
        return VRAM_OK;
    out->machine.past = past_of(&out->rules);
    out->overridden = p->n_overrides != 0 || p->n_cpu_moe != 0;
    VR_TRY(add_devices(out, p, devices, n, a));
    if (p->split_mode == VR_LM_SPLIT_ROW && n > 0)
        vr_lm_cut_rows(out, p, devices, n);
    VR_TRY(place_layers(out, lm, p, devices, n, a));
    count(out, lm, p);
    VR_TRY(vr_lm_place_weights(out, lm, p, a));
    return vr_lm_place_caches(out, lm, p, a);
}
