/* SPDX-License-Identifier: MIT
 *
 * The output of one report: buffered, in colour when wanted, wrapped to the terminal. Not a terminal (columns
 * 0) means one record a line, no bars and nothing beyond ASCII of our own, so that grep and diff are at home.
 */
#include "report/report.h"

/* Enough for any report without a list of tensors; those flush on the way. */
#define REPORT_LIMIT ((size_t)256 << 20)
#define REPORT_CHUNK ((size_t)64 << 10)

void vr_report_start(vr_report *r, vram_ctx *ctx, const vram_style *style, vram_write_fn write, void *ud)
{
    *r = (vr_report){ .ctx = ctx, .style = style, .write = write, .ud = ud };
    vr_arena_init(&r->arena, ctx);
    vr_buf_init(&r->buf, ctx, REPORT_LIMIT);
}

static void hand_over(vr_report *r)
{
    if (r->status == VRAM_OK && r->buf.failed)
        r->status = vram_last_error(r->ctx)->code < 0 ? vram_last_error(r->ctx)->code : VRAM_ENOMEM;
    if (r->status == VRAM_OK && r->buf.n != 0 && r->write(r->ud, r->buf.p, r->buf.n) != 0)
        r->status = vr_fail(r->ctx, VRAM_EIO, T("the output could not be written"));
    r->buf.n = 0;
}

void vr_report_flush(vr_report *r)
{
    if (r->buf.n >= REPORT_CHUNK)
        hand_over(r);
}

vram_status vr_report_end(vr_report *r)
{
    hand_over(r);
    vr_buf_free(&r->buf);
    if (r->arena.starved && r->status == VRAM_OK)
        r->status = VRAM_ENOMEM;
    vr_arena_free(&r->arena);
    return r->status;
}

const char *vr_report_text(vr_report *r, const vr_piece *p, size_t n)
{
    const char *text = vr_text_pieces(&r->arena, p, n);

    if (text == NULL && r->status == VRAM_OK)
        r->status = VRAM_ENOMEM;
    return text != NULL ? text : "";
}

/* ---- colour ---- */

bool vr_terminal(const vr_report *r)
{
    return r->style->columns != 0;
}

void vr_ink_on(vr_report *r, vr_ink ink)
{
    static const char *const codes[] = {
#define X(id, code) [VR_INK_##id] = code,
        VR_INKS(X)
#undef X
    };

    if (r->style->colour && ink != VR_INK_PLAIN)
        vr_put(&r->buf, T("\033["), T(codes[ink]), T("m"));
}

void vr_ink_off(vr_report *r, vr_ink ink)
{
    if (r->style->colour && ink != VR_INK_PLAIN)
        vr_put(&r->buf, T("\033[0m"));
}

void vr_put_clean(vr_report *r, vr_str text)
{
    size_t done = 0, n; /* bytes before `done` are written; from there to i they are shown as they are */

    for (size_t i = 0; i < text.n; i += n) {
        uint32_t hidden;
        n = vr_utf8_shown((vr_str){ text.s + i, text.n - i }, &hidden);
        if (hidden == VR_SHOWN)
            continue;
        vr_put_bytes(&r->buf, text.s + done, i - done);
        vr_put(&r->buf, T("?"));
        done = i + n;
    }
    if (done < text.n)
        vr_put_bytes(&r->buf, text.s + done, text.n - done);
}

void vr_inked(vr_report *r, vr_ink ink, const char *text)
{
    vr_ink_on(r, ink);
    vr_put_clean(r, vr_str_of(text));
    vr_ink_off(r, ink);
}

/* ---- columns ---- */

static size_t width_of(const char *text)
{
    return vr_utf8_width(vr_str_of(text));
}

void vr_left(vr_report *r, const char *text, size_t width)
{
    size_t w = width_of(text);

    vr_put_clean(r, vr_str_of(text));
    vr_put_repeat(&r->buf, " ", w < width ? width - w : 0);
}

void vr_right(vr_report *r, const char *text, size_t width)
{
    size_t w = width_of(text);

    vr_put_repeat(&r->buf, " ", w < width ? width - w : 0);
    vr_put_clean(r, vr_str_of(text));
}

/* No blanks at the end of a line: columns may have ended empty. */
static void end_line(vr_report *r)
{
    while (r->buf.n != 0 && r->buf.p[r->buf.n - 1] == ' ')
        r->buf.n--;
    vr_put(&r->buf, T("\n"));
}

void vr_wrap(vr_report *r, size_t at, size_t indent, const char *text)
{
    vr_str rest = vr_str_of(text), word;
    size_t columns = r->style->columns;
    bool fresh = true; /* nothing of the text on this line yet */

    while (vr_str_split(&rest, ' ', &word)) {
        size_t w = vr_utf8_width(word);
        if (!fresh && columns != 0 && at + 1 + w > columns) {
            end_line(r);
            vr_put_repeat(&r->buf, " ", indent);
            at = indent;
            fresh = true;
        }
        vr_put(&r->buf, T(fresh ? "" : " "));
        vr_put_clean(r, word);
        at += w + (fresh ? 0 : 1);
        fresh = false;
    }
    end_line(r);
}

