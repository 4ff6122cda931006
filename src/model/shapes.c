/* SPDX-License-Identifier: MIT
 * What config.json says, held against the shapes of the tensors. Where they differ and the tensors make
 * sense, the tensors win, with a warning; where they do not, the model is not understood.
 *
 * Names and shapes: modeling_<name>.py of transformers 5.24. Prefixes: "model." of a plain decoder,
 * "language_model.model." and "model.language_model." of one inside a multimodal model before and after
 * transformers 4.52, "" of a bare one. */
#include "model/special.h"

typedef enum quantity { HIDDEN, Q_ROWS, KV_ROWS, QKV_ROWS, FFN, FFN_TWICE, HEAD_DIM, NOTHING } quantity;

/* Of a module's weight: rows and columns; NOTHING: one dimension. */
static const struct kind {
    quantity rows, columns;
} kinds[] = {
    [VR_MODULE_Q] = { Q_ROWS, HIDDEN },         [VR_MODULE_K] = { KV_ROWS, HIDDEN },
    [VR_MODULE_V] = { KV_ROWS, HIDDEN },        [VR_MODULE_QKV] = { QKV_ROWS, HIDDEN },
    [VR_MODULE_O] = { HIDDEN, Q_ROWS },         [VR_MODULE_GATE] = { FFN, HIDDEN },
    [VR_MODULE_UP] = { FFN, HIDDEN },           [VR_MODULE_GATE_UP] = { FFN_TWICE, HIDDEN },
    [VR_MODULE_DOWN] = { HIDDEN, FFN },         [VR_MODULE_Q_NORM] = { HEAD_DIM, NOTHING },
    [VR_MODULE_K_NORM] = { HEAD_DIM, NOTHING }, [VR_MODULE_PRE_ATTENTION] = { HIDDEN, NOTHING },
};
enum { N_KINDS = sizeof kinds / sizeof *kinds }; /* the other norms are not asked */

/* Ways to call the same decoder: plain, in a multimodal model before and after transformers 4.52, bare. */
typedef struct naming {
    const char *prefix, *head;
} naming;
enum { N_NAMINGS = 4 };

static const char *const languages[] = { "", "language_model.", "model.language_model.", "" };
static const char *const heads[] = { "", "language_model.", "", "" };

typedef struct seen {
    const vr_tensor *first[N_KINDS]; /* the first of each kind whose shape can be read */
    const vr_tensor *embedding;
    uint64_t n_layers;  /* highest layer number + 1 */
    uint64_t n_present; /* different layers below the config's number */
    bool any;           /* a tensor of a layer */
} seen;

static bool strip(vr_str *name, const char *prefix)
{
    size_t n = strlen(prefix);
    if (!vr_str_starts(*name, prefix))
        return false;
    *name = (vr_str){ name->s + n, name->n - n };
    return true;
}

static bool strip_word(vr_str *name, vr_str word)
{
    if (name->n <= word.n || name->s[word.n] != '.' || memcmp(name->s, word.s, word.n) != 0)
        return false;
    *name = (vr_str){ name->s + word.n + 1, name->n - word.n - 1 };
    return true;
}

static bool is_embedding(const vram_model *m, vr_str name)
{
    return strip_word(&name, m->embedding) && vr_str_is(name, "weight");
}

/* "layers.17.rest" to 17 and "rest". */
static bool split_layer(const vram_model *m, vr_str *name, uint64_t *layer)
{
    vr_str digits;
    return strip_word(name, m->stack) && vr_str_split(name, '.', &digits) && digits.n <= 9 &&
           name->s != NULL && vr_parse_u64(digits, layer);
}

/* The class's own prefix up to its first dot is what a bare decoder lacks and a multimodal model replaces. */
static vram_status make_namings(vr_reading *r, naming *list)
{
    const char *prefix = r->m->naming->prefix, *head = r->m->naming->head;
    const char *dot = prefix;
    while (*dot != '.')
        dot++;
    for (size_t i = 0; i < N_NAMINGS; i++) {
        const char *rest = i < 2 ? prefix : dot + 1;
        list[i].prefix = vr_text(&r->m->arena, T(languages[i]), T(rest));
        list[i].head = vr_text(&r->m->arena, T(heads[i]), T(head));
        if (list[i].prefix == NULL || list[i].head == NULL)
            return VRAM_ENOMEM;
    }
    return VRAM_OK;
}

