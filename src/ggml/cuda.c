/* SPDX-License-Identifier: MIT
 * Which operations run on an NVIDIA card.
 * Source: ggml 0.20, ggml/src/ggml-cuda/ggml-cuda.cu (ggml_backend_cuda_device_supports_op),
 * lightning-indexer.cu; built with CUDA 11.7 or newer (sorting with CUB). */
#include "ggml/parts.h"

enum {
    MULTIPLIES = 1,     /* a matrix of MUL_MAT */
    PICKS = 2,          /* rows of GET_ROWS */
    PICKS_BY_BLOCK = 4, /* the same, when rows have whole blocks of 256 */
    IS_SET = 8,         /* SET_ROWS from F32 */
    IS_COPIED = 16,     /* CPY to and from F32 */
    IS_WRITTEN = 32,    /* CPY from F32 */
    INDEXES = 64        /* keys of LIGHTNING_INDEXER */
};

static const uint8_t can[VR_DTYPE_COUNT] = {
    [VR_F32] = MULTIPLIES | PICKS | IS_SET | INDEXES,
    [VR_F16] = MULTIPLIES | PICKS | IS_SET | INDEXES,
    [VR_BF16] = MULTIPLIES | PICKS | IS_SET | INDEXES,
    [VR_I32] = PICKS,
    [VR_Q1_0] = MULTIPLIES | PICKS,
    [VR_Q2_0] = MULTIPLIES | PICKS,
    [VR_Q4_0] = MULTIPLIES | PICKS | IS_SET | IS_COPIED | INDEXES,
    [VR_Q4_1] = MULTIPLIES | PICKS | IS_SET | IS_COPIED | INDEXES,
    [VR_Q5_0] = MULTIPLIES | PICKS | IS_SET | IS_COPIED | INDEXES,
    [VR_Q5_1] = MULTIPLIES | PICKS | IS_SET | IS_COPIED | INDEXES,
    [VR_Q8_0] = MULTIPLIES | PICKS | IS_SET | IS_COPIED | INDEXES,
    [VR_MXFP4] = MULTIPLIES | PICKS_BY_BLOCK,
    [VR_NVFP4] = MULTIPLIES,
    [VR_Q2_K] = MULTIPLIES | PICKS,
    [VR_Q3_K] = MULTIPLIES | PICKS,
    [VR_Q4_K] = MULTIPLIES | PICKS,
    [VR_Q5_K] = MULTIPLIES | PICKS,
    [VR_Q6_K] = MULTIPLIES | PICKS,
    [VR_Q8_K] = MULTIPLIES,
    [VR_IQ1_M] = MULTIPLIES | PICKS,
    [VR_IQ1_S] = MULTIPLIES | PICKS,
    [VR_IQ2_S] = MULTIPLIES | PICKS,
    [VR_IQ2_XS] = MULTIPLIES | PICKS,
    [VR_IQ2_XXS] = MULTIPLIES | PICKS,
    [VR_IQ3_S] = MULTIPLIES | PICKS,
    [VR_IQ3_XXS] = MULTIPLIES | PICKS,
    [VR_IQ4_NL] = MULTIPLIES | PICKS_BY_BLOCK | IS_SET | IS_WRITTEN,
    [VR_IQ4_XS] = MULTIPLIES | PICKS,
};

static bool type_can(const vr_gg_tensor *t, unsigned what)
{
    return (can[t->type] & what) != 0;
}

static bool is_float(const vr_gg_tensor *t)
{
    return t->type == VR_F32 || t->type == VR_F16;
}

static bool multiplies(const vr_gg_tensor *t)
{
    const vr_gg_tensor *a = t->src[0], *b = t->src[1];
    return a->nb[0] == vr_gg_element_size(a) && b->nb[0] == vr_gg_element_size(b) &&
           (b->type != VR_F16 || a->type == VR_F16) && type_can(a, MULTIPLIES);
}

static bool gets_rows(const vr_gg_tensor *t)
{
    const vr_gg_tensor *a = t->src[0];
    return type_can(a, PICKS) || (type_can(a, PICKS_BY_BLOCK) && a->ne[0] % 256 == 0);
}

static bool sets_rows(const vr_gg_tensor *t)
{
    const vr_gg_tensor *from = t->src[0], *ids = t->src[1];
    bool types = (from->type == VR_F32 && type_can(t, IS_SET)) || (from->type == VR_F16 && t->type == VR_F16);
    return types && (ids->type == VR_I64 || ids->type == VR_I32);
}

