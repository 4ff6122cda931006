/* SPDX-License-Identifier: MIT
 * Ready-made back ends: NVIDIA cards, and the CPU, whose compute buffer is pinned memory where there are
 * cards. Source: ggml 0.20, ggml/src/ggml-cuda/ggml-cuda.cu, ggml-cpu/ggml-cpu.cpp; llama.cpp b10470,
 * src/llama-context.cpp (backend_buft). */
#include "ggml/parts.h"

#define CUDA_ALIGNMENT 128
#define CUDA_ROW_PADDING 512
#define HOST_ALIGNMENT 32
#define OFFLOAD_FROM 32 /* rows: GGML_OP_OFFLOAD_MIN_BATCH */

/* ---- CUDA ---- */

static bool cuda_reads(const vr_gg_machine *m, uint8_t backend, uint8_t buft)
{
    return m->backends[backend].buft == buft;
}

static uint64_t rows_of(const vr_gg_tensor *t)
{
    return vr_mul_sat(vr_mul_sat(t->ne[1], t->ne[2]), t->ne[3]);
}

static bool cuda_offloads(const vr_gg_machine *m, uint8_t backend, const vr_gg_tensor *t)
{
    (void)m;
    (void)backend;
    switch (t->op) {
    case VR_GG_GET_ROWS:
        return false;
    case VR_GG_MUL_MAT:
        return t->ne[1] >= OFFLOAD_FROM;
    case VR_GG_MUL_MAT_ID:
    case VR_GG_ROPE:
    case VR_GG_ROPE_BACK:
        return t->ne[2] >= OFFLOAD_FROM;
    default:
        return rows_of(t) >= OFFLOAD_FROM;
    }
}

static uint8_t add_buft(vr_gg_machine *m, vr_gg_buft b)
{
    m->bufts[m->n_bufts] = b;
    return (uint8_t)m->n_bufts++;
}

void vr_gg_add_cuda(vr_gg_machine *m, const char *name, uint8_t *buft)
{
    *buft = VR_GG_NOWHERE;
    if (m->n_backends >= VR_GG_MAX_BACKENDS - 1)
        return;
    *buft = add_buft(m, (vr_gg_buft){ CUDA_ALIGNMENT, UINT64_MAX, CUDA_ROW_PADDING, false, false });
    m->backends[m->n_backends++] = (vr_gg_backend){ name, *buft, cuda_reads, vr_gg_cuda_runs, cuda_offloads };
}

/* ---- CPU ---- */

static bool cpu_reads(const vr_gg_machine *m, uint8_t backend, uint8_t buft)
{
    (void)backend;
    return m->bufts[buft].host || m->bufts[buft].repacked;
}

static bool lacks_writer(uint8_t type)
{
    return type == VR_IQ3_XXS || type == VR_IQ3_S || type == VR_IQ2_XXS || type == VR_IQ2_XS ||
           type == VR_IQ2_S || type == VR_IQ1_S || type == VR_IQ1_M;
}

/* Type that rows are brought to before they are multiplied with a matrix of type t (vec_dot_type). */
static vr_dtype product_type(uint8_t t)
{
    switch (t) {
    case VR_F32:
    case VR_F16:
    case VR_BF16:
        return (vr_dtype)t;
    case VR_Q4_1:
    case VR_Q5_1:
        return VR_Q8_1;
    default:
        return vr_dtype_block((vr_dtype)t) == 256 ? VR_Q8_K : VR_Q8_0;
    }
}

static bool cpu_runs(const vr_gg_machine *m, uint8_t backend, const vr_gg_tensor *t)
{
    (void)m;
    (void)backend;
    switch (t->op) {
    case VR_GG_CPY:
    case VR_GG_SET_ROWS:
        return !lacks_writer(t->type);
    case VR_GG_MUL_MAT:
        return t->src[1]->type == VR_F32 || t->src[1]->type == product_type(t->src[0]->type);
    case VR_GG_SSM_SCAN:
        return t->detail == 0 || t->src[3]->ne[0] == 1;
    default:
        return true;
    }
}

void vr_gg_add_cpu(vr_gg_machine *m, uint8_t *pinned, uint8_t *pageable)
{
    const vr_gg_buft host = { HOST_ALIGNMENT, UINT64_MAX, 0, true, false };
    bool has_gpu = m->n_backends > 0;
    *pageable = add_buft(m, host);
    *pinned = has_gpu ? add_buft(m, host) : *pageable;
    m->backends[m->n_backends++] = (vr_gg_backend){ "CPU", *pinned, cpu_reads, cpu_runs, NULL };
}

/* ---- sizes ---- */

static uint64_t row_padding(const vr_gg_buft *b, const vr_gg_tensor *t)
{
    uint64_t over = b->row_padding > 0 && vr_dtype_ggml(t->type) ? t->ne[0] % b->row_padding : 0;
    if (over == 0)
        return 0;
    return vr_mul_div(b->row_padding - over, vr_dtype_block_bytes(t->type), vr_dtype_block(t->type));
}

uint64_t vr_gg_alloc_size(const vr_gg_buft *b, const vr_gg_tensor *t)
{
    return vr_add_sat(vr_gg_nbytes(t), row_padding(b, t));
}

/* Values that are a view of the keys (latent attention) are there once. */
static bool values_are_keys(const vr_gg_tensor *k, const vr_gg_tensor *v)
{
    return v->view_src != NULL &&
           (v->view_src == k || (v->view_src == k->view_src && v->view_offset == k->view_offset));
}

static uint64_t with_f16(uint64_t bytes, const vr_gg_tensor *t)
{
    return vr_add_sat(vr_round_up(bytes, CUDA_ALIGNMENT), vr_mul_sat(vr_gg_nelements(t), 2));
}

/* Kernels for few queries that are built in read these as they are. */
static bool read_as_they_are(const vr_gg_tensor *k, const vr_gg_tensor *v)
{
    uint8_t a = k->type == VR_F32 ? VR_F16 : k->type, b = v->type == VR_F32 ? VR_F16 : v->type;
    bool one = a == VR_F16 || a == VR_BF16 || a == VR_Q4_0 || a == VR_Q8_0;
    return a == b && one;
}

/* Behind its result the attention has keys and values as F16, where its kernel reads nothing else. */
static uint64_t attention_bytes(const vr_gg_machine *m, const vr_gg_tensor *t)
{
    uint64_t bytes = vr_gg_nbytes(t);
    const vr_gg_tensor *k = t->src[1], *v = t->src[2];
    vr_gg_kernel kernel = vr_gg_attention_kernel(m, t);
    if (kernel == VR_GG_KERNEL_NONE)
        return bytes;
    bool vec = kernel == VR_GG_KERNEL_VEC && read_as_they_are(k, v);
    if (vec ? k->type == VR_F32 : k->type != VR_F16)
        bytes = with_f16(bytes, k);
    if ((vec ? v->type == VR_F32 : v->type != VR_F16) && !values_are_keys(k, v))
        bytes = with_f16(bytes, v);
    return bytes;
}

uint64_t vr_gg_compute_size(const vr_gg_machine *m, uint8_t buft, const vr_gg_tensor *t)
{
    const vr_gg_buft *b = &m->bufts[buft];
    if (b->row_padding > 0 && t->op == VR_GG_FLASH_ATTN_EXT && !m->past.f16_in_pool)
        return attention_bytes(m, t);
    return vr_gg_alloc_size(b, t);
}
