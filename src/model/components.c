/* SPDX-License-Identifier: MIT
 * Which tensors belong together, for reports; by names alone, so that it serves architectures that are not
 * known. Of a model whose parts lie in folders of their own each part is a component.
 *
 * A stack is what stands before the number in "model.layers.7.mlp.down_proj.weight". The one with the most
 * bytes is the decoder; its layers are listed one by one, every other stack is one component. */
#include "model/reading.h"

#define MAX_STACKS 16
#define NOT_A_STACK MAX_STACKS
#define IN_FOLDER (MAX_STACKS + 1)
#define NUMBER_BITS 40

typedef enum part { EMBEDDINGS, LAYER, FINAL_NORM, HEAD, VISION, SIDE_STACK, OTHER, FOLDER } part;

typedef struct stack {
    vr_str path; /* "model.layers." */
    uint64_t bytes;
    bool vision;
} stack;

/* Where a tensor stands. */
typedef struct place {
    uint32_t stack, layer; /* stack NOT_A_STACK: in none, or in one too many; IN_FOLDER: layer is the part */
} place;

typedef struct sorting {
    stack stacks[MAX_STACKS];
    size_t n_stacks, main, last;
    place *places; /* one per tensor */
} sorting;

/* A component while it is being summed up; key: part in the high bits, then layer or stack. */
typedef struct sum {
    uint64_t key;
    uint64_t in_dtype[VR_DTYPE_COUNT]; /* bytes */
    vr_component c;
} sum;

static bool is_one_of(vr_str word, const char *const *words, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (vr_str_is(word, words[i]))
            return true;
    return false;
}

#define IS_ONE_OF(word, ...)                                                                                 \
    is_one_of((word), (const char *const[]){ __VA_ARGS__ },                                                  \
              sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(const char *))

/* Words of the names in use: SigLIP, CLIP, Qwen-VL, LLaVA, Phi-3-vision, InternVL; and what llama.cpp's
 * projectors begin with (tools/mtmd/clip-impl.h). */
bool vr_name_is_vision(vr_str name)
{
    vr_str word;
    if (vr_str_starts(name, "v.") || vr_str_starts(name, "mm.") || vr_str_starts(name, "resampler."))
        return true;
    while (vr_str_split(&name, '.', &word))
        if (vr_str_starts(word, "vision") || vr_str_starts(word, "visual") || vr_str_starts(word, "image") ||
            vr_str_starts(word, "img_") ||
            IS_ONE_OF(word, "multi_modal_projector", "mm_projector", "patch_embed"))
            return true;
    return false;
}

/* The word that ends before `end`, which is the place of a dot. */
static vr_str word_before(vr_str name, size_t end)
{
    size_t from = end;
    while (from > 0 && name.s[from - 1] != '.')
        from--;
    return (vr_str){ name.s + from, end - from };
}

/* The number of the layer and what stands before it; false when there is none. */
static bool split_stack(vr_str name, vr_str *path, uint64_t *layer)
{
    for (size_t i = 1; i < name.n; i++) {
        size_t n = 0;
        if (name.s[i - 1] != '.' || !vr_is_digit(name.s[i]))
            continue;
        while (i + n < name.n && n < 10 && vr_is_digit(name.s[i + n]))
            n++;
        if (n == 10 || (i + n < name.n && name.s[i + n] != '.') ||
            !IS_ONE_OF(word_before(name, i - 1), "layers", "layer", "h", "blocks", "block", "resblocks",
                       "blk"))
            continue;
        *path = (vr_str){ name.s, i };
        return vr_parse_u64((vr_str){ name.s + i, n }, layer);
    }
    return false;
}

/* Neighbours in a file mostly stand in the same stack. */
static size_t stack_of(sorting *s, vr_str path)
{
    if (s->last < s->n_stacks && vr_str_eq(s->stacks[s->last].path, path))
        return s->last;
    for (s->last = 0; s->last < s->n_stacks; s->last++)
        if (vr_str_eq(s->stacks[s->last].path, path))
            return s->last;
    if (s->n_stacks == MAX_STACKS)
        return NOT_A_STACK;
    s->stacks[s->n_stacks++] = (stack){ path, 0, vr_name_is_vision(path) };
    return s->last;
}

