/* SPDX-License-Identifier: MIT
 * One GGUF file: counts, keys with values, descriptions of tensors, the data. Only what stands before the
 * data is read, and of that no array of strings and no long array is kept. Sources: ggml, docs/gguf.md;
 * llama.cpp, ggml/src/gguf.cpp (a key twice is refused there; a file of another byte order has its version's
 * bytes the other way round); version 1, whose counts have 4 bytes, as llama.cpp read it until October 2023
 * (ggml.c, gguf_fread_str_v1). */
#include "checkpoint/gguf.h"

#include <string.h>

#define MAGIC_BYTES 4
#define START_BYTES(g) (8 + 2 * (g)->word)
#define MOST_NAME UINT64_C(65535)       /* bytes of a key: docs/gguf.md; no tensor's name is longer either */
#define MOST_KEPT (64 * UINT64_C(1024)) /* elements of an array of numbers */
#define MOST_ALIGNMENT (16 * VR_MIB)
#define GROWTH_LEAST (256 * VR_KIB)
#define REQUEST_MOST (64 * VR_MIB)

/* ---- bytes ---- */

static vram_status cut(const vr_gguf_scan *s)
{
    return VR_GGUF_BAD(s, VRAM_EFORMAT, s->in->size, T("the file ends within its header after "),
                       GROUPED(s->in->size), vr_bytes_word(s->in->size), T(": key "), U(s->g->keys_read),
                       T(" of "), U(s->g->n_keys), T(", tensor "), U(s->g->n), T(" of "), U(s->g->n_tensors),
                       T("; cut download?"));
}

vram_status vr_gguf_need(vr_gguf_scan *s, uint64_t end)
{
    if (end <= s->g->known)
        return VRAM_OK;
    if (end > s->in->size)
        return cut(s);
    s->least = end;
    return VRAM_MORE;
}

/* The piece in which that byte lies. */
static void find_span(vr_gguf_scan *s, uint64_t at)
{
    const vr_view *v = &s->in->view;
    size_t low = 0, high = v->n;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (v->spans[middle].offset <= at)
            low = middle;
        else
            high = middle;
    }
    s->span = v->spans[low];
}

static bool in_span(const vr_gguf_scan *s, uint64_t at, unsigned n)
{
    return at >= s->span.offset && at - s->span.offset <= s->span.n && s->span.n - (at - s->span.offset) >= n;
}

static uint64_t number(const vr_gguf *g, const unsigned char *p, unsigned n)
{
    uint64_t v = 0;
    for (unsigned i = 0; i < n; i++)
        v = v << 8 | p[g->big_endian ? i : n - 1 - i];
    return v;
}

uint64_t vr_gguf_number(vr_gguf_scan *s, uint64_t at, unsigned n)
{
    unsigned char bytes[8] = { 0 };
    if (!in_span(s, at, n))
        find_span(s, at);
    if (in_span(s, at, n))
        return number(s->g, (const unsigned char *)s->span.p + (at - s->span.offset), n);
    vr_view_copy(&s->in->view, at, (char *)bytes, n);
    return number(s->g, bytes, n);
}

vr_str vr_gguf_bytes(vr_gguf_scan *s, uint64_t at, uint64_t n)
{
    if (in_span(s, at, 0) && s->span.n - (at - s->span.offset) >= n)
        return (vr_str){ s->span.p + (at - s->span.offset), (size_t)n };
    return (vr_str){ vr_view_get(&s->in->view, &s->ck->arena, at, (size_t)n), (size_t)n };
}

vram_status vr_gguf_advance(vr_gguf_scan *s, uint64_t to)
{
    vr_loading *l = s->ck->loading;
    vr_gguf *g = s->g;
    uint64_t left = VR_MAX_HEADERS_BYTES - l->headers_bytes;
    if (to - g->counted > left)
        return VR_GGUF_BAD(s, VRAM_ELIMIT, g->counted + left, T("the headers of all files have over "),
                           GROUPED(VR_MAX_HEADERS_BYTES), T(" bytes"));
    l->headers_bytes += to - g->counted;
    g->counted = g->at = to;
    if (to > g->known)
        g->known = vr_view_known(&s->in->view, to);
    return VRAM_OK;
}

