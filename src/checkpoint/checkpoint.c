/* SPDX-License-Identifier: MIT
 * The steps of reading a checkpoint: what is wanted, what came, when it is complete. No byte is fetched here;
 * the caller answers the wants from a disk, a server or a browser. Formats and the index are in files of
 * their own. */
#include "checkpoint/loading.h"

#include <string.h>

static void release(vr_object *self)
{
    vram_checkpoint *ck = (vram_checkpoint *)(void *)self;
    vr_arena a = ck->arena; /* it holds the object itself */
    vr_arena_free(&a);
}

vram_status vram_checkpoint_new(vram_checkpoint **out, vram_ctx *ctx, const char *name)
{
    vr_arena a;
    vr_arena_init(&a, ctx);
    vram_checkpoint *ck = VR_NEW(&a, vram_checkpoint);
    vr_loading *l = VR_NEW(&a, vr_loading);
    char *copy = vr_arena_copy(&a, vr_str_of(name));
    if (ck == NULL || l == NULL || copy == NULL) {
        vr_arena_free(&a);
        return VRAM_ENOMEM;
    }
    ck->ctx = ctx;
    ck->arena = a;
    ck->name = copy;
    ck->loading = l;
    vr_object_register(ctx, &ck->object, release);
    *out = ck;
    return VRAM_OK;
}

const vr_tensor *vr_checkpoint_find(const vram_checkpoint *ck, vr_str name)
{
    uint32_t i = vr_names_get(&ck->names, ck->tensors, name);
    return i == VR_NO_NAME ? NULL : &ck->tensors[i];
}

void vram_checkpoint_choose_size(vram_checkpoint *ck, size_t nth)
{
    ck->loading->by_size = nth;
}

size_t vram_checkpoint_choices(const vram_checkpoint *ck, const vram_choice **out)
{
    *out = ck->choices;
    return ck->n_choices;
}

vram_status vram_checkpoint_choose(vram_checkpoint *ck, const char *pattern)
{
    ck->loading->chosen = vr_arena_copy(&ck->arena, vr_str_of(pattern));
    return ck->loading->chosen == NULL ? VRAM_ENOMEM : VRAM_OK;
}

vram_status vram_checkpoint_named(vram_checkpoint *ck, const char *file)
{
    ck->loading->named = vr_arena_copy(&ck->arena, vr_str_of(file));
    return ck->loading->named == NULL ? VRAM_ENOMEM : VRAM_OK;
}

void vram_checkpoint_request_cost(vram_checkpoint *ck, uint64_t bytes)
{
    ck->loading->request_cost = bytes;
}

/* ---- what comes in ---- */

/* A mistake of the caller, not of the files. */
static vram_status misuse(vram_checkpoint *ck, const char *what)
{
    return vr_fail(ck->ctx, VRAM_EINTERNAL, T(what));
}

static bool kind_of(const vr_loading *l, const char *file, vr_kind *kind)
{
    if (l->named == NULL || strcmp(l->named, file) != 0)
        return vr_kind_of(vr_str_of(file), kind);
    vr_kind_of_named(vr_str_of(file), kind);
    return true;
}

vram_status vram_checkpoint_add_file(vram_checkpoint *ck, const char *file, uint64_t size)
{
    vr_loading *l = ck->loading;
    vr_kind kind;
    if (l->listed)
        return misuse(ck, "a file was added after the listing was closed");
    ck->quantised_elsewhere = ck->quantised_elsewhere || vr_bare_tells_quantised(file);
    if (!kind_of(l, file, &kind))
        return VRAM_OK;
    if (vr_name_leads_out(vr_str_of(file)))
        return vr_fail_file(ck->ctx, VRAM_EFORMAT, ck->name,
                            T("the listing names a file outside of its directory: \""),
                            S(vr_shown(vr_str_of(file))), T("\""));
    if (l->n_inputs == VR_MAX_FILES)
        return vr_fail_file(ck->ctx, VRAM_ELIMIT, ck->name, T("there are over "), GROUPED(VR_MAX_FILES),
                            T(" weight files"));
    if (l->n_inputs == l->inputs_room) {
        size_t room = l->inputs_room == 0 ? 16 : l->inputs_room * 2;
        vr_input *grown = vr_arena_grow(&ck->arena, l->inputs, l->inputs_room, room, sizeof(*grown));
        if (grown == NULL)
            return VRAM_ENOMEM;
        l->inputs = grown;
        l->inputs_room = room;
    }
    char *name = vr_arena_copy(&ck->arena, vr_str_of(file));
    if (name == NULL)
        return VRAM_ENOMEM;
    (void)kind_of(l, name, &kind); /* again: its slices must stay */
    l->inputs[l->n_inputs++] = (vr_input){ .name = name,
                                           .size = size,
                                           .kind = kind,
                                           .guess = VR_GUESS_LEAST,
                                           .weights = kind.role == VR_ROLE_WEIGHTS };
    return VRAM_OK;
}

