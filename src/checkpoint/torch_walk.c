/* SPDX-License-Identifier: MIT
 * From a pickle's result to named tensors. Keys and indices are joined by '.'; an nn.Module gives the names
 * that its state_dict() has.
 *
 * What counts: a training checkpoint holds the model beside optimizer states, averages of its weights and so
 * on. Whoever asks what the model takes means its weights, so where one of the usual keys has them, its
 * tensors are the checkpoint's, without that key in their names, and each other entry is only named in a
 * warning, with its bytes. Without such a key every tensor counts, but those below the usual names of other
 * things, unless there is nothing else.
 *
 * Source: keys, Lightning (state_dict), PyTorch's tutorials (model_state_dict), DeepSpeed (module), timm,
 * Megatron, Ultralytics (model, ema), BasicSR (params_ema, params); PyTorch 2.15, torch/_utils.py,
 * torch/_tensor.py (arguments of the functions), torch/nn/modules/module.py (_save_to_state_dict).
 *
 * A value may be reached in many ways, and contain itself: what is open is not entered again, and the steps
 * are bounded by the number of values. */
#include "checkpoint/torch.h"

#include <string.h>

#define MAX_DEPTH 64
#define WARNED 8

static const char *const weight_keys[] = { "state_dict", "model_state_dict", "module", "model",
                                           "params_ema", "params",           "ema" };

static const struct {
    const char *key, *what;
} other_keys[] = {
    { "optimizer", "optimizer states" },
    { "optimizer_state_dict", "optimizer states" },
    { "optimizer_states", "optimizer states" },
    { "optim", "optimizer states" },
    { "optim_state_dict", "optimizer states" },
    { "opt", "optimizer states" },
    { "ema", "averaged weights" },
    { "ema_state_dict", "averaged weights" },
    { "model_ema", "averaged weights" },
    { "state_dict_ema", "averaged weights" },
    { "lr_scheduler", "the state of a scheduler" },
    { "lr_schedulers", "the state of a scheduler" },
    { "scheduler", "the state of a scheduler" },
    { "scheduler_state_dict", "the state of a scheduler" },
    { "rng_state", "the state of a random generator" },
    { "cuda_rng_state", "the state of a random generator" },
    { "callbacks", "states of callbacks" },
    { "loops", "states of loops" },
    { "scaler", "the state of a scaler" },
};

typedef struct walk {
    vr_torch *t;
    vr_torch_place to;
    char name[VR_TORCH_NAME_MOST];
    unsigned depth;
    uint64_t steps, name_bytes;
} walk;

static vram_status visit(walk *w, vr_pickled *v);

/* Whatever takes time that the pickle's length does not bound. */
static vram_status spend(walk *w, const vr_pickled *v, uint64_t steps)
{
    w->steps += steps;
    if (w->steps <= 8 * (uint64_t)w->t->pickle.n_values + 64 &&
        w->name_bytes <= 16 * (uint64_t)w->t->pickle.n + VR_MIB)
        return VRAM_OK;
    return VR_TORCH_BAD(w->t, v, VRAM_ELIMIT,
                        T("the pickle's values refer to each other so often that it cannot be followed"));
}

static vram_status deeper(walk *w, const vr_pickled *v)
{
    if (w->depth == MAX_DEPTH)
        return VR_TORCH_BAD(w->t, v, VRAM_ELIMIT, T("the pickle's values are nested over "), U(MAX_DEPTH),
                            T(" deep"));
    w->depth++;
    return VRAM_OK;
}

static bool has_inside(const vr_pickled *v)
{
    return v->kind >= VR_PICKLED_LIST && v->kind != VR_PICKLED_GLOBAL;
}

/* ---- names ---- */

static vram_status too_long(const walk *w, const vr_pickled *v)
{
    return VR_TORCH_BAD(w->t, v, VRAM_ELIMIT, T("a name in the pickle has over "), U(VR_TORCH_NAME_MOST),
                        T(" bytes"));
}

