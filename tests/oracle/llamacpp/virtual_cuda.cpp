// SPDX-License-Identifier: MIT
// Cards CUDA0, CUDA1 ... that own no memory and compute nothing. They answer the questions that llama.cpp puts to a
// CUDA device while it plans: which operations run there, how large a tensor is there, which buffers it can read.
// The answers are those of ggml's CUDA back end for compute capability 8.9 (Ada), one build with its default options
// (no GGML_CUDA_FA_ALL_QUANTS, CUB present, peer copies on).
#include "virtual_cuda.h"
#include "virtual_fusion.h"

#include "ggml-backend-impl.h"
#include "ggml-impl.h"
#include "ggml.h"

#include <cstdint>
#include <cstring>
#include <string>

namespace {

const int64_t row_padding = 512;       // elements that a quantised row is padded to, once per tensor
const size_t card_alignment = 128;     // bytes
const int64_t offload_batch = 32;      // rows from which a card takes work whose weight lies in host memory
const int64_t attention_stride = 256;  // cells that the attention kernels walk in one step
const char no_memory[64] = {0};

struct card {
    int index;
    std::string name;
    std::string id;
    virtual_cuda_card memory;
    ggml_backend_device device;
    ggml_backend_buffer_type buffers;
};

std::vector<card *> cards;

card * card_of(ggml_backend_dev_t dev) {
    return static_cast<card *>(dev->context);
}

// ---- buffers -------------------------------------------------------------------------------------------------------

// Buffers stand at an address that no process ever maps; nothing reads or writes through it.
void * buffer_base(ggml_backend_buffer_t) {
    return reinterpret_cast<void *>(uintptr_t(1) << 46);
}

enum ggml_status buffer_init_tensor(ggml_backend_buffer_t, ggml_tensor *) {
    return GGML_STATUS_SUCCESS;
}

void buffer_memset(ggml_backend_buffer_t, ggml_tensor *, uint8_t, size_t, size_t) {}
void buffer_set(ggml_backend_buffer_t, ggml_tensor *, const void *, size_t, size_t) {}
void buffer_get(ggml_backend_buffer_t, const ggml_tensor *, void * data, size_t, size_t size) {
    memset(data, 0, size);
}
bool buffer_copy(ggml_backend_buffer_t, const ggml_tensor *, ggml_tensor *) {
    return true;
}
void buffer_clear(ggml_backend_buffer_t, uint8_t) {}
void buffer_free(ggml_backend_buffer_t) {}

ggml_backend_buffer_i buffer_interface() {
    ggml_backend_buffer_i i = {};
    i.free_buffer = buffer_free;
    i.get_base = buffer_base;
    i.init_tensor = buffer_init_tensor;
    i.memset_tensor = buffer_memset;
    i.set_tensor = buffer_set;
    i.get_tensor = buffer_get;
    i.cpy_tensor = buffer_copy;
    i.clear = buffer_clear;
    return i;
}

ggml_backend_buffer_t alloc_buffer(ggml_backend_buffer_type_t type, size_t size) {
    return ggml_backend_buffer_init(type, buffer_interface(), const_cast<char *>(no_memory), size);
}

// ---- flash attention -----------------------------------------------------------------------------------------------

enum attention_kernel { attention_none, attention_vector, attention_matrix };

bool strides_fit(const ggml_tensor * t) {
    if (t == nullptr || ggml_is_quantized(t->type)) {
        return true;
    }
    return t->nb[1] % 16 == 0 && t->nb[2] % 16 == 0 && t->nb[3] % 16 == 0;
}

// Several query heads of one group can share a pass over the keys.
bool heads_can_be_grouped(const ggml_tensor * op, int64_t group) {
    float max_bias;
    memcpy(&max_bias, reinterpret_cast<const float *>(op->op_params) + 1, sizeof max_bias);
    const ggml_tensor * mask = op->src[3];
    if (group < 2 || mask == nullptr || max_bias != 0.0f || op->src[1]->ne[1] % attention_stride != 0) {
        return false;
    }
    return strides_fit(op->src[0]) && strides_fit(op->src[1]) && strides_fit(op->src[2]) && strides_fit(mask);
}

bool head_sizes_fit(int64_t key, int64_t value, int64_t group, bool grouped) {
    switch (key) {
        case 40: case 64: case 72: case 80: case 96: case 112: case 128: case 256:
            return value == key;
        case 192:
            return value == 128 && grouped && group % 8 == 0;
        case 320:
            return value == 256 && grouped && group % 32 == 0;
        case 512:
            return value == 512 && grouped;
        case 576:
            return value == 512 && grouped;
        default:
            return false;
    }
}

bool cache_type_fits(ggml_type type) {
    switch (type) {
        case GGML_TYPE_F32: case GGML_TYPE_F16: case GGML_TYPE_BF16: case GGML_TYPE_Q4_0: case GGML_TYPE_Q8_0:
            return true;
        default:
            return false;
    }
}

// Kernels that read these as they are.
bool read_as_they_are(ggml_type k, ggml_type v) {
    const ggml_type as_k = k == GGML_TYPE_F32 ? GGML_TYPE_F16 : k;
    const ggml_type as_v = v == GGML_TYPE_F32 ? GGML_TYPE_F16 : v;
    return as_k == as_v && cache_type_fits(k);
}

bool cache_types_fit(ggml_type k, ggml_type v) {
#ifdef VIRTUAL_CUDA_ANY_CACHE // what no kernel reads is copied to F16
    auto fits = [](ggml_type t) {
        return cache_type_fits(t) || t == GGML_TYPE_Q4_1 || t == GGML_TYPE_Q5_0 || t == GGML_TYPE_Q5_1;
    };
    return fits(k) && fits(v);
#else
    return k == v && cache_type_fits(k);
#endif
}

#ifdef VIRTUAL_CUDA_ANY_CACHE
const int64_t long_heads = 256; // the vector kernel has no gain there for larger groups
#else
const int64_t long_heads = INT64_MAX;
#endif

bool vector_kernel_is_better(const ggml_tensor * op, int64_t group, bool grouped) {
    const ggml_tensor * q = op->src[0];
    const ggml_tensor * k = op->src[1];
    const int64_t size = q->ne[0];
    if (size > 256 || size % 64 != 0 || size == 192 || k->ne[1] % attention_stride != 0) {
        return false;
    }
    const bool quantised = ggml_is_quantized(k->type) || ggml_is_quantized(op->src[2]->type);
    if (quantised && q->ne[1] <= 2) {
        return true;
    }
    if (!quantised && q->ne[1] == 1 && q->ne[3] == 1 && !(group > 4 && (size >= long_heads || k->ne[1] >= 8192))) {
        return true;
    }
    return !grouped && q->ne[1] == 1;
}

attention_kernel kernel_of(const ggml_tensor * op) {
    const ggml_tensor * q = op->src[0];
    const ggml_tensor * k = op->src[1];
    const ggml_tensor * v = op->src[2];
    const ggml_tensor * mask = op->src[3];
    const int64_t group = q->ne[2] / k->ne[2];
    const bool grouped = heads_can_be_grouped(op, group);
    if (!head_sizes_fit(k->ne[0], v->ne[0], group, grouped) || !cache_types_fit(k->type, v->type)) {
        return attention_none;
    }
    if (mask != nullptr && mask->ne[2] != 1) {
        return attention_none;
    }
    // 40 and 72 go to a third kernel, which reads F16 as the matrix kernel does.
    if (q->ne[0] == 40 || q->ne[0] == 72) {
        return attention_matrix;
    }
    return vector_kernel_is_better(op, group, grouped) ? attention_vector : attention_matrix;
}

// The matrix kernel wants F16: copies of keys and values stand behind the result.
size_t attention_bytes(const ggml_tensor * op) {
    const ggml_tensor * k = op->src[1];
    const ggml_tensor * v = op->src[2];
    const attention_kernel kernel = kernel_of(op);
    const bool all = kernel == attention_matrix;
    const bool as_f16 = kernel == attention_vector && !read_as_they_are(k->type, v->type);
    const bool copy_k = ((all || as_f16) && k->type != GGML_TYPE_F16) ||
                        (kernel == attention_vector && k->type == GGML_TYPE_F32);
    const bool copy_v = ((all || as_f16) && v->type != GGML_TYPE_F16) ||
                        (kernel == attention_vector && v->type == GGML_TYPE_F32);
    const bool v_in_k = v->view_src != nullptr &&
                        (v->view_src == k || (v->view_src == k->view_src && v->view_offs == k->view_offs));
    // Padding counts from the tensor's address, which is a multiple of 128 once it has one.
    size_t end = ggml_nbytes(op);
    if (copy_k) {
        end = GGML_PAD(end, 128) + size_t(ggml_nelements(k)) * 2;
    }
    if (copy_v && !v_in_k) {
        end = GGML_PAD(end, 128) + size_t(ggml_nelements(v)) * 2;
    }
    return end;
}

// ---- sizes ---------------------------------------------------------------------------------------------------------

size_t alloc_size(ggml_backend_buffer_type_t, const ggml_tensor * t) {
    size_t size = t->op == GGML_OP_FLASH_ATTN_EXT ? attention_bytes(t) : ggml_nbytes(t);
    const int64_t rest = t->ne[0] % row_padding;
    if (ggml_is_quantized(t->type) && rest != 0) {
        size += ggml_row_size(t->type, row_padding - rest);
    }
    return size;
}

size_t alignment(ggml_backend_buffer_type_t) {
    return card_alignment;
}

const char * buffers_name(ggml_backend_buffer_type_t type) {
    return card_of(type->device)->name.c_str();
}

bool is_card_memory(ggml_backend_buffer_type_t type) {
    return type->iface.get_name == buffers_name;
}

const char * host_name(ggml_backend_buffer_type_t) {
    return "CUDA_Host";
}

ggml_backend_buffer_type_t host_buffers(ggml_backend_dev_t) {
    static ggml_backend_buffer_type type = {};
    ggml_backend_buffer_type_t cpu = ggml_backend_cpu_buffer_type();
    type.iface = cpu->iface;
    type.iface.get_name = host_name;
    type.iface.alloc_buffer = alloc_buffer;
    type.device = &cards[0]->device;
    return &type;
}

// ---- operations ----------------------------------------------------------------------------------------------------

bool is_float(ggml_type t) {
    return t == GGML_TYPE_F32 || t == GGML_TYPE_F16 || t == GGML_TYPE_BF16;
}

bool all_f32(const ggml_tensor * op, int n) {
    for (int i = 0; i < n; i++) {
        if (op->src[i]->type != GGML_TYPE_F32) {
            return false;
        }
    }
    return op->type == GGML_TYPE_F32;
}

bool unary_runs(const ggml_tensor * op) {
    switch (ggml_get_unary_op(op)) {
        case GGML_UNARY_OP_ABS: case GGML_UNARY_OP_SGN: case GGML_UNARY_OP_NEG: case GGML_UNARY_OP_STEP:
        case GGML_UNARY_OP_GELU: case GGML_UNARY_OP_SILU: case GGML_UNARY_OP_RELU: case GGML_UNARY_OP_SIGMOID:
        case GGML_UNARY_OP_HARDSIGMOID: case GGML_UNARY_OP_HARDSWISH: case GGML_UNARY_OP_GELU_ERF:
        case GGML_UNARY_OP_GELU_QUICK: case GGML_UNARY_OP_TANH: case GGML_UNARY_OP_EXP: case GGML_UNARY_OP_EXPM1:
        case GGML_UNARY_OP_SOFTPLUS: case GGML_UNARY_OP_ELU: case GGML_UNARY_OP_XIELU: case GGML_UNARY_OP_FLOOR:
        case GGML_UNARY_OP_CEIL: case GGML_UNARY_OP_ROUND: case GGML_UNARY_OP_TRUNC:
            return ggml_is_contiguous(op->src[0]);
        default:
            return false;
    }
}

bool glu_runs(const ggml_tensor * op) {
    switch (ggml_get_glu_op(op)) {
        case GGML_GLU_OP_REGLU: case GGML_GLU_OP_GEGLU: case GGML_GLU_OP_SWIGLU: case GGML_GLU_OP_SWIGLU_OAI:
        case GGML_GLU_OP_GEGLU_ERF: case GGML_GLU_OP_GEGLU_QUICK:
#ifdef VIRTUAL_CUDA_SWIGLU_CLAMP
        case GGML_GLU_OP_SWIGLU_CLAMP:
#endif
            return ggml_is_contiguous_1(op->src[0]);
        default:
            return false;
    }
}

bool is_k_or_i_quant(ggml_type t) {
    switch (t) {
        case GGML_TYPE_Q2_K: case GGML_TYPE_Q3_K: case GGML_TYPE_Q4_K: case GGML_TYPE_Q5_K: case GGML_TYPE_Q6_K:
        case GGML_TYPE_IQ1_M: case GGML_TYPE_IQ1_S: case GGML_TYPE_IQ2_S: case GGML_TYPE_IQ2_XS:
        case GGML_TYPE_IQ2_XXS: case GGML_TYPE_IQ3_S: case GGML_TYPE_IQ3_XXS: case GGML_TYPE_IQ4_XS:
            return true;
        default:
            return false;
    }
}

bool is_small_quant(ggml_type t) {
    switch (t) {
        case GGML_TYPE_Q1_0: case GGML_TYPE_Q2_0: case GGML_TYPE_Q4_0: case GGML_TYPE_Q4_1: case GGML_TYPE_Q5_0:
        case GGML_TYPE_Q5_1: case GGML_TYPE_Q8_0:
            return true;
        default:
            return false;
    }
}

bool matrix_product_runs(const ggml_tensor * op) {
    const ggml_tensor * a = op->src[0];
    const ggml_tensor * b = op->src[1];
    if (a->nb[0] != ggml_element_size(a) || b->nb[0] != ggml_element_size(b)) {
        return false;
    }
    if (b->type == GGML_TYPE_F16 && a->type != GGML_TYPE_F16) {
        return false;
    }
#ifdef VIRTUAL_CUDA_PREC_SRC
    if (op->op == GGML_OP_MUL_MAT_ID && op->op_params[3] == GGML_PREC_F32) {
        return false;
    }
#endif
    const ggml_type t = a->type;
    return is_float(t) || is_small_quant(t) || is_k_or_i_quant(t) || t == GGML_TYPE_MXFP4 || t == GGML_TYPE_NVFP4 ||
           t == GGML_TYPE_Q8_K || t == GGML_TYPE_IQ4_NL;
}

bool get_rows_runs(const ggml_tensor * op) {
    const ggml_type t = op->src[0]->type;
    if (t == GGML_TYPE_IQ4_NL || t == GGML_TYPE_MXFP4) {
        return op->src[0]->ne[0] % 256 == 0;
    }
    return is_float(t) || t == GGML_TYPE_I32 || is_small_quant(t) || is_k_or_i_quant(t);
}

bool set_rows_runs(const ggml_tensor * op) {
    const ggml_type to = op->type, from = op->src[0]->type, index = op->src[1]->type;
    if (index != GGML_TYPE_I64 && index != GGML_TYPE_I32) {
        return false;
    }
    if (to == GGML_TYPE_F16 && from == GGML_TYPE_F16) {
        return true;
    }
    if (from != GGML_TYPE_F32) {
        return false;
    }
    switch (to) {
        case GGML_TYPE_Q4_0: case GGML_TYPE_Q4_1: case GGML_TYPE_Q5_0: case GGML_TYPE_Q5_1: case GGML_TYPE_Q8_0:
        case GGML_TYPE_IQ4_NL:
            return true;
        default:
            return is_float(to);
    }
}

bool copy_runs(const ggml_tensor * op) {
    const ggml_type from = op->src[0]->type, to = op->src[1]->type;
    const bool five = to == GGML_TYPE_Q8_0 || to == GGML_TYPE_Q4_0 || to == GGML_TYPE_Q4_1 || to == GGML_TYPE_Q5_0 ||
                      to == GGML_TYPE_Q5_1;
    const bool from_five = from == GGML_TYPE_Q8_0 || from == GGML_TYPE_Q4_0 || from == GGML_TYPE_Q4_1 ||
                           from == GGML_TYPE_Q5_0 || from == GGML_TYPE_Q5_1;
    if (is_float(from) && is_float(to)) {
        return true;
    }
    if (from == GGML_TYPE_F32 && (five || to == GGML_TYPE_IQ4_NL || to == GGML_TYPE_I32)) {
        return true;
    }
    if (to == GGML_TYPE_F32 && (from_five || from == GGML_TYPE_I32)) {
        return true;
    }
    if (from == GGML_TYPE_I32 && to == GGML_TYPE_I32) {
        return true;
    }
    return from == to && ggml_is_contiguous(op->src[0]) && ggml_is_contiguous(op->src[1]);
}

// ggml_is_contiguous_to_3 in spirit: each slice of the last dimension is dense.
bool dense_below_dimension_3(const ggml_tensor * t) {
    size_t next = ggml_type_size(t->type);
    if (t->ne[0] != ggml_blck_size(t->type) && t->nb[0] != next) {
        return false;
    }
    next *= size_t(t->ne[0] / ggml_blck_size(t->type));
    for (int i = 1; i < 3; i++) {
        if (t->ne[i] != 1 && t->nb[i] != next) {
            return false;
        }
        next *= size_t(t->ne[i]);
    }
    return true;
}

bool concat_runs(const ggml_tensor * op) {
    const ggml_tensor * a = op->src[0];
    const ggml_tensor * b = op->src[1];
    if (a->type != b->type || a->type != op->type) {
        return false;
    }
    const int64_t block = ggml_blck_size(a->type);
    if (!ggml_is_quantized(a->type)) {
        return block == 1;
    }
    const bool dense = op->op_params[0] == 3 ? ggml_is_contiguous(a) && ggml_is_contiguous(b)
                                             : dense_below_dimension_3(a) && dense_below_dimension_3(b);
    return dense && a->ne[0] % block == 0 && b->ne[0] % block == 0;
}

bool scan_runs(const ggml_tensor * op) {
    const ggml_tensor * state = op->src[0];
    if (op->src[3]->ne[0] == 1) { // Mamba 2
#ifdef VIRTUAL_CUDA_SCALE_F32
        const bool fits = state->ne[0] == 96 || state->ne[0] == 128 || state->ne[0] == 256;
#else
        const bool fits = state->ne[0] == 128 || state->ne[0] == 256;
#endif
        return fits && state->ne[1] % 16 == 0;
    }
    return op->op_params[0] <= 1 && state->ne[0] == 16 && state->ne[1] == 1 && state->ne[2] % 128 == 0 &&
           op->src[4]->ne[1] == 1;
}

bool indexer_runs(const ggml_tensor * op) {
    const ggml_tensor * q = op->src[0];
    const ggml_tensor * k = op->src[1];
    if (q->ne[0] != 128 || (q->ne[1] != 64 && q->ne[1] != 32) || !strides_fit(q) || !strides_fit(k)) {
        return false;
    }
    switch (k->type) {
        case GGML_TYPE_Q8_0: case GGML_TYPE_Q5_1: case GGML_TYPE_Q5_0: case GGML_TYPE_Q4_1: case GGML_TYPE_Q4_0:
            return true;
        default:
            return is_float(k->type);
    }
}

bool elementwise_runs(const ggml_tensor * op) {
    auto half_or_full = [](ggml_type t) { return t == GGML_TYPE_F32 || t == GGML_TYPE_F16; };
    return half_or_full(op->src[0]->type) && half_or_full(op->src[1]->type) && half_or_full(op->type);
}

bool op_runs(const ggml_tensor * op) {
    const ggml_tensor * a = op->src[0];
    const ggml_tensor * b = op->src[1];
    switch (op->op) {
        case GGML_OP_UNARY:
            return unary_runs(op);
        case GGML_OP_GLU:
            return glu_runs(op);
        case GGML_OP_MUL_MAT: case GGML_OP_MUL_MAT_ID:
            return matrix_product_runs(op);
        case GGML_OP_OUT_PROD:
            return all_f32(op, 2);
        case GGML_OP_GET_ROWS:
            return get_rows_runs(op);
        case GGML_OP_GET_ROWS_BACK:
            return all_f32(op, 1) && op->ne[2] == 1 && op->ne[3] == 1;
        case GGML_OP_SET_ROWS:
            return set_rows_runs(op);
        case GGML_OP_SET:
            return (op->type == GGML_TYPE_F32 || op->type == GGML_TYPE_I32) && op->type == a->type &&
                   op->type == b->type;
        case GGML_OP_CPY:
            return copy_runs(op);
        case GGML_OP_DUP:
            return a->type != GGML_TYPE_I32 && a->type != GGML_TYPE_I16;
        case GGML_OP_REPEAT:
            return a->type == GGML_TYPE_F32 || a->type == GGML_TYPE_F16;
        case GGML_OP_REPEAT_BACK:
            return op->type == GGML_TYPE_F32 && a->ne[2] * a->ne[3] <= (1 << 15);
        case GGML_OP_CONCAT:
            return concat_runs(op);
        case GGML_OP_CONV_TRANSPOSE_1D:
            return a->type == GGML_TYPE_F32 && b->type == GGML_TYPE_F32;
        case GGML_OP_COL2IM_1D:
            return is_float(a->type) && op->type == a->type && ggml_is_contiguous(a) && ggml_is_contiguous(op);
        case GGML_OP_SILU_BACK:
            return ggml_is_contiguous(a) && a->type == GGML_TYPE_F32;
        case GGML_OP_NORM: case GGML_OP_RMS_NORM: case GGML_OP_L2_NORM: case GGML_OP_SUM:
            return ggml_is_contiguous_rows(a);
#ifdef VIRTUAL_CUDA_ALLOC_DEPS
        case GGML_OP_SUM_ROWS: case GGML_OP_MEAN:
            return all_f32(op, 1) && ggml_is_contiguous_rows(a);
#else
        case GGML_OP_SUM_ROWS: case GGML_OP_MEAN:
#endif
        case GGML_OP_RMS_NORM_BACK: case GGML_OP_GROUP_NORM:
            return ggml_is_contiguous(a);
#ifdef VIRTUAL_CUDA_SCALE_F32
        case GGML_OP_SCALE:
            return (a->type == GGML_TYPE_F32 || a->type == GGML_TYPE_BF16) && op->type == a->type;
#else
        case GGML_OP_SCALE:
            return true;
#endif
        case GGML_OP_ADD: case GGML_OP_SUB: case GGML_OP_MUL: case GGML_OP_DIV:
            return elementwise_runs(op);
        case GGML_OP_SSM_SCAN:
            return scan_runs(op);
        case GGML_OP_SSM_CONV:
            return a->ne[1] % 128 == 0;
        case GGML_OP_SOFT_MAX_BACK:
            return reinterpret_cast<const float *>(op->op_params)[1] == 0.0f;
        case GGML_OP_ROLL:
            return a->type == GGML_TYPE_F32 && ggml_is_contiguous(a);
        case GGML_OP_ROPE: case GGML_OP_ROPE_BACK:
            return a->nb[0] == ggml_type_size(a->type) && ggml_is_contiguous_2(a);
        case GGML_OP_IM2COL: case GGML_OP_IM2COL_3D: case GGML_OP_CONV_2D: case GGML_OP_ACC:
            return ggml_is_contiguous(a) && ggml_is_contiguous(b);
        case GGML_OP_CONV_2D_DW:
            return a->type == GGML_TYPE_F32;
        case GGML_OP_DSV4_HC_PRE:
            return all_f32(op, 2);
        case GGML_OP_DSV4_HC_COMB:
            return all_f32(op, 3);
        case GGML_OP_DSV4_HC_POST:
            return all_f32(op, op->src[3] != nullptr ? 4 : 3);
        case GGML_OP_FLASH_ATTN_EXT:
            return kernel_of(op) != attention_none;
        case GGML_OP_LIGHTNING_INDEXER:
            return indexer_runs(op);
        case GGML_OP_NONE: case GGML_OP_RESHAPE: case GGML_OP_VIEW: case GGML_OP_PERMUTE: case GGML_OP_TRANSPOSE:
        case GGML_OP_ADD_ID: case GGML_OP_ADD1: case GGML_OP_SQR: case GGML_OP_SQRT:
        case GGML_OP_SIN: case GGML_OP_COS: case GGML_OP_CLAMP: case GGML_OP_LOG: case GGML_OP_ARGMAX:
        case GGML_OP_COUNT_EQUAL: case GGML_OP_CONT: case GGML_OP_DIAG_MASK_INF: case GGML_OP_SOFT_MAX:
        case GGML_OP_CONV_TRANSPOSE_2D: case GGML_OP_POOL_2D: case GGML_OP_TOP_K: case GGML_OP_ARGSORT:
        case GGML_OP_PAD: case GGML_OP_UPSCALE: case GGML_OP_PAD_REFLECT_1D: case GGML_OP_ARANGE:
        case GGML_OP_TIMESTEP_EMBEDDING: case GGML_OP_LEAKY_RELU: case GGML_OP_RWKV_WKV6:
        case GGML_OP_GATED_LINEAR_ATTN: case GGML_OP_RWKV_WKV7: case GGML_OP_GATED_DELTA_NET:
        case GGML_OP_CROSS_ENTROPY_LOSS: case GGML_OP_CROSS_ENTROPY_LOSS_BACK: case GGML_OP_OPT_STEP_ADAMW:
        case GGML_OP_OPT_STEP_SGD: case GGML_OP_FILL: case GGML_OP_CUMSUM: case GGML_OP_TRI: case GGML_OP_DIAG:
        case GGML_OP_SOLVE_TRI:
            return true;
        default:
            return false;
    }
}

bool supports_op(ggml_backend_dev_t dev, const ggml_tensor * op) {
    for (const ggml_tensor * src : op->src) {
        if (src != nullptr && src->buffer != nullptr && is_card_memory(src->buffer->buft) &&
            src->buffer->buft->device != dev) {
            return false; // a weight of another card
        }
    }
    return op_runs(op);
}

bool supports_buffers(ggml_backend_dev_t dev, ggml_backend_buffer_type_t type) {
    return is_card_memory(type) && type->device == dev;
}

int64_t batch_of(const ggml_tensor * op) {
    switch (op->op) {
        case GGML_OP_GET_ROWS:
            return 0;
        case GGML_OP_MUL_MAT:
            return op->ne[1];
        case GGML_OP_MUL_MAT_ID: case GGML_OP_ROPE: case GGML_OP_ROPE_BACK:
            return op->ne[2];
        default:
            return ggml_nrows(op);
    }
}

bool offload_op(ggml_backend_dev_t, const ggml_tensor * op) {
    return batch_of(op) >= offload_batch;
}

// ---- back end (one stream of a card) -------------------------------------------------------------------------------

const char * stream_name(ggml_backend_t backend) {
    return card_of(backend->device)->name.c_str();
}
void stream_free(ggml_backend_t backend) {
    delete backend;
}
void stream_set(ggml_backend_t, ggml_tensor *, const void *, size_t, size_t) {}
void stream_get(ggml_backend_t, const ggml_tensor *, void *, size_t, size_t) {}
bool stream_copy(ggml_backend_t, ggml_backend_t, const ggml_tensor *, ggml_tensor *) {
    return true;
}
void stream_wait_all(ggml_backend_t) {}
enum ggml_status stream_compute(ggml_backend_t, ggml_cgraph *) {
    return GGML_STATUS_SUCCESS;
}
void stream_event(ggml_backend_t, ggml_backend_event_t) {}

#ifdef VIRTUAL_CUDA_ALLOC_DEPS
void stream_optimize(ggml_backend_t, ggml_cgraph * graph, ggml_backend_graph_optimize_params * params) {
    virtual_cuda_keep(graph, params->add_alloc_dep, params->user_data);
}
#endif

ggml_backend_t stream_new(ggml_backend_dev_t dev, const char *) {
    static ggml_guid guid = {0x76, 0x69, 0x72, 0x74, 0x75, 0x61, 0x6c, 0x2d, 0x63, 0x75, 0x64, 0x61, 0, 0, 0, 1};
    ggml_backend_t backend = new ggml_backend();
    backend->guid = &guid;
    backend->iface.get_name = stream_name;
    backend->iface.free = stream_free;
    backend->iface.set_tensor_async = stream_set;
    backend->iface.get_tensor_async = stream_get;
    backend->iface.cpy_tensor_async = stream_copy;
    backend->iface.synchronize = stream_wait_all;
    backend->iface.graph_compute = stream_compute;
    backend->iface.event_record = stream_event;
    backend->iface.event_wait = stream_event;
#ifdef VIRTUAL_CUDA_ALLOC_DEPS
    backend->iface.graph_optimize = stream_optimize;
#endif
    backend->device = dev;
    return backend;
}

// ---- device --------------------------------------------------------------------------------------------------------

const char * device_name(ggml_backend_dev_t dev) {
    return card_of(dev)->name.c_str();
}
void device_memory(ggml_backend_dev_t dev, size_t * free, size_t * total) {
    *free = card_of(dev)->memory.free_bytes;
    *total = card_of(dev)->memory.total_bytes;
}
enum ggml_backend_dev_type device_type(ggml_backend_dev_t) {
    return GGML_BACKEND_DEVICE_TYPE_GPU;
}
void device_props(ggml_backend_dev_t dev, ggml_backend_dev_props * props) {
    memset(props, 0, sizeof *props);
    props->name = device_name(dev);
    props->description = "virtual card";
    props->type = GGML_BACKEND_DEVICE_TYPE_GPU;
    props->device_id = card_of(dev)->id.c_str();
    device_memory(dev, &props->memory_free, &props->memory_total);
    props->caps.async = true;
    props->caps.host_buffer = true;
    props->caps.events = true;
#ifdef VIRTUAL_CUDA_MMAP_CAP
    props->caps.mmap_support = true;
#endif
}
ggml_backend_buffer_type_t device_buffers(ggml_backend_dev_t dev) {
    return &card_of(dev)->buffers;
}
ggml_backend_event_t event_new(ggml_backend_dev_t dev) {
    return new ggml_backend_event{dev, nullptr};
}
void event_free(ggml_backend_dev_t, ggml_backend_event_t event) {
    delete event;
}
void event_wait(ggml_backend_dev_t, ggml_backend_event_t) {}

const char * reg_name(ggml_backend_reg_t) {
    return "CUDA";
}
size_t reg_count(ggml_backend_reg_t) {
    return cards.size();
}
ggml_backend_dev_t reg_device(ggml_backend_reg_t, size_t i) {
    return &cards[i]->device;
}
void * reg_symbol(ggml_backend_reg_t, const char *) {
    return nullptr;
}

void fill_device(card * c, ggml_backend_reg_t reg) {
    ggml_backend_device_i & d = c->device.iface;
    d.get_name = device_name;
    d.get_description = device_name;
    d.get_memory = device_memory;
    d.get_type = device_type;
    d.get_props = device_props;
    d.init_backend = stream_new;
    d.get_buffer_type = device_buffers;
    d.get_host_buffer_type = host_buffers;
    d.supports_op = supports_op;
    d.supports_buft = supports_buffers;
    d.offload_op = offload_op;
    d.event_new = event_new;
    d.event_free = event_free;
    d.event_synchronize = event_wait;
    c->device.reg = reg;
    c->device.context = c;
    c->buffers.iface.get_name = buffers_name;
    c->buffers.iface.alloc_buffer = alloc_buffer;
    c->buffers.iface.get_alignment = alignment;
    c->buffers.iface.get_alloc_size = alloc_size;
    c->buffers.device = &c->device;
    c->buffers.context = c;
}

} // namespace

void virtual_cuda_register(const std::vector<virtual_cuda_card> & memories) {
    static ggml_backend_reg reg = {GGML_BACKEND_API_VERSION, {reg_name, reg_count, reg_device, reg_symbol}, nullptr};
    for (const virtual_cuda_card & memory : memories) {
        const int i = int(cards.size());
        card * c = new card();
        c->index = i;
        c->name = "CUDA" + std::to_string(i);
        c->id = "virtual:" + std::to_string(i);
        c->memory = memory;
        fill_device(c, &reg);
        cards.push_back(c);
    }
    if (!cards.empty()) {
        ggml_backend_register(&reg);
    }
}