static const naming *find_naming(const vr_reading *r, const naming *list)
{
    const vram_checkpoint *ck = r->ck;
    size_t hits[N_NAMINGS] = { 0 }, best = 0;
    for (size_t i = 0; i < ck->n_tensors; i++) {
        for (size_t k = 0; k < N_NAMINGS; k++) {
            vr_str name = ck->tensors[i].name;
            uint64_t layer;
            hits[k] += strip(&name, list[k].prefix) &&
                       (is_embedding(r->m, name) || split_layer(r->m, &name, &layer));
        }
    }
    for (size_t k = 1; k < N_NAMINGS; k++)
        best = hits[k] > hits[best] ? k : best;
    return hits[best] != 0 ? &list[best] : NULL;
}

/* Packed formats keep other shapes under the same names; those of 8 bits and a point have the true one,
 * whatever their scales. */
static bool shape_is_true(const vr_reading *r, const vr_tensor *t)
{
    return vr_dtype_floating((vr_dtype)t->dtype) && vr_dtype_bits((vr_dtype)t->dtype) >= 8 &&
           r->m->packing.parameters[t - r->ck->tensors] == t->elements;
}

static size_t kind_of(const vram_model *m, vr_str name)
{
    for (size_t k = 0; k < N_KINDS; k++) {
        vr_str rest = name;
        if (m->modules[k].n != 0 && strip_word(&rest, m->modules[k]) && vr_str_is(rest, "weight"))
            return k;
    }
    return N_KINDS;
}

static bool same_shape(const vr_tensor *a, const vr_tensor *b)
{
    return a->n_dims == b->n_dims && memcmp(a->dims, b->dims, a->n_dims * sizeof *a->dims) == 0;
}

static vram_status take_tensor(vr_reading *r, seen *s, const vr_tensor *t, vr_str name)
{
    size_t k = kind_of(r->m, name);
    if (k == N_KINDS || !shape_is_true(r, t))
        return VRAM_OK;
    if (t->n_dims != (kinds[k].columns == NOTHING ? 1 : 2))
        return vr_not_understood(r, T("the tensor "), S(t->name), T(" has "), U(t->n_dims), T(" dimensions"));
    if (s->first[k] == NULL)
        s->first[k] = t;
    if (!same_shape(t, s->first[k]))
        return vr_not_understood(r, T("the layers are not alike: "), S(t->name),
                                 T(" has another shape than "), S(s->first[k]->name));
    return VRAM_OK;
}

static vram_status look(vr_reading *r, seen *s)
{
    const vram_checkpoint *ck = r->ck;
    bool *present = VR_ARRAY(&r->m->arena, bool, (size_t)r->m->n_layers);
    if (present == NULL)
        return VRAM_ENOMEM;
    for (size_t i = 0; i < ck->n_tensors && r->m->not_understood == NULL; i++) {
        const vr_tensor *t = &ck->tensors[i];
        vr_str name = t->name;
        uint64_t layer;
        if (!strip(&name, r->m->prefix))
            continue;
        if (is_embedding(r->m, name) && shape_is_true(r, t))
            s->embedding = t;
        if (!split_layer(r->m, &name, &layer))
            continue;
        s->any = true;
        s->n_layers = layer >= s->n_layers ? layer + 1 : s->n_layers;
        if (layer >= r->m->n_layers)
            continue; /* left out by the engine too, e.g. layers for predicting several tokens */
        s->n_present += !present[layer];
        present[layer] = true;
        VR_TRY(take_tensor(r, s, t, name));
    }
    return VRAM_OK;
}

/* ---- the tensors win ---- */

static vram_status adopt(vr_reading *r, const char *what, uint64_t *value, uint64_t found,
                         const vr_tensor *by)
{
    if (*value == found || found == 0)
        return VRAM_OK;
    VR_TRY(vr_warn(r->ctx, VR_CONFIG_FILE, T(what), T(" would be "), U(*value), T(", the tensor "),
                   S(by->name), T(" makes it "), U(found), T(": taken from the tensor")));
    const char *why =
        vr_text(&r->m->arena, T(what), T(" is "), U(*value), T(" by config.json, the tensor "), S(by->name),
                T(" makes it "), U(found), T(": a size mismatch, which is not loaded"));
    if (why == NULL)
        return VRAM_ENOMEM;
    if (r->m->contradicted == NULL)
        r->m->contradicted = why;
    *value = found;
    return VRAM_OK;
}

static const vr_tensor *first_of(const seen *s, quantity rows)
{
    for (size_t k = 0; k < N_KINDS; k++)
        if (kinds[k].rows == rows && s->first[k] != NULL)
            return s->first[k];
    return NULL;
}