static vram_status name_add(walk *w, const vr_pickled *v, vr_str part)
{
    size_t dot = w->to.name.n > 0;
    if (part.n > sizeof(w->name) - w->to.name.n - dot)
        return too_long(w, v);
    if (dot)
        w->name[w->to.name.n++] = '.';
    if (part.n > 0)
        memcpy(w->name + w->to.name.n, part.s, part.n);
    w->to.name.n += part.n;
    return VRAM_OK;
}

static vr_str digits(uint64_t u, char out[20])
{
    size_t at = 20;
    do
        out[--at] = (char)('0' + u % 10);
    while ((u /= 10) != 0);
    return (vr_str){ out + at, 20 - at };
}

/* Visits v under one more part of the name. */
static vram_status visit_part(walk *w, vr_pickled *v, vr_str part)
{
    size_t n = w->to.name.n;
    VR_TRY(spend(w, v, 1));
    if (!has_inside(v))
        return VRAM_OK;
    VR_TRY(name_add(w, v, part));
    VR_TRY(visit(w, v));
    w->to.name.n = n;
    return VRAM_OK;
}

static vram_status visit_key(walk *w, const vr_pickled *key, vr_pickled *v)
{
    char number[20];
    uint64_t u = 0;
    if (key->kind == VR_PICKLED_TEXT)
        return visit_part(w, v, vr_pickled_text(key));
    return visit_part(w, v, vr_pickled_u64(key, &u) ? digits(u, number) : VR_LIT("?"));
}

/* ---- containers ---- */

static vram_status visit_pairs(walk *w, const vr_pickled *v)
{
    for (uint32_t i = 0; i + 1 < v->n; i += 2)
        VR_TRY(visit_key(w, v->u.items[i], v->u.items[i + 1]));
    return VRAM_OK;
}

static vram_status visit_row(walk *w, const vr_pickled *v)
{
    char number[20];
    for (uint32_t i = 0; i < v->n; i++)
        VR_TRY(visit_part(w, v->u.items[i], digits(i, number)));
    return VRAM_OK;
}

static vram_status visit_items(walk *w, const vr_pickled *v)
{
    return v->pairs ? visit_pairs(w, v) : visit_row(w, v);
}

static bool is_row(const vr_pickled *v)
{
    return v->kind == VR_PICKLED_LIST || v->kind == VR_PICKLED_TUPLE;
}

/* The arguments' number i, or None's stand-in: NULL. */
static vr_pickled *argument(const vr_pickled *args, uint32_t i)
{
    return is_row(args) && i < args->n ? args->u.items[i] : NULL;
}

/* OrderedDict([[key, value], ...]), as Python 2 wrote it */
static vram_status visit_rows_of_two(walk *w, const vr_pickled *rows)
{
    if (rows == NULL || !is_row(rows))
        return VRAM_OK;
    VR_TRY(spend(w, rows, rows->n));
    for (uint32_t i = 0; i < rows->n; i++) {
        const vr_pickled *row = rows->u.items[i];
        if (is_row(row) && row->n == 2)
            VR_TRY(visit_key(w, row->u.items[0], row->u.items[1]));
    }
    return VRAM_OK;
}

/* ---- objects ---- */

/* What an object's __dict__ is: its state, or the first of (state, slots). */
static const vr_pickled *dict_of(const vr_pickled *state)
{
    if (state != NULL && state->kind == VR_PICKLED_TUPLE && state->n > 0)
        state = state->u.items[0];
    return state != NULL && state->pairs ? state : NULL;
}

static vr_pickled *entry(const vr_pickled *dict, const char *key)
{
    for (uint32_t i = 0; dict != NULL && dict->pairs && i + 1 < dict->n; i += 2) {
        if (vr_str_is(vr_pickled_text(dict->u.items[i]), key))
            return dict->u.items[i + 1];
    }
    return NULL;
}

