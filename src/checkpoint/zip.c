/* SPDX-License-Identifier: MIT
 * Zip files: the end record in the file's tail, the directory, a member's local header.
 * Source: PKWARE APPNOTE.TXT 6.3.10, sections 4.3.7 (local header), 4.3.12 (directory), 4.3.14 to 4.3.16 (end
 * records), 4.5.3 (zip64 field). PyTorch writes zip64 records always and stores its members
 * (caffe2/serialize/inline_container.cc); other tools deflate them. Checksums are not held against anything:
 * torch.save can be told not to compute them (torch.serialization.set_crc32_options), and torch.load does not
 * look at them. */
#include "checkpoint/zip.h"

#include <string.h>
#include <zlib.h>

#define END_BYTES 22
#define END64_BYTES 56
#define LOCATOR_BYTES 20
#define ENTRY_BYTES 46
#define LOCAL_BYTES 30
#define COMMENT_MOST 65535
#define TAIL_BYTES (32 * VR_KIB)
/* deflate: 258 bytes from 2 bits at best (RFC 1951, 3.2.5) */
#define DEFLATE_MOST 1032

#define BAD(ck, in, code, at, ...) vr_fail_at((ck)->ctx, (code), (in)->name, (at), __VA_ARGS__)

static uint64_t number(const char *p, size_t bytes)
{
    uint64_t n = 0;
    for (size_t i = bytes; i-- > 0;)
        n = n << 8 | (unsigned char)p[i];
    return n;
}

static bool is_record(const char *p, char a, char b)
{
    return p[0] == 'P' && p[1] == 'K' && p[2] == a && p[3] == b;
}

/* ---- where the directory is ---- */

static vram_status known_bytes(vram_checkpoint *ck, vr_input *in, vr_arena *a, uint64_t at, uint64_t n,
                               const char **out)
{
    bool known = false;
    VR_TRY(vr_want_bytes(ck, in, at, at + n, at + n, &known));
    if (!known)
        return VRAM_MORE;
    *out = vr_view_get(&in->view, a, at, (size_t)n);
    return *out == NULL ? VRAM_ENOMEM : VRAM_OK;
}

/* The end record is the last one whose comment ends with the file. */
static bool find_end(const char *tail, size_t n, size_t *at)
{
    for (size_t i = n - END_BYTES + 1; i-- > 0;) {
        if (is_record(tail + i, 5, 6) && number(tail + i + 20, 2) == n - i - END_BYTES) {
            *at = i;
            return true;
        }
    }
    return false;
}

static vram_status read_end64(vr_zip *z, vram_checkpoint *ck, vr_input *in, vr_arena *a, const char *locator,
                              uint64_t locator_at)
{
    uint64_t at = number(locator + 8, 8);
    const char *p;
    if (at > locator_at || locator_at - at < END64_BYTES)
        return BAD(ck, in, VRAM_EFORMAT, locator_at + 8,
                   T("the zip64 end record is not where it is said to be"));
    VR_TRY(known_bytes(ck, in, a, at, END64_BYTES, &p));
    if (!is_record(p, 6, 6))
        return BAD(ck, in, VRAM_EFORMAT, at, T("the zip64 end record does not begin with its mark"));
    z->n_said = number(p + 32, 8);
    z->directory_bytes = number(p + 40, 8);
    z->directory_at = number(p + 48, 8);
    return VRAM_OK;
}

static vram_status no_end(vram_checkpoint *ck, const vr_input *in)
{
    vram_status s = BAD(ck, in, VRAM_EFORMAT, in->size, T("the zip file has no end record; cut download?"));
    vr_hint(ck->ctx, "compare the file's size with what its source says, and download it again");
    return s;
}

/* *tail: the last *n bytes, with the end record at *at. Few files have a comment, so half of what may be
 * needed is enough mostly, and was asked for already (vr_want_first). */
static vram_status find_tail(vram_checkpoint *ck, vr_input *in, vr_arena *a, const char **tail, uint64_t *n,
                             size_t *at)
{
    static const uint64_t tries[] = { TAIL_BYTES, END_BYTES + LOCATOR_BYTES + COMMENT_MOST };
    for (size_t i = 0; i < 2; i++) {
        *n = in->size < tries[i] ? in->size : tries[i];
        VR_TRY(known_bytes(ck, in, a, in->size - *n, *n, tail));
        bool found = *n >= END_BYTES && find_end(*tail, (size_t)*n, at);
        if (found && (*at >= LOCATOR_BYTES || *n == in->size || i == 1)) /* with what stands before it */
            return VRAM_OK;
    }
    return no_end(ck, in);
}

