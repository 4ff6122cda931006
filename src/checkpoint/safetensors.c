/* SPDX-License-Identifier: MIT
 * One safetensors file: eight bytes of length, a JSON header, the data. Only the header is read.
 * Source of truth: huggingface/safetensors README "Format" and safetensors/src/tensor.rs (read_metadata,
 * validate). Stricter than that reader where the README is: no name twice, no field but the three, only
 * string metadata. */
#include "checkpoint/loading.h"

#include <string.h>

#define LENGTH_BYTES 8
/* "":{"dtype":"U8","shape":[],"data_offsets":[0,0]} */
#define LEAST_ENTRY_BYTES 48

/* ---- before the header is known ---- */

static vram_status too_short(vram_checkpoint *ck, const vr_input *in)
{
    if (in->size == 0)
        return vr_fail_at(ck->ctx, VRAM_EFORMAT, in->name, 0, T("the file is empty"));
    return vr_fail_at(ck->ctx, VRAM_EFORMAT, in->name, 0, T("the file has only "), U(in->size),
                      vr_bytes_word(in->size), T(", less than the length of a header; cut download?"));
}

static vram_status beyond_file(vram_checkpoint *ck, const vr_input *in, uint64_t n)
{
    return vr_fail_at(ck->ctx, VRAM_EFORMAT, in->name, 0, T("the header is said to have "), GROUPED(n),
                      T(" bytes, but the file has "), GROUPED(in->size), T("; cut download?"));
}

static uint64_t length_of(const vr_input *in)
{
    unsigned char bytes[LENGTH_BYTES];
    uint64_t n = 0;
    vr_view_copy(&in->view, 0, (char *)bytes, LENGTH_BYTES);
    for (int i = LENGTH_BYTES; i-- > 0;)
        n = n << 8 | bytes[i];
    return n;
}

static bool good_length(const vram_checkpoint *ck, const vr_input *in, uint64_t n)
{
    return n > 0 && n <= VR_MAX_HEADER_BYTES && n <= in->size - LENGTH_BYTES &&
           n <= VR_MAX_HEADERS_BYTES - ck->loading->headers_bytes;
}

static vram_status bad_length(vram_checkpoint *ck, const vr_input *in, uint64_t n)
{
    if (in->size < LENGTH_BYTES)
        return too_short(ck, in);
    if (n > in->size - LENGTH_BYTES)
        return beyond_file(ck, in, n);
    if (n > VR_MAX_HEADER_BYTES)
        return vr_fail_at(ck->ctx, VRAM_ELIMIT, in->name, 0, T("the header has "), GROUPED(n),
                          T(" bytes, over the format's limit of "), GROUPED(VR_MAX_HEADER_BYTES));
    if (n == 0)
        return vr_fail_at(ck->ctx, VRAM_EFORMAT, in->name, 0, T("the header has no bytes"));
    return vr_fail_at(ck->ctx, VRAM_ELIMIT, in->name, 0, T("the headers of all files have over "),
                      GROUPED(VR_MAX_HEADERS_BYTES), T(" bytes"));
}

/* Before 100 MB are fetched, a look at whether it is a header at all. */
static bool good_start(const vr_input *in)
{
    char c = '{';
    if (vr_view_known(&in->view, LENGTH_BYTES) > LENGTH_BYTES)
        vr_view_copy(&in->view, LENGTH_BYTES, &c, 1);
    return c == '{';
}

static vram_status probe(vram_checkpoint *ck, vr_input *in)
{
    vr_loading *l = ck->loading;
    bool known = false, waits = vr_fault_waits(ck);
    uint64_t n = in->header_bytes;
    if (n == 0 && in->size >= LENGTH_BYTES) {
        VR_TRY(vr_want_bytes(ck, in, 0, LENGTH_BYTES, in->size < in->guess ? in->size : in->guess, &known));
        if (!known)
            return VRAM_MORE;
        n = length_of(in);
    }
    if (in->header_bytes == 0 && (in->size < LENGTH_BYTES || !good_length(ck, in, n)))
        return waits ? VRAM_MORE : bad_length(ck, in, n);
    if (in->header_bytes == 0)
        l->headers_bytes += n;
    in->header_bytes = n;
    VR_TRY(vr_want_bytes(ck, in, 0, LENGTH_BYTES + n, LENGTH_BYTES + n, &known));
    if (!good_start(in))
        return waits ? VRAM_MORE
                     : vr_fail_at(ck->ctx, VRAM_EFORMAT, in->name, LENGTH_BYTES,
                                  T("the header does not begin with '{'"));
    return known ? VRAM_OK : VRAM_MORE;
}