void vr_para(vr_report *r, vr_ink ink, const char *head, size_t indent, const char *text)
{
    size_t w = width_of(head);

    vr_inked(r, ink, head);
    vr_put_repeat(&r->buf, " ", w < indent ? indent - w : 0);
    vr_wrap(r, w < indent ? indent : w, indent, text);
}

/* ---- words ---- */

const char *vr_gib(vr_report *r, uint64_t bytes)
{
    if (bytes == 0)
        return "0";
    if (bytes < VR_GIB / 200) /* would round to 0.00 */
        return "<0.01";
    return vr_say(r, GIB(bytes));
}

const char *vr_decimal(vr_report *r, uint64_t bytes)
{
    if (bytes >= VR_GB)
        return vr_say(r, FIXED(bytes, VR_GB, 2), T(" GB"));
    if (bytes >= 1000000)
        return vr_say(r, FIXED(bytes, 1000000, 1), T(" MB"));
    if (bytes >= 1000)
        return vr_say(r, FIXED(bytes, 1000, 0), T(" KB"));
    return vr_count(r, bytes, "byte", "bytes");
}

uint64_t vr_magnitude(int64_t v)
{
    return v < 0 ? UINT64_C(0) - (uint64_t)v : (uint64_t)v;
}

const char *vr_gib_signed(vr_report *r, int64_t bytes)
{
    return vr_gib(r, vr_magnitude(bytes));
}

const char *vr_dot(const vr_report *r)
{
    return vr_terminal(r) ? " · " : "; ";
}

const char *vr_plural(uint64_t n, const char *one, const char *many)
{
    return n == 1 ? one : many;
}

const char *vr_count(vr_report *r, uint64_t n, const char *one, const char *many)
{
    return vr_say(r, GROUPED(n), T(" "), T(vr_plural(n, one, many)));
}

/* As GIB() rounds. */
static uint64_t hundredths(uint64_t bytes)
{
    return vr_mul_div(bytes, 100, VR_GIB);
}

const char *vr_gib_between(vr_report *r, uint64_t have, uint64_t need, int64_t by)
{
    int64_t shown = vr_diff(hundredths(have), hundredths(need));

    if (by == 0)
        return "0";
    if (shown != 0 && (shown < 0) == (by < 0))
        return vr_say(r, FIXED(vr_magnitude(shown), 100, 2));
    if (vr_magnitude(by) >= VR_GIB / 50)
        return vr_gib_signed(r, by);
    /* the figures round to the same, or the idle GPU's 6.4 MiB, which are nobody's, decide */
    return "<0.02";
}

static const struct {
    const char *json, *screen;
    vr_ink ink;
} verdicts[] = {
    [VRAM_FITS] = { "fits", "FITS", VR_INK_GOOD },
    [VRAM_TIGHT] = { "tight", "TIGHT", VR_INK_CARE },
    [VRAM_DOES_NOT_FIT] = { "does_not_fit", "DOES NOT FIT", VR_INK_BAD },
    [VRAM_UNKNOWN] = { "unknown", "UNKNOWN", VR_INK_CARE },
};

const char *vr_verdict_json(vram_verdict v)
{
    return verdicts[v].json;
}

const char *vr_verdict_screen(vram_verdict v)
{
    return verdicts[v].screen;
}

vr_ink vr_verdict_ink(vram_verdict v)
{
    return verdicts[v].ink;
}

const char *vr_card_name(vr_report *r, const char *name, uint64_t marketed_gb)
{
    static const char *const makers[] = { "NVIDIA ", "GeForce ", "AMD " };
    vr_str short_name = vr_str_of(name);

    for (size_t i = 0; i < sizeof makers / sizeof *makers; i++) {
        size_t n = vr_str_of(makers[i]).n;
        if (vr_str_starts(short_name, makers[i]))
            short_name = (vr_str){ short_name.s + n, short_name.n - n };
    }
    if (marketed_gb == 0 || vr_str_find(short_name, "GB", NULL) || vr_str_find(short_name, "GiB", NULL))
        return vr_say(r, S(short_name));
    return vr_say(r, S(short_name), T(" "), U(marketed_gb), T(" GB"));
}

/* ---- JSON ---- */

void vr_json_start(vr_json_out *o, vr_report *r, const char *schema)
{
    vr_json_begin(o, &r->buf);
    vr_json_open(o, '{');
    vr_json_kv_text(o, "schema", schema);
}

void vr_json_warnings(vr_json_out *o, const vram_ctx *ctx)
{
    const vram_warning *w;
    size_t n = vram_warnings(ctx, &w);

    vr_json_key(o, "warnings");
    vr_json_open(o, '[');
    for (size_t i = 0; i < n; i++) {
        vr_json_open(o, '{');
        vr_json_kv_text(o, "text", w[i].text);
        vr_json_kv_text(o, "file", w[i].file);
        vr_json_close(o, '}');
    }
    vr_json_close(o, ']');
}

void vr_json_end(vr_json_out *o, vr_report *r)
{
    vr_json_close(o, '}');
    vr_put(&r->buf, T("\n"));
}
