/* SPDX-License-Identifier: MIT
 * An index (model.safetensors.index.json, pytorch_model.bin.index.json and their like): which tensor is in
 * which file, and how many bytes there are in all.
 * It is read before the headers, to know the files, and held against them afterwards. What the headers say is
 * right; an index that puts a tensor where it is not is refused, because a loader that follows it fails too
 * (transformers, modeling_utils.py, and accelerate, load_checkpoint_in_model).
 * Source of the form: huggingface_hub, serialization/_base.py (StateDictSplit) and _torch.py
 * (save_torch_state_dict). */
#include "checkpoint/loading.h"

#include <string.h>

/* Where a slice of the index's text lies in the file. */
static uint64_t place(const vr_group *g, const char *p)
{
    return (uint64_t)(p - g->index_text.s);
}

#define BAD(ck, g, code, p, ...) vr_fail_at((ck)->ctx, (code), (g)->index->name, place((g), (p)), __VA_ARGS__)

/* ---- names of files ---- */

static bool plain_characters(vr_str name)
{
    for (size_t i = 0; i < name.n; i++) {
        if ((unsigned char)name.s[i] < ' ' || name.s[i] == '\\' || name.s[i] == ':')
            return false; /* ':' and '\' lead elsewhere on Windows */
    }
    return name.n > 0;
}

static vram_status check_file_name(vram_checkpoint *ck, const vr_group *g, vr_str raw, vr_str name)
{
    static const char *const tails[] = { ".safetensors", ".bin" };
    const char *tail = tails[g->index->kind.ext == VR_FILES_BIN];
    if (!plain_characters(name) || vr_name_leads_out(name))
        return BAD(ck, g, VRAM_EFORMAT, raw.s - 1, T("the index names a file outside of its directory: \""),
                   S(vr_shown(raw)), T("\""));
    if (!vr_str_ends(name, tail))
        return BAD(ck, g, VRAM_EUNSUPPORTED, raw.s - 1, T("the index names a file that is not *"), T(tail),
                   T(": \""), S(vr_shown(raw)), T("\""));
    return VRAM_OK;
}

/* ---- the files the index names, each once ---- */

typedef struct shards {
    vr_map by_raw;
    vr_str last; /* rows in order of name mostly repeat the file of the row before */
    uint32_t last_number;
} shards;

static vram_status add_shard(vram_checkpoint *ck, vr_group *g, vr_str raw)
{
    vr_str name;
    if (!vr_unescape(raw, &ck->arena, &name))
        return VRAM_ENOMEM;
    VR_TRY(check_file_name(ck, g, raw, name));
    if (g->paths.n == VR_MAX_FILES)
        return BAD(ck, g, VRAM_ELIMIT, raw.s - 1, T("the index names over "), GROUPED(VR_MAX_FILES),
                   T(" files"));
    return vr_path_add(ck, &g->paths, vr_text(&ck->arena, S(g->index->kind.folder), S(name)));
}

static vram_status shard_number(vram_checkpoint *ck, vr_group *g, shards *sh, vr_str raw, uint32_t *out)
{
    if (g->paths.n > 0 && vr_str_eq(raw, sh->last)) {
        *out = sh->last_number;
        return VRAM_OK;
    }
    bool known = false;
    uint32_t number = 0;
    VR_TRY(vr_map_put(&sh->by_raw, raw, (uint32_t)g->paths.n, &known, &number));
    if (!known) {
        number = (uint32_t)g->paths.n;
        VR_TRY(add_shard(ck, g, raw));
    }
    sh->last = raw;
    sh->last_number = *out = number;
    return VRAM_OK;
}

/* ---- reading ---- */

static vram_status add_entry(vram_checkpoint *ck, vr_group *l, vr_str name, uint32_t shard)
{
    if (l->n_entries == l->entries_room) {
        /* A row has seldom under 64 bytes: a name, a file, indentation. */
        size_t room = l->entries_room == 0 ? l->index_text.n / 64 + 16 : l->entries_room * 2;
        vr_entry *grown = vr_arena_grow(&ck->arena, l->entries, l->entries_room, room, sizeof(*grown));
        if (grown == NULL)
            return VRAM_ENOMEM;
        l->entries = grown;
        l->entries_room = room;
    }
    l->entries[l->n_entries++] = (vr_entry){ name.s, (uint32_t)name.n, shard };
    return VRAM_OK;
}