/* A length and so many bytes; *begin and *end are where these lie. */
static vram_status find_string(vr_gguf_scan *s, uint64_t at, uint64_t *begin, uint64_t *end)
{
    VR_TRY(vr_gguf_need(s, at + s->g->word));
    uint64_t n = vr_gguf_number(s, at, s->g->word);
    *begin = at + s->g->word;
    if (n > s->in->size - *begin)
        return VR_GGUF_BAD(s, VRAM_EFORMAT, at, T("a text is said to have "), GROUPED(n),
                           T(" bytes, but the file ends after "), GROUPED(s->in->size - *begin),
                           T("; damaged, or cut download?"));
    *end = *begin + n;
    return VRAM_OK;
}

/* ---- the start ---- */

static vram_status read_version(vr_gguf_scan *s)
{
    vr_gguf *g = s->g;
    VR_TRY(vr_gguf_need(s, 8));
    g->big_endian = false;
    uint32_t version = (uint32_t)vr_gguf_number(s, MAGIC_BYTES, 4);
    g->big_endian = (version & 0xFFFF) == 0 && version != 0;
    g->version = g->big_endian ? (uint32_t)vr_gguf_number(s, MAGIC_BYTES, 4) : version;
    g->word = g->version == 1 ? 4 : 8;
    if (g->version == 0)
        return VR_GGUF_BAD(s, VRAM_EFORMAT, MAGIC_BYTES, T("the version of the GGUF format is 0"));
    if (g->version > 3)
        return VR_GGUF_BAD(s, VRAM_EUNSUPPORTED, MAGIC_BYTES, T("version "), U(g->version),
                           T(" of the GGUF format is not known; versions 1 to 3 are"));
    return VRAM_OK;
}

/* Before anything is reserved for them. */
static vram_status check_counts(const vr_gguf_scan *s)
{
    const vr_gguf *g = s->g;
    /* a key of one byte and a value of one; a tensor without a name and dimensions */
    uint64_t key = g->word + 1 + 4 + 1, tensor = g->word + 4 + 4 + 8;
    uint64_t least = vr_add_sat(vr_mul_sat(g->n_keys, key), vr_mul_sat(g->n_tensors, tensor));
    if (least > s->in->size - START_BYTES(g))
        return VR_GGUF_BAD(s, VRAM_EFORMAT, 8, T("the header is said to have "), GROUPED(g->n_keys),
                           T(" keys and "), GROUPED(g->n_tensors), T(" tensors, too many for a file of "),
                           GROUPED(s->in->size), T(" bytes; damaged, or cut download?"));
    return VRAM_OK;
}

static vram_status start(vr_gguf_scan *s)
{
    vr_gguf *g = s->g;
    VR_TRY(read_version(s));
    VR_TRY(vr_gguf_need(s, START_BYTES(g)));
    g->n_tensors = vr_gguf_number(s, 8, g->word);
    g->n_keys = vr_gguf_number(s, 8 + g->word, g->word);
    VR_TRY(check_counts(s));
    VR_TRY(vr_metadata_init(&g->metadata, &s->ck->arena, g->big_endian));
    g->metadata.version = g->version;
    g->alignment = 32; /* GGUF_DEFAULT_ALIGNMENT */
    g->stage = VR_GGUF_KEYS;
    return vr_gguf_advance(s, START_BYTES(g));
}

/* ---- arrays that are passed over ---- */

static vram_status too_many(const vr_gguf_scan *s, uint64_t at, uint64_t count, uint8_t type)
{
    return VR_GGUF_BAD(s, VRAM_EFORMAT, at, T("an array is said to have "), GROUPED(count),
                       T(" elements of type "), T(vr_meta_name(type)), T(", but the file ends after "),
                       GROUPED(s->in->size - at), T(" bytes; damaged, or cut download?"));
}

/* type and count of an array, which stand at `at`; *end is where its elements begin */
static vram_status read_array(vr_gguf_scan *s, uint64_t at, vr_gguf_array *out, uint64_t *end)
{
    const vr_gguf *g = s->g;
    *end = at + 4 + g->word;
    VR_TRY(vr_gguf_need(s, *end));
    uint64_t type = vr_gguf_number(s, at, 4);
    *out = (vr_gguf_array){ (uint8_t)type, vr_gguf_number(s, at + 4, g->word) };
    if (type >= VR_META_TYPES)
        return VR_GGUF_BAD(s, VRAM_EFORMAT, at, T("an array of the unknown value type "), U(type));
    unsigned least = vr_meta_bytes(out->type);
    if (least == 0)
        least = out->type == VR_META_STR ? g->word : 4 + g->word;
    if (out->left > (s->in->size - *end) / least)
        return too_many(s, *end, out->left, out->type);
    return VRAM_OK;
}

