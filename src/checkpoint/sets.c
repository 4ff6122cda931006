/* SPDX-License-Identifier: MIT
 * Which files are loaded together, and which of such sets make up the checkpoint: the first that an engine
 * takes. What is not taken is said to be left out, and why.
 * Order: transformers 5.24, modeling_utils.py, _get_resolved_checkpoint_files (model.safetensors, its index,
 * pytorch_model.bin, its index); diffusers 0.35, models/modeling_utils.py, from_pretrained (an index first,
 * safetensors before bin); vLLM, model_executor/model_loader/default_loader.py (all *.safetensors together,
 * where no index says otherwise). */
#include "checkpoint/loading.h"

#include <string.h>

/* ---- sorting files into sets ---- */

/* Two files of one set differ in nothing but their number. */
static const char *key_of(vr_arena *a, const vr_kind *k)
{
    return vr_text(a, S(k->folder), T("\n"), S(k->stem), T("\n"), S(k->variant), T("\n"), U(k->ext),
                   T(k->numbered ? "n" : ""));
}

static vram_status set_for(vram_checkpoint *ck, vr_map *by_key, vr_input *in)
{
    vr_loading *l = ck->loading;
    const char *key = key_of(&ck->arena, &in->kind);
    bool known = false;
    if (key == NULL)
        return VRAM_ENOMEM;
    in->set = (uint32_t)l->n_sets;
    VR_TRY(vr_map_put(by_key, vr_str_of(key), in->set, &known, &in->set));
    if (known)
        return VRAM_OK;
    in->set = (uint32_t)l->n_sets;
    if (l->n_sets == l->sets_room) {
        size_t room = l->sets_room == 0 ? 16 : l->sets_room * 2;
        vr_set *grown = vr_arena_grow(&ck->arena, l->sets, l->sets_room, room, sizeof(*grown));
        if (grown == NULL)
            return VRAM_ENOMEM;
        l->sets = grown;
        l->sets_room = room;
    }
    l->sets[l->n_sets++] = (vr_set){ .first = in };
    return VRAM_OK;
}

static void count_in(vr_set *s, vr_input *in)
{
    if (in->kind.role == VR_ROLE_INDEX) {
        s->index = s->index == NULL ? in : s->index;
        return;
    }
    if (s->n++ == 0)
        s->first = in;
    s->bytes = vr_add_sat(s->bytes, in->size);
}

/* ---- their order ---- */

typedef enum how { ANY, SINGLE, INDEXED } how;

/* stem NULL: any other. The first row that fits a set is its rank. */
static const struct {
    const char *stem;
    uint8_t ext, how;
    bool variant;
} order[] = {
    { "model", VR_FILES_SAFETENSORS, SINGLE, false },
    { "model", VR_FILES_SAFETENSORS, INDEXED, false },
    { "pytorch_model", VR_FILES_BIN, SINGLE, false },
    { "pytorch_model", VR_FILES_BIN, INDEXED, false },
    { "diffusion_pytorch_model", VR_FILES_SAFETENSORS, INDEXED, false },
    { "diffusion_pytorch_model", VR_FILES_SAFETENSORS, SINGLE, false },
    { NULL, VR_FILES_SAFETENSORS, INDEXED, false },
    { NULL, VR_FILES_SAFETENSORS, ANY, false },
    { "pytorch_model", VR_FILES_BIN, ANY, false },
    { "diffusion_pytorch_model", VR_FILES_BIN, INDEXED, false },
    { "diffusion_pytorch_model", VR_FILES_BIN, SINGLE, false },
    { NULL, VR_FILES_SAFETENSORS, ANY, true },
    { NULL, VR_FILES_BIN, ANY, true },
    { "consolidated", VR_FILES_SAFETENSORS, ANY, false },
    { "adapter_model", VR_FILES_SAFETENSORS, ANY, false },
    { "adapter_model", VR_FILES_BIN, ANY, false },
    { NULL, VR_FILES_GGUF, ANY, false },
    { "consolidated", VR_FILES_PT, ANY, false },
    { NULL, VR_FILES_PT, ANY, false },
    { NULL, VR_FILES_BIN, ANY, false },
};

#define N_RANKS ((uint32_t)(sizeof(order) / sizeof(order[0])))
#define SUB_FOLDER N_RANKS      /* added to what lies in one */
#define PROJECTOR (2 * N_RANKS) /* taken only when nothing else is there */

bool vr_set_is_projector(const vr_set *s)
{
    return s->first->kind.ext == VR_FILES_GGUF && vr_str_find(s->first->kind.stem, "mmproj", NULL);
}

static bool is_consolidated(const vr_set *s)
{
    return vr_str_starts(s->first->kind.stem, "consolidated");
}

bool vr_set_is_adapter(const vr_set *s)
{
    return vr_kind_is(&s->first->kind, "adapter_model");
}

