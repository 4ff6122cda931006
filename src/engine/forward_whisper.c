/* SPDX-License-Identifier: MIT
 * Encoder and decoder of Whisper, in the order of modeling_whisper.py of transformers 5.17 and 5.24. The
 * encoder hears 30 s whatever was said; the decoder reads the prompt and then one token after the other, and
 * gives the logits of all it reads.
 *
 * What the convolutions give lies channel by channel, and so do the sums that positions, attention and MLP
 * are added to: each norm of the encoder reads a copy (aten layer_norm_kernel.cu, expect_contiguous). cuDNN's
 * workspace of the two convolutions is not counted. */
#include "engine/encdec.h"

static vr_block wide(vr_pass *p, vr_step step)
{
    return vr_take(p, p->rows * p->m->hidden * p->width, VR_ITEM_HIDDEN, step);
}

static vr_block at(vr_pass *p, uint64_t elements, vr_place place)
{
    return vr_take_at(p, elements * p->width, VR_ITEM_HIDDEN, place);
}

/* What becomes of hidden states by one operator. */
static vr_block next(vr_pass *p, vr_block x, vr_step step)
{
    vr_block out = wide(p, step);
    vr_drop(p, x);
    return out;
}

/* Keys are put head by head after all is projected, and layers keep their weights. */
static bool is_early(const vr_pass *p)
{
    return p->w->version_major < 5;
}

static bool is_encoders(const vr_pass *p)
{
    return vr_layer_of(p)->cross_heads == 0;
}

static vr_block norm(vr_pass *p, vr_step step)
{
    vr_block copy = is_encoders(p) ? wide(p, step) : VR_NONE;
    vr_block out = vr_norm(p, p->rows, p->m->hidden, step);
    vr_drop(p, copy);
    return out;
}

/* ---- attention ---- */

static vr_block project(vr_pass *p, bool bias, vr_step step)
{
    return vr_linear(p, p->m->hidden, p->m->hidden, bias, VR_ITEM_HIDDEN, step);
}

/* .transpose(1, 2).contiguous(), of so many tokens a sequence */
static vr_block by_head(vr_pass *p, vr_block x, uint64_t tokens, vr_step step)
{
    return tokens == 1 ? x : next(p, x, step);
}

/* (q_proj(x) * scaling), head by head */
static vr_block query(vr_pass *p)
{
    vr_block scaled = next(p, project(p, true, VR_STEP_Q), VR_STEP_Q);
    return by_head(p, scaled, p->q, VR_STEP_Q);
}

/* Of p->rows tokens, `tokens` of each sequence. */
static void key_and_value(vr_pass *p, uint64_t tokens, vr_block *k, vr_block *v)
{
    *k = project(p, false, VR_STEP_K);
    if (!is_early(p))
        *k = by_head(p, *k, tokens, VR_STEP_K);
    *v = project(p, true, VR_STEP_V);
    if (is_early(p))
        *k = by_head(p, *k, tokens, VR_STEP_K);
    *v = by_head(p, *v, tokens, VR_STEP_V);
}

static vr_block attend(vr_pass *p, uint64_t keys, vr_block mask, vr_block *weights)
{
    const vr_layer *l = vr_layer_of(p);
    const vr_heads h = { .q = l->heads,
                         .kv = l->heads,
                         .groups = 1,
                         .size = l->key_dim,
                         .value = l->value_dim,
                         .kv_tokens = keys,
                         .packed = true,
                         .mask = mask };
    *weights = VR_NONE;
    if (p->w->attention == VR_IMPL_EAGER)
        return vr_kernel_eager(p, &h, weights);
    return p->w->attention == VR_IMPL_FLASH ? vr_kernel_flash(p, &h) : vr_kernel_sdpa(p, &h);
}

/* x + out_proj(attention(norm(x))); kv NULL: an encoder's */
static vr_block self_attention(vr_pass *p, vr_kv *kv, uint64_t keys, vr_block mask, vr_block *weights)
{
    vr_block normed = norm(p, VR_STEP_NORM_IN), q = query(p), k, v;
    key_and_value(p, p->q, &k, &v);
    if (kv != NULL) {
        vr_encdec_keep(p, kv, k, v, keys);
        k = v = VR_NONE;
    }
    vr_block mixed = attend(p, keys, mask, weights), out = project(p, true, VR_STEP_O);
    const vr_block rest[] = { mixed, q, k, v, normed };
    vr_drop_all(p, rest, sizeof rest / sizeof *rest);
    return next(p, out, VR_STEP_MIDDLE);
}

/* The same of what the encoder heard, whose keys and values are made once. weights: of the attention before
 * it, which go when this one returns its own, and these. */
static vr_block cross_attention(vr_pass *p, vr_kv *kv, uint64_t source, vr_block weights[2])
{
    vr_block normed = norm(p, VR_STEP_NORM_CROSS), q = query(p), k, v;
    if (kv->k == VR_NONE) {
        uint64_t rows = p->rows;
        p->rows = p->batch * source;
        key_and_value(p, source, &k, &v);
        vr_encdec_keep(p, kv, k, v, source);
        p->rows = rows;
    }
    vr_block mixed = attend(p, source, VR_NONE, &weights[1]), out = project(p, true, VR_STEP_O);
    const vr_block rest[] = { mixed, q, normed };
    vr_drop_all(p, rest, sizeof rest / sizeof *rest);
    if (!is_early(p))
        vr_replace(p, &weights[0], VR_NONE);
    return next(p, out, VR_STEP_MIDDLE);
}

/* ---- layers ---- */

