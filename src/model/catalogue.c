/* SPDX-License-Identifier: MIT
 * The built-in catalogue: names, and checkpoints that are a configuration alone. */
#include "model/catalogue.h"

#include "checkpoint/checkpoint.h"

#include <string.h>

#define CONFIG "config.json"
#define MOST_CONFIG (256 * VR_KIB)

extern const vr_catalogue_row vr_catalogue_table[];
extern const size_t vr_catalogue_table_n;

const vr_catalogue_row *vr_catalogue(size_t *n)
{
    *n = vr_catalogue_table_n;
    return vr_catalogue_table;
}

/* ---- names ---- */

static bool same(vr_str a, vr_str b)
{
    for (size_t i = 0; i < a.n && i < b.n; i++) {
        if (vr_lower(a.s[i]) != vr_lower(b.s[i]))
            return false;
    }
    return a.n == b.n;
}

static bool is_called(const vr_catalogue_row *row, vr_str name)
{
    vr_str rest = vr_str_of(row->aliases != NULL ? row->aliases : ""), word;
    if (same(vr_str_of(row->name), name) || same(vr_str_of(row->repo), name))
        return true;
    while (vr_str_split(&rest, ' ', &word)) {
        if (word.n != 0 && same(word, name))
            return true;
    }
    return false;
}

const vr_catalogue_row *vr_catalogue_find(vr_str name)
{
    for (size_t i = 0; i < vr_catalogue_table_n; i++) {
        if (is_called(&vr_catalogue_table[i], name))
            return &vr_catalogue_table[i];
    }
    return NULL;
}

const char *vram_catalogue_name(const char *name)
{
    const vr_catalogue_row *row = vr_catalogue_find(vr_str_of(name));
    return row != NULL ? row->name : NULL;
}

/* Names and aliases, repositories not. NULL: no memory. */
static const char **all_names(vr_arena *a, size_t *n)
{
    size_t room = vr_catalogue_table_n;
    for (size_t i = 0; i < vr_catalogue_table_n; i++)
        room += vr_catalogue_table[i].aliases != NULL ? strlen(vr_catalogue_table[i].aliases) / 2 + 1 : 0;
    const char **names = VR_ARRAY(a, const char *, room);
    for (size_t i = 0; names != NULL && i < vr_catalogue_table_n; i++) {
        const vr_catalogue_row *row = &vr_catalogue_table[i];
        vr_str rest = vr_str_of(row->aliases != NULL ? row->aliases : ""), word;
        names[(*n)++] = row->name;
        while (vr_str_split(&rest, ' ', &word)) {
            const char *copy = word.n != 0 && !vr_str_find(word, "/", NULL) ? vr_arena_copy(a, word) : NULL;
            if (copy != NULL)
                names[(*n)++] = copy;
        }
    }
    return names;
}

const char *vram_catalogue_near(vram_ctx *ctx, const char *word)
{
    size_t n = 0;
    const char **names = all_names(&ctx->arena, &n);
    char *folded = vr_arena_copy(&ctx->arena, vr_str_of(word));
    if (names == NULL || folded == NULL)
        return NULL;
    for (char *c = folded; *c != '\0'; c++)
        *c = *c == ':' || *c == '_' ? '-' : vr_lower(*c);
    return vram_nearest(folded, names, n);
}

/* ---- the configuration ---- */

static void put_plain(vr_buf *out, const char **p)
{
    size_t n = 1;
    if (**p == '"') { /* no string of the table has an escape but \\ */
        while ((*p)[n] != '\0' && (*p)[n] != '"')
            n += (*p)[n] == '\\' && (*p)[n + 1] != '\0' ? 2 : 1;
        n += (*p)[n] == '"';
    }
    vr_put_bytes(out, *p, n);
    *p += n;
}

static void put_repeated(vr_buf *out, const char **p);

/* Up to the end, or to the bracket that ends what is repeated. */
static void put_expanded(vr_buf *out, const char **p)
{
    while (**p != '\0' && **p != ')') {
        if (**p == '*')
            put_repeated(out, p);
        else
            put_plain(out, p);
    }
}

/* "*3(1,2)" */
static void put_repeated(vr_buf *out, const char **p)
{
    vr_str rest = vr_str_of(*p + 1), digits = { "", 0 };
    uint64_t n = 0;
    (void)vr_str_split(&rest, '(', &digits);
    (void)vr_parse_u64(digits, &n);
    const char *unit = digits.s + digits.n + 1;
    for (uint64_t i = 0; i < n; i++) {
        *p = unit;
        vr_put_bytes(out, ",", i != 0);
        put_expanded(out, p);
    }
    *p += **p == ')';
}

vr_str vr_catalogue_config(const vr_catalogue_row *row, vr_arena *a)
{
    const char *p = row->config;
    vr_str text = { NULL, 0 };
    vr_buf out;
    vr_buf_init(&out, a->ctx, MOST_CONFIG);
    put_expanded(&out, &p);
    if (!out.failed) {
        text.s = vr_arena_copy(a, (vr_str){ out.p, out.n });
        text.n = out.n;
    }
    vr_buf_free(&out);
    return text;
}

/* ---- a checkpoint of it ---- */

static vram_status supply(vram_checkpoint *ck, vr_str config)
{
    VR_TRY(vram_checkpoint_named(ck, CONFIG));
    VR_TRY(vram_checkpoint_add_file(ck, CONFIG, config.n));
    VR_TRY(vram_checkpoint_listed(ck));
    return vram_checkpoint_supply(ck, CONFIG, 0, config.s, config.n);
}

vram_status vram_checkpoint_catalogue(vram_checkpoint **out, vram_ctx *ctx, const char *name)
{
    const vr_catalogue_row *row = vr_catalogue_find(vr_str_of(name));
    vram_checkpoint *ck = NULL;
    if (row == NULL)
        return vr_fail(ctx, VRAM_ENOTFOUND, T("the built-in catalogue has no \""), T(name), T("\""));
    VR_TRY(vram_checkpoint_new(&ck, ctx, row->repo));
    ck->catalogue = row;
    vr_str config = vr_catalogue_config(row, &ck->arena);
    if (config.s == NULL)
        return VRAM_ENOMEM;
    VR_TRY(vram_checkpoint_read_from(ck, "the built-in catalogue"));
    VR_TRY(supply(ck, config));
    VR_TRY(vram_checkpoint_step(ck));
    *out = ck;
    return VRAM_OK;
}
