/* SPDX-License-Identifier: MIT
 * Shards by their numbers, where no index says what there should be.
 * "model-00001-of-00004.safetensors": huggingface_hub serialization/_base.py; "x-00001-of-00003.gguf":
 * llama.cpp llama_split_path. */
#include "checkpoint/loading.h"

#include <string.h>

vram_status vr_path_add(vram_checkpoint *ck, vr_path_list *list, const char *path)
{
    if (path == NULL)
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
    list->p[list->n++] = path;
    return VRAM_OK;
}

/* One of a run of shards. */
typedef struct shard {
    vr_str name;
    size_t at;       /* where its number stands in the name */
    uint32_t number; /* its own, or of the last one seen */
    uint32_t of;     /* 0: not a shard */
} shard;

static shard shard_of(const vr_input *in)
{
    const vr_kind *k = &in->kind;
    if (k->of == 0)
        return (shard){ .of = 0 };
    return (shard){ vr_str_of(in->name), (size_t)(k->digits - in->name), k->number, k->of };
}

/* The names differ in the number only. */
static bool same_run(const shard *a, const shard *b)
{
    const size_t digits = 5;
    return a->of == b->of && a->at == b->at && a->name.n == b->name.n &&
           memcmp(a->name.s, b->name.s, a->at) == 0 &&
           memcmp(a->name.s + a->at + digits, b->name.s + b->at + digits, a->name.n - a->at - digits) == 0;
}

static const char *shard_name(vr_arena *a, const shard *s, uint32_t number)
{
    char *name = vr_arena_copy(a, s->name);
    for (uint32_t i = 5, v = number; name != NULL && i-- > 0; v /= 10)
        name[s->at + i] = (char)('0' + v % 10);
    return name;
}

/* The names between one shard and the next of its run; after the last, next is one more than there are. */
static vram_status add_gap(vram_checkpoint *ck, vr_path_list *list, const shard *from, uint32_t next)
{
    for (uint32_t k = from->number + 1; k < next; k++)
        VR_TRY(vr_path_add(ck, list, shard_name(&ck->arena, from, k)));
    return VRAM_OK;
}

/* Weight files in order of name, so a run's shards follow each other by number. Runs that share the text
 * before the numbers but not their count ("-of-00004" beside "-of-00007") interleave; each stretch of one is
 * then filled on its own and names that come twice get one place. */
vram_status vr_shards_missing(vram_checkpoint *ck, vr_group *g, uint32_t number)
{
    const vr_loading *l = ck->loading;
    shard last = { .of = 0 };
    for (size_t i = 0; i < l->n_inputs; i++) {
        const shard s = shard_of(&l->inputs[i]);
        if (l->inputs[i].group != number + 1 || s.of == 0)
            continue;
        if (!same_run(&last, &s)) {
            VR_TRY(add_gap(ck, &g->paths, &last, last.of + 1));
            last = s;
            last.number = 0;
        }
        VR_TRY(add_gap(ck, &g->paths, &last, s.number));
        last = s;
    }
    return add_gap(ck, &g->paths, &last, last.of + 1);
}
