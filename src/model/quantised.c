/* SPDX-License-Identifier: MIT
 * Which tensors of a checkpoint are quantised matrices, which belong to them, and how many parameters all
 * stand for. The tensors' names, types and shapes decide (layouts.c); what config.json says is held against
 * them, and fills in what shapes cannot tell. Contradictions are warnings: the bytes are right whatever the
 * tensors mean. */
#include "model/quantised.h"

#include "model/layouts.h"
#include "model/quant_config.h"
#include "model/reading.h"

#define NO_LAYOUT UINT8_MAX
#define MOST_LAYOUTS 64
#define ROW_PADDING 32 /* a row of packed weights may end in a word that is not full */

/* What is summed up of one layout. */
typedef struct tally {
    uint64_t bytes;
    uint64_t bits_low, bits_high, group_size;
    uint8_t grouping;
    bool any;
} tally;

typedef struct packing {
    vram_model *m;
    vr_quantised *q;
    const vram_checkpoint *ck;
    vr_quant_config config;
    const vr_layout *layouts;
    size_t n_layouts;
    tally sums[MOST_LAYOUTS];
    vr_map words;                   /* what stands behind the last dot of names */
    uint8_t possible[MOST_LAYOUTS]; /* rows that something here can be of */
    size_t n_possible;
    uint32_t sides[MOST_LAYOUTS]; /* of each, a bit: some tensor may end so */
    char *name;                   /* room for a name and a suffix */
    vr_map declared;              /* what the class declares, by the checkpoint's names */
    size_t n_contradicted, n_unlike;
    vr_str contradicted, unlike;   /* the first of each */
    uint64_t stands_for, expected; /* of the first unlike one */
} packing;

/* ---- one tensor ---- */

static vr_str stem_of(vr_str name, const char *suffix)
{
    return (vr_str){ name.s, name.n - strlen(suffix) };
}

static const vr_tensor *beside(const packing *w, vr_str stem, const char *suffix)
{
    size_t n = strlen(suffix);
    memcpy(w->name, stem.s, stem.n);
    memcpy(w->name + stem.n, suffix, n);
    return vr_checkpoint_find(w->ck, (vr_str){ w->name, stem.n + n });
}

static bool look_beside(const packing *w, vr_pack *p, uint32_t sides, vr_str stem)
{
    for (size_t i = 0; i < VR_MOST_SIDES && p->layout->sides[i] != NULL; i++) {
        p->side[i] = (sides >> i & 1) != 0 ? beside(w, stem, p->layout->sides[i]) : NULL;
        if (i == 0 && (p->side[0] == NULL || p->side[0] == p->packed))
            return false;
    }
    return true;
}

/* *fits: the tensor is the packed one of a matrix in this layout, which is measured then. */
static bool is_of(const packing *w, vr_pack *p, size_t layout, const vr_tensor *t)
{
    const vr_layout *l = &w->layouts[layout];
    if ((l->dtypes >> t->dtype & 1) == 0 || !vr_str_ends(t->name, l->packed))
        return false; /* most of 90,000 tensors times all layouts: nothing is made for them */
    *p = (vr_pack){ .layout = l, .packed = t };
    vr_str stem = stem_of(t->name, l->packed);
    if (!look_beside(w, p, w->sides[layout], stem))
        return false;
    vr_quant_of(&w->config, stem, &p->config_bits, &p->config_group);
    return l->measure(p);
}

/* ---- which layouts there can be ---- */

static vr_str last_word(vr_str name)
{
    size_t n = name.n;
    while (n > 0 && name.s[n - 1] != '.')
        n--;
    return (vr_str){ name.s + n, name.n - n };
}

static vram_status list_words(packing *w)
{
    VR_TRY(vr_map_init(&w->words, &w->m->arena, 0, 0));
    for (size_t i = 0; i < w->ck->n_tensors; i++) {
        bool was_there;
        uint32_t old;
        VR_TRY(vr_map_put(&w->words, last_word(w->ck->tensors[i].name), 0, &was_there, &old));
    }
    return VRAM_OK;
}

