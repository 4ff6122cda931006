/* SPDX-License-Identifier: MIT
 * Matrices in 4 bits, and 8: GPTQ, and AWQ in its GEMM layout.
 *
 * AWQ up to transformers 4 is AutoAWQ (0.2.9, modules/linear/gemm.py, WQLinearMMFunction, and
 * modules/triton/gemm.py): from 1,024 rows on the whole matrix is unpacked to 16 bits and multiplied by
 * cuBLAS; fewer rows go through a kernel of its own. With the package autoawq-kernels that one writes eight
 * results, which are added up: the high end.
 *
 * GPTQ, and AWQ from transformers 5 on, is GPTQModel (7.7: utils/importer.py, hf_select_quant_linear_v2),
 * which takes the first of its kernels that fits the device map. On cards from compute capability 8.0 on that
 * is Marlin, on Hopper and Blackwell kernels that are alike in what they take (gptqmodel_ext/marlin,
 * gptq_marlin.cu and marlin_scratch.cuh): the result, sums in 32 bits of one tile of each multiprocessor, and
 * for columns in another order (desc_act) a copy of the input. Without a device map the modules are made for
 * the CPU. */
#include "engine/packed_run.h"

#define SPLITS UINT64_C(8)
#define UNPACKS_FROM 1024 /* rows */
#define TILE_ROWS 64
#define TILE_COLUMNS 256
#define MULTIPROCESSORS 132 /* of an H100, and more than most have: 8.3 MiB */

static bool is_layout(const vram_model *m, const char *layout)
{
    return m->packing.layout != NULL && vr_str_is(vr_str_of(m->packing.layout), layout);
}

static bool has_experts(const vram_model *m)
{
    for (uint64_t i = 0; i < m->n_layers; i++) {
        if (m->layers[i].mlp == VR_MLP_EXPERTS)
            return true;
    }
    return false;
}

/* ---- AutoAWQ ---- */

static const char *why_not_awq(const vram_model *m, const vram_workload *w, const vr_device_facts *d)
{
    (void)d;
    if (!is_layout(m, "awq-gemm") || m->packing.bits_high != 4 || w->dtype != VR_F16)
        return "what this kind of AWQ takes while it runs is not known";
    return has_experts(m) ? "what experts in AWQ take while they run is not known" : NULL;
}

static vr_block awq(vr_pass *p, uint64_t rows, uint64_t in, uint64_t out, bool biased, vr_item item,
                    vr_step step)
{
    bool unpacks = rows >= UNPACKS_FROM;
    vr_block weight = unpacks ? vr_take_at(p, in * out * 2, VR_ITEM_HIDDEN, VR_PLACE_DEQUANTISED) : VR_NONE;
    vr_block result = vr_take(p, rows * out * p->width, item, step);
    if (unpacks)
        vr_gemm(p, false);
    vr_drop(p, weight);
    if (biased) {
        vr_block sum = vr_take(p, rows * out * p->width, item, step);
        vr_drop(p, result);
        result = sum;
    }
    return result;
}

/* Eight results in place of one, of what holds three times the hidden states and three of what is between. */
static uint64_t above_awq(const vr_pass *p)
{
    const vram_model *m = p->m;
    uint64_t rows = vr_mul_sat(p->w->prefill_batch, p->w->context), h = m->hidden, f = m->ffn;
    uint64_t widest = f > h ? f : h;
    return rows < UNPACKS_FROM ? vr_mul_div(1000, SPLITS * widest, 3 * h + 3 * f) : 0;
}

/* ---- GPTQModel ---- */

static bool is_true(const vram_model *m, const char *key, bool otherwise)
{
    vr_json found;
    bool value = otherwise;
    if (m->checkpoint->has_config && vr_json_get(m->checkpoint->config, key, &found))
        (void)vr_json_bool(found, &value);
    return value;
}

static bool group_fits(const vr_quantised *q)
{
    bool sizes = q->group_size == 32 || q->group_size == 64 || q->group_size == 128;
    return q->grouping == VR_GROUPING_ROW || (q->grouping == VR_GROUPING_GROUP && sizes);
}

static bool marlin_fits(const vram_model *m)
{
    const vr_quantised *q = &m->packing;
    if (q->bits_low != q->bits_high || !group_fits(q))
        return false;
    if (is_layout(m, "gptq"))
        return (q->bits_high == 4 || q->bits_high == 8) && is_true(m, "quantization_config.sym", true);
    return is_layout(m, "awq-gemm") && q->bits_high == 4;
}

static const char *why_not_marlin(const vram_model *m, const vram_workload *w, const vr_device_facts *d)
{
    if (w->device_map == VR_MAP_NONE)
        return "without a device map GPTQModel takes its kernels for the CPU, and what these take on a "
               "card is not known: --device-map cuda";
    if (d->cc_major != 0 && d->cc_major < 8)
        return "what GPTQModel's kernels take on this card is not known";
    if (!marlin_fits(m) || vr_dtype_bits(w->dtype) != 16)
        return "what GPTQModel's kernels take of these bits and groups is not known";
    return has_experts(m) ? "what experts in 4 bits take while they run is not known" : NULL;
}

static vr_block marlin(vr_pass *p, uint64_t rows, uint64_t in, uint64_t out, bool biased, vr_item item,
                       vr_step step)
{
    uint64_t tile = vr_round_up(rows, 16);
    bool moved = is_true(p->m, "quantization_config.desc_act", false) && is_layout(p->m, "gptq");
    (void)biased; /* in the kernel */
    tile = tile < TILE_ROWS ? tile : TILE_ROWS;
    vr_block result = vr_take(p, rows * out * p->width, item, step);
    vr_block sums = vr_take(p, MULTIPROCESSORS * tile * TILE_COLUMNS * 4, VR_ITEM_HIDDEN, step);
    vr_block input = moved ? vr_take(p, rows * in * p->width, VR_ITEM_HIDDEN, step) : VR_NONE;
    vr_drop(p, input);
    vr_drop(p, sums);
    return result;
}

const vr_packed_run vr_run_awq = {
    .uncertain = 150, .why_not = why_not_awq, .linear = awq, .above = above_awq
};
const vr_packed_run vr_run_marlin = { .uncertain = 300, .why_not = why_not_marlin, .linear = marlin };
