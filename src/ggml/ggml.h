/* SPDX-License-Identifier: MIT
 * ggml as far as memory goes: a graph of tensors without data, which back end runs which node, and what its
 * graph allocator takes for it. A graph is built by calls named as ggml's; numbers that change no size
 * (epsilons, factors) are left out.
 *
 * Source: ggml 0.20 in llama.cpp b10470: ggml/src/ggml.c (shapes), ggml-alloc.c, ggml-backend.cpp. */
#ifndef VR_GGML_H
#define VR_GGML_H

#include "base/base.h"
#include "checkpoint/dtype.h"

#define VR_GG_DIMS 4
#define VR_GG_MAX_SRC 10
#define VR_GG_MAX_BACKENDS 66         /* GPUs and the CPU */
#define VR_GG_MOST_TENSORS (1u << 20) /* of a graph: more is no model but a hostile file */

/* id, may take the memory of an operand (ggml_op_can_inplace), makes no node of its own (a view) */
#define VR_GG_OPS(X)                                                                                         \
    X(NONE, 0, 1)                                                                                            \
    X(RESHAPE, 0, 1)                                                                                         \
    X(VIEW, 0, 1)                                                                                            \
    X(PERMUTE, 0, 1)                                                                                         \
    X(TRANSPOSE, 0, 1)                                                                                       \
    X(ADD, 1, 0)                                                                                             \
    X(ADD_ID, 1, 0)                                                                                          \
    X(SUB, 1, 0)                                                                                             \
    X(MUL, 1, 0)                                                                                             \
    X(DIV, 1, 0)                                                                                             \
    X(SQR, 1, 0)                                                                                             \
    X(SQRT, 1, 0)                                                                                            \
    X(SUM_ROWS, 0, 0)                                                                                        \
    X(CUMSUM, 0, 0)                                                                                          \
    X(MEAN, 0, 0)                                                                                            \
    X(REPEAT, 0, 0)                                                                                          \
    X(CONCAT, 0, 0)                                                                                          \
    X(NORM, 0, 0)                                                                                            \
    X(RMS_NORM, 1, 0)                                                                                        \
    X(GROUP_NORM, 0, 0)                                                                                      \
    X(L2_NORM, 0, 0)                                                                                         \
    X(MUL_MAT, 0, 0)                                                                                         \
    X(MUL_MAT_ID, 0, 0)                                                                                      \
    X(SCALE, 1, 0)                                                                                           \
    X(SET, 0, 0)                                                                                             \
    X(CPY, 0, 0)                                                                                             \
    X(CONT, 0, 0)                                                                                            \
    X(GET_ROWS, 0, 0)                                                                                        \
    X(SET_ROWS, 0, 0)                                                                                        \
    X(DIAG, 0, 0)                                                                                            \
    X(SOFT_MAX, 1, 0)                                                                                        \
    X(ROPE, 1, 0)                                                                                            \
    X(ROPE_BACK, 1, 0)                                                                                       \
    X(CLAMP, 1, 0)                                                                                           \
    X(IM2COL, 0, 0)                                                                                          \
    X(POOL_2D, 0, 0)                                                                                         \
    X(UPSCALE, 0, 0)                                                                                         \
    X(PAD, 0, 0)                                                                                             \
    X(ARANGE, 0, 0)                                                                                          \
    X(ARGSORT, 0, 0)                                                                                         \
    X(TOP_K, 0, 0)                                                                                           \
    X(TRI, 0, 0)                                                                                             \
    X(FILL, 1, 0)                                                                                            \
    X(FLASH_ATTN_EXT, 0, 0)                                                                                  \
    X(SSM_CONV, 0, 0)                                                                                        \
    X(SSM_SCAN, 0, 0)                                                                                        \
    X(RWKV_WKV6, 0, 0)                                                                                       \
    X(RWKV_WKV7, 0, 0)                                                                                       \
    X(GATED_LINEAR_ATTN, 0, 0)                                                                               \
    X(GATED_DELTA_NET, 0, 0)                                                                                 \
    X(SOLVE_TRI, 0, 0)                                                                                       \
    X(LIGHTNING_INDEXER, 0, 0)                                                                               \
    X(DSV4_HC_COMB, 0, 0)                                                                                    \
    X(DSV4_HC_PRE, 0, 0)                                                                                     \
    X(DSV4_HC_POST, 0, 0)                                                                                    \
    X(UNARY, 1, 0)                                                                                           \
    X(GLU, 0, 0)

