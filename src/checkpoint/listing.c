/* SPDX-License-Identifier: MIT
 * Which files of a listing make up the checkpoint, and which are missing from it.
 * Names: transformers, src/transformers/utils/__init__.py (SAFE_WEIGHTS_NAME, SAFE_WEIGHTS_INDEX_NAME) and
 * huggingface_hub, serialization/_base.py ("model{suffix}.safetensors", suffix "-00001-of-00004"). */
#include "checkpoint/loading.h"

#include <string.h>

#define GUESS_LEAST (64 * VR_KIB)
#define GUESS_MOST (16 * VR_MIB)
#define WARNED_FILES 8

/* ---- shards by their numbers, where no index says what there should be ---- */

typedef struct shard {
    vr_str before; /* "model-" */
    uint32_t number, of;
} shard;

static bool five_digits(vr_str s, size_t at, uint32_t *out)
{
    uint32_t v = 0;
    for (size_t i = at; i < at + 5; i++) {
        if (s.s[i] < '0' || s.s[i] > '9')
            return false;
        v = v * 10 + (uint32_t)(s.s[i] - '0');
    }
    *out = v;
    return true;
}

/* "model-00001-of-00004.safetensors" */
static bool parse_shard(vr_str name, shard *out)
{
    const size_t tail = sizeof("00001-of-00004.safetensors") - 1;
    if (name.n < tail || memcmp(name.s + name.n - tail + 5, "-of-", 4) != 0)
        return false;
    out->before = (vr_str){ name.s, name.n - tail };
    return five_digits(name, name.n - tail, &out->number) && five_digits(name, name.n - tail + 9, &out->of) &&
           out->number >= 1 && out->number <= out->of;
}

static bool same_set(shard a, shard b)
{
    return a.of == b.of && vr_str_eq(a.before, b.before);
}

static const char *shard_name(vr_arena *a, shard s)
{
    char digits[] = "00000-of-";
    for (uint32_t i = 5, v = s.number; i-- > 0; v /= 10)
        digits[i] = (char)('0' + v % 10);
    char of[] = "00000.safetensors";
    for (uint32_t i = 5, v = s.of; i-- > 0; v /= 10)
        of[i] = (char)('0' + v % 10);
    return vr_text(a, S(s.before), T(digits), T(of));
}

typedef struct names {
    const char **p;
    size_t n, room;
} names;

static vram_status add_name(vram_checkpoint *ck, names *list, const char *name)
{
    if (name == NULL)
        return VRAM_ENOMEM;
    if (list->n == VR_MAX_FILES)
        return vr_fail_file(ck->ctx, VRAM_ELIMIT, ck->name, T("by their numbers there are over "),
                            GROUPED(VR_MAX_FILES), T(" weight files"));
    if (list->n == list->room) {
        size_t room = list->room == 0 ? 16 : list->room * 2;
        const char **grown = vr_arena_grow(&ck->arena, list->p, list->room, room, sizeof(*grown));
        if (grown == NULL)
            return VRAM_ENOMEM;
        list->p = grown;
        list->room = room;
    }
    list->p[list->n++] = name;
    return VRAM_OK;
}

/* The names between one shard and the next of its set; after the last, next is one more than there are. */
static vram_status add_gap(vram_checkpoint *ck, names *list, shard from, uint32_t next)
{
    for (uint32_t k = from.number + 1; k < next; k++) {
        shard s = { from.before, k, from.of };
        VR_TRY(add_name(ck, list, shard_name(&ck->arena, s)));
    }
    return VRAM_OK;
}

/* Weight files in order of name, so a set's shards follow each other by number. Sets that share the text
 * before the numbers but not their count ("-of-00004" beside "-of-00007") interleave; each run of one set is
 * then filled on its own and names that come twice are dropped by the caller. */
static vram_status add_missing_shards(vram_checkpoint *ck, names *list)
{
    const vr_loading *l = ck->loading;
    shard last = { { NULL, 0 }, 0, 0 };
    for (size_t i = 0; i < l->n_inputs; i++) {
        shard s;
        if (!l->inputs[i].counts || !parse_shard(vr_str_of(l->inputs[i].name), &s))
            continue;
        if (!same_set(last, s)) {
            VR_TRY(add_gap(ck, list, last, last.of + 1));
            last = (shard){ s.before, 0, s.of };
        }
        VR_TRY(add_gap(ck, list, last, s.number));
        last = s;
    }
    return add_gap(ck, list, last, last.of + 1);
}

