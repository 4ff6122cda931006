/* SPDX-License-Identifier: MIT
 * The vision towers of Qwen2.5-VL and Qwen3-VL over the pictures of a pass (modeling_qwen2_5_vl.py,
 * modeling_qwen3_vl.py of transformers 5.17 and 5.24).
 *
 * Left out: what is counted of patches and windows before they run, some bytes a patch each; and what cuDNN
 * takes beside its result for the convolution that embeds patches, which depends on its choice. */
#include "engine/pass.h"

#define MOST_PIECES (UINT64_C(1) << 20) /* that are attended to by themselves, of one pass and layer */

typedef enum part { PATCHES, TURNS, BLOCK, MERGER } part;

typedef struct tower {
    vr_pass *p;
    const vr_tower *t;
    const vr_picture *picture;
    uint64_t pictures, n; /* patches of all */
    bool windowed;        /* Qwen2.5-VL */
    vr_block cos, sin;
} tower;

bool vr_tower_runs(const vram_model *m)
{
    return m->tower != NULL && m->tower->form != VR_TOWER_OTHER;
}

/* Merged patches of a side of a window (get_vision_window_index); 0: the class would divide by it. */
static uint64_t window_side(const vr_tower *t)
{
    return t->window / t->merge / t->patch;
}

static uint64_t windows(const vr_tower *t, const vr_picture *picture)
{
    uint64_t side = window_side(t), rows = picture->rows / t->merge, columns = picture->columns / t->merge;
    return (rows + side - 1) / side * ((columns + side - 1) / side);
}

const char *vr_no_look(const vram_model *m, const vram_workload *w)
{
    const vr_tower *t = m->tower;
    bool windowed = t->form == VR_TOWER_QWEN2_5;
    if (windowed && window_side(t) == 0)
        return "its windows are smaller than what becomes one token";
    uint64_t pictures = vr_mul_sat(w->images, w->prefill_batch);
    uint64_t pieces = vr_mul_sat(pictures, windowed ? windows(t, &w->picture) : 1);
    return pieces > MOST_PIECES ? "so many pictures are more than can be rehearsed" : NULL;
}

uint64_t vr_patches(const vram_workload *w)
{
    return w->images != 0 ? w->picture.rows * w->picture.columns : 0;
}

uint64_t vr_patch_width(const vram_model *m)
{
    const vr_tower *t = m->tower;
    if (t == NULL)
        return 0;
    uint64_t pixels = vr_mul_sat(vr_mul_sat(t->channels, t->temporal_patch), vr_mul_sat(t->patch, t->patch));
    const uint64_t widths[] = { pixels, vr_mul_sat(4, t->hidden), t->ffn, t->out };
    uint64_t most = 0;
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
        most = widths[i] > most ? widths[i] : most;
    return most;
}

/* "model.visual.blocks.3" */
static void name_part(tower *s, part what, uint64_t block)
{
    static const char *const names[] = { "model.visual.patch_embed", "model.visual.rotary_pos_emb",
                                         "model.visual.blocks.", "model.visual.merger" };
    vr_pass *p = s->p;
    const char *text = names[what];
    if (what == BLOCK)
        text = vr_text(p->arena, T(text), U(block));
    if (text == NULL)
        p->tape->status = VRAM_ENOMEM;
    p->seen_label = vr_tape_label(p->tape, vr_str_of(text));
}

static vr_block take(tower *s, uint64_t bytes)
{
    return vr_take_labelled(s->p, bytes, VR_ITEM_VISION, s->p->seen_label);
}

static vr_block hidden(tower *s)
{
    return take(s, s->n * s->t->hidden * s->p->width);
}

/* Over rows of their own, and then the tower's patches again. */
static vr_block linear(tower *s, uint64_t rows, uint64_t in, uint64_t out)
{
    s->p->rows = rows;
    vr_block x = vr_linear(s->p, in, out, true, VR_ITEM_VISION, VR_STEP_O);
    s->p->rows = s->n;
    return x;
}