typedef enum vr_gg_op {
#define X(id, inplace, view) VR_GG_##id,
    VR_GG_OPS(X)
#undef X
        VR_GG_OP_COUNT
} vr_gg_op;

typedef enum vr_gg_flag { VR_GG_INPUT = 1, VR_GG_OUTPUT = 2 } vr_gg_flag;

/* Where a tensor lies that the graph only reads or writes into: an index into vr_gg_machine.bufts. */
#define VR_GG_NOWHERE UINT8_MAX

typedef struct vr_gg_tensor {
    const char *name; /* may be NULL; lives as long as the graph */
    uint64_t ne[VR_GG_DIMS], nb[VR_GG_DIMS];
    struct vr_gg_tensor *src[VR_GG_MAX_SRC];
    struct vr_gg_tensor *view_src; /* never a view itself */
    uint64_t view_offset;
    uint32_t id;    /* index among the tensors of its vr_gg */
    int32_t layer;  /* as the graph's maker says; -1: none */
    uint8_t op;     /* vr_gg_op */
    uint8_t type;   /* vr_dtype */
    uint8_t flags;  /* vr_gg_flag */
    uint8_t buft;   /* allocated before the graph: there; VR_GG_NOWHERE: the graph's own */
    uint8_t detail; /* what decides whether a back end can run it: kind of UNARY or GLU, axis of CONCAT; 1:
                       ALiBi slopes of FLASH_ATTN_EXT, more than one state kept of SSM_SCAN,
                       wide sources of MUL_MAT_ID */
    bool weight;    /* its buffer is one of weights */
    int8_t backend; /* given by the graph's maker; -1: to be found */
} vr_gg_tensor;

/* The tensors of one graph. Failures are sticky: after one, calls return a tensor that may be used further.
 */
typedef struct vr_gg {
    vr_arena *arena;
    vr_gg_tensor **tensors; /* in the order they were made */
    size_t n_tensors, tensors_room;
    vr_gg_tensor **nodes, **leafs; /* as ggml_build_forward_expand orders them */
    size_t n_nodes, n_leafs, nodes_room, leafs_room;
    uint8_t *seen; /* by id */
    size_t seen_room;
    struct vr_gg_step *steps; /* of the walk over a graph */
    size_t steps_room;
    size_t n_made;      /* tensors there is memory for: a graph after a reset uses them again */
    vr_gg_tensor spare; /* what a call that failed returns */
    bool clamp_apart;   /* CLAMP makes a tensor (v0.5.0); else a view */
    bool failed;        /* out of memory */
    const char *broken; /* first rule of ggml that a call broke ("mul_mat: rows differ"), or NULL: the shapes
                           of the file contradict each other */
} vr_gg;

void vr_gg_init(vr_gg *g, vr_arena *a);
/* Empties; tensors made before are void. */
void vr_gg_reset(vr_gg *g);

/* ---- tensors ---- */

