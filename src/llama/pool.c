/* SPDX-License-Identifier: MIT
 * What CUDA's kernels put aside in a pool of their own while a matrix is multiplied: activations in 8 bits
 * for quantised weights, in 16 for others, and where there are no kernels for packed weights the weights in
 * 16 bits. The pool grows by whole pages and never shrinks: the most that any product takes stays.
 *
 * Source: llama.cpp b10470, ggml/src/ggml-cuda/ggml-cuda.cu (ggml_cuda_op_mul_mat_cublas,
 * ggml_cuda_pool_vmm), mmq.cu (ggml_cuda_mul_mat_q, ggml_cuda_should_use_mmq), quantize.cuh (block_q8_1_mmq).
 */
#include "llama/place.h"

#define PAGE (2 * VR_MIB)
#define VOLTA 70
#define TURING 75
#define SMALL_BATCH 64 /* MMQ_DP4A_MAX_BATCH_SIZE */

/* Rows of activations that a weight is multiplied with. */
static uint64_t rows_of(const vr_lm *lm, const vr_lm_plan *plan, const vr_lm_weight *w, bool head)
{
    bool experts = w->ne[2] > 1 && lm->n_expert_used > 1;
    uint64_t tokens = head && plan->n_outputs_max < plan->n_tokens ? plan->n_outputs_max : plan->n_tokens;
    return experts ? vr_mul_sat(tokens, lm->n_expert_used) : tokens;
}

static uint64_t in_8_bits(const vr_lm_weight *w, uint64_t rows)
{
    return vr_mul_sat(rows, vr_mul_sat(vr_round_up(w->ne[0], 512) / 32, 36));
}

static uint64_t in_16_bits(const vr_lm_weight *w, uint64_t rows)
{
    return vr_mul_sat(2, vr_mul_sat(rows, vr_add_sat(w->ne[0], w->ne[1])));
}

static uint64_t product(const vr_lm *lm, const vr_lm_plan *plan, const vr_lm_weight *w, bool head)
{
    unsigned cc = plan->machine.cc;
    uint64_t rows = rows_of(lm, plan, w, head);
    if (w->ne[1] == 1 || w->type == VR_F32)
        return 0;
    if (!vr_dtype_ggml((vr_dtype)w->type))
        return in_16_bits(w, rows);
    if (cc >= VOLTA && cc < TURING && rows >= SMALL_BATCH)
        return vr_add_sat(in_16_bits(w, rows), vr_mul_sat(2, vr_mul_sat(w->ne[0], w->ne[1])));
    return in_8_bits(w, rows);
}

static void take(uint64_t *most, uint64_t bytes)
{
    *most = bytes > *most ? bytes : *most;
}

/* Before the compute buffer had it: a 16-bit copy of a layer's cache, for attention over another type. */
static uint64_t cache_copy(const vr_lm_plan *plan, const vr_lm_cache *c)
{
    uint64_t rows = vr_mul_sat(c->cells, c->streams);
    bool copies = plan->rules.flash_copy == 0 && plan->copies_cache && c->reuses == 0;
    return copies ? vr_mul_sat(2, vr_mul_sat(rows, vr_add_sat(c->k_width, c->v_width))) : 0;
}

static size_t device_of(const vr_lm_plan *plan, uint8_t buft)
{
    size_t i = 0;
    while (i < plan->n_devices && plan->device_buft[i] != buft)
        i++;
    return i;
}

/* Of matrices that are cut, all cards have a part. */
static uint64_t cut_products(const vr_lm *lm, const vr_lm_plan *plan, uint8_t buft)
{
    uint64_t most = 0;
    size_t device = device_of(plan, buft);
    for (uint32_t il = 0; plan->cuts_rows && device < plan->n_devices && il < lm->n_layer_all; il++) {
        for (size_t i = 0; i < lm->layers[il].n_weights; i++) {
            const vr_lm_weight *w = &lm->layers[il].weights[i];
            if (vr_lm_is_cut(plan, w, plan->weight_buft[il][i]))
                take(&most, vr_lm_cut_pool(plan, w, device, plan->n_tokens));
        }
    }
    return most;
}

uint64_t vr_lm_pool(const vr_lm *lm, const vr_lm_plan *plan, uint8_t buft)
{
    uint64_t most = 0;
    for (uint32_t il = 0; il < lm->n_layer_all; il++) {
        for (size_t i = 0; i < lm->layers[il].n_weights; i++) {
            if (plan->weight_buft[il][i] == buft)
                take(&most, product(lm, plan, &lm->layers[il].weights[i], false));
        }
    }
    for (uint32_t il = 0; il < lm->n_layer_all && plan->caches_unknown == NULL; il++) {
        if (plan->layer_device[il] != VR_LM_HOST && plan->device_buft[plan->layer_device[il]] == buft)
            take(&most, cache_copy(plan, &plan->caches[il]));
    }
    const vr_lm_weight *head = vr_lm_find_outside(lm, "output.weight");
    if (head == NULL)
        head = vr_lm_find_outside(lm, "token_embd.weight");
    if (head != NULL && plan->head_buft == buft)
        take(&most, product(lm, plan, head, true));
    if (head != NULL && vr_lm_is_cut(plan, head, plan->head_buft))
        take(&most, vr_lm_cut_pool(plan, head, device_of(plan, buft), rows_of(lm, plan, head, true)));
    take(&most, cut_products(lm, plan, buft));
    return vr_round_up(most, PAGE);
}