static vram_status locate(vr_zip *z, vram_checkpoint *ck, vr_input *in, vr_arena *a)
{
    const char *tail;
    uint64_t n;
    size_t at = 0;
    VR_TRY(find_tail(ck, in, a, &tail, &n, &at));
    const char *end = tail + at;
    uint64_t stop = in->size - n + at;
    z->n_said = number(end + 10, 2);
    z->directory_bytes = number(end + 12, 4);
    z->directory_at = number(end + 16, 4);
    if (at >= LOCATOR_BYTES && is_record(end - LOCATOR_BYTES, 6, 7)) {
        stop -= LOCATOR_BYTES;
        VR_TRY(read_end64(z, ck, in, a, end - LOCATOR_BYTES, stop));
    }
    if (z->directory_at > stop || z->directory_bytes > stop - z->directory_at)
        return BAD(ck, in, VRAM_EFORMAT, stop, T("the zip file's directory is said to end at "),
                   U(vr_add_sat(z->directory_at, z->directory_bytes)), T(", behind its end record"));
    return VRAM_OK;
}

/* ---- the directory ---- */

/* The zip64 field has those of the three that do not fit 32 bits, in this order. */
static bool read_zip64(vr_zip_member *m, const char *p, size_t n)
{
    uint64_t *const wide[] = { &m->size, &m->packed, &m->at };
    size_t at = 0;
    for (size_t i = 0; i < 3; i++) {
        if (*wide[i] != UINT32_MAX)
            continue;
        if (n - at < 8)
            return false;
        *wide[i] = number(p + at, 8);
        at += 8;
    }
    return true;
}

static bool read_extra(vr_zip_member *m, const char *p, size_t n)
{
    while (n >= 4) {
        size_t field = (size_t)number(p + 2, 2);
        if (field > n - 4)
            return false;
        if (number(p, 2) == 1)
            return read_zip64(m, p + 4, field);
        p += 4 + field;
        n -= 4 + field;
    }
    return true;
}

/* Of n bytes; returns how many it took, 0: it is damaged. */
static size_t read_entry(vr_zip_member *m, const char *p, size_t n)
{
    if (n < ENTRY_BYTES || !is_record(p, 1, 2))
        return 0;
    size_t name = (size_t)number(p + 28, 2), extra = (size_t)number(p + 30, 2);
    size_t all = ENTRY_BYTES + name + extra + (size_t)number(p + 32, 2);
    if (all > n)
        return 0;
    *m = (vr_zip_member){ .name = { p + ENTRY_BYTES, name },
                          .size = number(p + 24, 4),
                          .packed = number(p + 20, 4),
                          .at = number(p + 42, 4),
                          .method = (unsigned)number(p + 10, 2),
                          .encrypted = (number(p + 8, 2) & 1) != 0 };
    return read_extra(m, p + ENTRY_BYTES + name, extra) ? all : 0;
}

static vram_status check_member(const vr_zip *z, vram_checkpoint *ck, const vr_input *in,
                                const vr_zip_member *m, uint64_t place)
{
    if (m->at > z->directory_at || z->directory_at - m->at < LOCAL_BYTES + m->name.n ||
        m->packed > z->directory_at - m->at - LOCAL_BYTES - m->name.n)
        return BAD(ck, in, VRAM_EFORMAT, place, T("the zip file's member "), S(m->name), T(" with "),
                   GROUPED(m->packed), T(" bytes at "), GROUPED(m->at),
                   T(" does not lie before the directory; cut download?"));
    if (m->method == 0 && m->size != m->packed)
        return BAD(ck, in, VRAM_EFORMAT, place, T("the zip file's member "), S(m->name), T(" has "),
                   GROUPED(m->packed), T(" bytes as stored and "), GROUPED(m->size), T(" as unpacked"));
    if (m->method == Z_DEFLATED && m->size > vr_mul_sat(m->packed, DEFLATE_MOST))
        return BAD(ck, in, VRAM_EFORMAT, place, T("the zip file's member "), S(m->name), T(" cannot have "),
                   GROUPED(m->size), T(" bytes when "), GROUPED(m->packed), T(" are stored"));
    return VRAM_OK;
}

static vram_status read_entries(vr_zip *z, vram_checkpoint *ck, const vr_input *in, const char *p)
{
    size_t n = (size_t)z->directory_bytes, at = 0;
    while (at < n) {
        vr_zip_member *m = &z->members[z->n_members];
        size_t took = read_entry(m, p + at, n - at);
        if (took == 0)
            return BAD(ck, in, VRAM_EFORMAT, z->directory_at + at, T("the zip file's directory is damaged"));
        VR_TRY(check_member(z, ck, in, m, z->directory_at + at));
        z->n_members++;
        at += took;
    }
    if (z->n_members != z->n_said)
        return BAD(ck, in, VRAM_EFORMAT, z->directory_at + n, T("the zip file's directory has "),
                   U(z->n_members), T(" members, but "), U(z->n_said), T(" by its end record"));
    return VRAM_OK;
}

static vram_status count_directory(const vr_zip *z, vram_checkpoint *ck, const vr_input *in)
{
    vr_loading *l = ck->loading;
    if (z->directory_bytes > VR_MAX_HEADERS_BYTES - l->headers_bytes)
        return BAD(ck, in, VRAM_ELIMIT, z->directory_at, T("the zip file's directory has "),
                   GROUPED(z->directory_bytes), T(" bytes; the headers of all files may have "),
                   GROUPED(VR_MAX_HEADERS_BYTES));
    return VRAM_OK;
}

