/* SPDX-License-Identifier: MIT
 * How quantised matrices are stored. Sources stand at each row (project, version, file); what is computed
 * there is computed from shapes alone, which is what a header has. */
#include "model/layouts.h"

#define B(dtype) (UINT64_C(1) << VR_##dtype)
#define FLOAT8 (B(F8_E4M3) | B(F8_E5M2) | B(F8_E4M3FNUZ) | B(F8_E5M2FNUZ))
#define BYTE (B(U8) | B(I8))
#define BLOCK 128 /* finegrained_fp8.py, weight_block_size when config.json is silent */

static uint64_t dim(const vr_tensor *t, unsigned i)
{
    return i < t->n_dims ? t->dims[i] : 1;
}

static uint64_t last(const vr_tensor *t)
{
    return t->n_dims != 0 ? t->dims[t->n_dims - 1] : 1;
}

static uint64_t over(uint64_t a, uint64_t b)
{
    return b != 0 && a % b == 0 ? a / b : 0;
}

static bool usual(uint64_t bits)
{
    return bits >= 1 && bits <= VR_MOST_BITS;
}

/* ---- what shares a scale ---- */

static bool in_blocks(uint64_t n, uint64_t blocks, uint64_t size)
{
    return size != 0 && n / size + (n % size != 0) == blocks;
}

/* The last group of a row may be shorter. */
static void grouped(vr_pack *p, uint64_t columns, uint64_t groups)
{
    uint64_t size = in_blocks(columns, groups, p->config_group) ? p->config_group : over(columns, groups);
    p->grouping = groups == 1 ? VR_GROUPING_ROW : VR_GROUPING_GROUP;
    p->group_size = groups == 1 ? 0 : size;
    p->contradicted = p->contradicted || size == 0;
}

static bool blocks_of(vr_pack *p, const vr_tensor *s, uint64_t rows, uint64_t columns)
{
    uint64_t size = p->config_group != 0 ? p->config_group : BLOCK;
    uint64_t down = dim(s, s->n_dims - 2u), across = last(s);
    if (!in_blocks(rows, down, size) || !in_blocks(columns, across, size))
        size = over(columns, across);
    if (!in_blocks(rows, down, size) || !in_blocks(columns, across, size))
        return false;
    p->grouping = VR_GROUPING_BLOCK;
    p->group_size = size;
    return true;
}

/* Every dimension 1 or that of the weight: one scale for each row, column or expert. */
static bool broadcasts(const vr_tensor *w, const vr_tensor *s)
{
    for (unsigned i = 0; i < s->n_dims && i < w->n_dims; i++) {
        uint64_t n = s->dims[s->n_dims - 1u - i];
        if (n != 1 && n != w->dims[w->n_dims - 1u - i])
            return false;
    }
    return s->n_dims <= w->n_dims;
}

/* s holds the scales of a matrix with p's tensor's rows, whose rows have `columns` elements. */
static void scaled(vr_pack *p, const vr_tensor *s, uint64_t columns)
{
    const vr_tensor *w = p->packed;
    uint64_t rows = w->n_dims >= 2 ? w->dims[w->n_dims - 2] : 1;
    if (s == NULL || w->n_dims < 2 || columns == 0)
        return;
    if (s->elements == 1) {
        p->grouping = VR_GROUPING_TENSOR;
    } else if (s->elements == over(w->elements, last(w)) && (last(s) == 1 || s->n_dims < w->n_dims)) {
        p->grouping = VR_GROUPING_ROW;
    } else if (s->n_dims == w->n_dims && dim(s, s->n_dims - 2u) == rows && last(s) != columns) {
        grouped(p, columns, last(s));
    } else if (s->n_dims >= 2 && blocks_of(p, s, rows, columns)) {
        return;
    } else if (!broadcasts(w, s)) {
        p->contradicted = true;
    }
}

/* ---- counting ---- */

static void words(vr_pack *p, uint64_t bits)
{
    uint64_t stored = vr_mul_sat(p->packed->elements, vr_dtype_bits((vr_dtype)p->packed->dtype));
    p->bits = bits;
    p->elements = usual(bits) ? stored / bits : 0;
}

/* Whole words of weights of the row's bits, one after the other along the last dimension; the scales are the
 * larger one of the first two sides, the other one is a scale of scales or of inputs. */