static vr_block norm(tower *s, uint64_t rows, uint64_t size)
{
    if (s->windowed)
        return vr_norm(s->p, rows, size, VR_STEP_NORM_IN);
    vr_block out = take(s, rows * size * s->p->width);
    vr_block mean = vr_take_at(s->p, rows * 4, VR_ITEM_VISION, VR_PLACE_STATISTICS);
    vr_block deviation = vr_take_at(s->p, rows * 4, VR_ITEM_VISION, VR_PLACE_STATISTICS);
    vr_drop(s->p, deviation);
    vr_drop(s->p, mean);
    return out;
}

/* ---- patches ---- */

/* pos_embed at four corners of each patch, weighted in fp32 and added up; *added is held by a variable. */
static vr_block learned_positions(tower *s, vr_block x, vr_block *added)
{
    vr_pass *p = s->p;
    uint64_t n = s->n * s->t->hidden;
    vr_block corners = take(s, 4 * n * p->width), weighted = take(s, 4 * n * 4);
    vr_drop(p, corners);
    vr_block sums = take(s, n * 4);
    vr_drop(p, weighted);
    vr_block narrow = p->width != 4 ? take(s, n * p->width) : sums;
    vr_block out = hidden(s);
    vr_drop(p, narrow);
    vr_drop(p, x);
    *added = p->width != 4 ? sums : VR_NONE;
    return out;
}

static vr_block embed_patches(tower *s, vr_block *added)
{
    name_part(s, PATCHES, 0);
    *added = VR_NONE;
    vr_block x = hidden(s);
    if (!s->windowed)
        return learned_positions(s, x, added);
    vr_block sorted = hidden(s); /* by windows */
    vr_drop(s->p, x);
    return sorted;
}

/* ---- rotary tables ---- */

static vr_block wave(tower *s, uint64_t bytes)
{
    vr_block x = take(s, bytes), scaled = take(s, bytes);
    vr_drop(s->p, x);
    return scaled;
}

/* Rows and columns beside each other, and that twice. */
static vr_block table(tower *s, vr_block x, uint64_t bytes)
{
    vr_block both = take(s, bytes), out = take(s, 2 * bytes);
    vr_drop(s->p, both);
    vr_drop(s->p, x);
    return out;
}

static void sort_tables(tower *s, uint64_t bytes)
{
    vr_block cos = take(s, bytes), sin = take(s, bytes);
    vr_drop(s->p, s->cos);
    vr_drop(s->p, s->sin);
    s->cos = cos;
    s->sin = sin;
}

static void make_tables(tower *s)
{
    vr_pass *p = s->p;
    uint64_t bytes = s->n * (s->t->hidden / s->t->heads / 4) * 2 * 4;
    name_part(s, TURNS, 0);
    vr_block positions = take(s, s->n * 2 * 4), angles = take(s, bytes);
    bool early = p->rules->rotary_product; /* and no variable of its own */
    vr_drop(p, early ? positions : VR_NONE);
    vr_block cos = wave(s, bytes), sin = wave(s, bytes);
    s->cos = table(s, cos, bytes);
    s->sin = table(s, sin, bytes);
    vr_drop(p, angles);
    vr_drop(p, early ? VR_NONE : positions);
    if (s->windowed)
        sort_tables(s, 2 * bytes);
}

/* ---- attention ---- */

/* apply_rotary_pos_emb_vision, in fp32 */
static vr_block turned(tower *s)
{
    vr_pass *p = s->p;
    uint64_t wide = s->n * s->t->hidden * 4;
    vr_block a = take(s, wide), negated = take(s, wide / 2), half = take(s, wide);
    vr_drop(p, negated);
    vr_block b = take(s, wide);
    vr_drop(p, half);
    vr_block sum = take(s, wide);
    vr_drop(p, a);
    vr_drop(p, b);
    return sum;
}