static vram_status begin_array(vr_gguf_scan *s, vr_gguf_array a, uint64_t end)
{
    vr_gguf *g = s->g;
    if (g->depth == VR_GGUF_ARRAYS)
        return VR_GGUF_BAD(s, VRAM_ELIMIT, g->at, T("over "), U(VR_GGUF_ARRAYS),
                           T(" arrays stand in each other"));
    VR_TRY(vr_gguf_advance(s, end));
    g->arrays[g->depth++] = a;
    g->n_strings = g->string_bytes = 0;
    return VRAM_OK;
}

/* Compilers make one load of it. */
static uint64_t little8(const unsigned char *p)
{
    return (uint64_t)p[0] | (uint64_t)p[1] << 8 | (uint64_t)p[2] << 16 | (uint64_t)p[3] << 24 |
           (uint64_t)p[4] << 32 | (uint64_t)p[5] << 40 | (uint64_t)p[6] << 48 | (uint64_t)p[7] << 56;
}

/* The usual ones that lie in the piece at hand, for speed; returns how many. */
static uint64_t pass_here(const vr_gguf_scan *s, uint64_t *at, uint64_t most)
{
    const unsigned char *p = (const unsigned char *)s->span.p;
    uint64_t i = *at - s->span.offset, n = 0;
    if (s->g->word != 8 || s->g->big_endian || *at < s->span.offset)
        return 0;
    for (; n < most && i <= s->span.n && s->span.n - i >= 8; n++) {
        uint64_t length = little8(p + i);
        if (length > s->in->size - s->span.offset - i - 8)
            break;
        i += 8 + length;
    }
    *at = i + s->span.offset;
    return n;
}

/* Hundreds of thousands of them in a vocabulary: only their lengths are looked at. */
static vram_status pass_strings(vr_gguf_scan *s, vr_gguf_array *a)
{
    vr_gguf *g = s->g;
    uint64_t from = g->at, at = from, n = 0, begin = 0, end = 0;
    vram_status status = VRAM_OK;
    for (; n < a->left; n++, at = end) {
        n += pass_here(s, &at, a->left - n);
        if (n == a->left)
            break;
        if (at > g->known)
            g->known = vr_view_known(&s->in->view, at);
        status = find_string(s, at, &begin, &end);
        if (status != VRAM_OK)
            break;
    }
    a->left -= n;
    g->n_strings += n;
    g->string_bytes += at - from;
    VR_TRY(vr_gguf_advance(s, at));
    return status;
}

static vram_status pass_element(vr_gguf_scan *s)
{
    vr_gguf *g = s->g;
    vr_gguf_array *a = &g->arrays[g->depth - 1], inner;
    uint64_t bytes = vr_meta_bytes(a->type), end = 0;
    if (a->left == 0) {
        g->depth--;
        return VRAM_OK;
    }
    if (a->type == VR_META_STR)
        return pass_strings(s, a);
    if (a->type == VR_META_ARRAY) {
        VR_TRY(read_array(s, g->at, &inner, &end));
        VR_TRY(begin_array(s, inner, end));
        a->left--;
        return VRAM_OK;
    }
    bytes *= a->left; /* checked in read_array, for the array that is open since */
    if (bytes > s->in->size - g->at)
        return too_many(s, g->at, a->left, a->type);
    a->left = 0;
    return vr_gguf_advance(s, g->at + bytes);
}

/* ---- keys ---- */

static vram_status read_key_name(vr_gguf_scan *s, uint64_t *begin, uint64_t *end)
{
    uint64_t at = s->g->at;
    VR_TRY(find_string(s, at, begin, end));
    if (*end == *begin)
        return VR_GGUF_BAD(s, VRAM_EFORMAT, at, T("a key has no name"));
    if (*end - *begin > MOST_NAME)
        return VR_GGUF_BAD(s, VRAM_EFORMAT, at, T("a key is said to have "), GROUPED(*end - *begin),
                           T(" bytes, over the format's limit of "), GROUPED(MOST_NAME));
    return vr_gguf_need(s, *end + 4);
}