static vram_status bound(vram_checkpoint *ck, vr_input *in, size_t *n)
{
    size_t length = (size_t)in->header_bytes, objects = 0;
    const char *p = in->header = vr_view_get(&in->view, &ck->arena, LENGTH_BYTES, length);
    if (p == NULL)
        return VRAM_ENOMEM;
    for (const char *end = p + length; (p = memchr(p, '{', (size_t)(end - p))) != NULL; p++)
        objects++;
    /* Braces in a name do not make room for tensors that cannot be there. */
    *n = objects < length / LEAST_ENTRY_BYTES + 1 ? objects : length / LEAST_ENTRY_BYTES + 1;
    return VRAM_OK;
}

/* ---- the header ---- */

typedef struct reader {
    vram_checkpoint *ck;
    const vr_input *in;
    const char *text; /* the header */
    size_t n;
    uint32_t file;
    bool metadata_read;
} reader;

#define BAD(r, code, p, ...)                                                                                 \
    vr_fail_at((r)->ck->ctx, (code), (r)->in->name, LENGTH_BYTES + (uint64_t)((p) - (r)->text), __VA_ARGS__)

enum field { DTYPE, SHAPE, OFFSETS, FIELDS };
static const char *const field_names[FIELDS] = { "dtype", "shape", "data_offsets" };
static const vr_str metadata_name = { "__metadata__", 12 };

static vram_status read_dtype(const reader *r, vr_walk *w, vr_str name, vr_tensor *t)
{
    const char *at = w->p;
    vr_dtype type = VR_DTYPE_NONE;
    if (vr_walk_peek(w) != '"')
        return BAD(r, VRAM_EFORMAT, at, T("the dtype of tensor "), S(vr_shown(name)), T(" is not a string"));
    vr_str word = vr_walk_string(w);
    if (!vr_dtype_from_safetensors(word, &type))
        return BAD(r, VRAM_EUNSUPPORTED, at, T("tensor "), S(vr_shown(name)), T(" has the unknown dtype \""),
                   S(vr_shown(word)), T("\""));
    t->dtype = (uint8_t)type;
    return VRAM_OK;
}

static vram_status read_shape(const reader *r, vr_walk *w, vr_str name, vr_tensor *t)
{
    uint64_t dims[VR_MAX_DIMS];
    const char *at = w->p;
    bool first = true;
    t->n_dims = 0;
    if (vr_walk_peek(w) != '[')
        return BAD(r, VRAM_EFORMAT, at, T("the shape of tensor "), S(vr_shown(name)), T(" is not an array"));
    while (vr_walk_element(w, &first)) {
        if (t->n_dims == VR_MAX_DIMS)
            return BAD(r, VRAM_ELIMIT, at, T("tensor "), S(vr_shown(name)), T(" has over "), U(VR_MAX_DIMS),
                       T(" dimensions"));
        if (!vr_walk_u64(w, &dims[t->n_dims++]))
            return BAD(r, VRAM_EFORMAT, w->p, T("the shape of tensor "), S(vr_shown(name)),
                       T(" has a dimension that is not a whole number below 2^64"));
    }
    t->dims = vr_keep_dims(r->ck, dims, t->n_dims);
    return t->dims == NULL ? VRAM_ENOMEM : VRAM_OK;
}