vr_gg_tensor *vr_gg_new_4d(vr_gg *g, vr_dtype t, uint64_t ne0, uint64_t ne1, uint64_t ne2, uint64_t ne3);
vr_gg_tensor *vr_gg_new_3d(vr_gg *g, vr_dtype t, uint64_t ne0, uint64_t ne1, uint64_t ne2);
vr_gg_tensor *vr_gg_new_2d(vr_gg *g, vr_dtype t, uint64_t ne0, uint64_t ne1);
vr_gg_tensor *vr_gg_new_1d(vr_gg *g, vr_dtype t, uint64_t ne0);
/* A tensor with VR_GG_INPUT: ggml_set_input of a new one. */
vr_gg_tensor *vr_gg_input(vr_gg *g, const char *name, vr_dtype t, uint64_t ne0, uint64_t ne1, uint64_t ne2,
                          uint64_t ne3);
void vr_gg_set_output(vr_gg_tensor *t);
/* A tensor that lies in buffer type `buft` already. */
vr_gg_tensor *vr_gg_placed(vr_gg *g, const char *name, vr_dtype t, const uint64_t ne[VR_GG_DIMS],
                           uint8_t buft, bool weight);

uint64_t vr_gg_row_size(vr_dtype t, uint64_t ne0); /* bytes; UINT64_MAX when it does not fit */
uint64_t vr_gg_nbytes(const vr_gg_tensor *t);
uint64_t vr_gg_nelements(const vr_gg_tensor *t);
uint64_t vr_gg_element_size(const vr_gg_tensor *t); /* of a block, as ggml_element_size */
bool vr_gg_is_contiguous(const vr_gg_tensor *t);
bool vr_gg_same_shape(const vr_gg_tensor *a, const vr_gg_tensor *b);

/* ---- views ---- */

vr_gg_tensor *vr_gg_view_1d(vr_gg *g, vr_gg_tensor *a, uint64_t ne0, uint64_t offset);
vr_gg_tensor *vr_gg_view_2d(vr_gg *g, vr_gg_tensor *a, uint64_t ne0, uint64_t ne1, uint64_t nb1,
                            uint64_t offset);
vr_gg_tensor *vr_gg_view_3d(vr_gg *g, vr_gg_tensor *a, uint64_t ne0, uint64_t ne1, uint64_t ne2, uint64_t nb1,
                            uint64_t nb2, uint64_t offset);
vr_gg_tensor *vr_gg_view_4d(vr_gg *g, vr_gg_tensor *a, uint64_t ne0, uint64_t ne1, uint64_t ne2, uint64_t ne3,
                            uint64_t nb1, uint64_t nb2, uint64_t nb3, uint64_t offset);
vr_gg_tensor *vr_gg_reshape_1d(vr_gg *g, vr_gg_tensor *a, uint64_t ne0);
vr_gg_tensor *vr_gg_reshape_2d(vr_gg *g, vr_gg_tensor *a, uint64_t ne0, uint64_t ne1);
vr_gg_tensor *vr_gg_reshape_3d(vr_gg *g, vr_gg_tensor *a, uint64_t ne0, uint64_t ne1, uint64_t ne2);
vr_gg_tensor *vr_gg_reshape_4d(vr_gg *g, vr_gg_tensor *a, uint64_t ne0, uint64_t ne1, uint64_t ne2,
                               uint64_t ne3);
vr_gg_tensor *vr_gg_permute(vr_gg *g, vr_gg_tensor *a, int axis0, int axis1, int axis2, int axis3);
vr_gg_tensor *vr_gg_transpose(vr_gg *g, vr_gg_tensor *a);

/* ---- operations ---- */

vr_gg_tensor *vr_gg_cont(vr_gg *g, vr_gg_tensor *a);
vr_gg_tensor *vr_gg_cont_2d(vr_gg *g, vr_gg_tensor *a, uint64_t ne0, uint64_t ne1);
vr_gg_tensor *vr_gg_cont_3d(vr_gg *g, vr_gg_tensor *a, uint64_t ne0, uint64_t ne1, uint64_t ne2);
vr_gg_tensor *vr_gg_cont_4d(vr_gg *g, vr_gg_tensor *a, uint64_t ne0, uint64_t ne1, uint64_t ne2,
                            uint64_t ne3);