static bool fixed(vr_pack *p)
{
    uint64_t each = vr_dtype_bits((vr_dtype)p->packed->dtype) / p->layout->bits;
    const vr_tensor *first = p->side[0], *second = p->side[1];
    words(p, p->layout->bits);
    scaled(p, second != NULL && second->elements > first->elements ? second : first,
           vr_mul_sat(last(p->packed), each));
    return true;
}

/* Of which only the number of words is told by the shape. */
static bool flat(vr_pack *p)
{
    words(p, p->layout->bits != 0 ? p->layout->bits : p->config_bits);
    return true;
}

/* A scale for each row: the shape is the true one, or its transpose. */
static bool rows_scaled(vr_pack *p)
{
    uint64_t n = p->side[0]->elements;
    words(p, p->layout->bits);
    p->grouping = n == 1 ? VR_GROUPING_TENSOR : VR_GROUPING_ROW;
    p->contradicted = n != 1 && n != dim(p->packed, 0) && n != dim(p->packed, 1);
    return true;
}

/* qweight [in * bits / 32, out], scales [groups, out], qzeros [groups, out * bits / 32]. */
static bool gptq(vr_pack *p)
{
    const vr_tensor *w = p->packed, *scales = p->side[0], *zeros = p->side[1], *index = p->side[2];
    uint64_t bits = index != NULL ? over(vr_mul_sat(dim(w, 0), 32), index->elements) : 0;
    if (w->n_dims != 2 || scales->n_dims != 2 || dim(w, 1) != dim(scales, 1))
        return false;
    if (!usual(bits) && zeros != NULL && zeros->n_dims == 2)
        bits = over(vr_mul_sat(dim(zeros, 1), 32), dim(scales, 1));
    if (!usual(bits))
        bits = p->config_bits;
    words(p, bits);
    if (usual(bits))
        grouped(p, vr_mul_sat(dim(w, 0), 32) / bits, dim(scales, 0));
    return true;
}

/* qweight [in, out * bits / 32], scales [groups, out]. */
static bool awq_gemm(vr_pack *p)
{
    const vr_tensor *w = p->packed, *scales = p->side[0], *zeros = p->side[1];
    uint64_t bits = over(vr_mul_sat(dim(w, 1), 32), dim(scales, 1));
    if (w->n_dims != 2 || scales->n_dims != 2 || !usual(bits) ||
        (zeros != NULL && dim(zeros, 1) != dim(w, 1)))
        return false;
    words(p, bits);
    grouped(p, dim(w, 0), dim(scales, 0));
    return true;
}

/* qweight [out, in / 8]; scales [out, groups rounded up to what a kernel likes]. */
static bool awq_gemv(vr_pack *p)
{
    const vr_tensor *w = p->packed, *scales = p->side[0];
    uint64_t columns = vr_mul_sat(dim(w, 1), 8), group = p->config_group;
    if (w->n_dims != 2 || scales->n_dims != 2 || dim(w, 0) != dim(scales, 0))
        return false;
    words(p, 4);
    p->grouping = group != 0 ? VR_GROUPING_GROUP : VR_GROUPING_UNKNOWN;
    p->group_size = group;
    p->contradicted = group != 0 && dim(scales, 1) < columns / group;
    return true;
}

/* weight_packed [out, in * bits / 32], weight_scale [out, groups]. */
static bool int_packed(vr_pack *p)
{
    const vr_tensor *w = p->packed, *s = p->side[0];
    uint64_t product = over(vr_mul_sat(last(w), 32), last(s)); /* bits x group */
    uint64_t bits = p->config_bits;
    if (bits == 0 && last(s) != 1)
        bits = over(product, p->config_group);
    words(p, bits);
    if (usual(bits))
        scaled(p, s, vr_mul_sat(last(w), 32) / bits);
    return true;
}

/* weight [..., out, in * bits / 32] and scales [..., out, in / group]: the product of bits and group is told.
 */
static bool mlx(vr_pack *p)
{
    const vr_tensor *w = p->packed, *s = p->side[0];
    uint64_t product = over(vr_mul_sat(last(w), 32), last(s));
    uint64_t bits = over(product, p->config_group);
    if (!usual(bits))
        bits = p->config_bits;
    words(p, bits);
    if (usual(bits))
        grouped(p, vr_mul_sat(last(w), 32) / bits, last(s));
    return true;
}