/* What comes out of it: Conv1D keeps its weight the other way round. */
static uint64_t outputs(const vram_model *m, const vr_tensor *t)
{
    return t->dims[m->naming->transposed && t->n_dims == 2 ? 1 : 0];
}

static vram_status adopt_widths(vr_reading *r, const seen *s)
{
    vram_model *m = r->m;
    const vr_tensor *e = s->embedding, *gate = first_of(s, FFN), *fused = first_of(s, FFN_TWICE);
    const vr_tensor *norm = s->first[VR_MODULE_PRE_ATTENTION];
    if (e != NULL && e->n_dims != 2)
        return vr_not_understood(r, T("the tensor "), S(e->name), T(" has "), U(e->n_dims), T(" dimensions"));
    if (e != NULL) {
        VR_TRY(adopt(r, "vocab_size", &m->vocab, e->dims[0], e));
        VR_TRY(adopt(r, "hidden_size", &m->hidden, e->dims[1], e));
    } else if (norm != NULL) {
        VR_TRY(adopt(r, "hidden_size", &m->hidden, norm->dims[0], norm));
    }
    if (gate != NULL)
        return adopt(r, "intermediate_size", &m->ffn, outputs(m, gate), gate);
    return fused != NULL ? adopt(r, "intermediate_size", &m->ffn, outputs(m, fused) / 2, fused) : VRAM_OK;
}

/* Heads are what config.json alone knows. Their width can be read off when the key-value heads bear it out,
 * or else their number; both at once would be a guess. */
static vram_status adopt_heads(vr_reading *r, const seen *s)
{
    vram_model *m = r->m;
    const vr_tensor *q = first_of(s, Q_ROWS), *k = first_of(s, KV_ROWS), *qkv = first_of(s, QKV_ROWS);
    uint64_t groups = m->heads + 2 * m->kv_heads;
    if (qkv != NULL && outputs(m, qkv) % groups == 0)
        return adopt(r, "head_dim", &m->head_dim, outputs(m, qkv) / groups, qkv);
    if (q != NULL && outputs(m, q) != m->heads * m->head_dim && outputs(m, q) % m->heads == 0) {
        uint64_t width = outputs(m, q) / m->heads;
        bool borne_out = k == NULL || (width <= VR_MAX_HEAD_DIM && outputs(m, k) == m->kv_heads * width);
        return borne_out ? adopt(r, "head_dim", &m->head_dim, width, q) : VRAM_OK;
    }
    uint64_t kv = k != NULL && outputs(m, k) % m->head_dim == 0 ? outputs(m, k) / m->head_dim : 0;
    return kv != 0 && m->heads % kv == 0 ? adopt(r, "num_key_value_heads", &m->kv_heads, kv, k) : VRAM_OK;
}

/* Wider than config.json could say: products would leave 64 bits. */
static vram_status bounded(vr_reading *r, const seen *s)
{
    const vram_model *m = r->m;
    (void)s;
    if (m->hidden > VR_MAX_WIDTH || m->vocab > VR_MAX_VOCAB || m->ffn > VR_MAX_WIDTH ||
        m->head_dim > VR_MAX_HEAD_DIM)
        return vr_not_understood(r, T("a tensor is wider than any model's"));
    return VRAM_OK;
}

/* ---- and then everything must agree ---- */

static uint64_t value_of(const vram_model *m, quantity q)
{
    switch (q) {
    case HIDDEN:
        return m->hidden;
    case Q_ROWS:
        return m->heads * m->head_dim;
    case KV_ROWS:
        return m->kv_heads * m->head_dim;
    case QKV_ROWS:
        return (m->heads + 2 * m->kv_heads) * m->head_dim;
    case FFN:
        return m->ffn;
    case FFN_TWICE:
        return 2 * m->ffn;
    case HEAD_DIM:
        return m->head_dim;
    default:
        return 1;
    }
}

static void wanted_shape(const vram_model *m, size_t k, uint64_t *rows, uint64_t *columns)
{
    bool whole = m->family->qk_norm_whole;
    quantity q = kinds[k].rows;
    if (whole && (k == VR_MODULE_Q_NORM || k == VR_MODULE_K_NORM))
        q = k == VR_MODULE_Q_NORM ? Q_ROWS : KV_ROWS;
    *rows = value_of(m, q);
    *columns = value_of(m, kinds[k].columns);
    if (m->naming->transposed && kinds[k].columns != NOTHING) {
        uint64_t swapped = *rows;
        *rows = *columns;
        *columns = swapped;
    }
}

