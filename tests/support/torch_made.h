/* SPDX-License-Identifier: MIT
 * Writes files as torch.save does, for tests: pickles (protocol 2), zip files, the legacy form.
 * Source: PyTorch 2.15, torch/serialization.py; Python's Lib/pickle.py; APPNOTE.TXT 6.3.10. */
#ifndef VR_TEST_TORCH_MADE_H
#define VR_TEST_TORCH_MADE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct bytes {
    char *p;
    size_t n, room;
} bytes;

static inline void put(bytes *b, const void *p, size_t n)
{
    if (n > b->room - b->n) {
        b->room = b->room * 2 + n + 64;
        b->p = realloc(b->p, b->room);
        if (b->p == NULL)
            abort();
    }
    if (n > 0)
        memcpy(b->p + b->n, p, n);
    b->n += n;
}

static inline void put_text(bytes *b, const char *text)
{
    put(b, text, strlen(text));
}

static inline void put_number(bytes *b, uint64_t u, int size)
{
    for (int i = 0; i < size; i++)
        put(b, &(unsigned char){ (unsigned char)(i < 8 ? u >> 8 * i : 0) }, 1);
}

/* ---- pickles ---- */

static inline void pk_text(bytes *b, const char *text)
{
    put_text(b, "X");
    put_number(b, strlen(text), 4);
    put_text(b, text);
}

static inline void pk_int(bytes *b, uint64_t u)
{
    put_text(b, u > INT32_MAX ? "\x8a\x08" : "J");
    put_number(b, u, u > INT32_MAX ? 8 : 4);
}

typedef struct made_tensor {
    const char *name, *type, *key; /* type: "FloatStorage"; "float8_e4m3fn": v3 and an untyped storage */
    uint64_t elements, offset;     /* of the storage */
    uint64_t dims[4], strides[4];
    int n_dims;
} made_tensor;

static inline void pk_row(bytes *b, const uint64_t *row, int n)
{
    put_text(b, "(");
    for (int i = 0; i < n; i++)
        pk_int(b, row[i]);
    put_text(b, "t");
}

static inline void pk_storage(bytes *b, const char *type, const char *key, uint64_t elements, int legacy)
{
    put_text(b, "(");
    pk_text(b, "storage");
    put_text(b, "c");
    put_text(b, strcmp(type, "UntypedStorage") == 0 ? "torch.storage\n" : "torch\n");
    put_text(b, type);
    put_text(b, "\n");
    pk_text(b, key);
    pk_text(b, "cpu");
    pk_int(b, elements);
    put_text(b, legacy ? "NtQ" : "tQ");
}

static inline void pk_tensor(bytes *b, const made_tensor *t, int legacy)
{
    size_t n = strlen(t->type);
    int typed = n > 7 && strcmp(t->type + n - 7, "Storage") == 0;
    put_text(b, typed ? "ctorch._utils\n_rebuild_tensor_v2\n(" : "ctorch._utils\n_rebuild_tensor_v3\n(");
    pk_storage(b, typed ? t->type : "UntypedStorage", t->key, t->elements, legacy);
    pk_int(b, t->offset);
    pk_row(b, t->dims, t->n_dims);
    pk_row(b, t->strides, t->n_dims);
    put_text(b, "\x89"
                "ccollections\nOrderedDict\n)R");
    if (!typed) {
        put_text(b, "ctorch\n");
        put_text(b, t->type);
        put_text(b, "\n");
    }
    put_text(b, "tR");
}

/* {name: tensor, ...} as a dictionary on the stack. */
static inline void pk_state(bytes *b, const made_tensor *t, size_t n, int legacy)
{
    put_text(b, "}(");
    for (size_t i = 0; i < n; i++) {
        pk_text(b, t[i].name);
        pk_tensor(b, &t[i], legacy);
    }
    put_text(b, "u");
}

/* ---- zip files ---- */

enum { ZIP_64 = 1, ZIP_COMMENT = 2, ZIP_LONG_COMMENT = 4 };

typedef struct made_zip {
    bytes file, directory;
    unsigned n;
    int flags;
} made_zip;

