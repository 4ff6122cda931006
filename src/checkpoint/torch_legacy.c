/* SPDX-License-Identifier: MIT
 * The legacy form of torch.save (the only one before PyTorch 1.6): five pickles (magic number, version of the
 * protocol, facts of the machine, the object, the keys of its storages) and then, in the order of these keys,
 * each storage as eight bytes of count and its data. The counts lie apart in the file and are not read: the
 * sizes stand in the object's pickle, and their sum is held against the file's.
 * Source: PyTorch 2.15, torch/serialization.py (_legacy_save, _legacy_load). */
#include "checkpoint/torch.h"

#include <string.h>

#define PROTOCOL 1001
#define COUNT_BYTES 8

static vram_status bad(vr_torch *t, const vr_pickled *v, const char *what)
{
    return VR_TORCH_BAD(t, v, VRAM_EFORMAT, T(what));
}

/* MAGIC_NUMBER, 0x1950a86a20f9469cfc6c, as LONG1. Its first bytes told the format; behind a FRAME no more of
 * them were seen. */
static bool is_magic(const vr_pickle *p)
{
    static const unsigned char magic[] = { 0x8a, 10,   0x6c, 0xfc, 0x9c, 0x46,
                                           0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19 };
    size_t at = (unsigned char)p->text[2] == 0x95 ? 11 : 2;
    return p->n >= at + sizeof(magic) && memcmp(p->text + at, magic, sizeof(magic)) == 0;
}

static vram_status read_head(vr_torch *t)
{
    vr_pickle *p = &t->pickle;
    uint64_t version = 0;
    VR_TRY(vr_pickle_read(p));
    if (!is_magic(p))
        return bad(t, p->result,
                   "the file begins almost as torch.save's legacy form does, with another number");
    VR_TRY(vr_pickle_read(p));
    if (!vr_pickled_u64(p->result, &version) || version != PROTOCOL)
        return VR_TORCH_BAD(t, p->result, VRAM_EUNSUPPORTED,
                            T("the legacy form of torch.save has a version that is not known, "), U(version));
    return vr_pickle_read(p); /* facts of the machine */
}

/* Marks the storages that follow, and counts their bytes. */
static vram_status read_keys(vr_torch *t, const vr_pickled *keys, uint64_t *bytes)
{
    *bytes = 0;
    if (keys->kind != VR_PICKLED_LIST || keys->pairs)
        return bad(t, keys, "the keys of the storages are no list");
    for (uint32_t i = 0; i < keys->n; i++) {
        uint32_t number = 0;
        vr_str key = vr_pickled_text(keys->u.items[i]);
        if (keys->u.items[i]->kind != VR_PICKLED_TEXT || !vr_map_get(&t->numbers, key, &number))
            return bad(t, keys->u.items[i], "a storage follows that no tensor refers to");
        if (t->storages[number].listed)
            return VR_TORCH_BAD(t, keys->u.items[i], VRAM_EFORMAT, T("storage "), S(key),
                                T(" follows twice"));
        t->storages[number].listed = true;
        *bytes = vr_add_sat(*bytes, vr_add_sat(COUNT_BYTES, t->storages[number].bytes));
    }
    return VRAM_OK;
}

static vram_status check_listed(vr_torch *t, const vr_pickled *keys)
{
    for (size_t i = 0; i < t->n_storages; i++) {
        if (!t->storages[i].listed)
            return VR_TORCH_BAD(t, keys, VRAM_EFORMAT, T("storage "), S(t->storages[i].key), T(" of "),
                                GROUPED(t->storages[i].bytes), T(" bytes is not in the file"));
        t->storages[i].listed = false; /* for the next use */
    }
    return VRAM_OK;
}

static vram_status check_size(vr_torch *t, const vr_input *in, uint64_t bytes)
{
    uint64_t end = vr_add_sat(t->pickle.at, bytes);
    if (end > in->size)
        return vr_fail_at(t->ck->ctx, VRAM_EFORMAT, in->name, in->size, T("the file lacks "),
                          GROUPED(end - in->size), T(" of its bytes; cut download?"));
    if (end < in->size)
        return vr_fail_at(t->ck->ctx, VRAM_EFORMAT, in->name, end, T("the file goes on for "),
                          GROUPED(in->size - end), vr_bytes_word(in->size - end),
                          T(" after its last storage"));
    return VRAM_OK;
}

static vram_status read_pickles(vr_torch *t, const vr_input *in)
{
    vr_pickle *p = &t->pickle;
    uint64_t bytes = 0;
    VR_TRY(read_head(t));
    VR_TRY(vr_pickle_read(p));
    vr_pickled *object = p->result;
    VR_TRY(vr_torch_storages(t));
    VR_TRY(vr_pickle_read(p));
    VR_TRY(read_keys(t, p->result, &bytes));
    VR_TRY(check_listed(t, p->result));
    VR_TRY(check_size(t, in, bytes));
    p->result = object;
    return VRAM_OK;
}

static uint64_t at_most(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static vram_status over_limit(vr_torch *t, const vr_input *in)
{
    return vr_fail_at(t->ck->ctx, VRAM_ELIMIT, in->name, VR_MAX_PICKLE_BYTES,
                      T("the pickles at the file's head have over "), GROUPED(VR_MAX_PICKLE_BYTES),
                      T(" bytes"));
}

/* Where the pickles end nobody says: twice as much is asked for each time, and all is read anew. The amounts
 * do not depend on what else is known, so neither does the fault that is found. */
vram_status vr_torch_legacy_parse(vr_torch *t, vr_input *in)
{
    if (t->target == 0)
        t->target = at_most(in->size, in->guess);
    for (;;) {
        bool known = false;
        VR_TRY(vr_want_bytes(t->ck, in, 0, t->target, t->target, &known));
        if (!known)
            return VRAM_MORE;
        vr_arena_reset(&t->arena);
        const char *text = vr_view_get(&in->view, &t->arena, 0, (size_t)t->target);
        if (text == NULL)
            return VRAM_ENOMEM;
        t->pickle = (vr_pickle){ .ctx = t->ck->ctx,
                                 .arena = &t->arena,
                                 .file = in->name,
                                 .text = text,
                                 .n = (size_t)t->target,
                                 .most = in->size };
        vram_status s = read_pickles(t, in);
        if (s != VRAM_MORE)
            return s;
        if (t->target == VR_MAX_PICKLE_BYTES)
            return over_limit(t, in);
        t->target = at_most(at_most(in->size, 2 * t->target), VR_MAX_PICKLE_BYTES);
    }
}