static vram_status agree(vr_reading *r, const seen *s)
{
    for (size_t k = 0; k < N_KINDS; k++) {
        const vr_tensor *t = s->first[k];
        uint64_t rows, columns;
        if (t == NULL)
            continue;
        wanted_shape(r->m, k, &rows, &columns);
        if (t->dims[0] == rows && (t->n_dims == 1 || t->dims[1] == columns))
            continue;
        return vr_not_understood(r, T("the tensor "), S(t->name), T(" is "), U(t->dims[0]), T(" x "),
                                 U(t->n_dims == 1 ? 1 : t->dims[1]), T(", config.json makes it "), U(rows),
                                 T(" x "), U(columns));
    }
    return VRAM_OK;
}

static vram_status check_layers(vr_reading *r, const seen *s)
{
    vram_model *m = r->m;
    bool whole = !r->ck->incomplete;
    if (!s->any)
        return whole ? vr_not_understood(r, T("no tensor is called "), T(m->prefix), S(m->stack), T(".0..."))
                     : VRAM_OK;
    if (s->n_layers > m->n_layers)
        VR_TRY(vr_warn(r->ctx, VR_CONFIG_FILE, T("num_hidden_layers is "), U(m->n_layers),
                       T(", the tensors have "), U(s->n_layers), T(": the last are left out")));
    if (s->n_present < m->n_layers && whole)
        VR_TRY(vr_warn(r->ctx, VR_CONFIG_FILE, T("num_hidden_layers is "), U(m->n_layers),
                       T(", tensors of only "), U(s->n_present), T(" are there: files may be missing")));
    return VRAM_OK;
}

static vram_status check_head(vr_reading *r, const seen *s)
{
    vram_model *m = r->m;
    const vr_tensor *head = vr_checkpoint_find(r->ck, vr_str_of(m->head_name));
    m->has_head = head != NULL;
    if (m->tied && head != NULL && s->embedding != NULL)
        return vr_warn(r->ctx, VR_CONFIG_FILE, T("the head is tied to the embeddings but "), T(m->head_name),
                       T(same_shape(head, s->embedding)
                             ? " is stored as well: counted once, as it is when both are equal"
                             : " is stored as well, with another shape"));
    if (!m->tied && !m->has_head && !r->ck->incomplete)
        return vr_warn(r->ctx, VR_CONFIG_FILE, T("the head is not tied to the embeddings but "),
                       T(m->head_name), T(" is not there: it is counted all the same"));
    return VRAM_OK;
}

/* In a multimodal model, what stands beside the decoder. */
static void find_uncounted(vr_reading *r)
{
    const vram_checkpoint *ck = r->ck;
    vram_model *m = r->m;
    if (!vr_family_wrapped(r->family, vr_str_of(m->model_type)))
        return;
    for (size_t i = 0; i < ck->n_tensors; i++) {
        if (vr_name_is_vision(ck->tensors[i].name)) {
            m->uncounted_part = "vision tower";
            return;
        }
    }
}

/* Of a special kind only what it stands beside is found here: what it declares is held against the tensors
 * when it is loaded. */
static void look_beside_decoder(vr_reading *r)
{
    vram_model *m = r->m;
    m->has_head = vr_checkpoint_find(r->ck, vr_str_of(m->head_name)) != NULL;
    find_uncounted(r);
}

vram_status vr_check_shapes(vr_reading *r)
{
    vram_model *m = r->m;
    seen s = { .any = false };
    const vr_special *special = vr_special_of(r->family);
    naming list[N_NAMINGS];
    VR_TRY(make_namings(r, list));
    const naming own = { special != NULL ? special->prefix : NULL, special != NULL ? special->head : NULL };
    const naming *found = own.prefix != NULL ? &own : find_naming(r, list);
    if (found == NULL && (r->ck->n_tensors == 0 || r->ck->incomplete))
        found = &list[0];
    if (found == NULL)
        return vr_not_understood(r, T("the tensors are not named like those of "), T(r->family->class_name));
    m->prefix = found->prefix;
    m->head_name = found->head;
    if (r->ck->n_tensors == 0) /* only a config.json: nothing contradicts it */
        return VRAM_OK;
    if (special != NULL) {
        look_beside_decoder(r);
        return VRAM_OK;
    }
    VR_TRY(look(r, &s));
    static vram_status (*const steps[])(
        vr_reading *, const seen *) = { check_layers, adopt_widths, adopt_heads, bounded, agree, check_head };
    for (size_t i = 0; i < sizeof steps / sizeof *steps && m->not_understood == NULL; i++)
        VR_TRY(steps[i](r, &s));
    if (m->not_understood == NULL)
        find_uncounted(r);
    return VRAM_OK;
}