/* False: no tensor's name ends so. */
static bool may_end(const packing *w, const char *suffix)
{
    vr_str word = last_word(vr_str_of(suffix));
    uint32_t found;
    return word.s == suffix || vr_map_get(&w->words, word, &found); /* without a dot: the end of a word */
}

/* 90,000 tensors end in few words: all but two or three layouts, and most of what could lie beside a matrix,
 * are out of the question before the first tensor is looked at. */
static vram_status find_possible(packing *w)
{
    VR_TRY(list_words(w));
    for (size_t k = 0; k < w->n_layouts && k < MOST_LAYOUTS; k++) {
        const vr_layout *l = &w->layouts[k];
        if (!may_end(w, l->packed) || (l->sides[0] != NULL && !may_end(w, l->sides[0])))
            continue;
        w->possible[w->n_possible++] = (uint8_t)k;
        for (size_t i = 0; i < VR_MOST_SIDES && l->sides[i] != NULL; i++)
            w->sides[k] |= (uint32_t)may_end(w, l->sides[i]) << i;
    }
    return VRAM_OK;
}

/* ---- what a tensor is ---- */

static void add_to(tally *sum, const vr_pack *p)
{
    sum->bytes = vr_add_sat(sum->bytes, p->packed->end - p->packed->begin);
    if (!sum->any) {
        sum->bits_low = sum->bits_high = p->bits;
        sum->grouping = p->grouping;
        sum->group_size = p->group_size;
    }
    sum->any = true;
    sum->bits_low = p->bits < sum->bits_low ? p->bits : sum->bits_low;
    sum->bits_high = p->bits > sum->bits_high ? p->bits : sum->bits_high;
    if (sum->grouping != p->grouping || sum->group_size != p->group_size) {
        sum->grouping = VR_GROUPING_UNKNOWN;
        sum->group_size = 0;
    }
}

static void take(packing *w, const vr_pack *p, size_t layout)
{
    const vr_tensor *all = w->ck->tensors;
    size_t i = (size_t)(p->packed - all);
    w->q->role[i] = VR_ROLE_PACKED;
    w->q->parameters[i] = p->elements;
    w->q->layout_of[i] = (uint8_t)layout;
    for (size_t k = 0; k < VR_MOST_SIDES; k++) {
        if (p->side[k] != NULL && w->q->role[p->side[k] - all] == VR_ROLE_PLAIN) {
            w->q->role[p->side[k] - all] = VR_ROLE_SIDE;
            w->q->parameters[p->side[k] - all] = 0;
        }
    }
    if (p->contradicted && w->n_contradicted++ == 0)
        w->contradicted = p->packed->name;
    add_to(&w->sums[layout], p);
}

static void sort_out(packing *w, const vr_tensor *t)
{
    vr_pack p;
    for (size_t i = 0; i < w->n_possible; i++) {
        if (is_of(w, &p, w->possible[i], t)) {
            take(w, &p, w->possible[i]);
            return;
        }
    }
}

/* Narrow numbers, or whole ones under a weight's name, in a layout that no row has. */
static bool is_foreign(const vr_tensor *t)
{
    vr_dtype d = (vr_dtype)t->dtype;
    if (vr_dtype_floating(d))
        return vr_dtype_bits(d) < 16 && t->n_dims >= 2;
    bool whole = d == VR_U8 || d == VR_I8 || d == VR_I16 || d == VR_U16 || d == VR_I32 || d == VR_U32;
    return whole && t->n_dims >= 2 &&
           (vr_str_ends(t->name, "weight") || vr_str_ends(t->name, "weight_packed") ||
            vr_str_ends(t->name, "_blocks") || vr_str_ends(t->name, "qweight"));
}

/* Scales of inputs and of the KV cache may stand with a module that has no matrix of its own. */
static bool is_loose_scale(const vr_tensor *t)
{
    return t->elements == 1 && (vr_str_ends(t->name, "_scale") || vr_str_ends(t->name, "_scale_inv") ||
                                vr_str_ends(t->name, "_zero_point"));
}