/* ---- the files of the checkpoint ---- */

typedef struct ranked {
    const char *name;
    size_t was;
} ranked;

static bool name_before(void *ud, const void *x, const void *y)
{
    (void)ud;
    return strcmp(((const ranked *)x)->name, ((const ranked *)y)->name) < 0;
}

/* A name may come twice; it gets one place. */
static void place_files(vram_checkpoint *ck, const ranked *order, size_t n, uint32_t *numbers)
{
    vr_loading *l = ck->loading;
    for (size_t i = 0; i < n; i++) {
        if (i == 0 || strcmp(order[i - 1].name, order[i].name) != 0) {
            vr_input *in = vr_input_find(l, order[i].name);
            if (in != NULL)
                in->counts = true;
            else
                ck->incomplete = true;
            l->input_of_file[ck->n_files] = in;
            ck->files[ck->n_files++] = (vr_file){ .name = in != NULL ? in->name : order[i].name,
                                                  .size = in != NULL ? in->size : 0,
                                                  .missing = in == NULL };
        }
        numbers[order[i].was] = (uint32_t)(ck->n_files - 1);
    }
}

vram_status vr_files_set(vram_checkpoint *ck, const char *const *list, size_t n, uint32_t *numbers)
{
    ranked *order = VR_ARRAY(&ck->arena, ranked, n);
    ck->files = VR_ARRAY(&ck->arena, vr_file, n);
    ck->loading->input_of_file = VR_ARRAY(&ck->arena, vr_input *, n);
    if (order == NULL || ck->files == NULL || ck->loading->input_of_file == NULL)
        return VRAM_ENOMEM;
    for (size_t i = 0; i < n; i++)
        order[i] = (ranked){ list[i], i };
    VR_TRY(vr_sort(ck->ctx, order, n, sizeof(*order), name_before, NULL));
    place_files(ck, order, n, numbers);
    return VRAM_OK;
}

/* ---- roles ---- */

static vram_status check_size(vram_checkpoint *ck, const vr_input *in, uint64_t limit)
{
    if (in == NULL)
        return VRAM_OK;
    if (in->size == 0)
        return vr_fail_at(ck->ctx, VRAM_EFORMAT, in->name, 0, T("the file is empty"));
    if (in->size > limit)
        return vr_fail_at(ck->ctx, VRAM_ELIMIT, in->name, limit, T("the file has "), GROUPED(in->size),
                          T(" bytes, over the limit of "), GROUPED(limit), T(" for such a file"));
    return VRAM_OK;
}

static vram_status no_weights(vram_checkpoint *ck)
{
    vram_status s =
        vr_fail_file(ck->ctx, VRAM_EUNSUPPORTED, ck->name, T("no weight files: there is no *.safetensors"));
    vr_hint(ck->ctx, "give a directory with *.safetensors files, or one such file");
    return s;
}

/* Mistral publishes the same weights twice: for transformers, and as consolidated*.safetensors for its own
 * code. */
static vram_status leave_out_copies(vram_checkpoint *ck, size_t *n_weights)
{
    vr_loading *l = ck->loading;
    size_t copies = 0, weights = 0;
    const char *name = NULL;
    for (size_t i = 0; i < l->n_inputs; i++) {
        bool copy = l->inputs[i].weights && vr_str_starts(vr_str_of(l->inputs[i].name), "consolidated");
        weights += l->inputs[i].weights;
        copies += copy;
        if (copy)
            name = l->inputs[i].name;
    }
    *n_weights = weights;
    if (copies == 0 || copies == weights)
        return VRAM_OK;
    for (size_t i = 0; i < l->n_inputs; i++)
        l->inputs[i].left_out = vr_str_starts(vr_str_of(l->inputs[i].name), "consolidated");
    *n_weights = weights - copies;
    if (l->index != NULL)
        return VRAM_OK; /* the index says what counts */
    return vr_warn(ck->ctx, copies == 1 ? name : ck->name,
                   T("left out: consolidated*.safetensors holds the same weights a second time"));
}

/* A tensor takes about 30 bytes more in a header than in the index, where it is never under 60: half as much
 * again fetches nearly every header with its first request. */
static uint64_t first_guess(const vr_loading *l, size_t n_weights)
{
    if (l->index == NULL || n_weights == 0)
        return GUESS_LEAST;
    uint64_t guess = vr_round_up(l->index->size / n_weights / 2 * 3, 4 * VR_KIB);
    return guess < GUESS_LEAST ? GUESS_LEAST : guess > GUESS_MOST ? GUESS_MOST : guess;
}

