/* SPDX-License-Identifier: MIT
 * Files of torch.save: a zip file with a pickle and a member for each storage, or the legacy form, pickles
 * and then the storages. Only what describes is read, never what is described.
 * Source: PyTorch 2.15, torch/serialization.py (_save, _load, _is_torchscript_zip) and
 * caffe2/serialize/inline_container.cc (names of members: the archive's name, '/', the record's). */
#include "checkpoint/torch.h"

#include <string.h>

#define PICKLE "/data.pkl"

/* ---- by its bytes ---- */

/* 0x1950a86a20f9469cfc6c as LONG1, behind PROTO, and from protocol 4 on behind FRAME. */
static bool is_legacy(const unsigned char *head, size_t n)
{
    static const unsigned char magic[] = { 0x8a, 10, 0x6c, 0xfc, 0x9c };
    return n >= 16 && head[0] == 0x80 &&
           (memcmp(head + 2, magic, sizeof(magic)) == 0 ||
            (head[2] == 0x95 && memcmp(head + 11, magic, sizeof(magic)) == 0));
}

/* torch.save before 0.1.12 wrote a tar file of these four. */
static bool is_tar(const unsigned char *head, size_t n)
{
    static const char *const names[] = { "sys_info", "pickle", "tensors", "storages" };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (n > strlen(names[i]) && memcmp(head, names[i], strlen(names[i]) + 1) == 0)
            return true;
    }
    return false;
}

static bool is_zip(const unsigned char *head, size_t n)
{
    return n >= 4 && memcmp(head, "PK\3\4", 4) == 0;
}

static bool is_torch(const unsigned char *head, size_t n)
{
    return is_zip(head, n) || is_legacy(head, n) || is_tar(head, n);
}

/* ---- the zip form ---- */

/* "archive/data.pkl": the name before it, which the other members have too. */
static const vr_zip_member *find_pickle(const vr_zip *z, vr_str *archive)
{
    for (size_t i = 0; i < z->n_members; i++) {
        vr_str name = z->members[i].name;
        if (!vr_str_ends(name, PICKLE))
            continue;
        *archive = (vr_str){ name.s, name.n - (sizeof(PICKLE) - 1) };
        if (!vr_str_find(*archive, "/", NULL))
            return &z->members[i];
    }
    return NULL;
}

/* The rest of a member's name behind "archive/" and the folder; false: it has another. */
static bool below(vr_str name, vr_str archive, const char *folder, vr_str *rest)
{
    size_t n = strlen(folder);
    if (name.n < archive.n + 1 + n || memcmp(name.s, archive.s, archive.n) != 0 || name.s[archive.n] != '/' ||
        memcmp(name.s + archive.n + 1, folder, n) != 0)
        return false;
    *rest = (vr_str){ name.s + archive.n + 1 + n, name.n - archive.n - 1 - n };
    return true;
}

static bool any_below(const vr_zip *z, vr_str archive, const char *folder)
{
    vr_str rest;
    for (size_t i = 0; i < z->n_members; i++) {
        if (below(z->members[i].name, archive, folder, &rest))
            return true;
    }
    return false;
}

static bool any_ends(const vr_zip *z, const char *tail)
{
    for (size_t i = 0; i < z->n_members; i++) {
        if (vr_str_ends(z->members[i].name, tail))
            return true;
    }
    return false;
}

static vram_status other_zip(const vr_torch *t, const vr_input *in)
{
    const char *what = any_ends(&t->zip, ".npy") ? "this is a NumPy archive (.npz), not a checkpoint"
                       : any_ends(&t->zip, "weights.h5")
                           ? "this is a Keras file, which is not read"
                           : "this is a zip file, but not one of torch.save: it has no data.pkl";
    return vr_fail_at(t->ck->ctx, VRAM_EUNSUPPORTED, in->name, 0, T(what));
}

static vram_status script(const vr_torch *t, const vr_input *in)
{
    vram_status s =
        vr_fail_at(t->ck->ctx, VRAM_EUNSUPPORTED, in->name, 0,
                   T("this is a TorchScript archive, a program with its weights, which is not read"));
    vr_hint(t->ck->ctx, "most models are also published as safetensors or as a state dictionary");
    return s;
}

