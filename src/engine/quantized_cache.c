/* SPDX-License-Identifier: MIT
 * A cache in few bits (cache_implementation="quantized"; transformers, cache_utils.py: QuantizedLayer and
 * QuantoQuantizedLayer; optimum-quanto 0.2.7: max_optimizer.py, quantize.py, packed.py, qbits.py, and
 * unpack.cu, which makes its result alone). The prompt is packed at once; what is generated stays as it is
 * until there is a residual length of it, then all is packed anew. For each token all of a layer is unpacked,
 * put together with the rest, and given to the attention. Groups go along the first axis, as is the default.
 */
#include "engine/caches.h"

#define BITS 4
#define GROUP 64
#define RESIDUAL 128

/* ---- settings ---- */

static vram_status refuse_bits(vram_workload *w)
{
    vram_status s = vr_fail(w->ctx, VRAM_ESETTING, T("--cache-bits "), U(w->cache_bits),
                            T(": quanto packs keys and values in 2 or 4 bits"));
    vr_hint(w->ctx, "give --cache-bits 2 or 4");
    return s;
}

/* generation/utils.py, and QuantizedCache since layers have kinds (held against 5.17; read in 4.57, which has
 * no such check) */
static const char *why_refused(const vram_workload *w, const vram_model *m)
{
    if (m->structure == VR_ENCODER_DECODER)
        return " has an encoder, with which transformers refuses it";
    for (uint64_t i = 0; i < m->n_layers && w->version_major >= 5; i++)
        if (m->layers[i].attention == VR_ATTENTION_SLIDING ||
            m->layers[i].attention == VR_ATTENTION_CHUNKED ||
            m->layers[i].attention == VR_ATTENTION_RECURRENT)
            return " has layers of other kinds than full attention, with which transformers refuses it";
    return NULL;
}

/* Elements of one sequence that are packed together are a multiple of the group (quanto, grouped.py). */
static bool in_groups(const vram_workload *w, const vr_layer *l, uint64_t tokens)
{
    uint64_t key = vr_mul_sat((uint64_t)l->kv_heads * l->key_dim, tokens);
    uint64_t value = vr_mul_sat((uint64_t)l->kv_heads * l->value_dim, tokens);
    return key % w->cache_group == 0 && value % w->cache_group == 0;
}

static vram_status check_groups(const vram_workload *w, const vram_model *m)
{
    bool again = w->decode >= w->cache_residual;
    for (uint64_t i = 0; i < m->n_layers; i++) {
        const vr_layer *l = &m->layers[i];
        if (l->attention != VR_ATTENTION_FULL ||
            (in_groups(w, l, w->context) && (!again || in_groups(w, l, w->cache_residual))))
            continue;
        vram_status s =
            vr_fail(w->ctx, VRAM_ESETTING, T("--cache quantized: "), U(l->kv_heads), T(" heads of "),
                    U(l->key_dim), T(" x "), GROUPED(w->context), T(" tokens are no multiple of groups of "),
                    U(w->cache_group), T(", which quanto refuses"));
        vr_hint(w->ctx, "give another --cache-group-size or --context");
        return s;
    }
    return VRAM_OK;
}

/* What belongs to a quantised cache, with another one. */
static vram_status check_alone(const vram_workload *w)
{
    static const struct {
        vr_setting setting;
        const char *option;
    } own[] = {
        { VR_SET_CACHE_BACKEND, "--cache-backend" },
        { VR_SET_CACHE_BITS, "--cache-bits" },
        { VR_SET_CACHE_GROUP, "--cache-group-size" },
        { VR_SET_CACHE_RESIDUAL, "--residual-length" },
    };
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        if (w->set_by[own[i].setting] != VR_BY_USER)
            continue;
        vram_status s =
            vr_fail(w->ctx, VRAM_ESETTING, T(own[i].option), T(": the cache is not a quantised one"));
        vr_hint(w->ctx, "give --cache quantized as well");
        return s;
    }
    return VRAM_OK;
}

static void quanto_defaults(vram_workload *w)
{
    w->cache_bits = w->cache_bits != 0 ? w->cache_bits : BITS;
    w->cache_group = w->cache_group != 0 ? w->cache_group : GROUP;
    w->cache_residual = w->cache_residual != 0 ? w->cache_residual : RESIDUAL;
}