static void sort_rest(packing *w)
{
    bool any = false;
    for (size_t i = 0; i < w->ck->n_tensors; i++) {
        const vr_tensor *t = &w->ck->tensors[i];
        if (w->q->role[i] == VR_ROLE_PLAIN && is_foreign(t)) {
            w->q->role[i] = VR_ROLE_PACKED;
            if (!vr_dtype_floating((vr_dtype)t->dtype))
                w->q->parameters[i] = 0;
        }
        any = any || w->q->role[i] == VR_ROLE_PACKED;
    }
    for (size_t i = 0; i < w->ck->n_tensors && any; i++) {
        if (w->q->role[i] == VR_ROLE_PLAIN && is_loose_scale(&w->ck->tensors[i])) {
            w->q->role[i] = VR_ROLE_SIDE;
            w->q->parameters[i] = 0;
        }
    }
}

/* ---- all of them ---- */

static vram_status make_name_room(packing *w)
{
    const vram_checkpoint *ck = w->ck;
    size_t longest = 0;
    for (size_t i = 0; i < ck->n_tensors; i++)
        longest = ck->tensors[i].name.n > longest ? ck->tensors[i].name.n : longest;
    w->name = vr_arena_alloc(&w->m->arena, longest + VR_LONGEST_SUFFIX);
    return w->name != NULL ? VRAM_OK : VRAM_ENOMEM;
}

static vram_status make_room(packing *w)
{
    const vram_checkpoint *ck = w->ck;
    vr_arena *a = &w->m->arena;
    w->q->role = VR_ARRAY(a, uint8_t, ck->n_tensors);
    w->q->layout_of = VR_ARRAY(a, uint8_t, ck->n_tensors);
    w->q->parameters = VR_ARRAY(a, uint64_t, ck->n_tensors);
    VR_TRY(make_name_room(w));
    if (w->q->role == NULL || w->q->layout_of == NULL || w->q->parameters == NULL)
        return VRAM_ENOMEM;
    for (size_t i = 0; i < ck->n_tensors; i++) {
        w->q->parameters[i] = ck->tensors[i].elements;
        w->q->layout_of[i] = NO_LAYOUT;
    }
    return VRAM_OK;
}

static const vr_layout *largest(const packing *w)
{
    size_t best = MOST_LAYOUTS;
    for (size_t k = 0; k < MOST_LAYOUTS; k++)
        if (w->sums[k].any && (best == MOST_LAYOUTS || w->sums[k].bytes > w->sums[best].bytes))
            best = k;
    return best < MOST_LAYOUTS ? &w->layouts[best] : NULL;
}

static void describe(packing *w, const vr_layout *l)
{
    const tally *most = &w->sums[l - w->layouts];
    w->q->layout = l->name;
    w->q->bits_low = UINT64_MAX;
    for (size_t k = 0; k < MOST_LAYOUTS; k++) {
        const tally *sum = &w->sums[k];
        if (!sum->any)
            continue;
        w->q->bits_low = sum->bits_low < w->q->bits_low ? sum->bits_low : w->q->bits_low;
        w->q->bits_high = sum->bits_high > w->q->bits_high ? sum->bits_high : w->q->bits_high;
    }
    w->q->grouping = most->grouping;
    w->q->group_size = most->group_size;
}

static bool has_word(const char *words, const char *word)
{
    vr_str rest = vr_str_of(words), one;
    while (vr_str_split(&rest, ' ', &one))
        if (one.n != 0 && vr_str_is(one, word))
            return true;
    return false;
}

/* ---- against config.json ---- */