/* Microscaling: a scale for each 32 weights of a row; 4, 6 or 8 bits. */
static bool mx(vr_pack *p)
{
    const vr_tensor *w = p->packed, *s = p->side[0];
    uint64_t columns = vr_mul_sat(last(s), 32);
    uint64_t bits = over(vr_mul_sat(last(w), vr_dtype_bits((vr_dtype)w->dtype)), columns);
    if (s->n_dims != w->n_dims || (bits != 4 && bits != 6 && bits != 8))
        return false;
    words(p, bits);
    p->grouping = VR_GROUPING_GROUP;
    p->group_size = 32;
    return true;
}

/* blocks [..., out, groups, 16], two weights in a byte. */
static bool mx_blocks(vr_pack *p)
{
    const vr_tensor *w = p->packed;
    words(p, 4);
    p->grouping = VR_GROUPING_GROUP;
    p->group_size = vr_mul_sat(last(w), 2);
    p->contradicted = p->side[0]->elements != over(w->elements, last(w));
    return true;
}

/* weight [out / 2, in], weight_scale [out, in / group]. */
static bool half_rows(vr_pack *p)
{
    const vr_tensor *w = p->packed, *s = p->side[0];
    if (w->n_dims < 2 || s->n_dims != w->n_dims ||
        dim(s, s->n_dims - 2u) != vr_mul_sat(dim(w, w->n_dims - 2u), 2))
        return false;
    words(p, 4);
    grouped(p, last(w), last(s));
    return true;
}

/* Four weights of -1, 0 or 1 in a byte, one scale. */
static bool ternary(vr_pack *p)
{
    if (p->side[0]->elements != 1)
        return false;
    words(p, 2);
    p->grouping = VR_GROUPING_TENSOR;
    return true;
}

/* tables holds a value for each code. */
static bool higgs(vr_pack *p)
{
    uint64_t bits = 0, values = p->side[1] != NULL ? p->side[1]->elements : 0;
    while (bits < VR_MOST_BITS && (UINT64_C(1) << bits) < values)
        bits++;
    words(p, values != 0 ? bits : p->config_bits);
    return true;
}

/* One scale and zero point for each group; 3 bits are ten to a word. */
static bool hqq(vr_pack *p)
{
    uint64_t each = vr_dtype_bits((vr_dtype)p->packed->dtype), group = p->config_group;
    uint64_t stored = vr_mul_sat(p->packed->elements, each);
    bool by_scales = group != 0 && p->side[0]->elements > 1;
    p->bits = p->packed->dtype == VR_I32 ? 3 : p->config_bits;
    if (by_scales)
        p->elements = vr_mul_sat(p->side[0]->elements, group);
    else
        p->elements = !usual(p->bits) ? 0
                      : p->bits == 3  ? vr_mul_sat(p->packed->elements, 10)
                                      : stored / p->bits;
    if (by_scales && p->bits == 0 && usual(over(stored, p->elements)))
        p->bits = stored / p->elements;
    p->grouping = group != 0 ? VR_GROUPING_GROUP : VR_GROUPING_UNKNOWN;
    p->group_size = group;
    p->contradicted = by_scales && usual(p->bits) && p->bits != 3 && stored / p->bits != p->elements;
    return true;
}

/* Int4Tensor's scale is [in / group, out] beside qdata [out, in / 2]; every other one keeps a byte a weight.
 */
static bool torchao_bytes(vr_pack *p)
{
    const vr_tensor *w = p->packed, *s = p->side[0];
    uint64_t columns = vr_mul_sat(last(w), 2);
    bool four = w->n_dims == 2 && s->n_dims == 2 && dim(s, 1) == dim(w, 0) && dim(s, 0) != dim(w, 0) &&
                over(columns, dim(s, 0)) > 1;
    words(p, four ? 4 : 8);
    if (four)
        grouped(p, columns, dim(s, 0));
    else
        scaled(p, s, last(w));
    return true;
}

/* codes [out / o, in / i, books], codebooks [books, size, o, i]. */
static bool aqlm(vr_pack *p)
{
    const vr_tensor *codes = p->packed, *books = p->side[0];
    if (codes->n_dims != 3 || books->n_dims != 4 || dim(codes, 2) != dim(books, 0) || dim(codes, 2) == 0)
        return false;
    p->elements = vr_mul_sat(codes->elements / dim(codes, 2), vr_mul_sat(dim(books, 2), dim(books, 3)));
    p->bits = over(vr_mul_sat(codes->elements, vr_dtype_bits((vr_dtype)codes->dtype)), p->elements);
    p->grouping = VR_GROUPING_ROW;
    return true;
}