/* One scale for all, and nothing to choose. */
static vram_status fp8_defaults(vram_workload *w)
{
    bool chosen = w->set_by[VR_SET_CACHE_BITS] == VR_BY_USER || w->set_by[VR_SET_CACHE_GROUP] == VR_BY_USER ||
                  w->set_by[VR_SET_CACHE_RESIDUAL] == VR_BY_USER;
    if (chosen)
        return vr_fail(w->ctx, VRAM_ESETTING,
                       T("--cache-backend fp8 takes no bits, no group size and no residual length"));
    if (w->version_major * 100 + w->version_minor < 524)
        return vr_fail(w->ctx, VRAM_ESETTING, T("--cache-backend fp8: known of transformers 5.24 and newer"));
    w->cache_bits = 8;
    w->cache_group = w->cache_residual = 0;
    return VRAM_OK;
}

vram_status vr_quantized_defaults(vram_workload *w, const vram_model *m)
{
    if (w->cache != VR_CACHE_QUANTIZED)
        return check_alone(w);
    if (w->cache_backend == VR_BACKEND_FP8)
        VR_TRY(fp8_defaults(w));
    else
        quanto_defaults(w);
    const char *why = why_refused(w, m);
    if (why != NULL)
        return vr_fail(w->ctx, VRAM_ESETTING, T("--cache quantized: "),
                       T(m->architecture != NULL ? m->architecture : "this model"), T(why));
    if (w->cache_backend == VR_BACKEND_FP8)
        return VRAM_OK;
    if (w->cache_bits != 2 && w->cache_bits != 4)
        return refuse_bits(w);
    return check_groups(w, m);
}
/* ---- sizes ---- */

static uint64_t groups_of(const vram_workload *w, uint64_t elements)
{
    return (elements + w->cache_group - 1) / w->cache_group;
}

/* Several groups share a byte: row i of the first half and row i of the second. */
static uint64_t rows_of(const vram_workload *w, uint64_t elements)
{
    uint64_t each = 8 / w->cache_bits;
    return (groups_of(w, elements) + each - 1) / each;
}

uint64_t vr_packed_bytes(const vram_workload *w, uint64_t elements, unsigned width)
{
    if (w->cache_backend == VR_BACKEND_FP8)
        return elements + 4;
    return rows_of(w, elements) * w->cache_group + 2 * groups_of(w, elements) * width;
}

uint64_t vr_residual_tokens(const vram_workload *w, uint64_t generated)
{
    return w->cache_backend == VR_BACKEND_FP8 ? 0 : generated % w->cache_residual;
}

static uint64_t elements_of(const vr_pass *p, int side, uint64_t tokens)
{
    const vr_layer *l = vr_layer_of(p);
    return p->batch * l->kv_heads * (side == 0 ? l->key_dim : l->value_dim) * tokens;
}

/* ---- packing ---- */

static const vr_step kept[2] = { VR_STEP_KEYS, VR_STEP_VALUES };
static const vr_step whole[2] = { VR_STEP_WHOLE_KEYS, VR_STEP_WHOLE_VALUES };

static vr_block passing(vr_pass *p, uint64_t bytes)
{
    return vr_take_at(p, bytes, VR_ITEM_HIDDEN, VR_PLACE_PACKING);
}

/* From the least and the most of each group. */
static void scale(vr_pass *p, uint64_t bytes, int side, vr_packed *out)
{
    vr_block least = passing(p, bytes), most = passing(p, bytes), range = passing(p, bytes);
    out->scale = vr_take(p, bytes, VR_ITEM_KV, kept[side]);
    vr_drop(p, range);
    out->shift = vr_take(p, bytes, VR_ITEM_KV, kept[side]);
    vr_drop(p, least);
    vr_drop(p, most);
}

/* clamp(round((x + shift) / scale)).to(uint8) */
static vr_block in_bytes(vr_pass *p, uint64_t elements)
{
    uint64_t wide = elements * p->width;
    vr_block sum = passing(p, wide), quotient = passing(p, wide);
    vr_drop(p, sum);
    vr_block rounded = passing(p, wide);
    vr_drop(p, quotient);
    vr_block clamped = passing(p, wide), bytes = passing(p, elements);
    vr_drop(p, clamped);
    vr_drop(p, rounded);
    return bytes;
}