static bool fits_row(const vr_set *s, size_t i)
{
    const vr_kind *k = &s->first->kind;
    bool special = is_consolidated(s) || vr_set_is_adapter(s);
    if (order[i].ext != k->ext || order[i].variant != (k->variant.n != 0))
        return false;
    if (order[i].how == SINGLE ? k->numbered : order[i].how == INDEXED && s->index == NULL)
        return false;
    if (order[i].stem == NULL)
        return !special || k->variant.n != 0;
    return vr_kind_is(k, order[i].stem) || (is_consolidated(s) && vr_str_starts(k->stem, order[i].stem));
}

/* In its folder. */
static uint32_t rank_of(const vr_set *s)
{
    uint32_t i = 0;
    while (i < N_RANKS && !fits_row(s, i))
        i++;
    return vr_set_is_projector(s) ? PROJECTOR : i;
}

vram_status vr_sets_make(vram_checkpoint *ck)
{
    vr_loading *l = ck->loading;
    vr_map by_key;
    VR_TRY(vr_map_init(&by_key, &ck->arena, 16, l->n_inputs));
    for (size_t i = 0; i < l->n_inputs; i++) {
        vr_input *in = &l->inputs[i];
        if (!in->weights && in->kind.role != VR_ROLE_INDEX)
            continue;
        VR_TRY(set_for(ck, &by_key, in));
        count_in(&l->sets[in->set], in);
    }
    for (size_t i = 0; i < l->n_sets; i++)
        l->sets[i].rank = rank_of(&l->sets[i]);
    return VRAM_OK;
}

/* ---- the whole checkpoint ---- */

/* Quantisations as GGUF lie in folders as often as not; all else counts first in the root. */
static uint32_t whole_rank(const vr_set *s)
{
    bool root = s->first->kind.folder.n == 0 || s->first->kind.ext == VR_FILES_GGUF;
    return s->rank + (root ? 0 : SUB_FOLDER);
}

/* Files of no known name that lie in the root beside a config.json: vLLM loads them all. */
static bool together(const vr_loading *l, const vr_set *s)
{
    const vr_kind *k = &s->first->kind;
    return l->config != NULL && l->chosen == NULL && k->folder.n == 0 && k->variant.n == 0 &&
           k->ext == VR_FILES_SAFETENSORS && s->index == NULL && s->rank < N_RANKS &&
           order[s->rank].stem == NULL;
}

vram_status vr_no_weights(vram_checkpoint *ck)
{
    vram_status s = vr_fail_file(ck->ctx, VRAM_EUNSUPPORTED, ck->name,
                                 T("no weight files: there is no *.safetensors, *.gguf, *.bin, *.pt, *.pth "
                                   "or *.ckpt"));
    vr_hint(ck->ctx, "give a directory with *.safetensors files, with *.gguf or PyTorch files, or one such "
                     "file");
    return s;
}

static vram_status take_best(vram_checkpoint *ck)
{
    vr_loading *l = ck->loading;
    const vr_set **list = VR_ARRAY(&ck->arena, const vr_set *, l->n_sets);
    uint32_t best = UINT32_MAX;
    size_t n = 0;
    if (list == NULL)
        return VRAM_ENOMEM;
    for (size_t i = 0; i < l->n_sets; i++)
        best = whole_rank(&l->sets[i]) < best ? whole_rank(&l->sets[i]) : best;
    for (size_t i = 0; i < l->n_sets; i++) {
        l->sets[i].taken = whole_rank(&l->sets[i]) == best;
        if (l->sets[i].taken)
            list[n++] = &l->sets[i];
    }
    return n < 2 || together(l, list[0]) ? VRAM_OK
                                         : vr_choose_fail(ck, list, n, " different models lie here: ");
}

static vram_status take_chosen(vram_checkpoint *ck)
{
    vr_loading *l = ck->loading;
    size_t n = vr_choose(ck), k = 0;
    const vr_set **list = VR_ARRAY(&ck->arena, const vr_set *, l->n_sets);
    if (list == NULL)
        return VRAM_ENOMEM;
    for (size_t i = 0; i < l->n_sets; i++) {
        l->sets[i].taken = l->sets[i].matches;
        if (l->sets[i].matches || n == 0)
            list[k++] = &l->sets[i];
    }
    if (n == 1)
        return VRAM_OK;
    return vr_choose_fail(ck, list, k, n == 0 ? NULL : " of them match: ");
}

/* Quantisations, each a whole model: those that match where a pattern was given. *taken: there are any. */
static vram_status take_by_size(vram_checkpoint *ck, bool *taken)
{
    vr_loading *l = ck->loading;
    vr_set **list = VR_ARRAY(&ck->arena, vr_set *, l->n_sets);
    size_t n = 0;
    *taken = false;
    if (list == NULL)
        return VRAM_ENOMEM;
    if (l->chosen != NULL)
        (void)vr_choose(ck);
    for (size_t i = 0; i < l->n_sets; i++) {
        vr_set *s = &l->sets[i];
        if (s->first->kind.ext == VR_FILES_GGUF && !vr_set_is_projector(s) &&
            (l->chosen == NULL || s->matches))
            list[n++] = s;
    }
    *taken = n > 1;
    return n > 1 ? vr_choose_by_size(ck, list, n) : VRAM_OK;
}

