/* SPDX-License-Identifier: MIT
 * --split-mode row on CUDA, which builds before b9890 have: matrices are cut by rows over all cards, each
 * card having its share; norms, experts and caches are whole on the card of their layer (before b3990 on the
 * main one).
 *
 * Source: llama.cpp b9000, ggml/src/ggml-cuda/ggml-cuda.cu (get_row_rounding, get_row_split,
 * ggml_backend_cuda_split_buffer_init_tensor, ggml_backend_cuda_split_buffer_type, supports_op), mmq.cuh
 * (get_mmq_y_host), src/llama-model.cpp (make_gpu_buft_list). */
#include "llama/place.h"

#define ROW_PADDING 512 /* MATRIX_ROW_PADDING, here of every type */
#define VOLTA 70

/* What the library's graph multiplies is known of plain layers only. */
static bool has_other_parts(const vr_lm *lm)
{
    for (uint32_t il = 0; il < lm->n_layer_all; il++) {
        const vr_lm_layer *l = &lm->layers[il];
        for (size_t i = 0; i < l->n_weights; i++) {
            vr_str name = l->weights[i].name;
            if (!vr_str_starts(name, "attn_") && !vr_str_starts(name, "ffn_") &&
                !vr_str_starts(name, "post_") && !vr_str_starts(name, "exp_probs_b") &&
                !vr_str_starts(name, "layer_output"))
                return true;
        }
    }
    return false;
}

const char *vr_lm_rows_unknown(const vr_lm *lm, uint32_t build)
{
    if (has_other_parts(lm))
        return "which matrices of this architecture --split-mode row cuts is not worked out";
    if (build < VR_LM_LAYERS_SPREAD && lm->n_expert != 0)
        return "how --split-mode row of this build cuts experts is not worked out";
    return NULL;
}

/* Shares as they are typed; by what the cards have in all otherwise. */
void vr_lm_cut_rows(vr_lm_plan *plan, const vr_lm_params *p, const vr_lm_device *devices, size_t n)
{
    float sum = 0;
    bool given = false, known = true;
    for (size_t i = 0; i < n; i++) {
        given = given || (float)p->tensor_split[i] != 0;
        known = known && devices[i].total_bytes != 0;
    }
    plan->cuts_rows = true;
    plan->on_main_gpu = p->build < VR_LM_LAYERS_SPREAD;
    for (size_t i = 0; i < n; i++) {
        float free_bytes = devices[i].free_bytes != 0 ? (float)devices[i].free_bytes : 1.0F;
        plan->rows_from[i] = sum;
        sum += given ? (float)p->tensor_split[i] : known ? (float)devices[i].total_bytes : free_bytes;
    }
    for (size_t i = 0; i < n; i++)
        plan->rows_from[i] /= sum;
    for (size_t i = 0; i < n; i++) {
        bool any = plan->rows_from[i] < (i + 1 < n ? plan->rows_from[i + 1] : 1.0F);
        uint64_t rounding = devices[i].cc != 0 && devices[i].cc < VOLTA ? 64 : 128;
        if (any && rounding > plan->row_rounding)
            plan->row_rounding = rounding;
    }
}

static uint64_t row_at(const vr_lm_plan *plan, uint64_t rows, size_t i)
{
    if (i == 0)
        return 0;
    if (i >= plan->n_devices)
        return rows;
    uint64_t at = (uint64_t)((float)rows * plan->rows_from[i]);
    return at - (plan->row_rounding != 0 ? at % plan->row_rounding : 0);
}

static bool is_matrix(const vr_lm_weight *w)
{
    bool named = vr_str_ends(w->name, ".weight") && !vr_str_ends(w->name, "norm.weight");
    return named && w->ne[1] > 1 && w->ne[2] == 1 && w->ne[3] == 1 && !vr_str_find(w->name, "_exps.", NULL);
}

static size_t device_of(const vr_lm_plan *plan, uint8_t buft)
{
    size_t i = 0;
    while (i < plan->n_devices && plan->device_buft[i] != buft)
        i++;
    return i;
}

bool vr_lm_is_cut(const vr_lm_plan *plan, const vr_lm_weight *w, uint8_t buft)
{
    size_t own = device_of(plan, buft);
    if (!plan->cuts_rows || own == plan->n_devices || !is_matrix(w))
        return false;
    /* of a small matrix nothing may be left for the card that computes with it: then it is not cut */
    return row_at(plan, w->ne[1], own + 1) > row_at(plan, w->ne[1], own);
}

uint64_t vr_lm_cut_bytes(const vr_lm_plan *plan, const vr_lm_weight *w, size_t device)
{
    uint64_t from = row_at(plan, w->ne[1], device), to = row_at(plan, w->ne[1], device + 1);
    uint64_t over = w->ne[0] % ROW_PADDING;
    if (to <= from)
        return 0;
    uint64_t bytes = vr_mul_sat(to - from, vr_gg_row_size(w->type, w->ne[0]));
    return over == 0 ? bytes : vr_add_sat(bytes, vr_gg_row_size(w->type, ROW_PADDING - over));
}

/* Each card multiplies its rows with what the layer's card sends, and sends its part of the product back. */
uint64_t vr_lm_cut_pool(const vr_lm_plan *plan, const vr_lm_weight *w, size_t device, uint64_t tokens)
{
    uint64_t rows = row_at(plan, w->ne[1], device + 1) - row_at(plan, w->ne[1], device);
    uint64_t in_8_bits = vr_round_up(w->ne[0], ROW_PADDING) / 32 * 36;
    uint64_t each = vr_add_sat(vr_mul_sat(vr_add_sat(w->ne[0], rows), 4), in_8_bits);
    return rows != 0 ? vr_mul_sat(tokens, each) : 0;
}
