/* SPDX-License-Identifier: MIT
 * Linear weights that bitsandbytes quantises while they are loaded (functional.py, nn/modules.py and
 * backends/cuda/ops.py of bitsandbytes 0.50; quantizer_bnb_*.py of transformers 4.57,
 * integrations/bitsandbytes.py of 5.24).
 *
 * The weight comes to the card whole, in the load dtype, and goes when what is packed is there. Transformers
 * 4 sends it back to the host in between and to the card again: when a single map entry had it read onto the
 * card at once, both copies are there. 8 bits are always quantised from a second copy in fp16. */
#include "engine/loading.h"

#define BLOCK UINT64_C(64)            /* weights that share a scale */
#define BLOCK_OF_SCALES UINT64_C(256) /* and scales that do, when these are quantised as well */
#define CODE_4BIT (16 * 4)            /* the table of 16 values that each weight has */

typedef struct parts {
    uint64_t packed, scales, code, offset, scales_of_scales;
} parts;

static uint64_t blocks_of(uint64_t n, uint64_t block)
{
    return vr_round_up(n, block) / block;
}

static parts parts_of(vr_weight_quant quant, uint64_t rows, uint64_t n)
{
    uint64_t blocks = blocks_of(n, BLOCK);
    switch (quant) {
    case VR_QUANT_BNB_8BIT:
        return (parts){ .packed = n, .scales = rows * 4 };
    case VR_QUANT_BNB_4BIT_DQ:
        return (parts){ .packed = n / 2 + n % 2,
                        .scales = blocks,
                        .code = CODE_4BIT,
                        .offset = 4,
                        .scales_of_scales = blocks_of(blocks, BLOCK_OF_SCALES) * 4 };
    default:
        return (parts){ .packed = n / 2 + n % 2, .scales = blocks * 4, .code = CODE_4BIT };
    }
}

bool vr_quantises(const vram_workload *w)
{
    return w->weight_quant != VR_QUANT_NONE && w->weight_quant != VR_QUANT_DEQUANTIZE;
}

uint64_t vr_bnb_packed(vr_weight_quant quant, uint64_t n)
{
    return parts_of(quant, 0, n).packed;
}

uint64_t vr_bnb_bytes(vr_weight_quant quant, uint64_t rows, uint64_t elements)
{
    parts x = parts_of(quant, rows, elements);
    return x.packed + x.scales + x.code + x.offset + x.scales_of_scales;
}

/* ---- on the card ---- */

static vr_block piece(vr_pass *p, uint64_t bytes, uint32_t label)
{
    return bytes == 0 ? VR_NONE : vr_take_labelled(p, bytes, VR_ITEM_PARAMETERS, label);
}

static void four_bits(vr_pass *p, const vr_param *param, uint32_t label)
{
    vr_weight_quant quant = (vr_weight_quant)p->w->weight_quant;
    parts x = parts_of(quant, param->dims[0], param->elements);
    vr_block scales = piece(p, blocks_of(param->elements, BLOCK) * 4, label);
    piece(p, x.packed, label);
    piece(p, x.code, label);
    if (quant != VR_QUANT_BNB_4BIT_DQ)
        return;
    piece(p, x.offset, label);
    vr_block centred = piece(p, blocks_of(param->elements, BLOCK) * 4, label);
    piece(p, x.scales_of_scales, label);
    piece(p, x.scales, label);
    vr_drop(p, centred);
    vr_drop(p, scales);
}

static void eight_bits(vr_pass *p, const vr_param *param, uint32_t label)
{
    parts x = parts_of(VR_QUANT_BNB_8BIT, param->dims[0], param->elements);
    vr_block half = piece(p, param->elements * 2, label);
    piece(p, x.scales, label);
    piece(p, x.packed, label);
    vr_drop(p, half);
}

/* Transformers 4 reads it onto the card as it is stored, and converts it there; 5 converts it before. */
static vr_block whole(vr_pass *p, const vr_param *param, uint32_t label, uint64_t bytes)
{
    const vr_tensor *t = param->tensor;
    bool converts = !p->rules->natural_order && t != NULL && t->dtype != p->w->dtype;
    vr_block stored = converts ? piece(p, t->end - t->begin, label) : VR_NONE;
    vr_block block = piece(p, bytes, label);
    vr_drop(p, stored);
    return block;
}

void vr_bnb_load(vr_pass *p, const vr_param *param, uint32_t label)
{
    bool four = p->w->weight_quant != VR_QUANT_BNB_8BIT, early = !p->rules->natural_order;
    bool from_host = early && p->placement != NULL && p->placement->spread;
    uint64_t bytes = param->elements * p->width;
    vr_block read = from_host ? VR_NONE : whole(p, param, label, bytes);
    vr_block again = four && (early || from_host) ? piece(p, bytes, label) : VR_NONE;
    if (four)
        four_bits(p, param, label);
    else
        eight_bits(p, param, label);
    vr_drop(p, again);
    vr_drop(p, read);
}