static void turn(tower *s, vr_block *q, vr_block *k)
{
    vr_pass *p = s->p;
    bool widens = p->width != 4;
    uint64_t wide = s->n * s->t->hidden * 4;
    vr_block wide_q = widens ? take(s, wide) : VR_NONE, wide_k = widens ? take(s, wide) : VR_NONE;
    vr_block sums[2] = { turned(s), VR_NONE };
    sums[1] = turned(s);
    *q = widens ? hidden(s) : sums[0];
    vr_drop(p, widens ? sums[0] : VR_NONE);
    *k = widens ? hidden(s) : sums[1];
    vr_drop(p, widens ? sums[1] : VR_NONE);
    vr_drop(p, wide_q);
    vr_drop(p, wide_k);
}

/* What of these patches is attended to by each other. */
static vr_block attend(tower *s, uint64_t patches)
{
    vr_pass *p = s->p;
    const vr_tower *t = s->t;
    vr_block probabilities = VR_NONE, out;
    vr_heads h = { .q = t->heads,
                   .kv = t->heads,
                   .groups = 1,
                   .size = t->hidden / t->heads,
                   .value = t->hidden / t->heads,
                   .kv_tokens = patches,
                   .mask = VR_NONE };
    p->rows = p->q = patches;
    if (p->w->attention == VR_IMPL_EAGER)
        out = vr_kernel_eager(p, &h, &probabilities);
    else if (p->width == 4) /* the memory-efficient kernel keeps nothing */
        out = take(s, patches * t->hidden * 4);
    else
        out = vr_kernel_flash(p, &h);
    vr_drop(p, probabilities);
    p->rows = p->q = s->n;
    return out;
}

typedef struct pieces {
    vr_block *list;
    size_t n;
} pieces;

static void attend_windows(tower *s, pieces *out)
{
    const vr_tower *t = s->t;
    uint64_t side = window_side(t), rows = s->picture->rows / t->merge;
    uint64_t columns = s->picture->columns / t->merge;
    for (uint64_t y = 0; y < rows; y += side) {
        for (uint64_t x = 0; x < columns; x += side) {
            uint64_t h = rows - y < side ? rows - y : side, w = columns - x < side ? columns - x : side;
            out->list[out->n++] = attend(s, h * w * t->merge * t->merge);
        }
    }
}

/* Each piece by itself, all put together. */
static vr_block attend_all(tower *s, uint64_t block, pieces *out)
{
    bool whole = !s->windowed || s->t->whole[block];
    uint64_t n = s->pictures * (whole ? 1 : windows(s->t, s->picture));
    out->n = 0;
    out->list = VR_ARRAY(s->p->arena, vr_block, (size_t)n + 1);
    if (out->list == NULL) {
        s->p->tape->status = VRAM_ENOMEM;
        return VR_NONE;
    }
    for (uint64_t i = 0; i < s->pictures; i++) {
        if (whole)
            out->list[out->n++] = attend(s, s->picture->rows * s->picture->columns);
        else
            attend_windows(s, out);
    }
    return hidden(s);
}

static vr_block attention(tower *s, uint64_t block)
{
    vr_pass *p = s->p;
    uint64_t h = s->t->hidden;
    vr_block q, k, normed = norm(s, s->n, h), all = linear(s, s->n, h, 3 * h);
    pieces out = { NULL, 0 };
    turn(s, &q, &k);
    vr_block mixed = attend_all(s, block, &out);
    vr_block result = linear(s, s->n, h, h);
    const vr_block rest[] = { mixed, all, q, k, normed };
    vr_drop_all(p, rest, sizeof(rest) / sizeof(rest[0]));
    vr_drop_all(p, out.list, out.n);
    return result;
}

/* ---- blocks ---- */

