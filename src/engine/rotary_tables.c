/* SPDX-License-Identifier: MIT
 * Tables of cosines and sines, or of complex numbers, made once a call (the *RotaryEmbedding classes of
 * modeling_*.py). */
#include "engine/pass.h"

/* generate() with beams gives positions for each of them. */
static vr_block rotary(vr_pass *p, uint64_t columns, unsigned width)
{
    uint64_t places = vr_beams(p->w) > 1 ? p->rows : p->q;
    return vr_take_at(p, places * columns * width, VR_ITEM_INPUTS, VR_PLACE_ROTARY);
}

/* cos or sin, times attention_scaling */
static vr_block scaled_wave(vr_pass *p, uint64_t columns)
{
    vr_block wave = rotary(p, columns, 4);
    vr_block scaled = rotary(p, columns, 4);
    vr_drop(p, wave);
    return scaled;
}

/* deepseek_v2, llama4: torch.polar(ones, angles) * attention_scaling, complex numbers of two floats */
static vr_block complex_wave(vr_pass *p, uint64_t d)
{
    vr_block ones = rotary(p, d / 2, 4), wave = rotary(p, d, 4);
    vr_drop(p, ones);
    vr_block scaled = rotary(p, d, 4);
    vr_drop(p, wave);
    return scaled;
}

/* Qwen3_5TextRotaryEmbedding, Qwen3VLTextRotaryEmbedding, Qwen2_5_VLRotaryEmbedding: angles of three
 * positions of each token of each sequence, waves of all, then one table. */
static vr_block grids(vr_pass *p, uint64_t columns, unsigned width)
{
    return vr_take_at(p, p->rows * columns * width, VR_ITEM_INPUTS, VR_PLACE_ROTARY);
}

static void grid_table(vr_pass *p, vr_block *cos, vr_block *sin)
{
    uint64_t d = p->m->rotary_dim;
    vr_block positions = grids(p, 3, 4), angles = grids(p, 3 * d / 2, 4), waves[2], tables[2];
    if (p->rules->rotary_product)
        vr_drop(p, positions);
    else
        vr_gemm(p, false);
    for (int i = 0; i < 2; i++) {
        vr_block wave = grids(p, 3 * d / 2, 4);
        waves[i] = grids(p, 3 * d / 2, 4);
        vr_drop(p, wave);
    }
    for (int i = 1; i >= 0; i--) { /* sines first */
        vr_block half = p->m->family->grid_sections ? grids(p, d / 2, 4) : VR_NONE;
        tables[i] = grids(p, d, 4);
        vr_drop(p, half);
        vr_drop(p, waves[i]);
    }
    *cos = p->width != 4 ? grids(p, d, p->width) : tables[0];
    *sin = p->width != 4 ? grids(p, d, p->width) : tables[1];
    if (!p->rules->rotary_product)
        vr_drop(p, positions);
    vr_drop(p, angles);
    if (p->width != 4) {
        vr_drop(p, tables[0]);
        vr_drop(p, tables[1]);
    }
}

/* Heads may have a width of their own in each kind of layer (Gemma 4). */
uint64_t vr_table_columns(const vram_model *m, bool sliding)
{
    for (uint64_t i = 0; i < m->n_layers && m->family->local_rope; i++) {
        const vr_layer *l = &m->layers[i];
        if ((l->attention == VR_ATTENTION_SLIDING) == sliding && l->rotary_dim != 0)
            return l->rotary_dim;
    }
    return m->rotary_dim;
}

void vr_rotary_table(vr_pass *p, uint64_t all, vr_block *cos, vr_block *sin)
{
    if (p->m->family->grid_rotary) {
        grid_table(p, cos, sin);
        return;
    }
    bool chunks = p->m->family->rope == VR_ROPE_CHUNKS; /* each angle once */
    uint64_t d = chunks ? all / 2 : all;
    vr_block positions = rotary(p, 1, 4);
    vr_block angles = rotary(p, all / 2, 4);
    if (!p->rules->rotary_product) {
        vr_gemm(p, false);
    } else {
        vr_drop(p, positions);
        positions = VR_NONE;
    }
    if (p->m->family->rope == VR_ROPE_PAIRS_COMPLEX) {
        *cos = complex_wave(p, d);
        *sin = VR_NONE;
        vr_drop(p, positions);
        vr_drop(p, angles);
        return;
    }
    vr_block both = chunks ? VR_NONE : rotary(p, d, 4);
    vr_block wide_cos = scaled_wave(p, d), wide_sin = scaled_wave(p, d);
    bool narrows = p->width != 4 && !vr_rotary_is_wide(p->m->family->rope);
    *cos = narrows ? rotary(p, d, p->width) : wide_cos;
    *sin = narrows ? rotary(p, d, p->width) : wide_sin;
    vr_drop(p, positions);
    vr_drop(p, angles);
    vr_drop(p, both);
    if (narrows) {
        vr_drop(p, wide_cos);
        vr_drop(p, wide_sin);
    }
}