static vram_status read_weight_map(vram_checkpoint *ck, vr_group *g, vr_walk *w)
{
    if (g->entries != NULL)
        return BAD(ck, g, VRAM_EFORMAT, w->p, T("the index has two weight_maps"));
    if (vr_walk_peek(w) != '{')
        return BAD(ck, g, VRAM_EFORMAT, w->p, T("the weight_map of the index is not an object"));
    shards sh = { .last = { NULL, 0 } };
    VR_TRY(vr_map_init(&sh.by_raw, &ck->arena, 64, (uint64_t)(uintptr_t)ck));
    const char *start = w->p;
    bool first = true;
    vr_str name;
    while (vr_walk_member(w, &first, &name)) {
        uint32_t number = 0;
        if (vr_walk_peek(w) != '"')
            return BAD(ck, g, VRAM_EFORMAT, w->p, T("the index gives tensor "), S(vr_shown(name)),
                       T(" something that is not the name of a file"));
        VR_TRY(shard_number(ck, g, &sh, vr_walk_string(w), &number));
        VR_TRY(add_entry(ck, g, name, number));
    }
    if (g->paths.n == 0)
        return BAD(ck, g, VRAM_EFORMAT, start, T("the weight_map of the index is empty"));
    return VRAM_OK;
}

/* A wrong total is common in published indexes, a total that cannot be one is damage. */
static vram_status read_total(vram_checkpoint *ck, vr_group *g, vr_str text)
{
    bool number = text.s[0] == '-' || (text.s[0] >= '0' && text.s[0] <= '9');
    vr_json total = { VR_JSON_NUMBER, text };
    if (vr_str_is(text, "null") || (number && vr_json_u64(total, &g->promised)))
        return VRAM_OK;
    return BAD(ck, g, VRAM_EFORMAT, text.s, T("total_size is not a whole number of bytes below 2^64: "),
               S(vr_shown(text)));
}

static vram_status read_metadata(vram_checkpoint *ck, vr_group *g, vr_walk *w, bool *read)
{
    bool first = true, found = false;
    vr_str key;
    if (*read)
        return BAD(ck, g, VRAM_EFORMAT, w->p, T("the index has metadata twice"));
    *read = true;
    if (vr_walk_peek(w) != '{') {
        (void)vr_walk_value(w);
        return VRAM_OK;
    }
    while (vr_walk_member(w, &first, &key)) {
        vr_str value = vr_walk_value(w);
        if (!vr_str_is(key, "total_size"))
            continue;
        if (found)
            return BAD(ck, g, VRAM_EFORMAT, key.s - 1, T("the index has two total_sizes"));
        found = true;
        VR_TRY(read_total(ck, g, value));
    }
    return VRAM_OK;
}

vram_status vr_index_read(vram_checkpoint *ck, vr_group *g)
{
    vr_json root;
    vr_json_error e;
    if (!vr_json_parse(g->index_text, &root, &e))
        return vr_fail_at(ck->ctx, VRAM_EFORMAT, g->index->name, e.offset, T("not valid JSON: "),
                          T(e.reason));
    if (root.type != VR_JSON_OBJECT)
        return BAD(ck, g, VRAM_EFORMAT, root.text.s, T("an index must be a JSON object"));
    vr_walk w = { root.text.s, root.text.s + root.text.n };
    bool first = true, metadata = false;
    vr_str key;
    while (vr_walk_member(&w, &first, &key)) {
        if (vr_str_is(key, "weight_map"))
            VR_TRY(read_weight_map(ck, g, &w));
        else if (vr_str_is(key, "metadata"))
            VR_TRY(read_metadata(ck, g, &w, &metadata));
        else
            (void)vr_walk_value(&w);
    }
    if (g->entries == NULL)
        return BAD(ck, g, VRAM_EFORMAT, root.text.s, T("the index has no weight_map"));
    ck->promised_bytes = vr_add_sat(ck->promised_bytes, g->promised);
    return VRAM_OK;
}

/* ---- against the headers ---- */

typedef struct check {
    vram_checkpoint *ck;
    const vr_group *g;
    uint32_t group;
    uint8_t *seen; /* a bit for each tensor of the group: named by a row */
    size_t n_seen;
    vr_map in_missing;      /* names of tensors whose file is missing */
    uint32_t *n_in_missing; /* how many of them for each file */
} check;

static vram_status named_twice(const check *c, const vr_entry *e)
{
    return BAD(c->ck, c->g, VRAM_EFORMAT, e->name - 1, T("the index names tensor "),
               S(vr_shown((vr_str){ e->name, e->n })), T(" twice"));
}

static vram_status wrong_file(const check *c, const vr_entry *e, uint32_t said, const vr_tensor *t)
{
    vram_checkpoint *ck = c->ck;
    vr_str raw = vr_shown((vr_str){ e->name, e->n });
    if (t == NULL)
        return BAD(ck, c->g, VRAM_EFORMAT, e->name - 1, T("the index places tensor "), S(raw), T(" in "),
                   T(ck->files[said].name), T(", which does not have it"));
    return BAD(ck, c->g, VRAM_EFORMAT, e->name - 1, T("the index places tensor "), S(raw), T(" in "),
               T(ck->files[said].name), T(", but it is in "), T(ck->files[t->file].name));
}

static vram_status check_missing(check *c, const vr_entry *e, vr_str name, uint32_t file)
{
    bool twice = false;
    uint32_t before = 0;
    VR_TRY(vr_map_put(&c->in_missing, name, 0, &twice, &before));
    if (twice)
        return named_twice(c, e);
    c->n_in_missing[file]++;
    c->ck->n_missing_tensors++;
    return VRAM_OK;
}

