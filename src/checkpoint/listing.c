/* SPDX-License-Identifier: MIT
 * From the listing to the files of the checkpoint: what is asked for first, what is there, what is missing,
 * what is left out. */
#include "checkpoint/loading.h"

#include <string.h>

#define GUESS_MOST (16 * VR_MIB)
#define WARNED_FILES 8

vram_status vr_check_size(vram_checkpoint *ck, const vr_input *in, uint64_t limit)
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

/* ---- groups ---- */

/* A tensor takes about 30 bytes more in a header than in the index, where it is never under 60: half as much
 * again fetches nearly every header with its first request. */
static uint64_t guess_of(const vr_loading *l, const vr_group *g, size_t n, uint8_t ext)
{
    if (ext == VR_FILES_GGUF && l->request_cost > VR_GUESS_LEAST)
        return l->request_cost; /* a vocabulary stands in the header */
    if (g->index == NULL || n == 0 || ext != VR_FILES_SAFETENSORS)
        return VR_GUESS_LEAST;
    uint64_t guess = vr_round_up(g->index->size / n / 2 * 3, 4 * VR_KIB);
    return guess < VR_GUESS_LEAST ? VR_GUESS_LEAST : guess > GUESS_MOST ? GUESS_MOST : guess;
}

/* Any file that the group's index may name: of its folder, family and precision, and nobody else's. */
static bool may_be_named(const vr_loading *l, const vr_input *in, const vr_set *s)
{
    const vr_kind *k = &in->kind, *of = &s->first->kind;
    if (!in->weights || k->ext != of->ext || !vr_str_eq(k->folder, of->folder) ||
        !vr_str_eq(k->variant, of->variant))
        return false;
    const vr_set *own = &l->sets[in->set];
    return own == s ||
           (!vr_set_is_adapter(own) && !vr_str_starts(k->stem, "consolidated") && own->rank > s->rank);
}

static bool is_of(const vr_loading *l, const vr_input *in, const vr_set *s, bool index)
{
    if (index)
        return may_be_named(l, in, s);
    return in->weights && &l->sets[in->set] == s;
}

vram_status vr_group_fill(vram_checkpoint *ck, uint32_t number, const vr_set *s)
{
    vr_loading *l = ck->loading;
    vr_group *g = &l->groups[number];
    size_t n = 0;
    if (g->set == NULL) {
        g->set = s;
        g->index = s->first->kind.numbered ? s->index : NULL;
        VR_TRY(vr_check_size(ck, g->index, VR_MAX_INDEX_BYTES));
    }
    for (size_t i = 0; i < l->n_inputs; i++) {
        if (!is_of(l, &l->inputs[i], s, g->index != NULL))
            continue;
        l->inputs[i].group = number + 1;
        n++;
    }
    for (size_t i = 0; i < l->n_inputs; i++) {
        if (l->inputs[i].group == number + 1)
            l->inputs[i].guess = guess_of(l, g, n, s->first->kind.ext);
    }
    return VRAM_OK;
}

/* Without an index it is known what the group has. */
static vram_status group_paths(vram_checkpoint *ck, uint32_t number)
{
    vr_loading *l = ck->loading;
    vr_group *g = &l->groups[number];
    if (g->index != NULL)
        return VRAM_OK;
    for (size_t i = 0; i < l->n_inputs; i++) {
        if (l->inputs[i].group == number + 1)
            VR_TRY(vr_path_add(ck, &g->paths, l->inputs[i].name));
    }
    g->known = true;
    return vr_shards_missing(ck, g, number);
}

static vram_status find_adapter_config(vram_checkpoint *ck, const vr_set *s)
{
    const char *name = vr_text(&ck->arena, S(s->first->kind.folder), T("adapter_config.json"));
    if (name == NULL)
        return VRAM_ENOMEM;
    ck->loading->adapter = vr_input_find(ck->loading, name);
    return vr_check_size(ck, ck->loading->adapter, VR_MAX_CONFIG_BYTES);
}

static vram_status take_whole(vram_checkpoint *ck)
{
    vr_loading *l = ck->loading;
    VR_TRY(vr_sets_take(ck));
    l->groups = VR_NEW(&ck->arena, vr_group);
    if (l->groups == NULL)
        return VRAM_ENOMEM;
    l->n_groups = 1;
    for (size_t i = 0; i < l->n_sets; i++) {
        if (l->sets[i].taken)
            VR_TRY(vr_group_fill(ck, 0, &l->sets[i]));
    }
    ck->adapter_only = vr_set_is_adapter(l->groups[0].set);
    return ck->adapter_only ? find_adapter_config(ck, l->groups[0].set) : VRAM_OK;
}