/* The class of an object: the legacy form wraps it with its source text, ("module", class, file, text). */
static void known_as_module(vr_pickled *cls)
{
    if (cls != NULL && cls->kind == VR_PICKLED_PERSISTENT && cls->u.items[0]->kind == VR_PICKLED_TUPLE)
        cls = argument(cls->u.items[0], 1);
    if (cls != NULL && cls->kind == VR_PICKLED_GLOBAL && vr_torch_meaning_of(cls) == VR_TORCH_UNKNOWN)
        cls->tag = VR_TORCH_MODULE;
}

static vram_status visit_object(walk *w, const vr_pickled_call *c, vr_pickled *cls)
{
    static const char *const parts[] = { "_parameters", "_buffers", "_modules" };
    const vr_pickled *dict = dict_of(c->state);
    if (dict == NULL)
        return VRAM_OK;
    VR_TRY(spend(w, dict, dict->n)); /* it is searched */
    if (entry(dict, "_parameters") == NULL || entry(dict, "_modules") == NULL)
        return visit_pairs(w, dict);
    known_as_module(cls);
    for (size_t i = 0; i < 3; i++) {
        vr_pickled *part = entry(dict, parts[i]);
        if (part != NULL)
            VR_TRY(visit(w, part));
    }
    return VRAM_OK;
}

/* ---- tensors ---- */

static bool is_tensor(vr_pickled *v)
{
    return v->kind == VR_PICKLED_CALL &&
           vr_torch_meaning_of(vr_pickled_call_of(v)->callee) >= VR_TORCH_ARGUMENT;
}

static vram_status too_few(const walk *w, const vr_pickled *v)
{
    return VR_TORCH_BAD(w->t, v, VRAM_EFORMAT, T("tensor "), S(w->to.name),
                        T(" is described as torch.save does not do it"));
}

/* dtype: the number of its argument, 0: none. */
static vram_status visit_window(walk *w, const vr_pickled *v, const vr_pickled *args, uint32_t dtype)
{
    if (argument(args, 3) == NULL || argument(args, dtype) == NULL)
        return too_few(w, v);
    vr_torch_described d = { v,
                             args->u.items[0],
                             args->u.items[1],
                             args->u.items[2],
                             args->u.items[3],
                             dtype != 0 ? args->u.items[dtype] : NULL };
    return vr_torch_add(w->t, &w->to, &d);
}

/* An affine scheme by channel has tensors of scales and zero points: (scheme, scales, zero points, axis). */
static vram_status visit_quantized(walk *w, const vr_pickled *v, const vr_pickled *args)
{
    const vr_pickled *scheme = argument(args, 4);
    VR_TRY(visit_window(w, v, args, 0));
    if (scheme == NULL || argument(scheme, 3) == NULL)
        return VRAM_OK;
    VR_TRY(visit_part(w, scheme->u.items[1], VR_LIT("scales")));
    return visit_part(w, scheme->u.items[2], VR_LIT("zero_points"));
}

/* (layout, (indices, values, size, ...)) or (layout, (compressed, plain, values, size)) */
static vram_status visit_sparse(walk *w, const vr_pickled *v, const vr_pickled *args)
{
    static const char *const coo[] = { "indices", "values" };
    static const char *const compressed[] = { "compressed_indices", "plain_indices", "values" };
    const vr_pickled *data = argument(args, 1);
    if (data == NULL || argument(data, 2) == NULL)
        return too_few(w, v);
    bool three = is_tensor(data->u.items[2]);
    for (uint32_t i = 0; i < (three ? 3u : 2u); i++)
        VR_TRY(visit_part(w, data->u.items[i], vr_str_of(three ? compressed[i] : coo[i])));
    return VRAM_OK;
}

static vram_status visit_nested(walk *w, const vr_pickled *v, const vr_pickled *args)
{
    static const char *const parts[] = { "buffer", "sizes", "strides", "offsets" };
    if (argument(args, 3) == NULL)
        return too_few(w, v);
    for (uint32_t i = 0; i < 4; i++)
        VR_TRY(visit_part(w, args->u.items[i], vr_str_of(parts[i])));
    return VRAM_OK;
}