static vram_status check_entry(check *c, const vr_entry *e, vr_str name, uint32_t i)
{
    vram_checkpoint *ck = c->ck;
    uint32_t file = c->g->file_of_path[e->shard];
    if (i == VR_NO_NAME)
        return ck->files[file].missing ? check_missing(c, e, name, file) : wrong_file(c, e, file, NULL);
    if (ck->tensors[i].file != file)
        return wrong_file(c, e, file, &ck->tensors[i]);
    i -= (uint32_t)c->g->first_tensor;
    if (c->seen[i / 8] & 1u << i % 8)
        return named_twice(c, e);
    c->seen[i / 8] |= (uint8_t)(1u << i % 8);
    c->n_seen++;
    return VRAM_OK;
}

static vram_status check_entries(check *c, const vr_entry *e, size_t n)
{
    vram_checkpoint *ck = c->ck;
    vr_str names[VR_NAMES_MANY];
    uint32_t numbers[VR_NAMES_MANY];
    for (size_t i = 0; i < n; i++) {
        if (!vr_unescape((vr_str){ e[i].name, e[i].n }, &ck->arena, &names[i]))
            return VRAM_ENOMEM;
    }
    vr_names_get_many(&ck->names, ck->tensors, names, n, numbers);
    for (size_t i = 0; i < n; i++)
        VR_TRY(check_entry(c, &e[i], names[i], numbers[i]));
    return VRAM_OK;
}

static vram_status begin_check(check *c)
{
    vram_checkpoint *ck = c->ck;
    const vr_group *g = c->g;
    size_t n = 0;
    for (size_t i = 0; ck->incomplete && i < g->n_entries; i++)
        n += ck->files[g->file_of_path[g->entries[i].shard]].missing;
    c->seen = VR_ARRAY(&ck->arena, uint8_t, g->n_tensors / 8 + 1);
    c->n_in_missing = VR_ARRAY(&ck->arena, uint32_t, ck->n_files);
    if (c->seen == NULL || c->n_in_missing == NULL)
        return VRAM_ENOMEM;
    return vr_map_init(&c->in_missing, &ck->arena, n, (uint64_t)(uintptr_t)ck);
}

static vram_status warn_unnamed(const check *c)
{
    vram_checkpoint *ck = c->ck;
    size_t n = c->g->n_tensors - c->n_seen, i = 0;
    if (n == 0)
        return VRAM_OK;
    while (c->seen[i / 8] & 1u << i % 8)
        i++;
    i += c->g->first_tensor;
    return vr_warn(ck->ctx, ck->files[ck->tensors[i].file].name, U(n),
                   T(n == 1 ? " tensor is" : " tensors are"), T(" in the files but not in the index, first "),
                   S(vr_shown(ck->tensors[i].name)));
}

static vram_status warn_unused_files(const check *c)
{
    vram_checkpoint *ck = c->ck;
    const vr_loading *l = ck->loading;
    const vr_input *other = NULL;
    size_t n = 0;
    for (size_t i = 0; i < l->n_inputs; i++) {
        if (l->inputs[i].group == c->group + 1 && !l->inputs[i].counts && n++ == 0)
            other = &l->inputs[i];
    }
    if (n == 0)
        return VRAM_OK;
    return vr_warn(ck->ctx, n == 1 ? other->name : ck->name, U(n), T(n == 1 ? " file is" : " files are"),
                   T(" left out: the index does not name "), T(n == 1 ? "it" : "them"));
}

static vram_status warn_total(const check *c)
{
    vram_checkpoint *ck = c->ck;
    uint64_t promised = c->g->promised, bytes = 0;
    for (size_t i = 0; i < ck->n_files; i++)
        bytes = vr_add_sat(bytes, ck->files[i].part == c->group ? ck->files[i].tensor_bytes : 0);
    if (ck->incomplete || promised == 0 || promised == bytes)
        return VRAM_OK;
    return vr_warn(ck->ctx, c->g->index->name, T("total_size says "), GROUPED(promised),
                   T(" bytes, the headers have "), GROUPED(bytes), T("; the headers count"));
}

vram_status vr_index_check(vram_checkpoint *ck, uint32_t group)
{
    const vr_group *g = &ck->loading->groups[group];
    check c = { .ck = ck, .g = g, .group = group };
    VR_TRY(begin_check(&c));
    for (size_t i = 0; i < g->n_entries; i += VR_NAMES_MANY) {
        size_t left = g->n_entries - i;
        VR_TRY(check_entries(&c, &g->entries[i], left < VR_NAMES_MANY ? left : VR_NAMES_MANY));
    }
    VR_TRY(vr_warn_missing(ck, group, c.n_in_missing));
    VR_TRY(warn_unnamed(&c));
    VR_TRY(warn_unused_files(&c));
    return warn_total(&c);
}