static bool is_plain_safetensors(const vr_kind *k)
{
    return k->folder.n == 0 && k->ext == VR_FILES_SAFETENSORS && k->variant.n == 0 &&
           !vr_str_starts(k->stem, "consolidated") && !vr_kind_is(k, "adapter_model") &&
           (k->role == VR_ROLE_WEIGHTS || k->role == VR_ROLE_INDEX);
}

static size_t count_beside(const vr_loading *l, bool *index)
{
    size_t n = 0;
    *index = false;
    for (size_t i = 0; i < l->n_inputs; i++) {
        const vr_input *in = &l->inputs[i];
        bool other = in->group == 0 && is_plain_safetensors(&in->kind);
        n += other && in->weights;
        *index = *index || (other && !in->weights);
    }
    return n;
}

/* transformers takes model.safetensors where there is one, before it looks for an index, and then nothing
 * else (modeling_utils.py: 4.57 and 5.24, _get_resolved_checkpoint_files). */
static vram_status warn_single(vram_checkpoint *ck)
{
    const vr_loading *l = ck->loading;
    const vr_kind *k = &l->groups[0].set->first->kind;
    bool index;
    size_t others = count_beside(l, &index);
    bool single = is_plain_safetensors(k) && !k->numbered && vr_kind_is(k, "model");
    if (l->chosen != NULL || l->named != NULL || !single || (others == 0 && !index))
        return VRAM_OK;
    return vr_warn(ck->ctx, l->groups[0].set->first->name,
                   T("transformers loads this file where there is one, and nothing else; left out: "),
                   T(index ? "the index" : ""), T(index && others != 0 ? " and " : ""),
                   others != 0 ? U(others) : T(""), T(others == 0 ? "" : " other *.safetensors"));
}

/* Only of a precision that the loader takes when it is asked to. */
static vram_status warn_variant(vram_checkpoint *ck)
{
    const vr_kind *k = &ck->loading->groups[0].set->first->kind;
    if (k->variant.n == 0 || ck->loading->chosen != NULL || ck->loading->named != NULL)
        return VRAM_OK;
    return vr_warn(ck->ctx, ck->loading->groups[0].set->first->name,
                   T("there are weights of this variant only: transformers and diffusers load them with "
                     "variant=\""),
                   S(k->variant), T("\""));
}

/* Beside a pipeline there may be a single file with all of it, and a pattern or a name may mean that. */
static vram_status take(vram_checkpoint *ck)
{
    vr_loading *l = ck->loading;
    bool parts = (l->pipeline != NULL || l->modules != NULL) && vr_parts_any(l);
    if (!parts || (l->chosen != NULL && !vr_parts_choose(l)) || (l->chosen == NULL && l->named != NULL)) {
        l->pipeline = l->modules = NULL;
        return take_whole(ck);
    }
    return vr_parts_take(ck);
}

/* A file was named that is no weights of the model which lies there. */
static bool is_apart(const vr_loading *l)
{
    vr_kind k;
    return l->named != NULL && vr_kind_of(vr_str_of(l->named), &k) && k.role == VR_ROLE_OTHER;
}

static bool named_config(const vr_loading *l)
{
    const vr_input *in = l->named != NULL ? vr_input_find(l, l->named) : NULL;
    return in != NULL && in->kind.role == VR_ROLE_CONFIG;
}

vram_status vr_listing_arrange(vram_checkpoint *ck)
{
    vr_loading *l = ck->loading;
    l->config = is_apart(l) ? NULL : vr_input_find(l, named_config(l) ? l->named : "config.json");
    l->pipeline = vr_input_find(l, "model_index.json");
    l->modules = l->pipeline == NULL ? vr_input_find(l, "modules.json") : NULL;
    vr_input *const small[] = { l->config, l->pipeline, l->modules };
    for (size_t i = 0; i < sizeof(small) / sizeof(small[0]); i++)
        VR_TRY(vr_check_size(ck, small[i], VR_MAX_CONFIG_BYTES));
    VR_TRY(vr_sets_make(ck));
    ck->config_only = vr_bare_is(ck);
    if (ck->config_only) {
        l->pipeline = l->modules = NULL;
        return VRAM_OK;
    }
    VR_TRY(take(ck));
    for (uint32_t i = 0; i < l->n_groups; i++) {
        ck->has_index = ck->has_index || l->groups[i].index != NULL;
        VR_TRY(group_paths(ck, i));
    }
    if (l->pipeline == NULL && l->modules == NULL) {
        VR_TRY(warn_single(ck));
        VR_TRY(warn_variant(ck));
    }
    return vr_sets_explain(ck);
}