static vr_block mlp(tower *s)
{
    vr_pass *p = s->p;
    uint64_t h = s->t->hidden, f = s->t->ffn, bytes = s->n * f * p->width;
    vr_block normed = norm(s, s->n, h), first = linear(s, s->n, h, f), x = take(s, bytes);
    vr_drop(p, first);
    if (s->windowed) {
        vr_block up = linear(s, s->n, h, f), product = take(s, bytes);
        vr_drop(p, x);
        vr_drop(p, up);
        x = product;
    }
    vr_block down = linear(s, s->n, f, h);
    vr_drop(p, x);
    vr_drop(p, normed);
    return down;
}

static vr_block add(tower *s, vr_block x)
{
    vr_block sum = hidden(s);
    vr_drop(s->p, x);
    return sum;
}

static vr_block run_block(tower *s, uint64_t block, vr_block x)
{
    name_part(s, BLOCK, block);
    vr_block middle = add(s, attention(s, block));
    vr_block next = add(s, mlp(s));
    vr_drop(s->p, middle);
    vr_drop(s->p, x);
    return next;
}

/* merge x merge patches become one; Qwen3-VL's further mergers normalise them when they are one already. */
static vr_block merge(tower *s, bool merged_first)
{
    vr_pass *p = s->p;
    uint64_t many = s->t->merge * s->t->merge, rows = s->n / many, wide = s->t->hidden * many;
    name_part(s, MERGER, 0);
    vr_block normed = merged_first ? norm(s, rows, wide) : norm(s, s->n, s->t->hidden);
    vr_block first = linear(s, rows, wide, wide), x = take(s, rows * wide * p->width);
    vr_drop(p, first);
    vr_block out = linear(s, rows, wide, s->t->out);
    vr_drop(p, x);
    vr_drop(p, normed);
    return out;
}

static void run_blocks(tower *s, vr_sight *out)
{
    vr_block added, x = embed_patches(s, &added);
    make_tables(s);
    for (uint64_t i = 0; i < s->t->layers && s->p->tape->status == VRAM_OK; i++) {
        x = run_block(s, i, x);
        if (!s->windowed && s->t->deep[i] && out->n_deep < VR_MOST_SEEN)
            out->deep[out->n_deep++] = merge(s, true);
    }
    out->last = x;
    out->features = merge(s, false);
    vr_drop(s->p, added);
}

/* ---- the tower ---- */

static uint64_t pixel_elements(const vr_pass *p, uint64_t sequences)
{
    const vr_tower *t = p->m->tower;
    const vr_picture *c = &p->w->picture;
    return sequences * p->w->images * c->rows * c->columns * t->channels * t->temporal_patch * t->patch *
           t->patch;
}

vr_block vr_pixels(vr_pass *p, uint64_t sequences)
{
    return vr_take_at(p, pixel_elements(p, sequences) * 4, VR_ITEM_INPUTS, VR_PLACE_PIXELS);
}

void vr_look(vr_pass *p, vr_sight *out)
{
    const vr_picture *c = &p->w->picture;
    uint64_t batch = p->batch, q = p->q, rows = p->rows, pictures = batch * p->w->images;
    tower s = { .p = p, .t = p->m->tower, .picture = c, .pictures = pictures };
    s.n = pictures * c->rows * c->columns;
    s.windowed = s.t->form == VR_TOWER_QWEN2_5;
    *out = (vr_sight){ .tokens = pictures * c->features };
    p->batch = 1;
    p->q = p->rows = s.n;
    name_part(&s, PATCHES, 0);
    vr_block cast = p->width != 4 ? take(&s, pixel_elements(p, batch) * p->width) : VR_NONE;
    run_blocks(&s, out);
    if (s.windowed) { /* in the order of the picture again */
        vr_replace(p, &out->features, take(&s, out->tokens * s.t->out * p->width));
    }
    vr_drop(p, s.cos);
    vr_drop(p, s.sin);
    vr_drop(p, cast);
    p->batch = batch;
    p->q = q;
    p->rows = rows;
    p->seen_label = 0;
}