static vr_block mlp(vr_pass *p)
{
    uint64_t ffn = vr_layer_of(p)->ffn, h = p->m->hidden;
    vr_block normed = norm(p, VR_STEP_NORM_ATTENTION);
    vr_block act = vr_linear(p, h, ffn, true, VR_ITEM_HIDDEN, VR_STEP_UP);
    vr_replace(p, &act, vr_activate(p));
    vr_drop(p, normed);
    vr_block down = vr_linear(p, ffn, h, true, VR_ITEM_HIDDEN, VR_STEP_DOWN);
    vr_drop(p, act);
    return next(p, down, VR_STEP_OUTPUT);
}

/* In fp16 what it gives is clamped. *kept: the weights that an early layer returned, until the next does. */
static vr_block encoder_layer(vr_pass *p, vr_block x, vr_block *kept)
{
    vr_block weights, middle = self_attention(p, NULL, p->q, VR_NONE, &weights), out = mlp(p);
    if (p->w->dtype == VR_F16)
        out = next(p, out, VR_STEP_OUTPUT);
    vr_drop(p, middle);
    if (is_early(p))
        vr_replace(p, kept, weights);
    else
        vr_drop(p, weights);
    vr_drop(p, x);
    return out;
}

static vr_block decoder_layer(vr_pass *p, vr_encdec_group *g, vr_block mask, vr_block x)
{
    vr_kv *own = &g->own[p->layer], *cross = &g->cross[p->layer];
    vr_block weights[2], first = self_attention(p, own, g->past + p->q, mask, &weights[0]);
    vr_block second = cross_attention(p, cross, g->source, weights);
    vr_drop(p, first);
    vr_block out = mlp(p);
    vr_drop(p, second);
    vr_drop_all(p, weights, 2);
    vr_drop(p, x);
    return out;
}

/* ---- stacks ---- */

static void of_tokens(vr_pass *p, uint64_t sequences, uint64_t tokens)
{
    p->batch = sequences;
    p->q = tokens;
    p->rows = sequences * tokens;
}

/* gelu(conv(x)) of a sequence's `frames`; drops x. */
static vr_block convolve(vr_pass *p, vr_block x, uint64_t frames)
{
    uint64_t n = p->batch * frames * p->m->hidden;
    vr_block out = at(p, n, VR_PLACE_HEARD), act = at(p, n, VR_PLACE_HEARD);
    vr_drop(p, out);
    vr_drop(p, x);
    return act;
}

vr_block vr_whisper_encode(vr_pass *p, uint64_t sequences)
{
    const vram_model *m = p->m;
    uint64_t source = m->source_positions;
    of_tokens(p, sequences, source);
    vr_block frames = convolve(p, VR_NONE, 2 * source), heard = convolve(p, frames, source);
    vr_block ids = vr_take_at(p, source * 8, VR_ITEM_INPUTS, VR_PLACE_POSITIONS);
    vr_block places = at(p, source * m->hidden, VR_PLACE_HEARD);
    vr_block x = at(p, p->rows * m->hidden, VR_PLACE_HEARD), kept = VR_NONE;
    vr_drop(p, places);
    for (uint64_t i = 0; i < m->n_encoder; i++) {
        p->layer = m->n_layers + i;
        x = encoder_layer(p, x, &kept);
    }
    vr_block out = norm(p, VR_STEP_FINAL);
    vr_drop(p, x);
    vr_drop(p, heard);
    vr_drop(p, ids);
    vr_drop(p, kept);
    return out;
}

/* Numbers of the tokens, once for each sequence. *range: of one, as early versions keep it. */
static vr_block positions(vr_pass *p, vr_block *range)
{
    *range = vr_take_at(p, p->q * 8, VR_ITEM_INPUTS, VR_PLACE_POSITIONS);
    if (p->rules->positions_added)
        vr_replace(p, range, vr_take_at(p, p->q * 8, VR_ITEM_INPUTS, VR_PLACE_POSITIONS));
    vr_block out = vr_take_at(p, p->rows * 8, VR_ITEM_INPUTS, VR_PLACE_POSITIONS);
    if (p->rules->positions_added)
        vr_replace(p, range, VR_NONE);
    return out;
}

void vr_whisper_decode(vr_pass *p, vr_encdec_group *g, uint64_t tokens)
{
    const vram_model *m = p->m;
    of_tokens(p, g->sequences, tokens);
    vr_block words = at(p, p->rows * m->hidden, VR_PLACE_EMBEDDING);
    vr_block range, ids = positions(p, &range);
    vr_block places = at(p, p->rows * m->hidden, VR_PLACE_EMBEDDING);
    vr_block x = at(p, p->rows * m->hidden, VR_PLACE_EMBEDDING);
    vr_block mask = p->w->attention == VR_IMPL_EAGER ? vr_added_mask(p, g->past + p->q) : VR_NONE;
    for (p->layer = 0; p->layer < m->n_layers; p->layer++)
        x = decoder_layer(p, g, mask, x);
    p->layer = m->n_layers - 1;
    vr_block normed = norm(p, VR_STEP_FINAL);
    const vr_block rest[] = { x, words, range, ids, places, mask };
    vr_drop_all(p, rest, sizeof rest / sizeof *rest);
    vr_block logits = vr_take_at(p, p->rows * m->vocab * p->width, VR_ITEM_LOGITS, VR_PLACE_LOGITS);
    vr_gemm(p, false);
    vr_drop(p, normed);
    vr_drop(p, g->logits);
    g->logits = logits;
    g->past += tokens;
}
