/* SPDX-License-Identifier: MIT
 * Zip files of torch.save, sound but for one number, which is what each row changes. Where things stand:
 * APPNOTE.TXT 6.3.10, 4.3.12 (entry of the directory), 4.3.16 (end record). */
#include <zlib.h>

#include "source.h"

#include "../support/torch_made.h"

static const made_tensor two[] = {
    { "a.weight", "FloatStorage", "0", 20, 0, { 4, 5 }, { 5, 1 }, 2 },
    { "a.bias", "HalfStorage", "1", 4, 0, { 4 }, { 1 }, 1 },
};

typedef enum where { NOWHERE, ENTRY, END } where;

/* The n-th record of that kind, which ends where the file does or before. */
static char *record(const bytes *b, where kind, int n)
{
    static const char *const marks[] = { "", "PK\1\2", "PK\5\6" };
    for (size_t i = 0; i + 4 <= b->n; i++) {
        if (memcmp(b->p + i, marks[kind], 4) == 0 && n-- == 0)
            return b->p + i;
    }
    fail_msg("no such record");
    return NULL;
}

/* data.pkl is deflated, the two storages are stored; a Deflate stream ends by itself. */
static bytes zip_file(void)
{
    bytes p = { NULL, 0, 0 };
    char packed[4096], zeros[80] = { 0 };
    put_text(&p, "\x80\x02");
    pk_state(&p, two, 2, 0);
    put_text(&p, ".");
    z_stream s = { .next_in = (Bytef *)p.p, .avail_in = (uInt)p.n, .next_out = (Bytef *)packed };
    s.avail_out = sizeof(packed);
    assert_int_equal(deflateInit2(&s, 9, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
    assert_int_equal(deflate(&s, Z_FINISH), Z_STREAM_END);
    deflateEnd(&s);
    made_zip z = { .n = 0 };
    zip_add(&z, "archive/data.pkl", packed, s.total_out, p.n, 8);
    zip_add(&z, "archive/data/0", zeros, 80, 80, 0);
    zip_add(&z, "archive/data/1", zeros, 8, 8, 0);
    zip_end(&z);
    free(p.p);
    return z.file;
}

static void add_at(char *p, size_t at, int by)
{
    uint32_t v = 0;
    for (size_t i = 0; i < 4; i++)
        v |= (uint32_t)(unsigned char)p[at + i] << 8 * i;
    v += (uint32_t)by;
    for (size_t i = 0; i < 4; i++)
        p[at + i] = (char)(v >> 8 * i & 0xff);
}

typedef struct change {
    where kind;
    int n;
    size_t at[2]; /* of four bytes in the record; the second one only when it is not 0 */
    int by;
    vram_status code;
    const char *text;
} change;

static const change rows[] = {
    { NOWHERE, 0, { 0, 0 }, 0, VRAM_OK, NULL },
    { ENTRY, 0, { 8, 0 }, 1, VRAM_EUNSUPPORTED, "archive/data.pkl is encrypted" },
    { ENTRY, 0, { 24, 0 }, 1, VRAM_EFORMAT, "does not unpack to the size it is said to have" },
    { ENTRY, 0, { 24, 0 }, -1, VRAM_EFORMAT, "does not unpack to the size it is said to have" },
    { ENTRY, 0, { 20, 0 }, -1, VRAM_EFORMAT, "does not unpack to the size it is said to have" },
    { ENTRY, 0, { 42, 0 }, 1, VRAM_EFORMAT, "archive/data.pkl is not where the directory says" },
    /* its 8 bytes of extra field and its own are all that lies between it and the directory */
    { ENTRY, 2, { 20, 24 }, 9, VRAM_EFORMAT, "does not lie before the directory" },
    { ENTRY, 2, { 20, 24 }, 8, VRAM_EFORMAT, "has 16 bytes, but 8 by its type" },
    { ENTRY, 2, { 42, 0 }, 1000000, VRAM_EFORMAT, "does not lie before the directory" },
    { ENTRY, 1, { 20, 0 }, 1, VRAM_EFORMAT, "has 81 bytes as stored and 80 as unpacked" },
    { ENTRY, 1, { 0, 0 }, 1, VRAM_EFORMAT, "directory is damaged" },
    { ENTRY, 2, { 28, 0 }, 1, VRAM_EFORMAT, "directory is damaged" },
    { END, 0, { 8, 0 }, 0x10001, VRAM_EFORMAT, "has 3 members, but 4 by its end record" },
    /* whatever is said of it: the directory is then elsewhere */
    { END, 0, { 12, 0 }, 1, VRAM_EFORMAT, "" },
    { END, 0, { 16, 0 }, -1, VRAM_EFORMAT, "" },
};

static void test_changed(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        for (feed how = FEED_MOST; how < FEEDS; how++) {
            const change *c = &rows[i];
            bytes b = zip_file();
            world *w = new_world();
            if (c->kind != NOWHERE)
                add_at(record(&b, c->kind, c->n), c->at[0], c->by);
            if (c->at[1] != 0)
                add_at(record(&b, c->kind, c->n), c->at[1], c->by);
            add_bytes(w, "model.pt", b.p, b.n, b.n);
            free(b.p);
            vram_status s = read_world(w, how);
            if (s != c->code || (c->text != NULL && strstr(vram_last_error(w->ctx)->text, c->text) == NULL)) {
                show_error(w);
                fail_msg("row %zu, feed %d: status %d", i, (int)how, (int)s);
            }
            if (s == VRAM_OK)
                assert_int_equal(w->ck->tensor_bytes, 88);
            end_world(w);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_changed) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