/* Where the value's bytes lie, for what is kept; *end is also the end of the item. */
static vram_status find_value(vr_gguf_scan *s, vr_meta *v, vr_gguf_array *array, uint64_t *begin,
                              uint64_t *end)
{
    unsigned bytes = vr_meta_bytes(v->type);
    *begin = v->offset;
    *end = v->offset + bytes;
    v->kept = true;
    if (v->type == VR_META_STR)
        VR_TRY(find_string(s, v->offset, begin, end));
    if (v->type != VR_META_ARRAY)
        return vr_gguf_need(s, *end);
    VR_TRY(read_array(s, v->offset, array, begin));
    v->element = array->type;
    v->count = array->left;
    v->kept = vr_meta_bytes(v->element) != 0 && v->count <= MOST_KEPT;
    *end = v->kept ? *begin + v->count * vr_meta_bytes(v->element) : *begin;
    return vr_gguf_need(s, *end);
}

static vram_status take_alignment(vr_gguf_scan *s, const vr_meta *v)
{
    uint64_t a = 0;
    bool whole = v->type != VR_META_ARRAY && vr_meta_u64(&s->g->metadata, v, 0, &a);
    if (!whole || a == 0 || (a & (a - 1)) != 0)
        return VR_GGUF_BAD(s, VRAM_EFORMAT, v->offset, T("general.alignment is "),
                           whole ? U(a) : T("no whole number"), T(", not a power of two"));
    if (a > MOST_ALIGNMENT)
        return VR_GGUF_BAD(s, VRAM_ELIMIT, v->offset, T("general.alignment is "), GROUPED(a), T(", over "),
                           GROUPED(MOST_ALIGNMENT));
    s->g->alignment = a;
    return VRAM_OK;
}

static vram_status keep_key(vr_gguf_scan *s, const vr_meta *v)
{
    const vr_meta *other = NULL;
    if (vr_str_is(v->key, "general.alignment"))
        VR_TRY(take_alignment(s, v));
    VR_TRY(vr_metadata_add(&s->g->metadata, v, &other));
    if (other != NULL)
        return VR_GGUF_BAD(s, VRAM_EFORMAT, s->g->at, T("the key "), S(vr_shown(v->key)),
                           T(" is there twice"));
    return VRAM_OK;
}

static vram_status read_key(vr_gguf_scan *s)
{
    vr_gguf *g = s->g;
    uint64_t name = 0, name_end = 0, begin = 0, end = 0;
    vr_gguf_array array = { 0 };
    VR_TRY(read_key_name(s, &name, &name_end));
    uint64_t type = vr_gguf_number(s, name_end, 4);
    vr_meta v = { .type = (uint8_t)type, .offset = name_end + 4 };
    if (type >= VR_META_TYPES)
        return VR_GGUF_BAD(s, VRAM_EFORMAT, name_end, T("key "), U(g->keys_read + 1), T(" of "), U(g->n_keys),
                           T(" has the unknown value type "), U(type));
    VR_TRY(find_value(s, &v, &array, &begin, &end));
    v.key = vr_gguf_bytes(s, name, name_end - name);
    if (v.kept)
        v.bytes = vr_gguf_bytes(s, begin, end - begin);
    if (v.key.s == NULL || (v.kept && v.bytes.s == NULL))
        return VRAM_ENOMEM;
    VR_TRY(keep_key(s, &v));
    g->keys_read++;
    if (v.type == VR_META_ARRAY && !v.kept)
        return begin_array(s, array, end);
    return vr_gguf_advance(s, end);
}

static vram_status next_key(vr_gguf_scan *s)
{
    vr_gguf *g = s->g;
    if (g->depth > 0)
        return pass_element(s);
    if (g->keys_read < g->n_keys)
        return read_key(s);
    g->stage = VR_GGUF_TENSORS;
    return VRAM_OK;
}

static vram_status next_tensor(vr_gguf_scan *s)
{
    vr_gguf *g = s->g;
    if (g->n < g->n_tensors)
        return vr_gguf_tensor_next(s);
    g->data_begin = vr_round_up(g->at, g->alignment);
    g->stage = VR_GGUF_DONE;
    return VRAM_OK;
}

/* ---- how much to ask for ---- */