static bool by_name(void *ud, const void *x, const void *y)
{
    (void)ud;
    return strcmp(((const vr_input *)x)->name, ((const vr_input *)y)->name) < 0;
}

vram_status vram_checkpoint_listed(vram_checkpoint *ck)
{
    vr_loading *l = ck->loading;
    if (l->listed)
        return misuse(ck, "the listing was closed twice");
    VR_TRY(vr_sort(ck->ctx, l->inputs, l->n_inputs, sizeof(*l->inputs), by_name, NULL));
    for (size_t i = 1; i < l->n_inputs; i++) {
        if (strcmp(l->inputs[i - 1].name, l->inputs[i].name) == 0)
            return vr_fail_file(ck->ctx, VRAM_EINTERNAL, l->inputs[i].name, T("the file was listed twice"));
    }
    l->listed = true;
    return VRAM_OK;
}

vr_input *vr_input_find(const vr_loading *l, const char *name)
{
    size_t low = 0, high = l->n_inputs;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(name, l->inputs[middle].name);
        if (order == 0)
            return &l->inputs[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

vram_status vram_checkpoint_supply(vram_checkpoint *ck, const char *file, uint64_t offset, const void *bytes,
                                   size_t n)
{
    vr_loading *l = ck->loading;
    vr_input *in = l->listed ? vr_input_find(l, file) : NULL;
    if (in == NULL)
        return misuse(ck, "bytes came of a file that was not listed");
    uint64_t end = 0;
    if (!vr_add(offset, n, &end) || end > in->size)
        return vr_checkpoint_placed(
            ck, vr_fail_at(ck->ctx, VRAM_EIO, in->name, in->size,
                           T("the file is longer than the listing said; was it changed meanwhile?")));
    return n == 0 ? VRAM_OK : vr_view_add(&in->view, &ck->arena, offset, bytes, n);
}

/* ---- what is wanted ---- */

static vram_status push_want(vram_checkpoint *ck, vram_want want)
{
    vr_loading *l = ck->loading;
    if (l->n_wants == l->wants_room) {
        size_t room = l->wants_room == 0 ? 4 + l->n_inputs : l->wants_room * 2;
        vram_want *grown = vr_arena_grow(&ck->arena, l->wants, l->wants_room, room, sizeof(*grown));
        if (grown == NULL)
            return VRAM_ENOMEM;
        l->wants = grown;
        l->wants_room = room;
    }
    l->wants[l->n_wants++] = want;
    return VRAM_OK;
}

size_t vram_checkpoint_wants(const vram_checkpoint *ck, const vram_want **out)
{
    *out = ck->loading->wants;
    return ck->loading->n_wants;
}

vram_status vr_want_bytes(vram_checkpoint *ck, vr_input *in, uint64_t begin, uint64_t least_end,
                          uint64_t most_end, bool *known)
{
    VR_TRY(vr_view_settle(&in->view, ck->ctx));
    uint64_t end = vr_view_known(&in->view, begin);
    *known = end >= least_end;
    if (*known)
        return VRAM_OK;
    return push_want(ck, (vram_want){ .kind = VRAM_WANT_RANGE,
                                      .file = in->name,
                                      .offset = end,
                                      .least = least_end - end,
                                      .most = most_end - end });
}

vram_status vr_whole_text(vram_checkpoint *ck, vr_input *in, vr_str *text)
{
    bool known = false;
    VR_TRY(vr_want_bytes(ck, in, 0, in->size, in->size, &known));
    if (!known)
        return VRAM_MORE;
    text->n = (size_t)in->size;
    text->s = vr_view_get(&in->view, &ck->arena, 0, text->n);
    return text->s == NULL ? VRAM_ENOMEM : VRAM_OK;
}

/* ---- steps: VRAM_MORE when something is on the list of wants ---- */

static vram_status want_listing(vram_checkpoint *ck)
{
    VR_TRY(push_want(ck, (vram_want){ .kind = VRAM_WANT_LISTING }));
    return VRAM_MORE;
}

static vram_status read_config(vram_checkpoint *ck)
{
    vr_loading *l = ck->loading;
    if (l->config == NULL || l->config_read)
        return VRAM_OK;
    ck->config_file = l->config->name;
    VR_TRY(vr_whole_text(ck, l->config, &ck->config_raw));
    VR_TRY(vr_config_read(ck));
    ck->has_config = l->config_read = true;
    return ck->config_only ? vr_bare_check(ck) : VRAM_OK;
}

static vram_status want_indexes(vram_checkpoint *ck)
{
    vr_loading *l = ck->loading;
    for (size_t i = 0; i < l->n_groups; i++) {
        vr_group *g = &l->groups[i];
        vram_status s = g->known ? VRAM_OK : vr_whole_text(ck, g->index, &g->index_text);
        if (s < 0)
            return s;
    }
    return VRAM_OK;
}

/* Faults of the configuration come first, then those of each index in order, however the bytes come. */
static vram_status read_indexes(vram_checkpoint *ck)
{
    vr_loading *l = ck->loading;
    if (l->files_known)
        return VRAM_OK;
    VR_TRY(want_indexes(ck));
    if (vr_fault_waits(ck))
        return VRAM_MORE;
    for (size_t i = 0; i < l->n_groups; i++) {
        if (!l->groups[i].known)
            VR_TRY(vr_index_read(ck, &l->groups[i]));
        l->groups[i].known = true;
    }
    l->files_known = true;
    return vr_files_set(ck);
}

/* A zip's directory stands at its end: asked for while it is not known yet whether the file is one. */
vram_status vr_want_first(vram_checkpoint *ck, vr_input *in, uint64_t least, bool *known)
{
    bool torch = in->kind.ext == VR_FILES_BIN || in->kind.ext == VR_FILES_PT, tail;
    VR_TRY(vr_want_bytes(ck, in, 0, least, in->size < in->guess ? in->size : in->guess, known));
    if (!torch || *known || in->size <= in->guess)
        return VRAM_OK;
    uint64_t begin = in->size - in->guess < in->guess ? in->guess : in->size - in->guess;
    return vr_want_bytes(ck, in, begin, in->size, in->size, &tail);
}

/* While an index is not known, the head of every file that it probably names is asked for with it: one round
 * trip less over a network. */
static vram_status read_head(vram_checkpoint *ck, vr_input *in)
{
    const vr_loading *l = ck->loading;
    if (l->files_known)
        return in->counts ? vr_format_probe(ck, in) : VRAM_OK;
    if (in->group == 0 || in->left_out || in->size < 8)
        return VRAM_OK;
    bool known = false;
    return vr_want_first(ck, in, 8, &known);
}

static vram_status read_heads(vram_checkpoint *ck)
{
    vr_loading *l = ck->loading;
    for (size_t i = 0; i < l->n_inputs; i++) {
        vram_status s = read_head(ck, &l->inputs[i]);
        if (s < 0)
            return s;
    }
    return l->n_wants > 0 ? VRAM_MORE : VRAM_OK;
}

/* Room for all tensors at once: growing would leave the smaller arrays behind in the arena. */
static vram_status make_room(vram_checkpoint *ck)
{
    vr_loading *l = ck->loading;
    size_t room = 0;
    for (size_t i = 0; i < ck->n_files; i++) {
        vr_group *g = &l->groups[ck->files[i].part];
        size_t n = 0;
        if (l->input_of_file[i] != NULL)
            VR_TRY(l->input_of_file[i]->format->bound(ck, l->input_of_file[i], &n));
        room += n;
        g->n_tensors += n;
    }
    ck->tensors = VR_ARRAY(&ck->arena, vr_tensor, room);
    if (ck->tensors == NULL)
        return VRAM_ENOMEM;
    l->tensors_room = room;
    return VRAM_OK;
}

static bool has_words(const vr_file *f)
{
    return f->metadata != NULL && (vr_metadata_get(f->metadata, "tokenizer.ggml.model") != NULL ||
                                   vr_metadata_get(f->metadata, "tokenizer.ggml.tokens") != NULL);
}

static vram_status add_up(vram_checkpoint *ck)
{
    for (size_t i = 0; i < ck->n_files; i++) {
        if (!vr_add(ck->tensor_bytes, ck->files[i].tensor_bytes, &ck->tensor_bytes))
            return vr_fail(ck->ctx, VRAM_ELIMIT, T("the tensors have over 2^64 bytes together"));
    }
    for (size_t i = 0; i < ck->n_tensors; i++) {
        if (!vr_add(ck->elements, ck->tensors[i].elements, &ck->elements))
            return vr_fail(ck->ctx, VRAM_ELIMIT, T("the tensors have over 2^64 elements together"));
    }
    if (ck->n_tensors == 0 && !ck->incomplete && !ck->config_only)
        return vr_fail_at(
            ck->ctx, VRAM_EUNSUPPORTED, ck->files[0].name, 8,
            T(has_words(&ck->files[0]) ? "the header names no tensor: this is a vocabulary without weights"
              : ck->n_files == 1       ? "the header names no tensor"
                                       : "the header names no tensor, nor does that of any other file"));
    return VRAM_OK;
}

/* Each group has its own table of names. */
static vram_status read_group(vram_checkpoint *ck, uint32_t number)
{
    vr_loading *l = ck->loading;
    vr_group *g = &l->groups[number];
    VR_TRY(vr_names_init(&ck->names, &ck->arena, g->n_tensors, l->headers_bytes));
    g->first_tensor = ck->n_tensors;
    for (size_t i = 0; i < ck->n_files; i++) {
        const vr_input *in = l->input_of_file[i];
        if (in == NULL || ck->files[i].part != number)
            continue;
        ck->files[i].format = in->format;
        VR_TRY(in->format->read(ck, in, (uint32_t)i));
        if (ck->metadata == NULL)
            ck->metadata = ck->files[i].metadata;
    }
    g->n_tensors = ck->n_tensors - g->first_tensor;
    g->names = ck->names;
    return VRAM_OK;
}

static vram_status check_group(vram_checkpoint *ck, uint32_t number)
{
    vr_group *g = &ck->loading->groups[number];
    ck->names = g->names;
    if (g->index != NULL)
        return vr_index_check(ck, number);
    return ck->n_parts != 0 && ck->parts[number].missing ? VRAM_OK : vr_warn_missing(ck, number, NULL);
}

static vram_status finish(vram_checkpoint *ck)
{
    vr_loading *l = ck->loading;
    VR_TRY(make_room(ck));
    if (ck->config_only)
        return vr_names_init(&ck->names, &ck->arena, 0, 0);
    for (uint32_t i = 0; i < l->n_groups; i++)
        VR_TRY(read_group(ck, i));
    VR_TRY(vr_gguf_check_split(ck));
    VR_TRY(add_up(ck));
    for (uint32_t i = 0; i < l->n_groups; i++)
        VR_TRY(check_group(ck, i));
    if (l->n_groups > 1)
        ck->promised_bytes = 0; /* what each index says is no total */
    return vr_parts_finish(ck);
}

/* Stages that only want bytes go on to the next one, so that a step asks for all it can. */
static vram_status step(vram_checkpoint *ck)
{
    vr_loading *l = ck->loading;
    l->n_wants = 0;
    if (!l->listed)
        return want_listing(ck);
    if (!l->looked)
        VR_TRY(vr_bare_look(ck));
    l->looked = true;
    if (!l->arranged)
        VR_TRY(vr_listing_arrange(ck));
    l->arranged = true;
    vram_status s = read_config(ck);
    if (s < 0)
        return s;
    s = vr_sides_read(ck);
    if (s < 0)
        return s;
    s = l->sides_read ? read_indexes(ck) : want_indexes(ck);
    if (s < 0)
        return s;
    VR_TRY(read_heads(ck));
    VR_TRY(finish(ck));
    l->done = true;
    return VRAM_OK;
}

vram_status vram_checkpoint_step(vram_checkpoint *ck)
{
    vr_loading *l = ck->loading;
    if (l->done || l->failed < 0)
        return l->failed;
    vram_status s = vr_checkpoint_placed(ck, step(ck));
    if (s < 0) {
        l->failed = s;
        l->n_wants = 0;
    }
    return s;
}

bool vram_checkpoint_complete(const vram_checkpoint *ck)
{
    return !ck->incomplete;
}

bool vram_checkpoint_config_only(const vram_checkpoint *ck)
{
    return ck->config_only;
}