vr_gg_tensor *vr_gg_cpy(vr_gg *g, vr_gg_tensor *a, vr_gg_tensor *b); /* into b: a view of it */
vr_gg_tensor *vr_gg_cast(vr_gg *g, vr_gg_tensor *a, vr_dtype t);
vr_gg_tensor *vr_gg_add(vr_gg *g, vr_gg_tensor *a, vr_gg_tensor *b);
vr_gg_tensor *vr_gg_add_inplace(vr_gg *g, vr_gg_tensor *a, vr_gg_tensor *b);
vr_gg_tensor *vr_gg_add_id(vr_gg *g, vr_gg_tensor *a, vr_gg_tensor *b, vr_gg_tensor *ids);
vr_gg_tensor *vr_gg_sub(vr_gg *g, vr_gg_tensor *a, vr_gg_tensor *b);
vr_gg_tensor *vr_gg_mul(vr_gg *g, vr_gg_tensor *a, vr_gg_tensor *b);
vr_gg_tensor *vr_gg_div(vr_gg *g, vr_gg_tensor *a, vr_gg_tensor *b);
vr_gg_tensor *vr_gg_sqr(vr_gg *g, vr_gg_tensor *a);
vr_gg_tensor *vr_gg_sqrt(vr_gg *g, vr_gg_tensor *a);
vr_gg_tensor *vr_gg_sum_rows(vr_gg *g, vr_gg_tensor *a);
vr_gg_tensor *vr_gg_cumsum(vr_gg *g, vr_gg_tensor *a);
vr_gg_tensor *vr_gg_mean(vr_gg *g, vr_gg_tensor *a);
vr_gg_tensor *vr_gg_repeat(vr_gg *g, vr_gg_tensor *a, vr_gg_tensor *like);
vr_gg_tensor *vr_gg_repeat_4d(vr_gg *g, vr_gg_tensor *a, uint64_t ne0, uint64_t ne1, uint64_t ne2,
                              uint64_t ne3);