static bool sets(const vr_gg_tensor *t)
{
    return (t->type == VR_F32 || t->type == VR_I32) && t->src[0]->type == t->type &&
           t->src[1]->type == t->type;
}

static bool copies_types(const vr_gg_tensor *from, const vr_gg_tensor *to)
{
    bool wide = from->type == VR_BF16 || is_float(from);
    if (wide && (to->type == VR_BF16 || is_float(to)))
        return true;
    if (from->type == VR_F32)
        return type_can(to, IS_COPIED | IS_WRITTEN) || to->type == VR_I32;
    if (from->type == VR_I32)
        return to->type == VR_F32 || to->type == VR_I32;
    return to->type == VR_F32 && type_can(from, IS_COPIED);
}

static bool copies(const vr_gg_tensor *t)
{
    const vr_gg_tensor *from = t->src[0], *to = t->src[1];
    return copies_types(from, to) ||
           (from->type == to->type && vr_gg_is_contiguous(from) && vr_gg_is_contiguous(to));
}

static bool repeats(const vr_gg_tensor *t)
{
    return is_float(t->src[0]);
}

static bool joins_blocks(const vr_gg_tensor *a, const vr_gg_tensor *b, int dim)
{
    int axes = dim == 3 ? VR_GG_DIMS : 3;
    uint64_t block = vr_dtype_block(a->type);
    return vr_gg_contiguous_but(a, 0, axes) && vr_gg_contiguous_but(b, 0, axes) && a->ne[0] % block == 0 &&
           b->ne[0] % block == 0;
}

static bool joins(const vr_gg_tensor *t)
{
    const vr_gg_tensor *a = t->src[0], *b = t->src[1];
    uint64_t size = vr_gg_element_size(a);
    if (a->type != b->type || a->type != t->type)
        return false;
    return vr_dtype_ggml(a->type) ? joins_blocks(a, b, t->detail)
                                  : size == 1 || size == 2 || size == 4 || size == 8;
}

static bool adds(const vr_gg_tensor *t)
{
    return is_float(t->src[0]) && is_float(t->src[1]) && is_float(t);
}

static bool scans(const vr_gg_tensor *t)
{
    const vr_gg_tensor *s = t->src[0];
    if (t->src[3]->ne[0] == 1) /* Mamba-2 */
        return (s->ne[0] == 128 || s->ne[0] == 256) && s->ne[1] % 16 == 0;
    return t->detail == 0 && s->ne[0] == 16 && s->ne[1] == 1 && s->ne[2] % 128 == 0 && t->src[4]->ne[1] == 1;
}

static bool convolves_state(const vr_gg_tensor *t)
{
    return t->src[0]->ne[1] % 128 == 0;
}

static bool rotates(const vr_gg_tensor *t)
{
    const vr_gg_tensor *a = t->src[0];
    return a->nb[0] == vr_gg_element_size(a) && vr_gg_contiguous_but(a, 2, VR_GG_DIMS);
}

static bool on_packed(const vr_gg_tensor *t)
{
    return vr_gg_is_contiguous(t->src[0]);
}

static bool on_two_packed(const vr_gg_tensor *t)
{
    return vr_gg_is_contiguous(t->src[0]) && vr_gg_is_contiguous(t->src[1]);
}

static bool on_packed_but_rows(const vr_gg_tensor *t)
{
    return vr_gg_contiguous_but(t->src[0], 1, VR_GG_DIMS);
}

static bool on_rows(const vr_gg_tensor *t)
{
    return vr_gg_contiguous_rows(t->src[0]);
}

static bool on_floats(const vr_gg_tensor *t)
{
    for (int i = 0; i < VR_GG_MAX_SRC; i++) {
        if (t->src[i] != NULL && t->src[i]->type != VR_F32)
            return false;
    }
    return t->type == VR_F32;
}

static bool aligned(const vr_gg_tensor *t)
{
    return vr_dtype_ggml(t->type) || (t->nb[1] % 16 == 0 && t->nb[2] % 16 == 0 && t->nb[3] % 16 == 0);
}

static bool indexes(const vr_gg_tensor *t)
{
    const vr_gg_tensor *q = t->src[0], *k = t->src[1];
    return q->ne[0] == 128 && (q->ne[1] == 64 || q->ne[1] == 32) && aligned(q) && aligned(k) &&
           type_can(k, INDEXES);
}