/* Rows of different bits, sorted: q_invperm has one number for each. */
static bool exl2(vr_pack *p)
{
    if (p->packed->n_dims != 2)
        return false;
    p->elements = vr_mul_sat(p->side[0]->elements, dim(p->packed, 1));
    return true;
}

/* trellis [in / 16, out / 16, 16 * bits]: 256 weights of a tile in 16-bit words. */
static bool exl3(vr_pack *p)
{
    if (p->packed->n_dims != 3)
        return false;
    p->elements = vr_mul_sat(vr_mul_sat(dim(p->packed, 0), dim(p->packed, 1)), 256);
    p->bits = over(dim(p->packed, 2), 16);
    return true;
}

/* Cast and not scaled; every element a weight. */
static bool cast(vr_pack *p)
{
    words(p, vr_dtype_bits((vr_dtype)p->packed->dtype));
    return true;
}

/* The headers do not tell: config.json's shapes may. */
static bool untold(vr_pack *p)
{
    p->bits = p->config_bits;
    return true;
}

/* ---- the table ---- */

#define COMPRESSED " compressed-tensors "
#define INPUTS                                                                                               \
    ".input_scale", ".input_scale_ub", ".activation_scale", ".k_scale", ".v_scale", ".q_scale",              \
        ".output_scale"