static vram_status settle_method(packing *w, const vr_layout *l)
{
    const char *said = w->config.method;
    w->q->method = said != NULL ? said : l != NULL ? l->method : NULL;
    if (l == NULL || (said != NULL && has_word(l->methods, said)))
        return VRAM_OK;
    w->q->method = l->method;
    if (said == NULL)
        return !w->ck->has_config ? VRAM_OK
                                  : vr_warn(w->m->ctx, VR_CONFIG_FILE,
                                            T("there is no quantization_config, but tensors are packed as "),
                                            T(l->method), T(" does"));
    return vr_warn(w->m->ctx, VR_CONFIG_FILE, T("quantization_config says "), T(said),
                   T(", the tensors are packed as "), T(l->method), T(" does: taken from the tensors"));
}

static vram_status compare(const packing *w, const char *key, uint64_t said, uint64_t found)
{
    if (said == 0 || found == 0 || said == found)
        return VRAM_OK;
    return vr_warn(w->m->ctx, VR_CONFIG_FILE, T("quantization_config makes "), T(key), T(" "), U(said),
                   T(", the tensors make it "), U(found), T(": taken from the tensors"));
}

static vram_status hold_against_config(packing *w, const vr_layout *l)
{
    const vr_quantised *q = w->q;
    VR_TRY(settle_method(w, l));
    if (l == NULL)
        return w->config.method == NULL || w->ck->n_tensors == 0 || w->ck->incomplete
                   ? VRAM_OK
                   : vr_warn(w->m->ctx, VR_CONFIG_FILE, T("quantization_config says "), T(w->config.method),
                             T(", but no tensor is packed in a way that is known"));
    if (w->n_contradicted != 0)
        VR_TRY(vr_warn(w->m->ctx, NULL, T("the scales of "), GROUPED(w->n_contradicted),
                       T(w->n_contradicted == 1 ? " quantised matrix" : " quantised matrices"),
                       T(" do not have the shape that the packed weights call for: "), S(w->contradicted),
                       T(w->n_contradicted == 1 ? "" : " and others")));
    if (q->grouping == VR_GROUPING_GROUP || q->grouping == VR_GROUPING_BLOCK)
        VR_TRY(compare(w, "group_size", w->config.group, q->group_size));
    return q->bits_low == q->bits_high ? compare(w, "bits", w->config.bits, q->bits_low) : VRAM_OK;
}

vram_status vr_read_quantised(vram_model *m)
{
    packing w = { .m = m, .q = &m->packing, .ck = m->checkpoint };
    w.layouts = vr_layouts(&w.n_layouts);
    VR_TRY(make_room(&w));
    VR_TRY(find_possible(&w));
    VR_TRY(vr_read_quant_config(&w.config, m));
    for (size_t i = 0; i < w.ck->n_tensors; i++)
        sort_out(&w, &w.ck->tensors[i]);
    sort_rest(&w);
    for (size_t i = 0; i < w.ck->n_tensors; i++)
        w.q->quantised_matrices += w.q->role[i] == VR_ROLE_PACKED;
    const vr_layout *l = largest(&w);
    if (l != NULL)
        describe(&w, l);
    VR_TRY(hold_against_config(&w, l));
    if (w.q->method == NULL)
        return VRAM_OK;
    w.q->title = vr_quant_title(&m->arena, w.q->method, w.q->layout);
    return w.q->title != NULL ? VRAM_OK : VRAM_ENOMEM;
}

/* ---- sums ---- */

static vram_status index_declared(packing *w)
{
    const vram_model *m = w->m;
    VR_TRY(vr_map_init(&w->declared, &w->m->arena, m->n_declared, 0));
    for (size_t i = 0; i < m->n_declared; i++) {
        const vr_declared *d = &m->declared[i];
        bool was_there;
        uint32_t old;
        VR_TRY(vr_map_put(&w->declared, (vr_str){ d->name.s + d->skip, d->name.n - d->skip }, (uint32_t)i,
                          &was_there, &old));
    }
    return VRAM_OK;
}

/* Weights of the matrix that this tensor belongs to, by the settings of a model that is understood; 0: not
 * known. Experts in one tensor are called without ".weight", and the packed ones by what is behind "_proj".
 */