static bool always(const vr_gg_tensor *t)
{
    (void)t;
    return true;
}

/* An operation that is not here never runs. */
static bool (*const runs[VR_GG_OP_COUNT])(const vr_gg_tensor *) = {
    [VR_GG_NONE] = always,
    [VR_GG_RESHAPE] = always,
    [VR_GG_VIEW] = always,
    [VR_GG_PERMUTE] = always,
    [VR_GG_TRANSPOSE] = always,
    [VR_GG_ADD] = adds,
    [VR_GG_ADD_ID] = always,
    [VR_GG_SUB] = adds,
    [VR_GG_MUL] = adds,
    [VR_GG_DIV] = adds,
    [VR_GG_SQR] = always,
    [VR_GG_SQRT] = always,
    [VR_GG_SUM_ROWS] = on_packed,
    [VR_GG_CUMSUM] = always,
    [VR_GG_MEAN] = on_packed,
    [VR_GG_REPEAT] = repeats,
    [VR_GG_CONCAT] = joins,
    [VR_GG_NORM] = on_rows,
    [VR_GG_RMS_NORM] = on_rows,
    [VR_GG_GROUP_NORM] = on_packed,
    [VR_GG_L2_NORM] = on_rows,
    [VR_GG_MUL_MAT] = multiplies,
    [VR_GG_MUL_MAT_ID] = multiplies,
    [VR_GG_SCALE] = always,
    [VR_GG_SET] = sets,
    [VR_GG_CPY] = copies,
    [VR_GG_CONT] = always,
    [VR_GG_GET_ROWS] = gets_rows,
    [VR_GG_SET_ROWS] = sets_rows,
    [VR_GG_DIAG] = always,
    [VR_GG_SOFT_MAX] = always,
    [VR_GG_ROPE] = rotates,
    [VR_GG_ROPE_BACK] = rotates,
    [VR_GG_CLAMP] = always,
    [VR_GG_IM2COL] = on_two_packed,
    [VR_GG_POOL_2D] = always,
    [VR_GG_UPSCALE] = always,
    [VR_GG_PAD] = always,
    [VR_GG_ARANGE] = always,
    [VR_GG_ARGSORT] = always,
    [VR_GG_TOP_K] = always,
    [VR_GG_TRI] = always,
    [VR_GG_FILL] = always,
    [VR_GG_SSM_CONV] = convolves_state,
    [VR_GG_SSM_SCAN] = scans,
    [VR_GG_RWKV_WKV6] = always,
    [VR_GG_RWKV_WKV7] = always,
    [VR_GG_GATED_LINEAR_ATTN] = always,
    [VR_GG_GATED_DELTA_NET] = always,
    [VR_GG_SOLVE_TRI] = always,
    [VR_GG_LIGHTNING_INDEXER] = indexes,
    [VR_GG_DSV4_HC_COMB] = on_floats,
    [VR_GG_DSV4_HC_PRE] = on_floats,
    [VR_GG_DSV4_HC_POST] = on_floats,
    [VR_GG_UNARY] = on_packed,
    [VR_GG_GLU] = on_packed_but_rows,
};

/* What v0.5.0 and newer builds see otherwise. */
static bool runs_now(const vr_gg_tensor *t)
{
    switch (t->op) {
    case VR_GG_SUM_ROWS:
    case VR_GG_MEAN:
        return on_rows(t) && t->src[0]->type == VR_F32;
    case VR_GG_MUL_MAT_ID:
        return t->detail == 0 && multiplies(t);
    default:
        return runs[t->op] != NULL && runs[t->op](t);
    }
}

/* Memory of another card. */
static bool elsewhere(const vr_gg_machine *m, uint8_t backend, const vr_gg_tensor *src)
{
    return src != NULL && src->buft != VR_GG_NOWHERE && m->bufts[src->buft].row_padding > 0 &&
           src->buft != m->backends[backend].buft;
}

bool vr_gg_cuda_runs(const vr_gg_machine *m, uint8_t backend, const vr_gg_tensor *t)
{
    for (int i = 0; i < VR_GG_MAX_SRC; i++) {
        if (elsewhere(m, backend, t->src[i]))
            return false;
    }
    if (t->op == VR_GG_FLASH_ATTN_EXT)
        return vr_gg_attention_kernel(m, t) != VR_GG_KERNEL_NONE;
    if (m->past.keeps_fused)
        return runs_now(t);
    return runs[t->op] != NULL && runs[t->op](t);
}
