/* SPDX-License-Identifier: MIT
 * Which of CUDA's attention kernels runs, if any: by head size, group of heads, types of keys and values, and
 * the card's compute capability. Source: ggml 0.20, ggml/src/ggml-cuda/fattn.cu
 * (ggml_cuda_get_best_fattn_kernel). */
#include "ggml/parts.h"

#define KEYS_STRIDE 256 /* FATTN_KQ_STRIDE */
#define ADA 89
#define TURING 75
#define VOLTA 70

/* One attention, as the rules look at it. */
typedef struct attention {
    const vr_gg_tensor *q, *k, *v, *mask;
    uint64_t group; /* query heads of a key head */
    bool grouped;   /* the kernels may compute a group at once */
    unsigned cc;
    bool long_heads; /* heads of 256 are long: v0.5.0 */
} attention;

static bool aligned(const vr_gg_tensor *t)
{
    if (t == NULL || vr_dtype_ggml(t->type))
        return true;
    return t->nb[1] % 16 == 0 && t->nb[2] % 16 == 0 && t->nb[3] % 16 == 0;
}

/* Head sizes of keys and values that there are kernels for. */
static const struct {
    uint16_t k, v,
        group; /* group: the kernel needs groups of a multiple of so many heads; 0: it needs none */
} head_sizes[] = {
    { 40, 40, 0 },   { 64, 64, 0 },   { 72, 72, 0 },   { 80, 80, 0 },    { 96, 96, 0 },   { 112, 112, 0 },
    { 128, 128, 0 }, { 256, 256, 0 }, { 192, 128, 8 }, { 320, 256, 32 }, { 512, 512, 1 }, { 576, 512, 1 },
};

static bool has_head_size(const attention *a)
{
    for (size_t i = 0; i < sizeof head_sizes / sizeof head_sizes[0]; i++) {
        if (head_sizes[i].k != a->k->ne[0])
            continue;
        uint64_t group = head_sizes[i].group;
        return head_sizes[i].v == a->v->ne[0] && (group == 0 || (a->grouped && a->group % group == 0));
    }
    return false;
}

static bool has_type(const vr_gg_machine *m, uint8_t type)
{
    switch (type) {
    case VR_F32:
    case VR_F16:
    case VR_BF16:
    case VR_Q4_0:
    case VR_Q8_0:
        return true;
    case VR_Q4_1:
    case VR_Q5_0:
    case VR_Q5_1:
        return m->past.cache_types_mix;
    default:
        return false;
    }
}

static bool has_types(const vr_gg_machine *m, const attention *a)
{
    return (a->k->type == a->v->type || m->past.cache_types_mix) && has_type(m, a->k->type) &&
           has_type(m, a->v->type);
}

static bool quantised(const attention *a)
{
    return vr_dtype_ggml(a->k->type) || vr_dtype_ggml(a->v->type);
}

/* Is the kernel for few queries the better one (or the only one), on tensor cores from Turing on? */
static bool few_queries(const attention *a)
{
    uint64_t n = a->q->ne[1];
    if (n == 1 && !a->grouped)
        return true;
    if (quantised(a))
        return n <= (a->cc >= ADA ? 2 : 1);
    bool much = a->k->ne[1] >= 8192 || (a->long_heads && a->q->ne[0] >= 256);
    return a->cc >= ADA && n == 1 && a->q->ne[3] == 1 && !(a->group > 4 && much);
}

/* Columns of a group that one block of Volta's kernels takes. */
static uint64_t columns(const attention *a)
{
    uint64_t head = a->q->ne[0], most = head == 320 ? 32 : head == 576 || head == 192 ? 16 : 8, n = 1;
    while (a->group % (2 * n) == 0 && n < most)
        n *= 2;
    return n;
}

static vr_gg_kernel on_volta(const attention *a, bool vec)
{
    uint64_t n = vr_mul_sat(a->q->ne[1], columns(a));
    if (vec && n <= 2)
        return VR_GG_KERNEL_VEC;
    return n <= 16 ? VR_GG_KERNEL_TILE : VR_GG_KERNEL_MMA;
}

static vr_gg_kernel without_tensor_cores(const attention *a, bool vec)
{
    uint64_t n = a->q->ne[1];
    bool few = quantised(a) ? n <= 2 : n == 1 && !a->grouped;
    return vec && few ? VR_GG_KERNEL_VEC : VR_GG_KERNEL_TILE;
}

static vr_gg_kernel best(const attention *a)
{
    uint64_t head = a->q->ne[0];
    bool vec = head <= 256 && head % 64 == 0 && head != 192 && a->k->ne[1] % KEYS_STRIDE == 0;
    bool cores = head != 40 && head != 72;
    if (cores && a->cc >= TURING)
        return vec && few_queries(a) ? VR_GG_KERNEL_VEC : VR_GG_KERNEL_MMA;
    if (cores && a->cc >= VOLTA)
        return on_volta(a, vec);
    return without_tensor_cores(a, vec);
}

vr_gg_kernel vr_gg_attention_kernel(const vr_gg_machine *m, const vr_gg_tensor *t)
{
    attention a = { .q = t->src[0],
                    .k = t->src[1],
                    .v = t->src[2],
                    .mask = t->src[3],
                    .cc = m->cc,
                    .long_heads = m->past.cache_types_mix };
    if (a.cc == 0)
        a.cc = ADA; /* those that graphs were recorded on */
    if (!vr_gg_divides(a.k->ne[2], a.q->ne[2]))
        return VR_GG_KERNEL_NONE;
    a.group = a.q->ne[2] / a.k->ne[2];
    a.grouped = a.group >= 2 && a.mask != NULL && t->detail == 0 && a.k->ne[1] % KEYS_STRIDE == 0 &&
                aligned(a.q) && aligned(a.k) && aligned(a.v) && aligned(a.mask);
    if (!has_head_size(&a) || !has_types(m, &a) || (a.mask != NULL && a.mask->ne[2] != 1))
        return VR_GG_KERNEL_NONE;
    return best(&a);
}