static vram_status read_offsets(const reader *r, vr_walk *w, vr_str name, vr_tensor *t)
{
    uint64_t ends[2];
    const char *at = w->p;
    bool first = true;
    size_t n = 0;
    if (vr_walk_peek(w) != '[')
        return BAD(r, VRAM_EFORMAT, at, T("the data_offsets of tensor "), S(vr_shown(name)),
                   T(" are not an array"));
    while (vr_walk_element(w, &first)) {
        if (n == 2)
            return BAD(r, VRAM_EFORMAT, at, T("tensor "), S(vr_shown(name)), T(" has over two data_offsets"));
        if (!vr_walk_u64(w, &ends[n++]))
            return BAD(r, VRAM_EFORMAT, w->p, T("the data_offsets of tensor "), S(vr_shown(name)),
                       T(" are not whole numbers below 2^64"));
    }
    if (n < 2)
        return BAD(r, VRAM_EFORMAT, at, T("tensor "), S(vr_shown(name)), T(" has under two data_offsets"));
    if (ends[0] > ends[1])
        return BAD(r, VRAM_EFORMAT, at, T("tensor "), S(vr_shown(name)), T(" ends at "), U(ends[1]),
                   T(", before it begins at "), U(ends[0]));
    t->begin = ends[0];
    t->end = ends[1];
    return VRAM_OK;
}

/* Dimensions are multiplied in their order, as validate() does: it refuses 2^32 x 2^32 x 0 too. */
static vram_status check_size(const reader *r, vr_str name, vr_tensor *t, const char *const *at)
{
    uint64_t elements = 1, bits = 0;
    for (unsigned i = 0; i < t->n_dims; i++) {
        if (!vr_mul(elements, t->dims[i], &elements))
            return BAD(r, VRAM_EFORMAT, at[SHAPE], T("the shape of tensor "), S(vr_shown(name)),
                       T(" has over 2^64 elements"));
    }
    if (!vr_mul(elements, vr_dtype_bits((vr_dtype)t->dtype), &bits))
        return BAD(r, VRAM_EFORMAT, at[SHAPE], T("the shape of tensor "), S(vr_shown(name)), T(" times "),
                   U(vr_dtype_bits((vr_dtype)t->dtype)), T(" bits overflows 2^64"));
    if (bits % 8 != 0)
        return BAD(r, VRAM_EFORMAT, at[SHAPE], T("tensor "), S(vr_shown(name)), T(" of "),
                   T(vr_dtype_name((vr_dtype)t->dtype)), T(" does not fill whole bytes"));
    if (t->end - t->begin != bits / 8)
        return BAD(r, VRAM_EFORMAT, at[OFFSETS], T("tensor "), S(vr_shown(name)), T(" has "),
                   U(t->end - t->begin), vr_bytes_word(t->end - t->begin), T(" by its offsets, but "),
                   U(bits / 8), T(" by its shape and dtype"));
    t->elements = elements;
    return VRAM_OK;
}

static enum field field_of(vr_str key)
{
    if (key.n == 5 && memcmp(key.s, "dtype", 5) == 0)
        return DTYPE;
    if (key.n == 5 && memcmp(key.s, "shape", 5) == 0)
        return SHAPE;
    return key.n == 12 && memcmp(key.s, "data_offsets", 12) == 0 ? OFFSETS : FIELDS;
}

static vram_status read_field(const reader *r, vr_walk *w, enum field f, vr_str name, vr_tensor *t)
{
    switch (f) {
    case DTYPE:
        return read_dtype(r, w, name, t);
    case SHAPE:
        return read_shape(r, w, name, t);
    default:
        return read_offsets(r, w, name, t);
    }
}

