/* SPDX-License-Identifier: MIT
 *
 * A run over several memories: what each GPU takes beside the others, what lies where, what stays on the
 * host.
 */
#include "report/fit_report.h"

#define NAME_WIDTH 18
#define COLUMN 10
#define MOST_COLUMNS 6 /* of a table; more GPUs go into the next one */

/* ---- what lies where ---- */

static const char *join(vr_report *r, const char *list, const char *more)
{
    return vr_say(r, T(list), T(*list != '\0' ? ", " : ""), T(more));
}

static bool lies(uint16_t device, uint16_t where)
{
    return device == where || (where == VR_ON_HOST && device == VR_ON_DISK);
}

static const char *layers_on(vr_report *r, const vram_fit *f, uint16_t where, const char *list)
{
    uint64_t n = f->model->n_layers;

    for (uint64_t i = 0; i < n; i++) {
        uint64_t from = i;
        if (!lies(f->placement->layers[i], where))
            continue;
        while (i + 1 < n && lies(f->placement->layers[i + 1], where))
            i++;
        list =
            join(r, list,
                 from == i ? vr_say(r, T("layer "), U(i)) : vr_say(r, T("layers "), U(from), T("-"), U(i)));
    }
    return list;
}

const char *vr_fit_pieces(vr_report *r, const vram_fit *f, uint16_t where)
{
    const vr_placement *p = f->placement;
    const char *list = lies(p->embedding, where) ? "embeddings" : "";

    list = layers_on(r, f, where, list);
    if (lies(p->norm, where))
        list = join(r, list, "norm");
    if (lies(p->head, where) && f->model->structure == VR_DECODER)
        list = join(r, list, "head");
    return *list != '\0' ? list : "nothing";
}

static bool offloads(const vram_fit *f)
{
    return f->placement != NULL && vr_add_sat(f->placement->host_bytes, f->placement->disk_bytes) != 0;
}

/* ---- side by side ---- */

static const vram_fit *rank(const vram_fit *f, size_t i)
{
    return f->n_ranks == 0 ? f : &f->ranks[i];
}

static size_t ranks(const vram_fit *f)
{
    return f->n_ranks == 0 ? 1 : f->n_ranks;
}

static void put_name(vr_report *r, const char *name)
{
    vr_left(r, name, NAME_WIDTH);
}

static void put_cell(vr_report *r, const char *text)
{
    vr_right(r, text, COLUMN);
}

/* What the figures of a row rest on, where it is the same on all cards. */
static const char *basis_of(const vram_fit *f, size_t c, size_t from, size_t to)
{
    uint8_t basis = VR_BASIS_COUNT;

    for (size_t i = from; i < to; i++) {
        const vr_figure *g = &rank(f, i)->ledger.category[c];
        if (basis != VR_BASIS_COUNT && g->basis != basis)
            return "";
        basis = g->basis;
    }
    return vr_basis_screen(basis);
}

static void end_line(vr_report *r, const char *unit)
{
    vr_put(&r->buf, T(unit), T("\n"));
}

static bool nobody_has(const vram_fit *f, size_t c, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) {
        if (!vr_figure_absent(&rank(f, i)->ledger.category[c]))
            return false;
    }
    return true;
}

static void put_category(vr_report *r, const vram_fit *f, size_t c, size_t from, size_t to)
{
    if (nobody_has(f, c, from, to))
        return;
    put_name(r, vr_category_screen((vr_category)c));
    for (size_t i = from; i < to; i++) {
        const vr_figure *g = &rank(f, i)->ledger.category[c];
        put_cell(r, g->counted ? vr_gib(r, g->bytes) : "?");
    }
    const char *basis = basis_of(f, c, from, to);
    end_line(r, vr_say(r, T(" GiB"), T(*basis != '\0' ? "  " : ""), T(basis)));
}

static void put_totals(vr_report *r, const vram_fit *f, size_t from, size_t to)
{
    put_name(r, "needs");
    for (size_t i = from; i < to; i++)
        put_cell(r, vr_gib(r, rank(f, i)->ledger.required));
    end_line(r, " GiB");
    put_name(r, "has");
    for (size_t i = from; i < to; i++)
        put_cell(r, vr_gib(r, vr_fit_room(rank(f, i))));
    end_line(r, " GiB");
    put_name(r, "left");
    for (size_t i = from; i < to; i++) {
        const vram_fit *g = rank(f, i);
        const char *left = vr_gib_between(r, vr_fit_room(g), g->ledger.required, g->headroom);
        put_cell(r, vr_say(r, T(g->headroom < 0 ? "-" : ""), T(left)));
    }
    end_line(r, " GiB");
}

