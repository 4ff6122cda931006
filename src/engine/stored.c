/* SPDX-License-Identifier: MIT
 * What a class declares, held against what the checkpoint has. from_pretrained refuses a parameter of another
 * shape ("size mismatch", ignore_mismatched_sizes=False: transformers 4.57 modeling_utils.py and torch's
 * load_state_dict, 5.24 core_model_loading.py and utils/loading_report.py), makes anew what is not stored and
 * leaves out what is not declared. Where that concerns more than trifles, config.json and the tensors are not
 * of one model, and no figure of that class is true. */
#include <string.h>

#include "engine/loading.h"

#define TRIFLE 100 /* up to a hundredth of the bytes may be left out */

typedef struct review {
    const vram_model *m;
    const vram_checkpoint *ck;
    vr_params *params;
    vr_arena *a;
    bool *declared; /* of the checkpoint's tensors */
} review;

static vram_status refuse(const review *r, const char *why)
{
    if (why == NULL)
        return VRAM_ENOMEM;
    if (r->params->refused == NULL)
        r->params->refused = why;
    return VRAM_OK;
}

/* ---- shapes and dtypes ---- */

static const char *dims_in_words(const uint64_t *dims, unsigned n, vr_arena *a)
{
    const char *text = "[";
    for (unsigned i = 0; i < n && text != NULL; i++)
        text = vr_text(a, T(text), T(i == 0 ? "" : ", "), U(dims[i]));
    return text == NULL ? NULL : vr_text(a, T(text), T("]"));
}

static bool same_shape(const uint64_t *dims, unsigned n, const vr_tensor *t)
{
    return t->n_dims == n && memcmp(t->dims, dims, n * sizeof(*dims)) == 0;
}

/* What is converted to the load dtype when it comes in. */
static bool plain_floating(const vr_tensor *t)
{
    vr_dtype d = (vr_dtype)t->dtype;
    return vr_dtype_floating(d) && vr_dtype_bits(d) >= 16 && d != VR_C64;
}

static const char *other_dtype(const review *r, const vr_tensor *t)
{
    return vr_text(r->a, S(t->name), T(" in "), T(r->ck->files[t->file].name), T(" is "),
                   T(vr_dtype_name((vr_dtype)t->dtype)), T(", where "), T(r->m->family->class_name),
                   T(" has a parameter of floating numbers"));
}

static const char *other_shape(const review *r, const vr_tensor *t, const uint64_t *dims, unsigned n)
{
    const char *stored = dims_in_words(t->dims, t->n_dims, r->a), *wanted = dims_in_words(dims, n, r->a);
    if (stored == NULL || wanted == NULL)
        return NULL;
    return vr_text(r->a, S(t->name), T(" in "), T(r->ck->files[t->file].name), T(" is "), T(stored),
                   T(", by config.json it is "), T(wanted), T(": a size mismatch, which is not loaded"));
}

static vram_status check_stored(const review *r, const vr_tensor *t, const uint64_t *dims, unsigned n)
{
    if (!same_shape(dims, n, t))
        return refuse(r, other_shape(r, t, dims, n));
    return plain_floating(t) ? VRAM_OK : refuse(r, other_dtype(r, t));
}

static vram_status check_declared(const review *r)
{
    const vr_tensor *head = vr_checkpoint_find(r->ck, vr_str_of(r->m->head_name));
    for (size_t i = 0; i < r->m->n_declared && r->params->refused == NULL; i++) {
        const vr_declared *d = &r->m->declared[i];
        if (vr_param_is_stored(d->kind) && d->tensor != NULL)
            VR_TRY(check_stored(r, d->tensor, d->dims, d->n_dims));
    }
    if (r->m->tied && head != NULL && r->params->refused == NULL)
        return check_stored(r, head, (const uint64_t[]){ r->m->vocab, r->m->hidden }, 2);
    return VRAM_OK;
}

/* ---- what is not there ---- */

static vram_status check_missing(const review *r)
{
    size_t n = 0, matrices = 0;
    vr_str first = { NULL, 0 };
    for (size_t i = 0; i < r->m->n_declared; i++) {
        const vr_declared *d = &r->m->declared[i];
        if (!vr_param_is_stored(d->kind) || d->tensor != NULL)
            continue;
        if (n++ == 0 || (d->n_dims > 1 && matrices == 0))
            first = d->name;
        matrices += d->n_dims > 1;
    }
    if (n == 0 || r->ck->incomplete || r->ck->n_tensors == 0)
        return VRAM_OK;
    r->params->n_anew = n;
    const vr_piece words[] = { GROUPED(n),
                               T(n == 1 ? " tensor of " : " tensors of "),
                               T(r->m->family->class_name),
                               T(n == 1 ? " is" : " are"),
                               T(" not in the checkpoint and "),
                               T(n == 1 ? "is" : "are"),
                               T(" made anew: "),
                               S(first),
                               T(n == 1 ? "" : " and others") };
    VR_TRY(vr_warn_pieces(r->m->ctx, NULL, words, sizeof(words) / sizeof(words[0])));
    return matrices == 0 ? VRAM_OK : refuse(r, vr_text_pieces(r->a, words, sizeof(words) / sizeof(words[0])));
}