static void find_main(sorting *s)
{
    s->main = NOT_A_STACK;
    for (size_t i = 0; i < s->n_stacks; i++)
        if (!s->stacks[i].vision && (s->main == NOT_A_STACK || s->stacks[i].bytes > s->stacks[s->main].bytes))
            s->main = i;
}

static vram_status find_stacks(sorting *s, const vram_checkpoint *ck, vr_arena *a)
{
    *s = (sorting){ .places = VR_ARRAY(a, place, ck->n_tensors) };
    if (s->places == NULL)
        return VRAM_ENOMEM;
    for (size_t i = 0; i < ck->n_tensors; i++) {
        const vr_tensor *t = &ck->tensors[i];
        uint64_t layer = 0;
        uint32_t folder = ck->files[t->file].part;
        vr_str path;
        if (ck->n_parts != 0 && *ck->parts[folder].prefix != '\0') {
            s->places[i] = (place){ IN_FOLDER, folder };
            continue;
        }
        size_t at = split_stack(t->name, &path, &layer) ? stack_of(s, path) : NOT_A_STACK;
        s->places[i] = (place){ (uint32_t)at, (uint32_t)layer };
        if (at != NOT_A_STACK)
            s->stacks[at].bytes = vr_add_sat(s->stacks[at].bytes, t->end - t->begin);
    }
    find_main(s);
    return VRAM_OK;
}

/* A model that is understood knows where its layers are. */
static void use_known_stack(sorting *s, const char *prefix)
{
    for (size_t i = 0; prefix != NULL && i < s->n_stacks; i++) {
        vr_str path = s->stacks[i].path;
        size_t n = strlen(prefix);
        if (vr_str_starts(path, prefix) && vr_str_is((vr_str){ path.s + n, path.n - n }, "layers."))
            s->main = i;
    }
}

static part part_of_single(vr_str name)
{
    vr_str word;
    while (vr_str_split(&name, '.', &word)) {
        if (IS_ONE_OF(word, "embed_tokens", "wte", "wpe", "word_embeddings", "tok_embeddings", "embed_in",
                      "embed_positions", "position_embeddings", "embeddings", "shared", "token_embd",
                      "token_embd_norm", "position_embd", "token_types"))
            return EMBEDDINGS;
        if (IS_ONE_OF(word, "lm_head", "embed_out", "output", "score", "classifier"))
            return HEAD;
        if (IS_ONE_OF(word, "norm", "ln_f", "final_layernorm", "final_layer_norm", "final_norm",
                      "embedding_norm", "norm_f", "output_norm"))
            return FINAL_NORM;
    }
    return OTHER;
}

static uint64_t key_of(part p, uint64_t number)
{
    return (uint64_t)p << NUMBER_BITS | number;
}

static uint64_t key_of_tensor(const sorting *s, const vram_checkpoint *ck, size_t i)
{
    place p = s->places[i];
    vr_str name = ck->tensors[i].name;
    if (p.stack == IN_FOLDER)
        return key_of(FOLDER, p.layer);
    if (p.stack == NOT_A_STACK)
        return key_of(vr_name_is_vision(name) ? VISION : part_of_single(name), 0);
    if (s->stacks[p.stack].vision)
        return key_of(VISION, 0);
    return p.stack == s->main ? key_of(LAYER, p.layer) : key_of(SIDE_STACK, p.stack);
}

/* "encoder.block." to "encoder"; a path of one word stays. */
static vr_str name_of_stack(vr_str path)
{
    size_t n = path.n - 1;
    while (n > 0 && path.s[n - 1] != '.')
        n--;
    return (vr_str){ path.s, n > 1 ? n - 1 : path.n - 1 };
}