vr_gg_tensor *vr_gg_concat(vr_gg *g, vr_gg_tensor *a, vr_gg_tensor *b, int dim);
vr_gg_tensor *vr_gg_norm(vr_gg *g, vr_gg_tensor *a);
vr_gg_tensor *vr_gg_rms_norm(vr_gg *g, vr_gg_tensor *a);
vr_gg_tensor *vr_gg_group_norm(vr_gg *g, vr_gg_tensor *a);
vr_gg_tensor *vr_gg_l2_norm(vr_gg *g, vr_gg_tensor *a);
vr_gg_tensor *vr_gg_mul_mat(vr_gg *g, vr_gg_tensor *a, vr_gg_tensor *b);
vr_gg_tensor *vr_gg_mul_mat_id(vr_gg *g, vr_gg_tensor *as, vr_gg_tensor *b, vr_gg_tensor *ids);
/* Sources are not brought to 16 bits (ggml_prec_set_src). */
void vr_gg_mul_mat_id_wide(vr_gg_tensor *a);
vr_gg_tensor *vr_gg_scale(vr_gg *g, vr_gg_tensor *a); /* scale_bias too */
vr_gg_tensor *vr_gg_scale_inplace(vr_gg *g, vr_gg_tensor *a);
vr_gg_tensor *vr_gg_set_1d(vr_gg *g, vr_gg_tensor *a, vr_gg_tensor *b, uint64_t offset);
vr_gg_tensor *vr_gg_set_inplace(vr_gg *g, vr_gg_tensor *a, vr_gg_tensor *b);
vr_gg_tensor *vr_gg_get_rows(vr_gg *g, vr_gg_tensor *a, vr_gg_tensor *ids);
vr_gg_tensor *vr_gg_set_rows(vr_gg *g, vr_gg_tensor *a, vr_gg_tensor *b, vr_gg_tensor *ids);
vr_gg_tensor *vr_gg_soft_max(vr_gg *g, vr_gg_tensor *a);
/* mask may be NULL; bias: there are ALiBi slopes */
vr_gg_tensor *vr_gg_soft_max_ext(vr_gg *g, vr_gg_tensor *a, vr_gg_tensor *mask, bool bias);
void vr_gg_soft_max_add_sinks(vr_gg_tensor *a, vr_gg_tensor *sinks);
vr_gg_tensor *vr_gg_rope(vr_gg *g, vr_gg_tensor *a, vr_gg_tensor *positions, vr_gg_tensor *factors);
vr_gg_tensor *vr_gg_rope_back(vr_gg *g, vr_gg_tensor *a, vr_gg_tensor *positions, vr_gg_tensor *factors);
vr_gg_tensor *vr_gg_clamp(vr_gg *g, vr_gg_tensor *a);
vr_gg_tensor *vr_gg_pad(vr_gg *g, vr_gg_tensor *a, uint64_t p0, uint64_t p1, uint64_t p2, uint64_t p3);
vr_gg_tensor *vr_gg_arange(vr_gg *g, uint64_t n);
vr_gg_tensor *vr_gg_argsort(vr_gg *g, vr_gg_tensor *a);
vr_gg_tensor *vr_gg_argsort_top_k(vr_gg *g, vr_gg_tensor *a, uint64_t k); /* a view of an argsort */
vr_gg_tensor *vr_gg_top_k(vr_gg *g, vr_gg_tensor *a, uint64_t k);
vr_gg_tensor *vr_gg_tri(vr_gg *g, vr_gg_tensor *a);
vr_gg_tensor *vr_gg_diag(vr_gg *g, vr_gg_tensor *a);
vr_gg_tensor *vr_gg_fill(vr_gg *g, vr_gg_tensor *a);
vr_gg_tensor *vr_gg_solve_tri(vr_gg *g, vr_gg_tensor *a, vr_gg_tensor *b);
vr_gg_tensor *vr_gg_flash_attn_ext(vr_gg *g, vr_gg_tensor *q, vr_gg_tensor *k, vr_gg_tensor *v,
                                   vr_gg_tensor *mask);
void vr_gg_flash_attn_ext_set_bias(vr_gg_tensor *a); /* there are ALiBi slopes */
void vr_gg_flash_attn_ext_add_sinks(vr_gg_tensor *a, vr_gg_tensor *sinks);
vr_gg_tensor *vr_gg_ssm_conv(vr_gg *g, vr_gg_tensor *sx, vr_gg_tensor *c);
vr_gg_tensor *vr_gg_ssm_scan(vr_gg *g, vr_gg_tensor *s, vr_gg_tensor *x, vr_gg_tensor *dt, vr_gg_tensor *a,
                             vr_gg_tensor *b, vr_gg_tensor *c, vr_gg_tensor *ids);
/* `kept` states of each sequence come back, the last first; vr_gg_ssm_scan: 1. */
vr_gg_tensor *vr_gg_ssm_scan_kept(vr_gg *g, vr_gg_tensor *s, vr_gg_tensor *x, vr_gg_tensor *dt,
                                  vr_gg_tensor *a, vr_gg_tensor *b, vr_gg_tensor *c, vr_gg_tensor *ids,
                                  uint64_t kept);
vr_gg_tensor *vr_gg_rwkv_wkv6(vr_gg *g, vr_gg_tensor *k, vr_gg_tensor *v, vr_gg_tensor *r, vr_gg_tensor *tf,
                              vr_gg_tensor *td, vr_gg_tensor *state);
vr_gg_tensor *vr_gg_rwkv_wkv7(vr_gg *g, vr_gg_tensor *r, vr_gg_tensor *w, vr_gg_tensor *k, vr_gg_tensor *v,
                              vr_gg_tensor *a, vr_gg_tensor *b, vr_gg_tensor *state);