/* ---- what is not declared ---- */

/* "layers.28." with 28 from the model's number on: layers that predict further tokens, when config.json has
 * any. */
static bool predicts_more(const vram_model *m, vr_str name)
{
    size_t n = strlen(m->prefix);
    vr_str word, rest = name;
    uint64_t layer;
    while (vr_str_split(&rest, '.', &word)) {
        if (vr_str_starts(word, "mtp"))
            return true;
    }
    if (!vr_str_starts(name, m->prefix))
        return false;
    rest = (vr_str){ name.s + n, name.n - n };
    return vr_str_split(&rest, '.', &word) && vr_str_is(word, "layers") && vr_str_split(&rest, '.', &word) &&
           vr_parse_u64(word, &layer) && layer >= m->n_layers && layer - m->n_layers < m->n_predict_layers;
}

/* Recomputed, or the second copy of a tied head: nobody misses these. */
static bool silently_dropped(const vram_model *m, vr_str name)
{
    return vr_str_ends(name, "rotary_emb.inv_freq") || (m->tied && vr_str_is(name, m->head_name));
}

/* A class around the decoder declares what stands beside it. */
static bool beside_decoder(const vram_model *m, vr_str name)
{
    return m->uncounted_part != NULL && !vr_str_starts(name, m->prefix);
}

typedef struct left_out {
    size_t n;
    uint64_t bytes; /* of those that no class of this kind would have */
    vr_str first;
} left_out;

static void sort_out(const review *r, left_out *out)
{
    for (size_t i = 0; i < r->ck->n_tensors; i++) {
        const vr_tensor *t = &r->ck->tensors[i];
        if (r->declared[i] || silently_dropped(r->m, t->name))
            continue;
        if (beside_decoder(r->m, t->name)) {
            r->params->others[r->params->n_others++] = t;
            continue;
        }
        if (out->n++ == 0)
            out->first = t->name;
        if (!predicts_more(r->m, t->name))
            out->bytes = vr_add_sat(out->bytes, t->end - t->begin);
    }
}

static vram_status check_left_out(const review *r)
{
    left_out out = { .n = 0 };
    sort_out(r, &out);
    if (out.n == 0)
        return VRAM_OK;
    const vr_piece words[] = { GROUPED(out.n),
                               T(out.n == 1 ? " tensor" : " tensors"),
                               T(" of the checkpoint "),
                               T(out.n == 1 ? "is" : "are"),
                               T(" not part of "),
                               T(r->m->family->class_name),
                               T(" and "),
                               T(out.n == 1 ? "is" : "are"),
                               T(" not loaded: "),
                               S(out.first),
                               T(out.n == 1 ? "" : " and others") };
    VR_TRY(vr_warn_pieces(r->m->ctx, NULL, words, sizeof(words) / sizeof(words[0])));
    if (out.bytes <= r->ck->tensor_bytes / TRIFLE)
        return VRAM_OK;
    return refuse(r, vr_text(r->a, T("the checkpoint is not of "), T(r->m->family->class_name), T(": "),
                             BYTES(out.bytes), T(" of its "), BYTES(r->ck->tensor_bytes),
                             T(" are no part of that class, such as "), S(out.first)));
}

/* ---- in order ---- */

static bool name_before(void *ud, const void *x, const void *y)
{
    const vr_tensor *const *a = x, *const *b = y;
    (void)ud;
    return vr_natural_before((*a)->name, (*b)->name);
}

vram_status vr_tensors_in_order(const vr_tensor ***out, const vram_model *m, vr_arena *a)
{
    const vram_checkpoint *ck = m->checkpoint;
    const vr_tensor **list = VR_ARRAY(a, const vr_tensor *, ck->n_tensors);
    if (list == NULL)
        return VRAM_ENOMEM;
    for (size_t i = 0; i < ck->n_tensors; i++)
        list[i] = &ck->tensors[i];
    *out = list;
    return vr_sort(m->ctx, list, ck->n_tensors, sizeof(*list), name_before, NULL);
}

vram_status vr_params_review(vr_params *params, const vram_model *m, vr_arena *a)
{
    const vram_checkpoint *ck = m->checkpoint;
    review r = { .m = m, .ck = ck, .params = params, .a = a, .declared = VR_ARRAY(a, bool, ck->n_tensors) };
    params->others = m->uncounted_part != NULL ? VR_ARRAY(a, const vr_tensor *, ck->n_tensors) : NULL;
    if (r.declared == NULL || (m->uncounted_part != NULL && params->others == NULL))
        return VRAM_ENOMEM;
    for (size_t i = 0; i < m->n_declared; i++) {
        if (m->declared[i].tensor != NULL)
            r.declared[m->declared[i].tensor - ck->tensors] = true;
    }
    params->refused = m->contradicted;
    VR_TRY(check_declared(&r));
    VR_TRY(check_missing(&r));
    VR_TRY(check_left_out(&r));
    return params->n_others == 0 ? VRAM_OK
                                 : vr_sort(m->ctx, params->others, params->n_others, sizeof(*params->others),
                                           name_before, NULL);
}