/* A storage by itself, torch.UntypedStorage in a dictionary: as a row of its elements. */
static vram_status visit_storage(walk *w, vr_pickled *v)
{
    const vr_torch_storage *storage = vr_torch_storage_of(w->t, v);
    if (storage == NULL)
        return VRAM_OK;
    vr_pickled zero = { .kind = VR_PICKLED_INT }, one = { .kind = VR_PICKLED_INT, .u.i = 1 }, n = one;
    vr_pickled *sizes = &n, *strides = &one;
    uint64_t width = storage->dtype == VR_DTYPE_NONE ? 1 : vr_dtype_block_bytes((vr_dtype)storage->dtype);
    n.u.i = (int64_t)(storage->bytes / width * vr_dtype_block((vr_dtype)storage->dtype));
    vr_pickled size = { .kind = VR_PICKLED_TUPLE, .n = 1, .u.items = &sizes };
    vr_pickled stride = { .kind = VR_PICKLED_TUPLE, .n = 1, .u.items = &strides };
    vr_torch_described d = { v, v, &zero, &size, &stride, NULL };
    return vr_torch_add(w->t, &w->to, &d);
}

/* ---- calls ---- */

static vram_status visit_dict(walk *w, const vr_pickled_call *c)
{
    VR_TRY(visit_rows_of_two(w, argument(c->args, 0)));
    return visit_items(w, &c->value);
}

static vram_status visit_list(walk *w, const vr_pickled_call *c)
{
    const vr_pickled *rows = argument(c->args, 0);
    if (rows != NULL && is_row(rows))
        VR_TRY(visit_row(w, rows));
    return visit_items(w, &c->value);
}

static vram_status visit_call(walk *w, const vr_pickled_call *c);

/* (function, class, arguments, state): what the function makes, and what the state holds. */
static vram_status visit_from_type(walk *w, const vr_pickled_call *c)
{
    if (argument(c->args, 3) == NULL)
        return too_few(w, &c->value);
    vr_pickled_call made = { c->value, c->args->u.items[0], c->args->u.items[2], NULL };
    known_as_module(c->args->u.items[1]); /* the class of a tensor, no less understood */
    VR_TRY(deeper(w, &c->value));         /* it may be made of its own kind */
    VR_TRY(visit_call(w, &made));
    w->depth--;
    const vr_pickled *dict = dict_of(c->args->u.items[3]);
    return dict == NULL ? VRAM_OK : visit_pairs(w, dict);
}

static vram_status visit_first(walk *w, const vr_pickled_call *c)
{
    vr_pickled *first = argument(c->args, 0);
    return first == NULL ? VRAM_OK : visit(w, first);
}

static vram_status visit_call(walk *w, const vr_pickled_call *c)
{
    switch (vr_torch_meaning_of(c->callee)) {
    case VR_TORCH_TENSOR:
        return visit_window(w, &c->value, c->args, 0);
    case VR_TORCH_TENSOR_V3:
        return visit_window(w, &c->value, c->args, 6);
    case VR_TORCH_QTENSOR:
        return visit_quantized(w, &c->value, c->args);
    case VR_TORCH_SPARSE:
        return visit_sparse(w, &c->value, c->args);
    case VR_TORCH_NESTED:
        return visit_nested(w, &c->value, c->args);
    case VR_TORCH_META:
        w->t->n_meta++;
        return VRAM_OK;
    case VR_TORCH_FROM_TYPE:
        return visit_from_type(w, c);
    case VR_TORCH_ARGUMENT:
        return visit_first(w, c);
    case VR_TORCH_DICT:
        return visit_dict(w, c);
    case VR_TORCH_LIST:
        return visit_list(w, c);
    case VR_TORCH_OBJECT:
        return visit_object(w, c, argument(c->args, 0));
    default:
        VR_TRY(visit_object(w, c, c->callee));
        return visit_items(w, &c->value);
    }
}

static vram_status visit_inside(walk *w, vr_pickled *v)
{
    switch ((vr_pickled_kind)v->kind) {
    case VR_PICKLED_LIST:
    case VR_PICKLED_TUPLE:
    case VR_PICKLED_DICT:
        return visit_items(w, v);
    case VR_PICKLED_CALL:
        return visit_call(w, vr_pickled_call_of(v));
    default:
        return visit_storage(w, v);
    }
}

