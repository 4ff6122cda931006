/* SPDX-License-Identifier: MIT
 * The tensors of a GGUF file: their descriptions and where their data lies.
 * Sources: ggml, docs/gguf.md; llama.cpp, ggml/src/gguf.cpp (which refuses holes in the data, and tensors
 * that are not described in the order of their data) and src/llama-model-loader.cpp (data must be within the
 * file).
 *
 * Shapes stay as the file has them: the first number is ggml's ne0, the elements of a row, which other
 * formats name last. */
#include "checkpoint/gguf.h"

#define MOST_DIMS 4 /* GGML_MAX_DIMS */
#define MOST_NAME UINT64_C(65535)

/* Where the parts of a description lie. */
typedef struct parts {
    uint64_t name, dims, type, end; /* the name ends 4 bytes before dims */
    uint64_t n_dims;
} parts;

static vram_status find_parts(vr_gguf_scan *s, parts *p)
{
    const vr_gguf *g = s->g;
    VR_TRY(vr_gguf_need(s, g->at + g->word));
    uint64_t n = vr_gguf_number(s, g->at, g->word);
    if (n > MOST_NAME)
        return VR_GGUF_BAD(s, VRAM_EFORMAT, g->at, T("the name of tensor "), U(g->n + 1), T(" of "),
                           U(g->n_tensors), T(" is said to have "), GROUPED(n), T(" bytes"));
    p->name = g->at + g->word;
    p->dims = p->name + n + 4;
    VR_TRY(vr_gguf_need(s, p->dims));
    p->n_dims = vr_gguf_number(s, p->dims - 4, 4);
    if (p->n_dims > MOST_DIMS)
        return VR_GGUF_BAD(s, VRAM_EFORMAT, p->dims - 4, T("tensor "), U(g->n + 1), T(" of "),
                           U(g->n_tensors), T(" has "), U(p->n_dims), T(" dimensions, more than ggml's "),
                           U(MOST_DIMS));
    p->type = p->dims + p->n_dims * g->word;
    p->end = p->type + 4 + 8;
    return vr_gguf_need(s, p->end);
}

static vram_status read_type(vr_gguf_scan *s, const parts *p, vr_tensor *t)
{
    const char *removed = NULL;
    uint64_t id = vr_gguf_number(s, p->type, 4);
    vr_dtype d = vr_gguf_dtype((uint32_t)id, &removed);
    t->dtype = (uint8_t)d;
    if (d != VR_DTYPE_NONE)
        return VRAM_OK;
    if (removed != NULL)
        return VR_GGUF_BAD(s, VRAM_EUNSUPPORTED, p->type, T("tensor "), S(vr_shown(t->name)),
                           T(" is of type "), T(removed));
    return VR_GGUF_BAD(s, VRAM_EUNSUPPORTED, p->type, T("tensor "), S(vr_shown(t->name)), T(" is of type "),
                       U(id), T(", which is not known"));
}

static vram_status read_shape(vr_gguf_scan *s, const parts *p, vr_tensor *t)
{
    uint64_t dims[MOST_DIMS] = { 1 };
    unsigned block = vr_dtype_block((vr_dtype)t->dtype);
    t->elements = 1;
    for (uint64_t i = 0; i < p->n_dims; i++) {
        dims[i] = vr_gguf_number(s, p->dims + i * s->g->word, s->g->word);
        if (!vr_mul(t->elements, dims[i], &t->elements))
            return VR_GGUF_BAD(s, VRAM_EFORMAT, p->dims, T("the shape of tensor "), S(vr_shown(t->name)),
                               T(" has over 2^64 elements"));
    }
    if (dims[0] % block != 0)
        return VR_GGUF_BAD(s, VRAM_EFORMAT, p->dims, T("a row of tensor "), S(vr_shown(t->name)), T(" has "),
                           U(dims[0]), T(" elements, not whole blocks of "), U(block), T(" as "),
                           T(vr_dtype_name((vr_dtype)t->dtype)), T(" needs"));
    t->n_dims = (uint8_t)p->n_dims;
    t->dims = vr_keep_dims(s->ck, dims, t->n_dims);
    return t->dims == NULL ? VRAM_ENOMEM : VRAM_OK;
}

static vram_status read_place(vr_gguf_scan *s, const parts *p, vr_tensor *t)
{
    vr_dtype d = (vr_dtype)t->dtype;
    uint64_t bytes = 0;
    t->begin = vr_gguf_number(s, p->type + 4, 8);
    if (!vr_mul(t->elements / vr_dtype_block(d), vr_dtype_block_bytes(d), &bytes) ||
        !vr_add(t->begin, bytes, &t->end) || t->end > INT64_MAX)
        return VR_GGUF_BAD(s, VRAM_EFORMAT, p->type + 4, T("the data of tensor "), S(vr_shown(t->name)),
                           T(" would end beyond 2^63 bytes"));
    if (t->begin % s->g->alignment != 0)
        return VR_GGUF_BAD(s, VRAM_EFORMAT, p->type + 4, T("the data of tensor "), S(vr_shown(t->name)),
                           T(" begins at "), U(t->begin), T(", not at a multiple of "), U(s->g->alignment));
    return VRAM_OK;
}