static vram_status files_of_listing(vram_checkpoint *ck)
{
    vr_loading *l = ck->loading;
    names list = { NULL, 0, 0 };
    for (size_t i = 0; i < l->n_inputs; i++) {
        l->inputs[i].counts = l->inputs[i].weights && !l->inputs[i].left_out;
        if (l->inputs[i].counts)
            VR_TRY(add_name(ck, &list, l->inputs[i].name));
    }
    VR_TRY(add_missing_shards(ck, &list));
    uint32_t *numbers = VR_ARRAY(&ck->arena, uint32_t, list.n);
    if (numbers == NULL)
        return VRAM_ENOMEM;
    VR_TRY(vr_files_set(ck, list.p, list.n, numbers));
    l->files_known = true;
    return VRAM_OK;
}

/* transformers takes model.safetensors where there is one, before it looks for an index, and then nothing
 * else (modeling_utils.py: 4.57 and 5.24, _get_resolved_checkpoint_files). */
static vram_status prefer_single(vram_checkpoint *ck, size_t *n_weights)
{
    vr_loading *l = ck->loading;
    const vr_input *single = vr_input_find(l, "model.safetensors");
    bool index = l->index != NULL;
    size_t others = 0;
    if (single == NULL)
        return VRAM_OK;
    for (size_t i = 0; i < l->n_inputs; i++) {
        vr_input *in = &l->inputs[i];
        others += in != single && in->weights && !in->left_out;
        in->left_out = in->left_out || in != single;
    }
    l->index = NULL;
    *n_weights = 1;
    if (others == 0 && !index)
        return VRAM_OK;
    return vr_warn(ck->ctx, single->name,
                   T("transformers loads this file where there is one, and nothing else; left out: "),
                   T(index ? "the index" : ""), T(index && others != 0 ? " and " : ""),
                   others != 0 ? U(others) : T(""), T(others == 0 ? "" : " other *.safetensors"));
}

/* Other formats count where there is no safetensors file. */
static void safetensors_first(vr_loading *l)
{
    bool any = l->index != NULL;
    for (size_t i = 0; i < l->n_inputs; i++)
        any = any || vr_str_ends(vr_str_of(l->inputs[i].name), ".safetensors");
    for (size_t i = 0; any && i < l->n_inputs; i++)
        l->inputs[i].weights = vr_str_ends(vr_str_of(l->inputs[i].name), ".safetensors");
}

vram_status vr_listing_arrange(vram_checkpoint *ck)
{
    vr_loading *l = ck->loading;
    size_t n_weights = 0;
    l->config = vr_input_find(l, "config.json");
    l->index = vr_input_find(l, "model.safetensors.index.json");
    VR_TRY(check_size(ck, l->config, VR_MAX_CONFIG_BYTES));
    VR_TRY(check_size(ck, l->index, VR_MAX_INDEX_BYTES));
    safetensors_first(l);
    VR_TRY(leave_out_copies(ck, &n_weights));
    VR_TRY(prefer_single(ck, &n_weights));
    ck->has_index = l->index != NULL;
    if (n_weights == 0 && l->index == NULL)
        return no_weights(ck);
    l->guess = first_guess(l, n_weights);
    return l->index == NULL ? files_of_listing(ck) : VRAM_OK;
}

/* ---- what to say about files that are not there ---- */

static vram_status warn_one(vram_checkpoint *ck, const vr_file *f, const uint32_t *by_index)
{
    if (by_index == NULL)
        return vr_warn(ck->ctx, f->name,
                       T("missing: the numbers of the other files say that there is this one"));
    return vr_warn(ck->ctx, f->name, T("missing: the index places "), U(by_index[f - ck->files]),
                   T(by_index[f - ck->files] == 1 ? " tensor in it" : " tensors in it"));
}

vram_status vr_warn_missing(vram_checkpoint *ck, const uint32_t *by_index)
{
    size_t missing = 0;
    for (size_t i = 0; i < ck->n_files; i++) {
        if (ck->files[i].missing && missing++ < WARNED_FILES)
            VR_TRY(warn_one(ck, &ck->files[i], by_index));
    }
    if (missing <= WARNED_FILES)
        return VRAM_OK;
    return vr_warn(ck->ctx, ck->name, U(missing - WARNED_FILES), T(" more weight files are missing"));
}