static vram_status visit(walk *w, vr_pickled *v)
{
    w->name_bytes += w->to.name.n;
    VR_TRY(spend(w, v, 1));
    if (!has_inside(v) || v->open)
        return VRAM_OK;
    VR_TRY(deeper(w, v));
    v->open = true;
    vram_status s = visit_inside(w, v);
    w->depth--;
    v->open = false;
    return s;
}

/* ---- the model's weights among the rest ---- */

/* A dictionary, also one that a class made. */
static const vr_pickled *pairs_of(const vr_pickled *v)
{
    return v->pairs && v->n > 0 ? v : NULL;
}

static const char *other_what(vr_str key)
{
    for (size_t i = 0; i < sizeof(other_keys) / sizeof(other_keys[0]); i++) {
        if (vr_str_is(key, other_keys[i].key))
            return other_keys[i].what;
    }
    return NULL;
}

/* The first of the usual keys that has tensors below it; NULL: none. */
static vram_status find_weights(walk *w, const vr_pickled *root, const vr_pickled **found)
{
    *found = NULL;
    for (size_t i = 0; i < sizeof(weight_keys) / sizeof(weight_keys[0]); i++) {
        vr_pickled *v = entry(root, weight_keys[i]);
        if (v == NULL || is_tensor(v))
            continue;
        w->t->n_meta = 0;
        VR_TRY(visit(w, v));
        if (w->t->n_tensors > 0) {
            *found = v;
            return VRAM_OK;
        }
    }
    return VRAM_OK;
}

static vram_status warn_other(walk *w, vr_str key)
{
    const char *what = other_what(key);
    return vr_warn(w->t->ck->ctx, w->t->pickle.file, T("holds "),
                   T(what == NULL ? "more than weights" : what), T(", not counted: "), S(key), T(" with "),
                   GROUPED(w->to.n_other), T(w->to.n_other == 1 ? " tensor of " : " tensors of "),
                   GROUPED(w->to.other_bytes), vr_bytes_word(w->to.other_bytes));
}

/* An entry beside the weights: counted, and told. */
static vram_status visit_other(walk *w, const vr_pickled *key, vr_pickled *v, unsigned *told)
{
    w->to.n_other = w->to.other_bytes = 0;
    w->to.other = true;
    VR_TRY(visit_key(w, key, v));
    w->to.other = false;
    if (w->to.n_other == 0 || ++*told > WARNED)
        return VRAM_OK;
    return warn_other(w, key->kind == VR_PICKLED_TEXT ? vr_pickled_text(key) : VR_LIT("?"));
}

/* all: whatever the key says */
static vram_status visit_entries(walk *w, const vr_pickled *root, bool all)
{
    w->t->n_meta = 0;
    for (uint32_t i = 0; i + 1 < root->n; i += 2) {
        vr_pickled *v = root->u.items[i + 1];
        if (all || is_tensor(v) || other_what(vr_pickled_text(root->u.items[i])) == NULL)
            VR_TRY(visit_key(w, root->u.items[i], v));
    }
    return VRAM_OK;
}

static vram_status visit_others(walk *w, const vr_pickled *root, const vr_pickled *weights)
{
    unsigned told = 0;
    for (uint32_t i = 0; i + 1 < root->n; i += 2) {
        vr_pickled *v = root->u.items[i + 1];
        bool other = weights != NULL ? v != weights
                                     : !is_tensor(v) && other_what(vr_pickled_text(root->u.items[i])) != NULL;
        if (other)
            VR_TRY(visit_other(w, root->u.items[i], v, &told));
    }
    if (told <= WARNED)
        return VRAM_OK;
    return vr_warn(w->t->ck->ctx, w->t->pickle.file, T("holds "), U(told - WARNED),
                   T(" more entries with tensors, not counted"));
}