static const char *name_of(const sorting *s, const vram_checkpoint *ck, uint64_t key, vr_arena *a)
{
    static const char *const names[] = { "embeddings",   NULL, "final norm", "head",
                                         "vision tower", NULL, "other",      NULL };
    part p = (part)(key >> NUMBER_BITS);
    uint64_t number = key & UINT32_MAX;
    if (p == FOLDER)
        return ck->parts[number].name;
    if (p == LAYER)
        return vr_text(a, T("layer "), U(number));
    return p == SIDE_STACK ? vr_arena_copy(a, name_of_stack(s->stacks[number].path)) : names[p];
}

/* Sums kept in an array, found again by their key's bytes. */
typedef struct sums {
    vr_arena *a;
    vr_map by_key;
    sum *all;
    size_t n, room;
    uint32_t last;
} sums;

static vram_status sum_for(sums *s, uint64_t key, sum **out)
{
    char bytes[sizeof key];
    memcpy(bytes, &key, sizeof key);
    vr_str k = { bytes, sizeof key };
    if (s->n != 0 && s->all[s->last].key == key) {
        *out = &s->all[s->last];
        return VRAM_OK;
    }
    if (!vr_map_get(&s->by_key, k, &s->last)) {
        bool was_there;
        uint32_t old;
        if (s->n == s->room) {
            s->room = s->room != 0 ? 2 * s->room : 64;
            s->all = vr_arena_grow(s->a, s->all, s->n, s->room, sizeof *s->all);
        }
        k.s = vr_arena_copy(s->a, k);
        if (s->all == NULL || k.s == NULL)
            return VRAM_ENOMEM;
        s->last = (uint32_t)s->n++;
        s->all[s->last] = (sum){ .key = key };
        VR_TRY(vr_map_put(&s->by_key, k, s->last, &was_there, &old));
    }
    *out = &s->all[s->last];
    return VRAM_OK;
}

static bool by_key(void *ud, const void *x, const void *y)
{
    (void)ud;
    return ((const sum *)x)->key < ((const sum *)y)->key;
}

static vr_dtype most_of(const uint64_t *in_dtype)
{
    size_t most = 0;
    for (size_t i = 1; i < VR_DTYPE_COUNT; i++)
        most = in_dtype[i] > in_dtype[most] ? i : most;
    return (vr_dtype)most;
}

static vram_status sum_up(sums *s, const sorting *sorted, const vram_model *m)
{
    const vram_checkpoint *ck = m->checkpoint;
    for (size_t i = 0; i < ck->n_tensors; i++) {
        const vr_tensor *t = &ck->tensors[i];
        sum *to;
        VR_TRY(sum_for(s, key_of_tensor(sorted, ck, i), &to));
        to->c.bytes = vr_add_sat(to->c.bytes, t->end - t->begin);
        to->c.elements = vr_add_sat(to->c.elements, m->packing.parameters[i]);
        to->c.n_tensors++;
        to->in_dtype[t->dtype] = vr_add_sat(to->in_dtype[t->dtype], t->end - t->begin);
    }
    return vr_sort(ck->ctx, s->all, s->n, sizeof *s->all, by_key, NULL);
}

vram_status vr_model_components(const vram_model *m, vr_arena *a, vr_component **out, size_t *n)
{
    sorting sorted;
    sums s = { .a = a };
    VR_TRY(find_stacks(&sorted, m->checkpoint, a));
    use_known_stack(&sorted, m->prefix);
    VR_TRY(vr_map_init(&s.by_key, a, 64, 0));
    VR_TRY(sum_up(&s, &sorted, m));
    vr_component *list = VR_ARRAY(a, vr_component, s.n);
    if (list == NULL)
        return VRAM_ENOMEM;
    for (size_t i = 0; i < s.n; i++) {
        list[i] = s.all[i].c;
        list[i].dtype = most_of(s.all[i].in_dtype);
        list[i].name = name_of(&sorted, m->checkpoint, s.all[i].key, a);
        list[i].layer = s.all[i].key >> NUMBER_BITS == LAYER ? s.all[i].key & UINT32_MAX : UINT64_MAX;
        if (list[i].name == NULL)
            return VRAM_ENOMEM;
    }
    *out = list;
    *n = s.n;
    return VRAM_OK;
}