vram_status vr_zip_list(vr_zip *z, vram_checkpoint *ck, vr_input *in, vr_arena *a)
{
    const char *p;
    if (z->listed)
        return VRAM_OK;
    if (!z->located)
        VR_TRY(locate(z, ck, in, a));
    VR_TRY(count_directory(z, ck, in));
    z->located = true;
    VR_TRY(known_bytes(ck, in, a, z->directory_at, z->directory_bytes, &p));
    z->n_members = 0;
    z->members = VR_ARRAY(a, vr_zip_member, z->directory_bytes / ENTRY_BYTES + 1);
    if (z->members == NULL)
        return VRAM_ENOMEM;
    VR_TRY(read_entries(z, ck, in, p));
    ck->loading->headers_bytes += z->directory_bytes;
    z->listed = true;
    return VRAM_OK;
}

/* ---- a member ---- */

static void *z_alloc(void *arena, unsigned n, unsigned size)
{
    return vr_arena_array(arena, n, size);
}

static void z_free(void *arena, void *p)
{
    (void)arena;
    (void)p; /* goes with the arena */
}

/* Z_STREAM_END: all of it, and as much as was said. */
static int inflate_all(vr_arena *a, const char *packed, size_t n_packed, char *out, size_t n)
{
    z_stream z = { .zalloc = z_alloc, .zfree = z_free, .opaque = a };
    z.next_in = (const Bytef *)packed;
    z.avail_in = (uInt)n_packed;
    z.next_out = (Bytef *)out;
    z.avail_out = (uInt)n;
    int result = inflateInit2(&z, -MAX_WBITS); /* raw: the zip file has its own head */
    if (result == Z_OK)
        result = inflate(&z, Z_FINISH);
    if (result == Z_STREAM_END && z.avail_out != 0)
        result = Z_DATA_ERROR;
    return result;
}

static vram_status unpack(vram_checkpoint *ck, const vr_input *in, vr_arena *a, const vr_zip_member *m,
                          uint64_t at, const char *packed, const char **out)
{
    if (m->method == 0) {
        *out = packed;
        return VRAM_OK;
    }
    char *p = vr_arena_alloc(a, (size_t)m->size);
    if (p == NULL)
        return VRAM_ENOMEM;
    int result = inflate_all(a, packed, (size_t)m->packed, p, (size_t)m->size);
    if (result == Z_MEM_ERROR)
        return VRAM_ENOMEM;
    if (result != Z_STREAM_END)
        return BAD(ck, in, VRAM_EFORMAT, at, T("the zip file's member "), S(m->name),
                   T(" does not unpack to the size it is said to have"));
    *out = p;
    return VRAM_OK;
}

static vram_status check_readable(vram_checkpoint *ck, const vr_input *in, const vr_zip_member *m,
                                  uint64_t most)
{
    if (m->encrypted)
        return BAD(ck, in, VRAM_EUNSUPPORTED, m->at, T("the zip file's member "), S(m->name),
                   T(" is encrypted"));
    if (m->method != 0 && m->method != Z_DEFLATED)
        return BAD(ck, in, VRAM_EUNSUPPORTED, m->at, T("the zip file's member "), S(m->name),
                   T(" is packed by method "), U(m->method), T("; known are 0 (stored) and 8 (deflated)"));
    if (m->size > most || m->packed > most)
        return BAD(ck, in, VRAM_ELIMIT, m->at, T("the zip file's member "), S(m->name), T(" has "),
                   GROUPED(m->size), T(" bytes, over the limit of "), GROUPED(most));
    return VRAM_OK;
}

vram_status vr_zip_read(vram_checkpoint *ck, vr_input *in, vr_arena *a, const vr_zip_member *m, uint64_t most,
                        const char **out, uint64_t *at)
{
    uint64_t head_end = m->at + LOCAL_BYTES, guess = m->at + LOCAL_BYTES + m->name.n + m->packed;
    const char *head, *packed;
    bool known = false;
    VR_TRY(check_readable(ck, in, m, most));
    /* The local header may have other extra fields than the directory: PyTorch aligns data to 64 bytes. */
    VR_TRY(vr_want_bytes(ck, in, m->at, head_end, vr_add_sat(guess, 256) < in->size ? guess + 256 : in->size,
                         &known));
    if (!known)
        return VRAM_MORE;
    VR_TRY(known_bytes(ck, in, a, m->at, LOCAL_BYTES, &head));
    if (!is_record(head, 3, 4))
        return BAD(ck, in, VRAM_EFORMAT, m->at, T("the zip file's member "), S(m->name),
                   T(" is not where the directory says"));
    *at = head_end + number(head + 26, 2) + number(head + 28, 2);
    if (*at > in->size || m->packed > in->size - *at)
        return BAD(ck, in, VRAM_EFORMAT, m->at, T("the zip file's member "), S(m->name),
                   T(" goes on beyond the file"));
    VR_TRY(known_bytes(ck, in, a, *at, m->packed, &packed));
    return unpack(ck, in, a, m, *at, packed, out);
}