/* Each storage is a member of just its size. */
static vram_status check_storages(const vr_torch *t, vr_input *in, vr_str archive)
{
    const vr_zip *z = &t->zip;
    uint32_t number = 0;
    bool twice = false;
    vr_str rest;
    vr_map members;
    VR_TRY(vr_map_init(&members, (vr_arena *)(uintptr_t)&t->arena, z->n_members, (uint64_t)(uintptr_t)in));
    for (size_t i = 0; i < z->n_members; i++) {
        if (below(z->members[i].name, archive, "data/", &rest))
            VR_TRY(vr_map_put(&members, rest, (uint32_t)i, &twice, &number));
    }
    for (size_t i = 0; i < t->n_storages; i++) {
        const vr_torch_storage *s = &t->storages[i];
        bool there = vr_map_get(&members, s->key, &number);
        if (!there && s->bytes != 0)
            return vr_fail_at(t->ck->ctx, VRAM_EFORMAT, in->name, t->pickle.file_offset, T("storage "),
                              S(s->key), T(" of "), GROUPED(s->bytes), T(" bytes is not in the file"));
        if (there && z->members[number].method != 0 && z->members[number].method != 8)
            return vr_fail_at(t->ck->ctx, VRAM_EUNSUPPORTED, in->name, z->members[number].at, T("storage "),
                              S(s->key), T(" is packed by method "), U(z->members[number].method),
                              T(", which PyTorch does not read"));
        if (there && z->members[number].size != s->bytes)
            return vr_fail_at(t->ck->ctx, VRAM_EFORMAT, in->name, z->members[number].at, T("storage "),
                              S(s->key), T(" has "), GROUPED(z->members[number].size), T(" bytes, but "),
                              GROUPED(s->bytes), T(" by its type and elements"));
    }
    return VRAM_OK;
}

static vram_status parse_zip(vr_torch *t, vr_input *in)
{
    vr_pickle *p = &t->pickle;
    vr_str archive;
    uint64_t at = 0;
    const char *text;
    VR_TRY(vr_zip_list(&t->zip, t->ck, in, &t->arena));
    const vr_zip_member *m = find_pickle(&t->zip, &archive);
    if (m == NULL)
        return other_zip(t, in);
    if (any_below(&t->zip, archive, "code/") || any_below(&t->zip, archive, "constants.pkl"))
        return script(t, in);
    VR_TRY(vr_zip_read(t->ck, in, &t->arena, m, VR_MAX_PICKLE_BYTES, &text, &at));
    *p = (vr_pickle){ .ctx = t->ck->ctx,
                      .arena = &t->arena,
                      .file = in->name,
                      .file_offset = at,
                      .place_unknown = m->method != 0,
                      .text = text,
                      .n = (size_t)m->size,
                      .most = m->size };
    VR_TRY(vr_pickle_read(p));
    VR_TRY(vr_torch_storages(t));
    return check_storages(t, in, archive);
}

/* ---- the format ---- */

static void release(vr_object *self)
{
    vr_torch *t = (vr_torch *)(void *)self;
    vr_arena_free(&t->arena);
}

static vr_torch *state_of(vram_checkpoint *ck, vr_input *in)
{
    if (in->state != NULL)
        return in->state;
    vr_torch *t = VR_NEW(&ck->arena, vr_torch);
    if (t == NULL)
        return NULL;
    t->ck = ck;
    vr_arena_init(&t->arena, ck->ctx);
    vr_object_register(ck->ctx, &t->object, release);
    in->state = t;
    return t;
}

static vram_status parse(vr_torch *t, vr_input *in)
{
    unsigned char head[VR_SNIFF_BYTES] = { 0 };
    size_t n = in->size < sizeof(head) ? (size_t)in->size : sizeof(head);
    vr_view_copy(&in->view, 0, (char *)head, n); /* known: it told the format */
    if (is_zip(head, n))
        return parse_zip(t, in);
    t->legacy = true;
    if (is_legacy(head, n))
        return vr_torch_legacy_parse(t, in);
    vram_status s =
        vr_fail_at(t->ck->ctx, VRAM_EUNSUPPORTED, in->name, 0,
                   T("this is a tar file of torch.save from before PyTorch 0.1.12, which is not read"));
    vr_hint(t->ck->ctx, "load it with PyTorch and save it anew");
    return s;
}