static vram_status push(vr_gguf_scan *s, const vr_tensor *t)
{
    vr_gguf *g = s->g;
    if (g->n == g->room) {
        size_t room = g->room == 0 ? 256 : g->room * 2;
        if (room > g->n_tensors)
            room = (size_t)g->n_tensors;
        vr_gguf_tensor *grown = vr_arena_grow(&s->ck->arena, g->tensors, g->room, room, sizeof(*grown));
        if (grown == NULL)
            return VRAM_ENOMEM;
        g->tensors = grown;
        g->room = room;
    }
    g->tensors[g->n++] = (vr_gguf_tensor){ *t, g->at };
    return VRAM_OK;
}

vram_status vr_gguf_tensor_next(vr_gguf_scan *s)
{
    parts p = { 0 };
    vr_tensor t = { 0 };
    VR_TRY(find_parts(s, &p));
    t.name = vr_gguf_bytes(s, p.name, p.dims - 4 - p.name);
    if (t.name.s == NULL)
        return VRAM_ENOMEM;
    VR_TRY(read_type(s, &p, &t));
    VR_TRY(read_shape(s, &p, &t));
    VR_TRY(read_place(s, &p, &t));
    VR_TRY(push(s, &t));
    return vr_gguf_advance(s, p.end);
}

vram_status vr_gguf_bound(vram_checkpoint *ck, vr_input *in, size_t *n)
{
    (void)ck;
    *n = ((const vr_gguf *)in->state)->n;
    return VRAM_OK;
}

/* ---- the data section ---- */

static bool lies_before(void *ud, const void *x, const void *y)
{
    const vr_tensor *a = &((const vr_gguf_tensor *)x)->t, *b = &((const vr_gguf_tensor *)y)->t;
    (void)ud;
    return a->begin != b->begin ? a->begin < b->begin : a->end < b->end;
}

static vram_status in_order(vram_checkpoint *ck, const vr_gguf *g, bool *was)
{
    *was = true;
    for (size_t i = 1; i < g->n && *was; i++)
        *was = !lies_before(NULL, &g->tensors[i], &g->tensors[i - 1]);
    return *was ? VRAM_OK : vr_sort(ck->ctx, g->tensors, g->n, sizeof(*g->tensors), lies_before, NULL);
}

static vram_status overlap(vram_checkpoint *ck, const vr_input *in, const vr_gguf_tensor *before,
                           const vr_gguf_tensor *t)
{
    return vr_fail_at(ck->ctx, VRAM_EFORMAT, in->name, t->at, T("tensor "), S(vr_shown(t->t.name)),
                      T(" begins at "), U(t->t.begin), T(" of the data, inside of tensor "),
                      S(vr_shown(before->t.name)), T(", which ends at "), U(before->t.end));
}

/* Says once what llama.cpp would not take. */
static vram_status warn_layout(vram_checkpoint *ck, const vr_input *in, bool ordered, uint64_t hole)
{
    if (hole != 0)
        return vr_warn(ck->ctx, in->name, GROUPED(hole), vr_bytes_word(hole),
                       T(" between the tensors belong to none: llama.cpp refuses such a file"));
    return ordered ? VRAM_OK
                   : vr_warn(ck->ctx, in->name,
                             T("the tensors are not described in the order of their data: llama.cpp refuses "
                               "such a file"));
}

static vram_status check_layout(vram_checkpoint *ck, const vr_input *in, vr_file *f)
{
    const vr_gguf *g = in->state;
    uint64_t end = 0, hole = 0, room = vr_sub_floor(in->size, g->data_begin);
    bool ordered = true;
    VR_TRY(in_order(ck, g, &ordered));
    for (size_t i = 0; i < g->n; i++) {
        const vr_tensor *t = &g->tensors[i].t;
        if (t->begin < end && t->end > t->begin)
            return overlap(ck, in, &g->tensors[i - 1], &g->tensors[i]);
        hole = vr_add_sat(hole, vr_sub_floor(t->begin, vr_round_up(end, g->alignment)));
        end = t->end > end ? t->end : end;
        f->tensor_bytes += t->end - t->begin;
    }
    if (end > room)
        return vr_fail_at(ck->ctx, VRAM_EFORMAT, in->name, in->size, T("the file lacks "),
                          GROUPED(end - room + vr_sub_floor(g->data_begin, in->size)),
                          T(" of its bytes; cut download?"));
    return warn_layout(ck, in, ordered, hole);
}

static vram_status name_twice(vram_checkpoint *ck, const vr_input *in, const vr_gguf_tensor *t,
                              const vr_tensor *other)
{
    bool here = other->file == t->t.file;
    return vr_fail_at(ck->ctx, VRAM_EFORMAT, in->name, t->at, T("tensor "), S(vr_shown(t->t.name)),
                      T(here ? " is there twice" : " is also in "),
                      T(here ? "" : ck->files[other->file].name));
}

vram_status vr_gguf_read(vram_checkpoint *ck, const vr_input *in, uint32_t file)
{
    vr_gguf *g = in->state;
    vr_file *f = &ck->files[file];
    const vr_tensor *other = NULL;
    size_t put = 0;
    VR_TRY(check_layout(ck, in, f));
    for (size_t i = 0; i < g->n; i++) {
        g->tensors[i].t.file = file;
        ck->tensors[ck->n_tensors + i] = g->tensors[i].t;
    }
    vr_put_names(ck, (uint32_t)ck->n_tensors, g->n, &put, &other);
    if (other != NULL)
        return name_twice(ck, in, &g->tensors[put], other);
    ck->n_tensors += g->n;
    f->n_tensors = (uint32_t)g->n;
    f->header_bytes = g->data_begin < in->size ? g->data_begin : in->size;
    f->metadata = &g->metadata;
    return VRAM_OK;
}