vr_gg_tensor *vr_gg_gated_linear_attn(vr_gg *g, vr_gg_tensor *k, vr_gg_tensor *v, vr_gg_tensor *q,
                                      vr_gg_tensor *gate, vr_gg_tensor *state);
vr_gg_tensor *vr_gg_gated_delta_net(vr_gg *g, vr_gg_tensor *q, vr_gg_tensor *k, vr_gg_tensor *v,
                                    vr_gg_tensor *gate, vr_gg_tensor *beta, vr_gg_tensor *state);
vr_gg_tensor *vr_gg_gated_delta_net_kept(vr_gg *g, vr_gg_tensor *q, vr_gg_tensor *k, vr_gg_tensor *v,
                                         vr_gg_tensor *gate, vr_gg_tensor *beta, vr_gg_tensor *state,
                                         uint64_t kept);
vr_gg_tensor *vr_gg_lightning_indexer(vr_gg *g, vr_gg_tensor *q, vr_gg_tensor *k, vr_gg_tensor *weights,
                                      vr_gg_tensor *mask);
/* Hyper-connections of DeepSeek V4 and Kimi K3. */
vr_gg_tensor *vr_gg_dsv4_hc_comb(vr_gg *g, vr_gg_tensor *mixes, vr_gg_tensor *scale, vr_gg_tensor *base);
vr_gg_tensor *vr_gg_dsv4_hc_pre(vr_gg *g, vr_gg_tensor *x, vr_gg_tensor *weights);
vr_gg_tensor *vr_gg_dsv4_hc_post(vr_gg *g, vr_gg_tensor *x, vr_gg_tensor *residual, vr_gg_tensor *post,
                                 vr_gg_tensor *comb);
vr_gg_tensor *vr_gg_im2col(vr_gg *g, vr_gg_tensor *kernel, vr_gg_tensor *a, uint64_t stride0,
                           uint64_t stride1, uint64_t pad0, uint64_t pad1, uint64_t dilate0, uint64_t dilate1,
                           bool two_d, vr_dtype t);

vr_gg_tensor *vr_gg_interpolate(vr_gg *g, vr_gg_tensor *a, uint64_t ne0, uint64_t ne1, uint64_t ne2,
                                uint64_t ne3);
/* Windows of kernel0 x kernel1 elements, each step0 and step1 behind the last; without a border. */
vr_gg_tensor *vr_gg_pool_2d(vr_gg *g, vr_gg_tensor *a, uint64_t kernel0, uint64_t kernel1, uint64_t step0,
                            uint64_t step1);

typedef enum vr_gg_unary {
    VR_GG_SILU,
    VR_GG_GELU, /* gelu_quick, gelu_erf too */
    VR_GG_RELU,
    VR_GG_SIGMOID,
    VR_GG_TANH,
    VR_GG_EXP,
    VR_GG_SOFTPLUS,
    VR_GG_NEG,
    VR_GG_ABS,
    VR_GG_SGN,
    VR_GG_STEP,
    VR_GG_ROUND,
    VR_GG_XIELU
} vr_gg_unary;
vr_gg_tensor *vr_gg_unary_of(vr_gg *g, vr_gg_tensor *a, vr_gg_unary kind);

typedef enum vr_gg_glu { VR_GG_REGLU, VR_GG_GEGLU, VR_GG_SWIGLU, VR_GG_SWIGLU_OAI } vr_gg_glu;
vr_gg_tensor *vr_gg_glu_of(vr_gg *g, vr_gg_tensor *a, vr_gg_glu kind); /* halves the rows of a */
vr_gg_tensor *vr_gg_glu_split(vr_gg *g, vr_gg_tensor *a, vr_gg_tensor *b, vr_gg_glu kind);

/* Appends t and all that it is made of, in ggml's order. */
void vr_gg_build_forward_expand(vr_gg *g, vr_gg_tensor *t);

/* ---- the machine ---- */