static uint64_t expected(const packing *w, size_t i)
{
    static const char weight[] = ".weight", proj[] = "_proj";
    size_t row = w->q->layout_of[i];
    const char *packed = row == NO_LAYOUT ? weight : w->layouts[row].packed;
    vr_str stem = stem_of(w->ck->tensors[i].name, strcmp(packed, proj) == 0 ? "" : packed);
    uint32_t found;
    memcpy(w->name, stem.s, stem.n);
    memcpy(w->name + stem.n, weight, sizeof weight - 1);
    if (!vr_map_get(&w->declared, (vr_str){ w->name, stem.n + sizeof weight - 1 }, &found) &&
        !vr_map_get(&w->declared, stem, &found))
        return 0;
    w->q->packed_in[found] = (uint32_t)i + 1;
    return w->m->declared[found].elements;
}

/* What fills the last word of each row is no weight; and what shapes do not tell, config.json may. */
static void correct(packing *w, size_t i)
{
    const vr_tensor *t = &w->ck->tensors[i];
    uint64_t *stands_for = &w->q->parameters[i], n = expected(w, i);
    bool rows = t->n_dims >= 2 && t->dims[t->n_dims - 1] > 1;
    uint64_t padding = vr_mul_sat(rows ? t->elements / t->dims[t->n_dims - 1] : 1, ROW_PADDING);
    if (n == 0 || n == *stands_for)
        return;
    if (*stands_for == 0 || (n < *stands_for && *stands_for - n < padding)) {
        *stands_for = n;
    } else if (w->n_unlike++ == 0) {
        w->unlike = t->name;
        w->stands_for = *stands_for;
        w->expected = n;
    }
}

static void add_up(packing *w, size_t i)
{
    const vr_tensor *t = &w->ck->tensors[i];
    vr_quantised *q = w->q;
    uint64_t bytes = t->end - t->begin;
    w->m->parameters = vr_add_sat(w->m->parameters, q->parameters[i]);
    if (q->role[i] == VR_ROLE_SIDE) {
        q->scale_bytes = vr_add_sat(q->scale_bytes, bytes);
        return;
    }
    if (q->role[i] == VR_ROLE_PACKED) {
        q->packed_bytes = vr_add_sat(q->packed_bytes, bytes);
        q->uncountable = q->uncountable || (q->parameters[i] == 0 && t->elements != 0);
    }
    bool matrix = t->n_dims >= 2 && !vr_str_ends(t->name, "bias") &&
                  (vr_dtype_floating((vr_dtype)t->dtype) || vr_dtype_ggml((vr_dtype)t->dtype));
    q->matrices += q->role[i] == VR_ROLE_PACKED || matrix;
}

vram_status vr_sum_parameters(vram_model *m)
{
    packing w = { .m = m, .q = &m->packing, .ck = m->checkpoint };
    w.layouts = vr_layouts(&w.n_layouts);
    if (m->packing.quantised_matrices != 0) {
        VR_TRY(make_name_room(&w));
        VR_TRY(index_declared(&w));
        w.q->packed_in = VR_ARRAY(&m->arena, uint32_t, m->n_declared + 1);
        if (w.q->packed_in == NULL)
            return VRAM_ENOMEM;
    }
    for (size_t i = 0; i < w.ck->n_tensors; i++) {
        if (w.q->role[i] == VR_ROLE_PACKED)
            correct(&w, i);
        add_up(&w, i);
    }
    w.q->unlike = w.n_unlike != 0;
    if (w.n_unlike != 0)
        VR_TRY(vr_warn(m->ctx, VR_CONFIG_FILE, GROUPED(w.n_unlike),
                       T(w.n_unlike == 1 ? " quantised matrix is" : " quantised matrices are"),
                       T(" not of the size that config.json gives: "), S(w.unlike), T(" stands for "),
                       GROUPED(w.stands_for), T(" weights, not "), GROUPED(w.expected)));
    if (w.q->uncountable)
        VR_TRY(vr_warn(
            m->ctx, NULL,
            T("how many weights some packed tensors stand for is not known: parameters are not counted")));
    return VRAM_OK;
}