/* ---- the files of the checkpoint ---- */

typedef struct ranked {
    const char *name;
    uint32_t group;
    uint32_t *number; /* where the place that it gets is wanted */
} ranked;

static bool name_before(void *ud, const void *x, const void *y)
{
    const ranked *a = x, *b = y;
    (void)ud;
    return a->group != b->group ? a->group < b->group : strcmp(a->name, b->name) < 0;
}

/* A name may come twice; it gets one place. */
static void place_files(vram_checkpoint *ck, const ranked *order, size_t n)
{
    vr_loading *l = ck->loading;
    for (size_t i = 0; i < n; i++) {
        if (i == 0 || order[i - 1].group != order[i].group || strcmp(order[i - 1].name, order[i].name) != 0) {
            vr_input *in = vr_input_find(l, order[i].name);
            bool there = in != NULL && in->weights && !in->counts;
            if (there)
                in->counts = true;
            else
                ck->incomplete = true;
            l->input_of_file[ck->n_files] = there ? in : NULL;
            ck->files[ck->n_files++] = (vr_file){ .name = in != NULL ? in->name : order[i].name,
                                                  .size = there ? in->size : 0,
                                                  .part = order[i].group,
                                                  .missing = !there };
        }
        *order[i].number = (uint32_t)(ck->n_files - 1);
    }
}

/* What counts is known only now: an index leaves out what it does not name. */
static vram_status list_left_out(vram_checkpoint *ck)
{
    vr_loading *l = ck->loading;
    size_t n = 0;
    for (size_t i = 0; i < l->n_inputs; i++)
        n += (l->inputs[i].weights && !l->inputs[i].counts) || l->inputs[i].kind.role == VR_ROLE_OTHER;
    ck->left_out = VR_ARRAY(&ck->arena, vr_left_out, n);
    if (ck->left_out == NULL)
        return VRAM_ENOMEM;
    for (size_t i = 0; i < l->n_inputs; i++) {
        const vr_input *in = &l->inputs[i];
        if (in->kind.role != VR_ROLE_OTHER && (!in->weights || in->counts))
            continue;
        const char *why = in->why != NULL ? in->why : "not named by the index";
        ck->left_out[ck->n_left_out++] =
            (vr_left_out){ in->name, in->kind.why != NULL ? in->kind.why : why, in->size };
    }
    return VRAM_OK;
}

vram_status vr_files_set(vram_checkpoint *ck)
{
    vr_loading *l = ck->loading;
    size_t n = 0, k = 0;
    for (size_t g = 0; g < l->n_groups; g++)
        n += l->groups[g].paths.n;
    ranked *order = VR_ARRAY(&ck->arena, ranked, n);
    uint32_t *numbers = VR_ARRAY(&ck->arena, uint32_t, n);
    ck->files = VR_ARRAY(&ck->arena, vr_file, n);
    l->input_of_file = VR_ARRAY(&ck->arena, vr_input *, n);
    if (order == NULL || numbers == NULL || ck->files == NULL || l->input_of_file == NULL)
        return VRAM_ENOMEM;
    for (uint32_t g = 0; g < l->n_groups; g++) {
        l->groups[g].file_of_path = numbers + k;
        for (size_t i = 0; i < l->groups[g].paths.n; i++, k++)
            order[k] = (ranked){ l->groups[g].paths.p[i], g, &numbers[k] };
    }
    VR_TRY(vr_sort(ck->ctx, order, n, sizeof(*order), name_before, NULL));
    place_files(ck, order, n);
    return list_left_out(ck);
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

vram_status vr_warn_missing(vram_checkpoint *ck, uint32_t group, const uint32_t *by_index)
{
    size_t missing = 0;
    for (size_t i = 0; i < ck->n_files; i++) {
        if (ck->files[i].part == group && ck->files[i].missing && missing++ < WARNED_FILES)
            VR_TRY(warn_one(ck, &ck->files[i], by_index));
    }
    if (missing <= WARNED_FILES)
        return VRAM_OK;
    return vr_warn(ck->ctx, ck->name, U(missing - WARNED_FILES), T(" more weight files are missing"));
}