typedef struct vr_gg_buft {
    uint64_t alignment, max_size; /* bytes; max_size UINT64_MAX: no limit */
    uint64_t row_padding; /* elements to which quantised rows are filled up, once a tensor; 0: they are not */
    bool host;
    bool repacked; /* the CPU's own layout of weights (CPU_REPACK): only the CPU reads it */
} vr_gg_buft;

struct vr_gg_machine;
typedef struct vr_gg_backend {
    const char *name;
    uint8_t buft; /* where it puts what it computes */
    bool (*reads)(const struct vr_gg_machine *m, uint8_t backend, uint8_t buft); /* ..._supports_buft */
    bool (*runs)(const struct vr_gg_machine *m, uint8_t backend, const vr_gg_tensor *node); /* supports_op */
    /* Worth fetching weights from the host for; NULL: never. */
    bool (*offloads)(const struct vr_gg_machine *m, uint8_t backend, const vr_gg_tensor *node);
} vr_gg_backend;

/* What builds of ggml do otherwise, older and newer ones; all zero: as b10470 (and b9489 to b10587 in what
 * is not named here). */
typedef struct vr_gg_past {
    bool sinks_decide; /* before b10150: attention runs where its sinks lie, as other nodes do with weights */
    bool f16_in_pool;  /* before b9489: F16 copies for attention are no part of the compute buffer */
    bool fill_apart;   /* before b7335: FILL takes memory of its own */
    unsigned split_inputs; /* before b10247: copies that a split has at most, 30, 10 or 4; 0: any number */
    bool full_goes_on;     /* v0.5.0: a split with many inputs goes on */
    bool keeps_fused;      /* v0.5.0: cards keep what kernels of several nodes read */
    bool cache_types_mix;  /* v0.5.0: attention of any types of keys and values, through copies in F16 */
    bool inputs_last; /* behind v0.5.0: inputs of the graph are copied as it lists them, unused ones too */
} vr_gg_past;

/* All back ends of a process; the last is the CPU. */
typedef struct vr_gg_machine {
    vr_gg_backend backends[VR_GG_MAX_BACKENDS];
    size_t n_backends;
    vr_gg_buft bufts[2 * VR_GG_MAX_BACKENDS];
    size_t n_bufts;
    bool op_offload;
    bool measured;   /* as llama-fit-params: the scheduler forgets vr_gg_tensor.backend before it measures */
    unsigned copies; /* GGML_SCHED_MAX_COPIES with pipeline parallelism, 1 without */
    vr_gg_past past;
    unsigned cc; /* least compute capability of the NVIDIA cards x 10: 89; 0: unknown, taken for that */
} vr_gg_machine;

/* One of several ready-made kinds of back ends. */
void vr_gg_add_cuda(vr_gg_machine *m, const char *name, uint8_t *buft);   /* *buft: its own buffer type */
void vr_gg_add_cpu(vr_gg_machine *m, uint8_t *pinned, uint8_t *pageable); /* last; pinned: CUDA_Host */

/* Bytes of a tensor that is placed in such a buffer, before it is rounded up to the alignment. */
uint64_t vr_gg_alloc_size(const vr_gg_buft *b, const vr_gg_tensor *t);

typedef struct vr_gg_reserved {
    uint64_t bytes[VR_GG_MAX_BACKENDS]; /* compute buffer of each back end */
    size_t n_nodes, n_splits;
} vr_gg_reserved;

/* ggml_backend_sched_reserve: splits the graph in `g` over the machine and plays ggml's graph allocator
 * on it. The graph is as before afterwards, but each node
 * says the back end that runs it. Scratch memory comes from `a`. VRAM_ENOMEM, or VRAM_EUNSUPPORTED
 * with the rule that is broken. */
vram_status vr_gg_reserve(vr_gg_reserved *out, vr_gg *g, const vr_gg_machine *m, vr_arena *a);

#endif