static void put_table(vr_report *r, const vram_fit *f, size_t from, size_t to)
{
    vr_ink_on(r, VR_INK_BOLD);
    put_name(r, "");
    for (size_t i = from; i < to; i++)
        put_cell(r, vr_say(r, T("GPU "), U(i)));
    vr_ink_off(r, VR_INK_BOLD);
    end_line(r, "");
    for (size_t c = 0; c < VR_CATEGORY_COUNT; c++)
        put_category(r, f, c, from, to);
    put_totals(r, f, from, to);
}

/* Cache and activations come later than this card's fullest point. */
static bool loading_takes_most(const vram_fit *f)
{
    static const vr_category later[] = { VR_KV_CACHE, VR_ACTIVATIONS };
    for (size_t i = 0; i < sizeof later / sizeof *later; i++) {
        const vr_figure *g = &f->ledger.category[later[i]];
        if (g->basis != VR_BASIS_SIMULATED || g->bytes != 0 || vr_figure_absent(g))
            return false;
    }
    return true;
}

static void put_fullest(vr_report *r, const vram_fit *f)
{
    const char *list = "";
    for (size_t i = 0; i < ranks(f); i++)
        if (loading_takes_most(rank(f, i)))
            list = vr_say(r, T(list), T(*list != '\0' ? ", " : ""), T("GPU "), U(i));
    if (*list != '\0')
        vr_para(r, VR_INK_BOLD, "fullest", VR_FIT_INDENT,
                vr_say(r, T(list),
                       T(": while weights are loaded, before cache and activations, which take less")));
}

void vr_fit_side_by_side(vr_report *r, const vram_fit *f)
{
    for (size_t from = 0; from < ranks(f); from += MOST_COLUMNS)
        put_table(r, f, from, from + MOST_COLUMNS < ranks(f) ? from + MOST_COLUMNS : ranks(f));
    put_fullest(r, f);
}

/* ---- where things lie ---- */

static const char *stays_words(vr_report *r, const vram_fit *f)
{
    const vr_placement *p = f->placement;
    const char *disk = p->disk_bytes == 0 ? ""
                                          : vr_say(r, T(p->host_bytes != 0 ? ", of it " : ", "),
                                                   T(vr_gib(r, p->disk_bytes)), T(" GiB on disk"));

    return vr_say(r, T(vr_fit_pieces(r, f, VR_ON_HOST)), T(": "),
                  T(vr_gib(r, vr_add_sat(p->host_bytes, p->disk_bytes))), T(" GiB"), T(disk), T("; "),
                  U(p->layers_off), T(" of "), U(f->model->n_layers),
                  T(p->layers_off == 1 ? " layers comes" : " layers come"),
                  T(" to GPU 0 for every pass, which is slow"));
}

/* "; it has 64.00: 52.57 short" where that was said. */
static const char *left_words(vr_report *r, uint64_t bytes, uint64_t has)
{
    if (has == 0)
        return "";
    return vr_say(r, T(", which has "), T(vr_gib(r, has)), T(" ("),
                  T(vr_gib_between(r, has, bytes, vr_diff(has, bytes))),
                  T(bytes > has ? " short)" : " left)"));
}

/* What an engine keeps there in any case, and what else stays there. */
static void put_host(vr_report *r, const vram_fit *f)
{
    const vr_host_share *h = &f->placement->host;
    uint64_t bytes = vr_host_bytes(h), has = f->workload->host_memory;
    bool off = f->placement->layers_off != 0, lacks = has != 0 && bytes > has;

    if (bytes < VR_MIB)
        return;
    vr_para(r,
            lacks ? VR_INK_BAD
            : off ? VR_INK_CARE
                  : VR_INK_BOLD,
            "host", VR_FIT_INDENT,
            vr_say(r, T(vr_gib(r, bytes)), T(" GiB of the computer's memory"), T(left_words(r, bytes, has)),
                   T(": "), T(h->words)));
}

void vr_fit_places(vr_report *r, const vram_fit *f)
{
    if (f->placement == NULL || f->placement->unknown != NULL)
        return;
    if (f->placement->host.told)
        put_host(r, f);
    else if (f->n_ranks == 0 && !offloads(f))
        return;
    if (f->n_ranks == 0 && f->placement->host.told && f->placement->layers_off == 0)
        return;
    for (size_t i = 0; i < ranks(f); i++)
        vr_para(r, VR_INK_BOLD, vr_say(r, T("GPU "), U(i)), VR_FIT_INDENT,
                vr_say(r, T(vr_fit_cards(r, rank(f, i)->device, 1)), T(": "),
                       T(vr_fit_pieces(r, f, (uint16_t)i))));
    if (offloads(f))
        vr_para(r, VR_INK_CARE, "CPU", VR_FIT_INDENT, stays_words(r, f));
}