/* While something before this file is wanted its own fault waits; it will be found again. */
static vram_status probe(vram_checkpoint *ck, vr_input *in)
{
    bool waits = vr_fault_waits(ck);
    vr_torch *t = state_of(ck, in);
    if (t == NULL)
        return VRAM_ENOMEM;
    if (t->parsed)
        return VRAM_OK;
    vram_status s = parse(t, in);
    t->parsed = s == VRAM_OK;
    return waits && s < 0 && s != VRAM_ENOMEM ? VRAM_MORE : s;
}

static vram_status bound(vram_checkpoint *ck, vr_input *in, size_t *n)
{
    vr_torch *t = in->state;
    (void)ck;
    VR_TRY(vr_torch_walk(t));
    *n = t->n_tensors;
    return VRAM_OK;
}

/* Storages in the order in which tensors are found. */
static uint64_t place_storages(vr_torch *t)
{
    uint64_t at = 0;
    for (size_t i = 0; i < t->n_tensors; i++) {
        vr_torch_storage *s = &t->storages[t->tensors[i].storage];
        if (!s->listed) {
            s->begin = at;
            at += s->bytes; /* all of them fit 64 bits */
        }
        s->listed = true;
    }
    return at;
}

/* One whose bytes are counted elsewhere lies behind them. */
static void put_tensors(const vr_torch *t, vram_checkpoint *ck, uint32_t file)
{
    for (size_t i = 0; i < t->n_tensors; i++) {
        const vr_torch_tensor *from = &t->tensors[i];
        const vr_torch_storage *s = &t->storages[from->storage];
        vr_tensor *to = &ck->tensors[ck->n_tensors + i];
        bool carries = s->carrier == i;
        *to = (vr_tensor){ .name = from->name, .dims = from->dims, .n_dims = from->n_dims };
        to->dtype = from->dtype;
        to->elements = from->elements;
        to->file = file;
        to->shared = !carries;
        to->end = s->begin + s->bytes;
        to->begin = carries ? s->begin : to->end;
    }
}

static vram_status nothing_found(vr_torch *t, const vr_input *in, const vr_pickled *unknown)
{
    if (unknown == NULL)
        return vr_fail_at(t->ck->ctx, VRAM_EUNSUPPORTED, in->name, t->pickle.file_offset,
                          T("there is no tensor in the file"));
    return vr_fail_at(
        t->ck->ctx, VRAM_EUNSUPPORTED, in->name, vr_pickle_place(&t->pickle, unknown->at),
        T("there is no tensor that can be found without executing something; the file refers to "),
        S(vr_pickled_text(unknown->u.items[0])), T("."), S(vr_pickled_text(unknown->u.items[1])));
}

static vram_status put_names(const vr_torch *t, vram_checkpoint *ck, const vr_input *in)
{
    const vr_tensor *other = NULL;
    size_t put = 0;
    vr_put_names(ck, (uint32_t)ck->n_tensors, t->n_tensors, &put, &other);
    if (put == t->n_tensors)
        return VRAM_OK;
    const vr_tensor *again = &ck->tensors[ck->n_tensors + put];
    if (other->file == again->file)
        return vr_fail_at(ck->ctx, VRAM_EFORMAT, in->name, t->pickle.file_offset, T("tensor "),
                          S(again->name), T(" is there twice"));
    return vr_fail_at(ck->ctx, VRAM_EFORMAT, in->name, t->pickle.file_offset, T("tensor "), S(again->name),
                      T(" is also in "), T(ck->files[other->file].name));
}

static vram_status read(vram_checkpoint *ck, const vr_input *in, uint32_t file)
{
    vr_torch *t = in->state;
    const vr_pickled *unknown = NULL;
    vr_file *f = &ck->files[file];
    VR_TRY(vr_torch_warn_unknown(t, &unknown));
    if (t->n_tensors == 0 && ck->n_files == 1)
        return nothing_found(t, in, unknown);
    f->tensor_bytes = place_storages(t);
    put_tensors(t, ck, file);
    VR_TRY(vr_sort_tensors(ck, &ck->tensors[ck->n_tensors], t->n_tensors));
    VR_TRY(put_names(t, ck, in));
    f->n_tensors = (uint32_t)t->n_tensors;
    f->header_bytes = vr_sub_floor(in->size, t->storage_bytes);
    ck->n_tensors += t->n_tensors;
    vr_arena_free(&t->arena);
    return VRAM_OK;
}

const vr_format vr_format_torch = { "pytorch", is_torch, probe, bound, read };