static vr_packed pack(vr_pass *p, int side, uint64_t tokens)
{
    const vram_workload *w = p->w;
    uint64_t elements = elements_of(p, side, tokens), groups = groups_of(w, elements);
    uint64_t rows = rows_of(w, elements);
    vr_packed out;
    scale(p, groups * p->width, side, &out);
    vr_block bytes = in_bytes(p, elements);
    out.data = vr_take(p, rows * w->cache_group, VR_ITEM_KV, kept[side]);
    for (uint64_t row = 0; row < groups; row += rows) {
        uint64_t n = groups - row < rows ? groups - row : rows;
        vr_drop(p, passing(p, n * w->cache_group)); /* shifted to its place in the byte */
    }
    vr_drop(p, bytes);
    return out;
}

static void drop_one(vr_pass *p, vr_packed *packed)
{
    vr_drop(p, packed->data);
    vr_drop(p, packed->scale);
    vr_drop(p, packed->shift);
}

void vr_drop_packed(vr_pass *p, vr_kv *kv)
{
    drop_one(p, &kv->packed[0]);
    drop_one(p, &kv->packed[1]);
}

/* scale * bytes - shift */
static vr_block unpack(vr_pass *p, int side, uint64_t tokens)
{
    const vram_workload *w = p->w;
    uint64_t elements = elements_of(p, side, tokens);
    vr_block bytes = passing(p, rows_of(w, elements) * (8 / w->cache_bits) * w->cache_group);
    vr_block out = passing(p, elements * p->width);
    vr_drop(p, bytes);
    return out;
}

/* ---- the update ---- */

/* Whether what was projected lies head by head, and need not be copied to be packed. */
static bool lies_in_order(const vr_pass *p, int side)
{
    const vr_layer *l = vr_layer_of(p);
    bool fused = p->m->modules[VR_MODULE_QKV].n != 0;
    bool turned = side == 0 && l->rotary_dim != 0;
    if (turned && vr_rotary_packs(p->m->family->rope))
        return true;
    return fused && !turned ? p->rows == 1 : p->q == 1 || l->kv_heads == 1;
}

static void pack_first(vr_pass *p, vr_kv *kv)
{
    for (int side = 0; side < 2; side++) {
        vr_block copy = lies_in_order(p, side) ? VR_NONE : passing(p, elements_of(p, side, p->q) * p->width);
        kv->packed[side] = pack(p, side, p->q);
        vr_drop(p, copy);
    }
    kv->packed_tokens = p->q;
}

static void pack_again(vr_pass *p, vr_kv *kv, uint64_t tokens)
{
    for (int side = 0; side < 2; side++) {
        vr_packed next = pack(p, side, tokens);
        drop_one(p, &kv->packed[side]);
        kv->packed[side] = next;
    }
    vr_drop(p, kv->k);
    vr_drop(p, kv->v);
    kv->k = kv->v = VR_NONE;
    kv->packed_tokens = tokens;
}

static void grow_rest(vr_pass *p, vr_kv *kv, uint64_t tokens)
{
    vr_block *rest[2] = { &kv->k, &kv->v };
    for (int side = 0; side < 2; side++) {
        vr_block next = vr_take(p, elements_of(p, side, tokens) * p->width, VR_ITEM_KV, kept[side]);
        vr_drop(p, *rest[side]);
        *rest[side] = next;
    }
}

void vr_quantized_update(vr_pass *p, vr_block *keys, vr_block *values)
{
    vr_kv *kv = &p->group->layers[p->layer];
    vr_block *given[2] = { keys, values }, old[2], all[2];
    uint64_t tokens = p->group->past + p->q;
    if (p->w->cache_backend == VR_BACKEND_FP8) {
        vr_fp8_update(p, keys, values);
        return;
    }
    if (kv->packed_tokens == 0) {
        pack_first(p, kv);
        return;
    }
    for (int side = 0; side < 2; side++)
        old[side] = unpack(p, side, kv->packed_tokens);
    for (int side = 0; side < 2; side++)
        all[side] = vr_take(p, elements_of(p, side, tokens) * p->width, VR_ITEM_HIDDEN, whole[side]);
    if (tokens - kv->packed_tokens >= p->w->cache_residual)
        pack_again(p, kv, tokens);
    else
        grow_rest(p, kv, tokens - kv->packed_tokens);
    for (int side = 0; side < 2; side++) {
        vr_drop(p, old[side]);
        vr_drop(p, *given[side]);
        *given[side] = all[side];
    }
}