static inline void zip_add(made_zip *z, const char *name, const void *p, size_t n, size_t unpacked,
                           int method)
{
    uint64_t at = z->file.n, wide = z->flags & ZIP_64;
    bytes *f = &z->file, *d = &z->directory;
    put_text(f, "PK\3\4");
    put(f, "\x2d\0\0\0", 4);
    put_number(f, (uint64_t)method, 2);
    put_number(f, 0, 8); /* time, date, checksum */
    put_number(f, n, 4);
    put_number(f, unpacked, 4);
    put_number(f, strlen(name), 2);
    put_number(f, 8, 2); /* as PyTorch aligns */
    put_text(f, name);
    put(f, "FB\4\0ZZZZ", 8);
    put(f, p, n);
    put_text(d, "PK\1\2");
    put(d, "\x2d\0\x2d\0\0\0", 6);
    put_number(d, (uint64_t)method, 2);
    put_number(d, 0, 8);
    put_number(d, wide ? UINT32_MAX : n, 4);
    put_number(d, wide ? UINT32_MAX : unpacked, 4);
    put_number(d, strlen(name), 2);
    put_number(d, wide ? 28 : 0, 2);
    put_number(d, 0, 10);
    put_number(d, wide ? UINT32_MAX : at, 4);
    put_text(d, name);
    if (wide) {
        put_number(d, 1, 2);
        put_number(d, 24, 2);
        put_number(d, unpacked, 8);
        put_number(d, n, 8);
        put_number(d, at, 8);
    }
    z->n++;
}

static inline void zip_end(made_zip *z)
{
    uint64_t at = z->file.n, n = z->directory.n, end = at + n;
    put(&z->file, z->directory.p, z->directory.n);
    if (z->flags & ZIP_64) {
        put_text(&z->file, "PK\6\6");
        put_number(&z->file, 44, 8);
        put_number(&z->file, 0x2d002d, 4);
        put_number(&z->file, 0, 8);
        put_number(&z->file, z->n, 8);
        put_number(&z->file, z->n, 8);
        put_number(&z->file, n, 8);
        put_number(&z->file, at, 8);
        put_text(&z->file, "PK\6\7");
        put_number(&z->file, 0, 4);
        put_number(&z->file, end, 8);
        put_number(&z->file, 1, 4);
    }
    bool wide = z->flags & ZIP_64;
    put_text(&z->file, "PK\5\6");
    put_number(&z->file, 0, 4);
    put_number(&z->file, z->n, 2);
    put_number(&z->file, z->n, 2);
    put_number(&z->file, wide ? UINT32_MAX : n, 4);
    put_number(&z->file, wide ? UINT32_MAX : at, 4);
    size_t comment = z->flags & ZIP_COMMENT ? 9 : z->flags & ZIP_LONG_COMMENT ? 65535 : 0;
    put_number(&z->file, comment, 2);
    for (size_t i = 0; i < comment; i++)
        put_text(&z->file, "c");
    free(z->directory.p);
    z->directory.p = NULL;
}

/* A member "archive/data/KEY" of n zeros. */
static inline void zip_storage(made_zip *z, const char *key, size_t n)
{
    char name[64] = "archive/data/";
    char *zeros = calloc(1, n + 1);
    if (zeros == NULL)
        abort();
    memcpy(name + strlen(name), key, strlen(key) < 40 ? strlen(key) : 40);
    zip_add(z, name, zeros, n, n, 0);
    free(zeros);
}

/* ---- the legacy form ---- */

static inline void legacy_begin(bytes *b)
{
    put(b, "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.", 15);
    put(b, "\x80\x02M\xe9\x03.", 6); /* 1001 */
    put_text(b, "\x80\x02}(");
    pk_text(b, "little_endian");
    put_text(b, "\x88u.");
}

static inline void legacy_keys(bytes *b, const char *const *keys, size_t n)
{
    put_text(b, "\x80\x02](");
    for (size_t i = 0; i < n; i++)
        pk_text(b, keys[i]);
    put_text(b, "e.");
}

static inline void legacy_storage(bytes *b, uint64_t elements, size_t n)
{
    put_number(b, elements, 8);
    for (size_t i = 0; i < n; i++)
        put_number(b, 0, 1);
}

#endif