/* Of the file that the user named; NULL: none was, or it is of no set. */
static vr_set *named_set(const vr_loading *l)
{
    const vr_input *in = l->named != NULL && l->chosen == NULL ? vr_input_find(l, l->named) : NULL;
    return in != NULL && (in->weights || in->kind.role == VR_ROLE_INDEX) ? &l->sets[in->set] : NULL;
}

vram_status vr_sets_take(vram_checkpoint *ck)
{
    vr_set *named = named_set(ck->loading);
    if (ck->loading->n_sets == 0)
        return vr_no_weights(ck);
    if (named != NULL) {
        named->taken = true;
        return VRAM_OK;
    }
    bool taken = false;
    if (ck->loading->by_size != 0)
        VR_TRY(take_by_size(ck, &taken));
    if (taken)
        return VRAM_OK;
    return ck->loading->chosen != NULL ? take_chosen(ck) : take_best(ck);
}

/* ---- what is left out ---- */

static const char *why_variant(vr_arena *a, vr_str variant)
{
    return vr_text(a, T("precision variant "), S(variant), T(": taken with variant="), S(variant));
}

static bool in_training_folder(vr_str folder)
{
    return vr_str_starts(folder, "checkpoint-") || vr_str_starts(folder, "global_step");
}

/* taken: one of the sets that count. */
static const char *why_by_format(const vr_set *s, const vr_set *taken)
{
    uint8_t ext = s->first->kind.ext, by = taken->first->kind.ext;
    if (ext == VR_FILES_GGUF)
        return by == VR_FILES_GGUF ? "another GGUF" : "GGUF: run by llama.cpp";
    if (ext == VR_FILES_SAFETENSORS)
        return by == VR_FILES_SAFETENSORS ? "other *.safetensors" : "safetensors";
    return by == VR_FILES_SAFETENSORS && ext == VR_FILES_BIN ? "the same weights as PyTorch files"
                                                             : "PyTorch files";
}

/* Whatever is taken instead. */
static const char *why_by_name(const vr_set *s)
{
    vr_str folder = s->first->kind.folder;
    if (vr_set_is_projector(s))
        return VR_WHY_PROJECTOR;
    if (vr_str_is(folder, "original/"))
        return "original/: the publisher's own format";
    if (in_training_folder(folder))
        return "an earlier state of the training";
    return vr_set_is_adapter(s) ? "adapter" : NULL;
}

static const char *why_of(vram_checkpoint *ck, const vr_set *s, const vr_set *taken)
{
    const vr_kind *k = &s->first->kind, *of = &taken->first->kind;
    const char *why = why_by_name(s);
    if (why != NULL)
        return why;
    if (k->ext != VR_FILES_GGUF && k->folder.n != 0 && !vr_str_eq(k->folder, of->folder))
        return vr_text(&ck->arena, S(k->folder), T(": another model"));
    if (ck->loading->pipeline != NULL && k->folder.n == 0)
        return "a single file, not the pipeline";
    if (k->variant.n != 0 && !vr_str_eq(k->variant, of->variant))
        return why_variant(&ck->arena, k->variant);
    if (k->ext == of->ext && !vr_str_eq(k->variant, of->variant))
        return "the precision that is taken without a variant";
    if (is_consolidated(s))
        return "consolidated: the publisher's own format";
    return why_by_format(s, taken);
}

/* Where the folder has a set that counts, that; otherwise the first. */
static const vr_set *taken_beside(const vr_loading *l, const vr_set *s)
{
    for (size_t i = 0; i < l->n_groups; i++) {
        if (vr_str_eq(l->groups[i].set->first->kind.folder, s->first->kind.folder))
            return l->groups[i].set;
    }
    return l->groups[0].set;
}

vram_status vr_sets_explain(vram_checkpoint *ck)
{
    vr_loading *l = ck->loading;
    const char **whys = VR_ARRAY(&ck->arena, const char *, l->n_sets);
    if (whys == NULL)
        return VRAM_ENOMEM;
    for (size_t i = 0; i < l->n_inputs; i++) {
        vr_input *in = &l->inputs[i];
        if (!in->weights || in->group != 0)
            continue;
        const vr_set *s = &l->sets[in->set];
        if (whys[in->set] == NULL)
            whys[in->set] = why_of(ck, s, taken_beside(l, s));
        if (whys[in->set] == NULL)
            return VRAM_ENOMEM;
        in->left_out = true;
        in->why = whys[in->set];
    }
    return VRAM_OK;
}
