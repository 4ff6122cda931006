/* SPDX-License-Identifier: MIT
 * Small GGUF files of any version and byte order, for tests.
 * Written from ggml, docs/gguf.md. */
#ifndef VR_TEST_GGUF_MADE_H
#define VR_TEST_GGUF_MADE_H

#include <stdint.h>
#include <string.h>

#define GGUF_ROOM 8192

typedef struct gguf {
    unsigned version;
    int big; /* byte order */
    unsigned char bytes[GGUF_ROOM];
    size_t n;
    uint64_t n_keys, n_tensors;
} gguf;

enum { G_U8, G_I8, G_U16, G_I16, G_U32, G_I32, G_F32, G_BOOL, G_STR, G_ARRAY, G_U64, G_I64, G_F64 };

static inline void g_bytes(gguf *g, const void *p, size_t n)
{
    if (n <= GGUF_ROOM - g->n) {
        memcpy(g->bytes + g->n, p, n);
        g->n += n;
    }
}

static inline void g_number(gguf *g, uint64_t v, unsigned n)
{
    unsigned char b[8];
    for (unsigned i = 0; i < n; i++)
        b[i] = (unsigned char)(v >> 8 * (g->big ? n - 1 - i : i));
    g_bytes(g, b, n);
}

/* A length or a count. */
static inline void g_word(gguf *g, uint64_t v)
{
    g_number(g, v, g->version == 1 ? 4 : 8);
}

static inline void g_text(gguf *g, const char *text)
{
    g_word(g, strlen(text));
    g_bytes(g, text, strlen(text));
}

static inline void g_start(gguf *g)
{
    g->n = 0;
    g->n_keys = g->n_tensors = 0;
    g_bytes(g, "GGUF", 4);
    g_number(g, g->version, 4);
    g_word(g, 0);
    g_word(g, 0);
}

static inline void g_counts(gguf *g, uint64_t n_tensors, uint64_t n_keys)
{
    size_t end = g->n;
    g->n = 8;
    g_word(g, n_tensors);
    g_word(g, n_keys);
    g->n = end;
}

static inline void g_key(gguf *g, const char *key, unsigned type)
{
    g_text(g, key);
    g_number(g, type, 4);
    g->n_keys++;
}

static inline void g_key_number(gguf *g, const char *key, unsigned type, uint64_t v, unsigned bytes)
{
    g_key(g, key, type);
    g_number(g, v, bytes);
}

static inline void g_key_u32(gguf *g, const char *key, uint32_t v)
{
    g_key_number(g, key, G_U32, v, 4);
}

static inline void g_key_text(gguf *g, const char *key, const char *text)
{
    g_key(g, key, G_STR);
    g_text(g, text);
}

/* The elements follow. */
static inline void g_array(gguf *g, unsigned type, uint64_t count)
{
    g_number(g, type, 4);
    g_word(g, count);
}

static inline void g_tensor(gguf *g, const char *name, unsigned type, uint64_t ne0, uint64_t ne1,
                            uint64_t offset)
{
    g_text(g, name);
    g_number(g, ne1 != 0 ? 2 : 1, 4);
    g_word(g, ne0);
    if (ne1 != 0)
        g_word(g, ne1);
    g_number(g, type, 4);
    g_number(g, offset, 8);
    g->n_tensors++;
}

/* Counts, the padding before the data, and so many bytes of it; returns where the data begins. */
static inline size_t g_end(gguf *g, size_t alignment, size_t data)
{
    static const unsigned char zeros[GGUF_ROOM];
    g_counts(g, g->n_tensors, g->n_keys);
    g_bytes(g, zeros, (alignment - g->n % alignment) % alignment);
    size_t begin = g->n;
    g_bytes(g, zeros, data);
    return begin;
}

/* Something of all there is: 3 tensors, 192 bytes of data. */
static inline size_t g_sample(gguf *g)
{
    g_start(g);
    g_key_text(g, "general.architecture", "llama");
    g_key_u32(g, "general.alignment", 64);
    g_key_number(g, "t.u8", G_U8, 200, 1);
    g_key_number(g, "t.i8", G_I8, (uint64_t)-100, 1);
    g_key_number(g, "t.u16", G_U16, 60000, 2);
    g_key_number(g, "t.i16", G_I16, (uint64_t)-30000, 2);
    g_key_number(g, "t.i32", G_I32, (uint64_t)-2000000000, 4);
    g_key_number(g, "t.f32", G_F32, 0x3FC00000, 4); /* 1.5 */
    g_key_number(g, "t.bool", G_BOOL, 1, 1);
    g_key_number(g, "t.u64", G_U64, UINT64_MAX, 8);
    g_key_number(g, "t.i64", G_I64, (uint64_t)INT64_MIN, 8);
    g_key_number(g, "t.f64", G_F64, UINT64_C(0xC004000000000000), 8); /* -2.5 */
    g_key(g, "t.numbers", G_ARRAY);
    g_array(g, G_I16, 3);
    g_number(g, 1, 2);
    g_number(g, (uint64_t)-2, 2);
    g_number(g, 3, 2);
    g_key(g, "t.texts", G_ARRAY);
    g_array(g, G_STR, 3);
    g_text(g, "a");
    g_text(g, "");
    g_text(g, "some longer text");
    g_key(g, "t.nested", G_ARRAY);
    g_array(g, G_ARRAY, 2);
    g_array(g, G_U8, 2);
    g_number(g, 7, 1);
    g_number(g, 8, 1);
    g_array(g, G_STR, 1);
    g_text(g, "deep");
    g_key_text(g, "t.last", "end");
    g_tensor(g, "token_embd.weight", 0, 4, 2, 0);     /* F32: 32 bytes, padded to 64 */
    g_tensor(g, "blk.0.attn_k.weight", 2, 32, 2, 64); /* Q4_0: two rows of 18 */
    g_tensor(g, "output_norm.weight", 0, 4, 0, 128);
    return g_end(g, 64, 192);
}

#endif