static uint64_t expected_tokenizer(const vr_gguf *g)
{
    const vr_metadata *m = &g->metadata;
    const vr_meta *tokens = vr_metadata_get(m, "tokenizer.ggml.tokens");
    uint64_t mean = g->n_strings != 0 ? g->string_bytes / g->n_strings : 20, bytes = 0;
    vr_str model = { NULL, 0 };
    if (tokens == NULL)
        return 0;
    (void)vr_metadata_str(m, "tokenizer.ggml.model", &model);
    if (vr_metadata_get(m, "tokenizer.ggml.token_type") == NULL)
        bytes += 4 * tokens->count;
    /* a merge is two parts of a token and a space; models of OpenAI's kind have up to 2.2 for each token */
    if (vr_str_is(model, "gpt2") && vr_metadata_get(m, "tokenizer.ggml.merges") == NULL)
        bytes += tokens->count * 9 / 4 * (mean + 1);
    if (!vr_str_is(model, "gpt2") && vr_metadata_get(m, "tokenizer.ggml.scores") == NULL)
        bytes += 4 * tokens->count;
    return bytes;
}

/* Bytes of the header that are still to come, as far as one can tell. */
static uint64_t expected(const vr_gguf *g)
{
    uint64_t bytes = expected_tokenizer(g), mean = g->n_strings != 0 ? g->string_bytes / g->n_strings : 20;
    for (unsigned i = 0; i < g->depth; i++)
        bytes = vr_add_sat(bytes, vr_mul_sat(g->arrays[i].left, mean + 1));
    if (vr_metadata_get(&g->metadata, "tokenizer.chat_template") == NULL)
        bytes = vr_add_sat(bytes, 16 * VR_KIB);
    bytes = vr_add_sat(bytes, vr_mul_sat(g->n_keys - g->keys_read, 48));
    return vr_add_sat(bytes, vr_mul_sat(g->n_tensors - g->n, 80));
}

/* Where a request should end at most: what is expected and a bit, from a disk no more than doubles what is
 * there. */
static uint64_t request_end(const vr_gguf_scan *s)
{
    const vr_gguf *g = s->g;
    uint64_t cost = s->ck->loading->request_cost, n = g->stage == VR_GGUF_START ? 0 : expected(g);
    uint64_t slack = n / 16 + 16 * VR_KIB, growth = g->known > GROWTH_LEAST ? g->known : GROWTH_LEAST;
    n = vr_add_sat(n, slack);
    if (cost > 0 && n < cost)
        n = cost;
    if (cost == 0 && n > growth)
        n = growth;
    if (n > REQUEST_MOST)
        n = REQUEST_MOST;
    uint64_t end = vr_add_sat(g->at, n);
    end = end < s->least ? s->least : end;
    return end < s->in->size ? end : s->in->size;
}

/* ---- the format ---- */

static vram_status next_item(vr_gguf_scan *s)
{
    switch (s->g->stage) {
    case VR_GGUF_START:
        return start(s);
    case VR_GGUF_KEYS:
        return next_key(s);
    default:
        return next_tensor(s);
    }
}

static vram_status probe(vram_checkpoint *ck, vr_input *in)
{
    bool known = false;
    if (in->state == NULL)
        in->state = VR_NEW(&ck->arena, vr_gguf);
    vr_gguf_scan s = { .ck = ck, .in = in, .g = in->state, .waits = vr_fault_waits(ck) };
    if (s.g == NULL)
        return VRAM_ENOMEM;
    if (s.g->stage == VR_GGUF_DONE)
        return VRAM_OK;
    VR_TRY(vr_view_settle(&in->view, ck->ctx));
    s.g->known = vr_view_known(&in->view, s.g->at);
    vram_status status = VRAM_OK;
    while (status == VRAM_OK && s.g->stage != VR_GGUF_DONE)
        status = next_item(&s);
    if (status == VRAM_MORE && s.least != 0)
        VR_TRY(vr_want_bytes(ck, in, s.g->at, s.least, request_end(&s), &known));
    return status;
}

static bool is_gguf(const unsigned char *head, size_t n)
{
    return n >= MAGIC_BYTES && memcmp(head, "GGUF", MAGIC_BYTES) == 0;
}

const vr_format vr_format_gguf = { "gguf", is_gguf, probe, vr_gguf_bound, vr_gguf_read };