/* {"optimizer_state_dict": ...} and no more */
static vram_status visit_no_weights(walk *w, const vr_pickled *root)
{
    VR_TRY(visit_entries(w, root, true));
    if (w->t->n_tensors == 0)
        return VRAM_OK;
    return vr_warn(w->t->ck->ctx, w->t->pickle.file,
                   T("holds no weights of a model, by the names of its entries; what it has is counted"));
}

static vram_status visit_root(walk *w, vr_pickled *root)
{
    const vr_pickled *dict = pairs_of(root), *weights = NULL;
    if (is_tensor(root))
        return visit_part(w, root, VR_LIT("tensor"));
    if (dict == NULL)
        return visit(w, root);
    root->open = true; /* for good: it may contain itself */
    VR_TRY(find_weights(w, dict, &weights));
    if (weights == NULL)
        VR_TRY(visit_entries(w, dict, false));
    if (w->t->n_tensors == 0)
        return visit_no_weights(w, dict);
    return visit_others(w, dict, weights);
}

static vram_status warn_rest(vr_torch *t)
{
    uint64_t n = 0, bytes = 0;
    for (size_t i = 0; i < t->n_storages; i++) {
        bool used = t->storages[i].weights || t->storages[i].other;
        n += !used;
        bytes += used ? 0 : t->storages[i].bytes;
    }
    if (n > 0)
        VR_TRY(vr_warn(t->ck->ctx, t->pickle.file, T("holds "), GROUPED(bytes), vr_bytes_word(bytes),
                       T(" in "), GROUPED(n), T(n == 1 ? " storage" : " storages"),
                       T(" that no tensor of it was found to use, not counted")));
    if (t->n_meta > 0)
        VR_TRY(vr_warn(t->ck->ctx, t->pickle.file, GROUPED(t->n_meta),
                       T(t->n_meta == 1 ? " tensor is" : " tensors are"),
                       T(" on the meta device, without data")));
    return VRAM_OK;
}

vram_status vr_torch_walk(vr_torch *t)
{
    walk *w = VR_NEW(&t->arena, walk);
    if (w == NULL)
        return VRAM_ENOMEM;
    w->t = t;
    w->to.name.s = w->name;
    VR_TRY(visit_root(w, t->pickle.result));
    if (entry(t->pickle.result, "param_groups") != NULL && entry(t->pickle.result, "state") != NULL)
        VR_TRY(vr_warn(t->ck->ctx, t->pickle.file,
                       T("this is the state of an optimizer, not the weights of a model")));
    return warn_rest(t);
}

/* ---- what was not understood ---- */

static bool told_before(vr_pickled *const *told, size_t n, const vr_pickled *v)
{
    for (size_t i = 0; i < n; i++) {
        if (vr_str_eq(vr_pickled_text(told[i]->u.items[0]), vr_pickled_text(v->u.items[0])) &&
            vr_str_eq(vr_pickled_text(told[i]->u.items[1]), vr_pickled_text(v->u.items[1])))
            return true;
    }
    return false;
}

vram_status vr_torch_warn_unknown(vr_torch *t, const vr_pickled **first)
{
    vr_pickled *told[WARNED];
    size_t n = 0, more = 0;
    for (size_t i = 0; i < t->pickle.globals.n; i++) {
        vr_pickled *v = t->pickle.globals.p[i];
        if (vr_torch_meaning_of(v) != VR_TORCH_UNKNOWN || told_before(told, n, v))
            continue;
        if (n == WARNED) {
            more++;
            continue;
        }
        told[n++] = v;
        VR_TRY(vr_warn(t->ck->ctx, t->pickle.file, T("refers to "), S(vr_pickled_text(v->u.items[0])), T("."),
                       S(vr_pickled_text(v->u.items[1])), T(": not executed, not understood")));
    }
    *first = n > 0 ? told[0] : NULL;
    if (more == 0)
        return VRAM_OK;
    return vr_warn(t->ck->ctx, t->pickle.file,
                   T("refers to more classes or functions that are not understood, "), GROUPED(more),
                   T(" times"));
}