static vram_status read_tensor(const reader *r, vr_walk *w, vr_str name, vr_tensor *t)
{
    const char *at[FIELDS] = { NULL }, *start = w->p;
    bool first = true;
    vr_str key;
    if (vr_walk_peek(w) != '{')
        return BAD(r, VRAM_EFORMAT, start, T("the entry of tensor "), S(vr_shown(name)),
                   T(" is not an object"));
    while (vr_walk_member(w, &first, &key)) {
        enum field f = field_of(key);
        if (f == FIELDS)
            return BAD(r, VRAM_EFORMAT, key.s - 1, T("tensor "), S(vr_shown(name)),
                       T(" has the unknown field \""), S(vr_shown(key)), T("\""));
        if (at[f] != NULL)
            return BAD(r, VRAM_EFORMAT, key.s - 1, T("tensor "), S(vr_shown(name)), T(" has two fields "),
                       T(field_names[f]));
        at[f] = w->p;
        VR_TRY(read_field(r, w, f, name, t));
    }
    for (enum field f = DTYPE; f < FIELDS; f++) {
        if (at[f] == NULL)
            return BAD(r, VRAM_EFORMAT, start, T("tensor "), S(vr_shown(name)), T(" has no "),
                       T(field_names[f]));
    }
    /* Raw until it is certain that the file is good: its place is then still known. */
    t->name = name;
    t->file = r->file;
    return check_size(r, name, t, at);
}

static vram_status read_metadata(reader *r, vr_walk *w, vr_str name)
{
    bool first = true;
    vr_str key;
    if (r->metadata_read)
        return BAD(r, VRAM_EFORMAT, name.s - 1, T("the header has __metadata__ twice"));
    r->metadata_read = true;
    if (vr_walk_peek(w) != '{')
        return BAD(r, VRAM_EFORMAT, w->p, T("__metadata__ is not an object"));
    while (vr_walk_member(w, &first, &key)) {
        if (vr_walk_peek(w) != '"')
            return BAD(r, VRAM_EFORMAT, w->p, T("__metadata__ gives \""), S(vr_shown(key)),
                       T("\" something that is not a string"));
        (void)vr_walk_string(w);
    }
    return VRAM_OK;
}

static vram_status read_entries(reader *r, size_t *n)
{
    vram_checkpoint *ck = r->ck;
    vr_walk w = { r->text, r->text + r->n };
    bool first = true;
    vr_str name;
    while (vr_walk_member(&w, &first, &name)) {
        if (vr_str_eq(name, metadata_name)) {
            VR_TRY(read_metadata(r, &w, name));
            continue;
        }
        if (ck->n_tensors + *n == ck->loading->tensors_room)
            return BAD(r, VRAM_EINTERNAL, name.s - 1, T("more tensors than were counted"));
        VR_TRY(read_tensor(r, &w, name, &ck->tensors[ck->n_tensors + *n]));
        ++*n;
    }
    return VRAM_OK;
}

/* ---- the data section ---- */

static vram_status name_twice(const reader *r, vr_str raw, const vr_tensor *other)
{
    if (other->file == r->file)
        return BAD(r, VRAM_EFORMAT, raw.s - 1, T("tensor "), S(vr_shown(raw)), T(" is there twice"));
    return BAD(r, VRAM_EFORMAT, raw.s - 1, T("tensor "), S(vr_shown(raw)), T(" is also in "),
               T(r->ck->files[other->file].name));
}

/* Where the data_offsets of a tensor stand, found again by its name. */
static const char *offsets_place(const reader *r, const vr_tensor *t)
{
    vr_walk w = { t->name.s + t->name.n + 1, r->text + r->n };
    bool first = true;
    vr_str key;
    (void)vr_walk_take(&w, ':');
    while (vr_walk_member(&w, &first, &key)) {
        if (vr_str_is(key, field_names[OFFSETS]))
            break;
        (void)vr_walk_value(&w);
    }
    return w.p;
}

/* Of two entries of one name the later one in the header; NULL: there is one. */
static const vr_tensor *twin_of(const vr_tensor *t, const vr_tensor *all, size_t n)
{
    const vr_tensor *later = NULL;
    for (size_t i = 0; i < n; i++) {
        if (&all[i] != t && vr_str_eq(all[i].name, t->name))
            later = all[i].name.s > t->name.s ? &all[i] : t;
    }
    return later;
}