/* In this order: the first that a tensor's name, type and measures fit. */
/* clang-format off */
static const vr_layout layouts[] = {
    { "gptq", "gptq", " gptq auto-round intel/auto-round gptqmodel ", ".qweight", B(I32), gptq, 0,
      { ".scales", ".qzeros", ".g_idx", ".channel_scale" },
      "GPTQModel 7.7, gptqmodel/nn_modules/qlinear/__init__.py; AutoGPTQ 0.7.1, qlinear_cuda_old.py" },
    { "awq-gemm", "awq", " awq auto-round intel/auto-round ", ".qweight", B(I32), awq_gemm, 0,
      { ".scales", ".qzeros" }, "AutoAWQ 0.2.9, awq/modules/linear/gemm.py" },
    { "awq-gemv", "awq", " awq ", ".qweight", B(I32), awq_gemv, 4, { ".scales", ".qzeros" },
      "AutoAWQ 0.2.9, awq/modules/linear/gemv.py" },
    { "awq-gemv-fast", "awq", " awq ", ".qweight", B(I16), flat, 4, { ".scales", ".scaled_zeros", ".qzeros" },
      "AutoAWQ 0.2.9, awq/modules/linear/gemv_fast.py" },
    { "fp-quant", "fp_quant", " fp_quant ", ".qweight", BYTE, fixed, 4,
      { ".scales", ".weight_global_scale", ".act_global_scale", ".forward_hadamard_matrix",
        ".backward_hadamard_matrix" }, "transformers 5.24, integrations/fp_quant.py" },
    { "marlin", "gptq", " gptq marlin ", ".B", B(I32), flat, 4, { ".s", ".g_idx" },
      "AutoGPTQ 0.7.1, auto_gptq/nn_modules/qlinear/qlinear_marlin.py" },
    { "bnb-4bit", "bitsandbytes", " bitsandbytes bitsandbytes_4bit ", ".weight",
      BYTE | B(BF16) | B(F16) | B(F32), flat, 4,
      { ".weight.absmax", ".weight.quant_map", ".weight.nested_absmax", ".weight.nested_quant_map",
        ".weight.quant_state.bitsandbytes__nf4", ".weight.quant_state.bitsandbytes__fp4" },
      "bitsandbytes 0.50, functional.py, QuantState.as_dict; nn/modules.py, Linear4bit" },
    { "bnb-8bit", "bitsandbytes", " bitsandbytes bitsandbytes_8bit ", ".weight", B(I8), rows_scaled, 8,
      { ".SCB", ".weight_format" }, "bitsandbytes 0.50, nn/modules.py, Linear8bitLt._save_to_state_dict" },
    { "eetq", "eetq", " eetq ", ".weight", B(I8), rows_scaled, 8, { ".weight_scales" },
      "transformers 5.24, integrations/eetq.py" },
    { "higgs", "higgs", " higgs ", ".weight", B(I16), higgs, 0, { ".tables2", ".tables", ".scales" },
      "transformers 5.24, integrations/higgs.py, HiggsLinear" },
    { "mlx", "mlx", " mlx metal ", ".weight", B(U32), mlx, 0, { ".scales", ".biases", ".qbiases" },
      "mlx-lm 0.32, mlx_lm/utils.py, quantize_model; transformers 5.24, integrations/metal_quantization.py" },
    { "nvfp4", "modelopt", " modelopt modelopt_fp4 modelopt_mixed nvfp4 fp8 " COMPRESSED, ".weight", BYTE,
      fixed, 4,
      { ".weight_scale_2", ".weight_scale", ".pre_quant_scale", INPUTS },
      "ModelOpt 0.47, modelopt/torch/export/quant_utils.py; vLLM, quantization/modelopt.py, "
      "ModelOptNvFp4LinearMethod" },
    { "ternary", "bitnet", " bitnet ", ".weight", B(U8), ternary, 2, { ".weight_scale" },
      "transformers 5.24, integrations/bitnet.py, BitLinear" },
    { "int4-awq", "modelopt", " modelopt ", ".weight", BYTE, half_rows, 4,
      { ".weight_scale", ".pre_quant_scale", INPUTS },
      "ModelOpt 0.47, modelopt/torch/export/quant_utils.py, pack_int4_in_uint8" },
    { "mxfp4", "fp8", " fp8 modelopt ", ".weight", BYTE, mx, 0, { ".scale", INPUTS },
      "DeepSeek-V4, inference/convert.py: experts of 4 bits" },
    { "int8", "compressed-tensors", COMPRESSED " w8a8_int8 int8 modelopt ", ".weight", B(I8), fixed, 8,
      { ".weight_scale", ".weight_zero_point", ".weight_g_idx", ".input_zero_point", ".azp_adj", INPUTS },
      "compressed-tensors 0.20, compressors/naive_quantized/base.py" },
    { "fp8", "fp8", " fp8 fbgemm_fp8 modelopt modelopt_mixed mxfp8 " COMPRESSED, ".weight", FLOAT8, fixed, 8,
      { ".weight_scale_inv", INPUTS }, "transformers 5.24, integrations/finegrained_fp8.py, FP8Linear" },
    { "fp8", "fp8", " fp8 fbgemm_fp8 modelopt modelopt_mixed mxfp8 quark " COMPRESSED, ".weight", FLOAT8,
      fixed, 8,
      { ".weight_scale", INPUTS, ".weight_zero_point" },
      "compressed-tensors 0.20, "
      "compressors/naive_quantized/base.py (float-quantized); FBGEMM: integrations/fbgemm_fp8.py" },
    { "fp8", "fp8", " fp8 ", ".weight", FLOAT8, fixed, 8, { ".scale", INPUTS },
      "DeepSeek-V4, inference/model.py" },
    { "fp8", "fp8", " fp8 ", ".weight", FLOAT8, fixed, 8, { ".scale_weight", ".scale_input" },
      "ComfyUI, comfy/ops.py, scaled_fp8_ops" },
    { "fp8", "fp8", " fp8 ", ".weight", FLOAT8, fixed, 8, { ".qscale_weight", ".qscale_act" },
      "vLLM, model_executor/models/llama.py, mistral_mapping: consolidated files" },
    { "fp8", "fp8", " fp8 fbgemm_fp8 " COMPRESSED, "_proj", FLOAT8, fixed, 8, { "_proj_scale_inv",
      "_proj_activation_scale" },
      "transformers 5.24, integrations/finegrained_fp8.py, FP8Experts" },
    { "fp8", "fp8", " fp8 fbgemm_fp8 " COMPRESSED, "_proj", FLOAT8, fixed, 8, { "_proj_scale",
      "_proj_activation_scale" },
      "transformers 5.24, integrations/fbgemm_fp8.py, FbgemmFp8Llama4TextExperts" },
    { "nvfp4", "modelopt", " modelopt modelopt_fp4 ", "_proj", BYTE, fixed, 4,
      { "_proj_weight_scale_2", "_proj_weight_scale", "_proj_input_scale" },
      "ModelOpt 0.47, modelopt/torch/export/unified_export_megatron.py: experts in one tensor" },
    { "marlin-24", "compressed-tensors", COMPRESSED, ".weight_packed", B(I32), flat, 2, { ".scale_packed",
      ".meta" },
      "compressed-tensors 0.9, compressors/quantized_compressors/marlin_24.py: of 4 weights 2 are kept, "
      "4 bits each" },
    { "pack-quantized", "compressed-tensors", COMPRESSED " auto-round ", ".weight_packed", B(I32),
      int_packed, 0,
      { ".weight_scale", ".weight_shape", ".weight_zero_point", ".weight_g_idx", INPUTS },
      "compressed-tensors 0.20, compressors/pack_quantized/base.py and helpers.py, pack_to_int32" },
    { "nvfp4", "compressed-tensors", COMPRESSED " auto-round ", ".weight_packed", BYTE, fixed, 4,
      { ".weight_global_scale", ".weight_scale", ".input_global_scale", INPUTS },
      "compressed-tensors 0.20, compressors/nvfp4/base.py" },
    { "mxfp4", "compressed-tensors", COMPRESSED " auto-round ", ".weight_packed", BYTE, mx, 0,
      { ".weight_scale", INPUTS },
      "compressed-tensors 0.20, compressors/mxfp4/base.py and mxfp6/base.py" },
    { "mxfp4", "mxfp4", " mxfp4 ", "_blocks", B(U8), mx_blocks, 4, { "_scales" },
      "transformers 5.24, integrations/mxfp4.py: blocks [.., groups, 16], scales [.., groups]" },
    { "hqq", "hqq", " hqq ", ".W_q", BYTE | B(I32) | B(F16) | B(BF16) | B(F32), hqq, 0,
      { ".scale", ".zero", ".meta", ".nbits", ".group_size", ".shape", ".axis", ".channel_wise", ".optimize",
        ".round_zero", ".packing", ".view_as_float", ".unpack_view_dtype", ".compute_dtype", ".quant_scale",
        ".quant_zero", ".encoded_state_dict", ".offload_meta", ".stores_quant_config" },
      "hqq 0.2.8, hqq/core/quantize.py, state_dict_keys; core/bitpack.py" },
    { "torchao-int4", "torchao", " torchao ", "._weight_qdata", B(I32), flat, 4,
      { "._weight_scale_and_zero", "._weight_act_pre_scale" },
      "torchao 0.18, "
      "quantize_/workflows/int4/int4_tile_packed_to_4d_tensor.py; prototype/safetensors for the names" },
    { "torchao-int4", "torchao", " torchao ", "._weight_qdata", B(I32), flat, 4,
      { "._weight_scale", "._weight_zero_point", "._weight_act_pre_scale" },
      "torchao 0.18, quantize_/workflows/int4/int4_plain_int32_tensor.py" },
    { "torchao-int4", "torchao", " torchao ", "._weight_qdata", BYTE, flat, 4,
      { "._weight_group_scale", "._weight_group_zero", "._weight_row_scale" },
      "torchao 0.18, quantize_/workflows/int4/int4_preshuffled_tensor.py" },
    { "torchao-fp4", "torchao", " torchao ", "._weight_qdata", B(U8), flat, 4,
      { "._weight_scale", "._weight_per_tensor_scale", "._weight_act_per_tensor_scale" },
      "torchao 0.18, prototype/mx_formats/nvfp4_tensor.py and mx_tensor.py" },
    { "torchao-int", "torchao", " torchao ", "._weight_qdata", B(I8), torchao_bytes, 0,
      { "._weight_scale", "._weight_zero_point", "._weight_act_pre_scale", "._weight_act_quant_scale",
        "._weight_act_scale", "._weight_act_zero_point" },
      "torchao 0.18, quantize_/workflows/int4/int4_tensor.py, int8/int8_tensor.py, "
      "intx/intx_unpacked_to_int8_tensor.py" },
    { "torchao-fp8", "torchao", " torchao ", "._weight_qdata", FLOAT8, fixed, 8, { "._weight_scale" },
      "torchao 0.18, quantize_/workflows/float8/float8_tensor.py" },
    { "torchao-int4", "torchao", " torchao ", ".qdata", B(I32), flat, 4,
      { ".scale_and_zero", ".act_pre_scale" },
      "torchao 0.18, quantize_/workflows/int4/int4_tile_packed_to_4d_tensor.py: attributes, as pickles have "
      "them" },
    { "torchao-int4", "torchao", " torchao ", ".qdata", BYTE, flat, 4, { ".group_scale", ".group_zero",
      ".row_scale" },
      "torchao 0.18, quantize_/workflows/int4/int4_preshuffled_tensor.py: attributes" },
    { "torchao-int", "torchao", " torchao ", ".qdata", B(I8), torchao_bytes, 0,
      { ".scale", ".zero_point", ".act_pre_scale", ".act_quant_scale", ".act_quant_zero_point" },
      "torchao 0.18, quantize_/workflows/int8/int8_tensor.py, "
      "intx/intx_unpacked_to_int8_tensor.py: attributes" },
    { "torchao-fp8", "torchao", " torchao ", ".qdata", FLOAT8, fixed, 8, { ".scale" },
      "torchao 0.18, quantize_/workflows/float8/float8_tensor.py: attributes" },
    { "torchao-int", "torchao", " torchao ", ".tensor_impl.int_data", B(I8), fixed, 8,
      { ".tensor_impl.scale", ".tensor_impl.zero_point" },
      "torchao 0.9, dtypes/uintx/plain_layout.py: attributes of what quantize_ made then" },
    { "torchao-fp8", "torchao", " torchao ", ".tensor_impl.float8_data", FLOAT8, fixed, 8,
      { ".tensor_impl.scale" }, "torchao 0.9, dtypes/floatx/float8_layout.py: attributes" },
    { "torchao-int4", "torchao", " torchao ", ".tensor_impl.packed_weight", B(I32), flat, 4,
      { ".tensor_impl.scale_and_zero" },
      "torchao 0.9, dtypes/uintx/tensor_core_tiled_layout.py: attributes" },
    { "quanto-packed", "quanto", " quanto ", ".weight._data._data", B(U8), flat, 0,
      { ".weight._scale", ".weight._shift", ".input_scale", ".output_scale" },
      "optimum-quanto 0.2.7, tensor/packed.py and tensor/qtensor.py, save_to_state_dict" },
    { "quanto", "quanto", " quanto ", ".weight._data", BYTE | FLOAT8, rows_scaled, 8,
      { ".weight._scale", ".input_scale", ".output_scale" },
      "optimum-quanto 0.2.7, tensor/weights/qbytes.py" },
    { "aqlm", "aqlm", " aqlm ", ".codes", B(I8) | B(I16) | B(U8) | B(U16), aqlm, 0, { ".codebooks",
      ".scales" },
      "aqlm 1.1.7, aqlm/inference.py, QuantizedLinear" },
    { "vptq", "vptq", " vptq ", ".indices", B(I16) | B(U16) | B(I32), untold, 0,
      { ".centroids.weight", ".res_centroids.weight", ".outlier_centroids.weight", ".outlier_indices",
      ".res_indices",
        ".perm", ".weight_scale", ".weight_bias" }, "vptq 0.0.5, vptq/layers/vqlinear.py" },
    { "spqr", "spqr", " spqr ", ".dense_weights", B(I64), untold, 0,
      { ".row_offsets", ".col_vals", ".in_perm" }, "transformers 5.24, integrations/spqr.py" },
    { "exl2", "exl2", " exl2 ", ".q_weight", B(I32), exl2, 0,
      { ".q_invperm", ".q_scale", ".q_scale_max", ".q_groups", ".q_perm", ".q_group_map" },
      "ExLlamaV2 0.3, exllamav2/linear.py and conversion/quantize.py" },
    { "exl3", "exl3", " exl3 ", ".trellis", B(I16) | B(U16), exl3, 0,
      { ".suh", ".svh", ".su", ".sv", ".mcg", ".mul1", ".scale" },
      "ExLlamaV3 1.6, modules/quant/exl3.py, LinearEXL3" },
    { "fp4", "fp4", COMPRESSED " modelopt fp8 mxfp4 ", ".weight", B(F4), fixed, 4,
      { ".weight_scale", ".weight_scale_2" }, "safetensors 0.8, tensor.rs: F4, a shape in weights" },
    { "cast", "fp8", " fp8 " COMPRESSED, "weight", FLOAT8 | B(F4) | B(F6_E2M3) | B(F6_E3M2), cast, 0,
      { NULL },
      "safetensors 0.8, tensor.rs: weights of 8 bits and less that have no scales" },
};
/* clang-format on */

const vr_layout *vr_layouts(size_t *n)
{
    *n = sizeof layouts / sizeof *layouts;
    return layouts;
}
