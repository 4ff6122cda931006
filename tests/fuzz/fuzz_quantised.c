/* SPDX-License-Identifier: MIT
 * Any tensors that a quantised layout could have, with any shape and type, under any config.json. The first
 * line of the input makes the tensors, four bytes each: layout, which of its tensors, type and whether a new
 * matrix begins, dimensions; the rest is config.json. What must hold: no error but one of memory, of the file
 * or of config.json; each tensor is counted once; components and parameters add up. */
#include "fuzz.h"

#include <string.h>

#include "../support/hook.h"
#include "model/layouts.h"
#include "model/model.h"

#define ROOM ((size_t)1 << 17)
#define MOST_TENSORS 400

typedef struct header {
    char bytes[ROOM];
    size_t n;
    uint64_t data;
    unsigned matrix;
} header;

static header file;

static vr_dtype dtype_of(const vr_layout *l, uint8_t byte)
{
    vr_dtype d = (vr_dtype)(1 + byte % (VR_GGML_FIRST - 1));
    if (byte % 2 == 0)
        for (d = (vr_dtype)1; d < VR_GGML_FIRST - 1 && (l->dtypes >> d & 1) == 0;)
            d = (vr_dtype)(d + 1);
    return d;
}

static uint64_t put_dims(header *h, uint8_t byte)
{
    static const uint64_t sizes[] = { 0, 1, 2, 16, 32, 64, 96, 1 << 20 };
    uint64_t elements = 1;
    for (unsigned i = 0; i < byte % 5; i++) {
        uint64_t n = sizes[(byte >> i) % 8];
        h->n += (size_t)snprintf(h->bytes + h->n, ROOM - h->n, "%s%llu", i != 0 ? "," : "",
                                 (unsigned long long)n);
        elements *= elements < UINT64_C(1) << 30 ? n : n != 0;
        if (elements == 0 || elements >= UINT64_C(1) << 30)
            break;
    }
    return elements;
}

static void put(header *h, const uint8_t *four)
{
    size_t n, sides = 0;
    const vr_layout *l = &vr_layouts(&n)[0];
    l += four[0] % n;
    while (sides < VR_MOST_SIDES && l->sides[sides] != NULL)
        sides++;
    size_t which = four[1] % (sides + 1);
    vr_dtype d = dtype_of(l, four[2]);
    h->matrix += four[2] >= 64;
    h->n += (size_t)snprintf(
        h->bytes + h->n, ROOM - h->n, "%c\"model.layers.0.m%u%s\":{\"dtype\":\"%s\",\"shape\":[",
        h->n == 8 ? '{' : ',', h->matrix, which == 0 ? l->packed : l->sides[which - 1], vr_dtype_name(d));
    uint64_t bytes = put_dims(h, four[3]) * vr_dtype_bits(d) / 8;
    h->n += (size_t)snprintf(h->bytes + h->n, ROOM - h->n, "],\"data_offsets\":[%llu,%llu]}",
                             (unsigned long long)h->data, (unsigned long long)(h->data + bytes));
    h->data += bytes;
}

static void make(header *h, const uint8_t *line, size_t n)
{
    *h = (header){ .n = 8 };
    for (size_t i = 0; i + 4 <= n && i / 4 < MOST_TENSORS; i += 4)
        put(h, line + i);
    if (h->n == 8)
        h->bytes[h->n++] = '{';
    h->bytes[h->n++] = '}';
    CHECK(h->n < ROOM);
    for (size_t i = 0; i < 8; i++)
        h->bytes[i] = (char)((h->n - 8) >> 8 * i & 0xff);
}

static vram_status load(vram_checkpoint **ck, vram_ctx *ctx, const char *config, size_t n)
{
    const vram_want *wants;
    vram_status s;
    CHECK(vram_checkpoint_new(ck, ctx, "fuzz") == VRAM_OK);
    CHECK(vram_checkpoint_add_file(*ck, "config.json", n) == VRAM_OK);
    CHECK(vram_checkpoint_add_file(*ck, "model.safetensors", file.n + file.data) == VRAM_OK);
    CHECK(vram_checkpoint_listed(*ck) == VRAM_OK);
    for (unsigned round = 0; (s = vram_checkpoint_step(*ck)) == VRAM_MORE; round++) {
        size_t n_wants = vram_checkpoint_wants(*ck, &wants);
        CHECK(round < 100);
        for (size_t i = 0; i < n_wants; i++) {
            bool is_config = strcmp(wants[i].file, "config.json") == 0;
            size_t size = is_config ? n : file.n, from = (size_t)wants[i].offset;
            CHECK(from < size);
            size_t most = wants[i].most < size - from ? (size_t)wants[i].most : size - from;
            CHECK(vram_checkpoint_supply(*ck, wants[i].file, from, (is_config ? config : file.bytes) + from,
                                         most) == VRAM_OK);
        }
    }
    return s;
}

static void check_sums(vram_ctx *ctx, const vram_model *m)
{
    const vr_quantised *q = &m->packing;
    vr_arena a;
    vr_component *c;
    size_t n, packed = 0;
    uint64_t sum = 0, in_components = 0, narrow = 0;
    for (size_t i = 0; i < m->checkpoint->n_tensors; i++) {
        const vr_tensor *t = &m->checkpoint->tensors[i];
        CHECK(q->role[i] != VR_ROLE_SIDE || q->parameters[i] == 0);
        CHECK(q->role[i] != VR_ROLE_PLAIN || q->parameters[i] == t->elements);
        packed += q->role[i] == VR_ROLE_PACKED;
        narrow += q->role[i] != VR_ROLE_PLAIN ? t->end - t->begin : 0;
        sum = vr_add_sat(sum, q->parameters[i]);
    }
    CHECK(sum == m->parameters && packed == q->quantised_matrices && q->matrices >= packed);
    CHECK(q->packed_bytes + q->scale_bytes == narrow && m->quantised == (packed != 0 || m->quantised));
    CHECK(q->bits_low <= q->bits_high && q->bits_high <= VR_MOST_BITS);
    CHECK(q->layout == NULL || (q->method != NULL && q->title != NULL));
    vr_arena_init(&a, ctx);
    CHECK(vr_model_components(m, &a, &c, &n) == VRAM_OK);
    for (size_t i = 0; i < n; i++)
        in_components = vr_add_sat(in_components, c[i].elements);
    CHECK(in_components == m->parameters);
    vr_arena_free(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *end = size != 0 ? memchr(data, '\n', size) : NULL;
    size_t line = end != NULL ? (size_t)(end - data) : size;
    const char *config = end != NULL ? (const char *)end + 1 : "{}";
    hook h = { 0 };
    vram_ctx *ctx;
    vram_checkpoint *ck;
    vram_model *m;
    make(&file, data, line);
    CHECK(vram_open(&ctx, hook_alloc, &h) == VRAM_OK);
    vram_status s = load(&ck, ctx, config, end != NULL ? size - line - 1 : 2);
    if (s == VRAM_OK)
        s = vram_model_new(&m, ck);
    if (s == VRAM_OK)
        check_sums(ctx, m);
    else
        CHECK(vram_last_error(ctx)->file != NULL);
    vram_close(ctx);
    CHECK(h.live_bytes == 0 && h.live_blocks == 0);
    return 0;
}