static vram_status bad_layout(const reader *r, const vr_tensor *before, const vr_tensor *t, uint64_t end)
{
    vr_str name = vr_shown(t->name);
    if (t->begin > end)
        return BAD(r, VRAM_EFORMAT, offsets_place(r, t), T("the data has a hole: "), U(t->begin - end),
                   vr_bytes_word(t->begin - end), T(" before tensor "), S(name), T(" in no tensor"));
    return BAD(r, VRAM_EFORMAT, offsets_place(r, t), T("tensor "), S(name), T(" begins at "), U(t->begin),
               T(" of the data, inside of tensor "), S(vr_shown(before->name)), T(", which ends at "),
               U(end));
}

/* As validate(): each tensor begins where the one before ended, and the last one ends with the file. */
static vram_status check_layout(const reader *r, const vr_tensor *t, size_t n, uint64_t *data_bytes)
{
    uint64_t end = 0, data = r->in->size - LENGTH_BYTES - r->n;
    for (size_t i = 0; i < n; i++) {
        const vr_tensor *twin = t[i].begin != end ? twin_of(&t[i], t, n) : NULL;
        if (twin != NULL)
            return name_twice(r, twin->name, twin);
        if (t[i].begin != end)
            return bad_layout(r, i > 0 ? &t[i - 1] : NULL, &t[i], end);
        end = t[i].end;
    }
    *data_bytes = end;
    if (end > data)
        return vr_fail_at(r->ck->ctx, VRAM_EFORMAT, r->in->name, r->in->size, T("the file lacks "),
                          GROUPED(end - data), T(" of its bytes; cut download?"));
    if (end < data)
        return vr_fail_at(r->ck->ctx, VRAM_EFORMAT, r->in->name, r->in->size - (data - end),
                          T("the file goes on for "), GROUPED(data - end), vr_bytes_word(data - end),
                          T(" after its last tensor"));
    return VRAM_OK;
}

/* ---- names ---- */

/* The tensors from `number` on, n <= VR_NAMES_MANY. */
static vram_status add_names(const reader *r, uint32_t number, size_t n)
{
    vram_checkpoint *ck = r->ck;
    vr_str raw[VR_NAMES_MANY];
    uint32_t other = 0;
    for (size_t i = 0; i < n; i++) {
        raw[i] = ck->tensors[number + i].name;
        if (!vr_unescape(raw[i], &ck->arena, &ck->tensors[number + i].name))
            return VRAM_ENOMEM;
    }
    size_t put = vr_names_put(&ck->names, ck->tensors, number, n, &other);
    return put == n ? VRAM_OK : name_twice(r, raw[put], &ck->tensors[other]);
}

/* ---- one file ---- */

static vram_status parse_header(const reader *r)
{
    vr_json root;
    vr_json_error e;
    if (vr_json_parse((vr_str){ r->text, r->n }, &root, &e))
        return VRAM_OK;
    return BAD(r, VRAM_EFORMAT, r->text + e.offset, T("the header is not valid JSON: "), T(e.reason));
}

static vram_status read(vram_checkpoint *ck, const vr_input *in, uint32_t file)
{
    reader r = { .ck = ck, .in = in, .text = in->header, .n = (size_t)in->header_bytes, .file = file };
    vr_file *f = &ck->files[file];
    vr_tensor *t = &ck->tensors[ck->n_tensors];
    size_t n = 0;
    VR_TRY(parse_header(&r));
    VR_TRY(read_entries(&r, &n));
    VR_TRY(vr_sort_tensors(ck, t, n));
    VR_TRY(check_layout(&r, t, n, &f->tensor_bytes));
    for (size_t i = 0; i < n; i += VR_NAMES_MANY)
        VR_TRY(add_names(&r, (uint32_t)(ck->n_tensors + i), n - i < VR_NAMES_MANY ? n - i : VR_NAMES_MANY));
    ck->n_tensors += n;
    f->n_tensors = (uint32_t)n;
    f->header_bytes = LENGTH_BYTES + in->header_bytes;
    return VRAM_OK;
}

/* A header's first character; the length before it may be anything. */
static bool is_safetensors(const unsigned char *head, size_t n)
{
    return n > LENGTH_BYTES && head[LENGTH_BYTES] == '{';
}

const vr_format vr_format_safetensors = { "safetensors", is_safetensors, probe, bound, read };
