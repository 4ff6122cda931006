/* SPDX-License-Identifier: MIT
 * Plays a tape on PyTorch's allocator on one device.
 *
 * The device refuses when outside + reserved + what is wanted exceeds what is available; only the allocator
 * can answer that by giving back idle memory. What is taken outside the allocator (context, kernels) is
 * refused at once, as a driver would. */
#include "rehearsal/rehearsal.h"

#include <string.h>

/* One block of the tape. */
typedef struct held_block {
    uint64_t bytes;
    uint32_t block; /* of the allocator */
    uint8_t item;
    bool held;
} held_block;

struct vr_player {
    vr_rehearsal *out;
    const vr_tape *tape;
    vr_stage stage;
    vr_allocator *allocator;
    const vr_alloc_stats *stats;
    held_block *blocks;            /* by the tape's number */
    uint64_t items[VR_ITEM_COUNT]; /* requested of the allocator */
    uint64_t taken[VR_ITEM_COUNT]; /* outside it */
    uint64_t outside, by_device;   /* by_device: the part of it that is the device's figures */
    uint64_t lacking;              /* what should be available for the request refused last; 0: none was */
    bool kernels;                  /* the device's figure for them is taken */
    uint64_t fullest[VR_ITEM_COUNT], taken_at_peak[VR_ITEM_COUNT];
    size_t at;
};

static bool has_room(void *ud, uint64_t reserved, uint64_t bytes)
{
    vr_player *p = ud;
    struct vr_asked *asked = &p->out->asked[p->kernels];
    uint64_t sum;
    if (!vr_add(p->outside, reserved, &sum) || !vr_add(sum, bytes, &sum))
        return false; /* by any device */
    if (sum > p->stage.available) {
        p->lacking = sum;
        asked->refused = sum - p->by_device < asked->refused ? sum - p->by_device : asked->refused;
        return false;
    }
    asked->granted = sum - p->by_device > asked->granted ? sum - p->by_device : asked->granted;
    return true;
}

/* Makes room for what was refused, if that is asked for. */
static bool make_room(vr_player *p)
{
    if (!p->stage.raise || p->lacking <= p->stage.available)
        return false;
    p->stage.available = p->lacking;
    p->out->raised = true;
    return true;
}

static bool begins_with_context(const vr_tape *t)
{
    const vr_event *e = t->events;
    return t->n > 0 && e->kind == VR_EV_OUTSIDE && e->item == VR_ITEM_CONTEXT && e->bytes == 0;
}

static vram_status playable(const vr_tape *tape, const vr_stage *stage)
{
    if (tape->status != VRAM_OK)
        return tape->status;
    if (stage->alloc != NULL && stage->alloc->memory_fraction_permille != 0 && stage->usable == 0)
        return vr_fail(tape->arena->ctx, VRAM_ESETTING,
                       T("per_process_memory_fraction needs a device whose total memory is known"));
    return VRAM_OK;
}

static void begin(vr_player *p, vr_rehearsal *out, const vr_tape *tape, const vr_stage *stage)
{
    *out = (vr_rehearsal){ .asked = { { 0, UINT64_MAX }, { 0, UINT64_MAX } },
                           .odd = !begins_with_context(tape) };
    *p = (vr_player){ .out = out, .tape = tape, .stage = *stage };
    if (p->stage.activation_permille == 0)
        p->stage.activation_permille = 1000;
}

vram_status vr_player_new(vr_player **player, vr_rehearsal *out, const vr_tape *tape, const vr_stage *stage,
                          vr_arena *arena)
{
    *out = (vr_rehearsal){ 0 };
    VR_TRY(playable(tape, stage));
    vr_player *p = VR_NEW(arena, vr_player);
    held_block *blocks = p != NULL ? VR_ARRAY(arena, held_block, tape->n_blocks) : NULL;
    if (blocks == NULL)
        return VRAM_ENOMEM;
    begin(p, out, tape, stage);
    p->blocks = blocks;
    vr_driver driver = { .room = has_room, .ud = p, .total = stage->usable };
    VR_TRY(vr_allocator_new(&p->allocator, arena, stage->alloc, &driver));
    p->stats = vr_allocator_stats(p->allocator);
    *player = p;
    return VRAM_OK;
}

void vr_player_live(const vr_player *p, vr_live *live)
{
    for (int i = 0; i < VR_ITEM_COUNT; i++)
        live->items[i] = p->items[i] + p->taken[i];
    live->items[VR_ITEM_ROUNDING] += p->stats->allocated - p->stats->requested;
    live->items[VR_ITEM_IDLE] += p->stats->reserved - p->stats->allocated;
    live->allocated = p->stats->allocated;
    live->reserved = p->stats->reserved;
    live->driver = p->outside + p->stats->reserved;
    live->event = p->at == 0 ? 0 : p->at - 1;
}

static vram_status contradicts(const vr_player *p, const char *what)
{
    return vr_fail(p->tape->arena->ctx, VRAM_EINTERNAL, T("the tape contradicts itself at event "),
                   U(p->at - 1), T(": "), T(what));
}

/* The moment that the tape marks next. */
static unsigned next_moment(const vr_player *p)
{
    for (size_t i = p->at; i < p->tape->n; i++) {
        if (p->tape->events[i].kind == VR_EV_MARK)
            return (unsigned)p->tape->events[i].bytes;
    }
    return VR_MOMENT_COUNT;
}

static void fail(vr_player *p, const vr_event *e, uint64_t requested, uint64_t tried)
{
    vr_rehearsal *r = p->out;
    r->failed = true;
    r->failure.event = p->at - 1;
    r->failure.outside = e->kind == VR_EV_OUTSIDE || e->kind == VR_EV_ABOUT;
    r->failure.label = e->label;
    r->failure.requested = requested;
    r->failure.tried = tried;
    r->failure.next_moment = next_moment(p);
    vr_player_live(p, &r->failure.live);
    r->failure.driver_free = vr_sub_floor(p->stage.available, r->failure.live.driver);
}

/* A request that is whole is so on any device with as much room, what it leaves included. */
static uint64_t cut(vr_player *p, const vr_event *e)
{
    uint64_t whole = vr_add_sat(e->bytes, e->spare), of = p->stage.usable;
    if (e->of_total) {
        p->out->whole_from = whole > p->out->whole_from ? whole : p->out->whole_from;
        if (of == 0 || of >= whole)
            return e->bytes;
    } else {
        if (has_room(p, p->stats->reserved, whole))
            return e->bytes;
        p->out->cut = true;
        of = vr_sub_floor(p->stage.available, p->outside + p->stats->reserved);
    }
    return vr_sub_floor(of, e->spare) / 2 * 2;
}

static vram_status play_alloc(vr_player *p, const vr_event *e)
{
    if (e->block >= p->tape->n_blocks || p->blocks[e->block].held)
        return contradicts(p, "its block is in use");
    uint64_t bytes = e->spare != 0 ? cut(p, e) : e->bytes, tried;
    if (p->stage.activation_permille != 1000 && vr_item_category((vr_item)e->item) == VR_ACTIVATIONS)
        bytes = vr_mul_div(bytes, p->stage.activation_permille, 1000);
    held_block *b = &p->blocks[e->block];
    p->lacking = 0;
    do {
        VR_TRY(vr_allocator_alloc(p->allocator, bytes, e->stream, e->pool, &b->block, &tried));
    } while (b->block == VR_NO_BLOCK && tried != 0 && make_room(p));
    if (b->block == VR_NO_BLOCK && tried != 0) {
        fail(p, e, bytes, tried);
        return VRAM_OK;
    }
    b->bytes = bytes;
    b->item = e->item;
    b->held = true;
    p->items[e->item] += bytes;
    return VRAM_OK;
}

static vram_status play_release(vr_player *p, const vr_event *e)
{
    if (e->block >= p->tape->n_blocks || !p->blocks[e->block].held)
        return contradicts(p, "its block is not in use");
    held_block *b = &p->blocks[e->block];
    vr_allocator_release(p->allocator, b->block);
    p->items[b->item] -= b->bytes;
    b->held = false;
    return VRAM_OK;
}

/* The device's figure for the item. */
static uint64_t device_figure(vr_player *p, const vr_event *e)
{
    vr_rehearsal *r = p->out;
    bool context = e->item == VR_ITEM_CONTEXT;
    if (!context && e->item != VR_ITEM_KERNELS)
        return 0;
    r->odd = r->odd || (context ? p->at != 1 : p->kernels);
    if (!context) {
        p->kernels = true;
        r->before_kernels = r->peak;
    }
    uint64_t bytes = context ? p->stage.context : p->stage.kernels;
    p->by_device = vr_add_sat(p->by_device, bytes);
    return bytes;
}

/* The end of its band to which activations are scaled too. */
static uint64_t about(const vr_player *p, const vr_event *e)
{
    unsigned to = p->stage.activation_permille;
    uint64_t permille = to < 1000 ? 1000 - e->spare : to > 1000 ? 1000 + e->spare : 1000;
    return vr_mul_div(e->bytes, permille, 1000);
}

static void play_outside(vr_player *p, const vr_event *e)
{
    uint64_t bytes = e->bytes == 0 && e->kind == VR_EV_OUTSIDE ? device_figure(p, e) : e->bytes;
    if (e->kind == VR_EV_ABOUT)
        bytes = about(p, e);
    p->lacking = 0;
    if (!has_room(p, p->stats->reserved, bytes) && !make_room(p)) {
        fail(p, e, bytes, bytes);
        return;
    }
    p->outside += bytes;
    p->taken[e->item] += bytes;
}

static vram_status play_mark(vr_player *p, const vr_event *e)
{
    vr_rehearsal *r = p->out;
    if (e->bytes >= VR_MOMENT_COUNT)
        return contradicts(p, "there is no such moment");
    size_t i = 0;
    while (i < r->n_moments && r->moments[i].id != (vr_moment_id)e->bytes)
        i++;
    if (i == r->n_moments)
        r->n_moments++;
    r->moments[i] = (vr_moment){ .id = (vr_moment_id)e->bytes,
                                 .allocated = p->stats->allocated,
                                 .reserved = p->stats->reserved,
                                 .driver = p->outside + p->stats->reserved };
    return VRAM_OK;
}

static vram_status play(vr_player *p, const vr_event *e)
{
    if (e->item >= VR_ITEM_COUNT)
        return contradicts(p, "there is no such item");
    switch ((vr_event_kind)e->kind) {
    case VR_EV_ALLOC:
        return play_alloc(p, e);
    case VR_EV_RELEASE:
        return play_release(p, e);
    case VR_EV_OUTSIDE:
    case VR_EV_ABOUT:
        play_outside(p, e);
        return VRAM_OK;
    case VR_EV_EMPTY_CACHE:
        return vr_allocator_empty_cache(p->allocator);
    case VR_EV_MARK:
        return play_mark(p, e);
    }
    return contradicts(p, "there is no such kind of event");
}

/* The peak is the highest driver figure; what it consists of is told by the fullest event, since the driver's
 * figure often rises for the last time by some page when most is idle again. What was not in use then is
 * idle. */
static void follow_peak(vr_player *p, vr_live *peak)
{
    uint64_t driver = p->outside + p->stats->reserved, reserved = p->stats->reserved;
    bool higher = driver > peak->driver;
    if (!higher && p->stats->allocated <= peak->allocated)
        return;
    if (!higher) {
        driver = peak->driver;
        reserved = peak->reserved;
    }
    if (p->stats->allocated > peak->allocated) {
        memcpy(p->fullest, p->items, sizeof(p->fullest));
        p->fullest[VR_ITEM_ROUNDING] += p->stats->allocated - p->stats->requested;
        peak->allocated = p->stats->allocated;
        peak->event = p->at - 1;
    }
    if (higher)
        memcpy(p->taken_at_peak, p->taken, sizeof(p->taken));
    for (int i = 0; i < VR_ITEM_COUNT; i++)
        peak->items[i] = p->fullest[i] + p->taken_at_peak[i];
    peak->items[VR_ITEM_IDLE] += reserved - peak->allocated;
    peak->reserved = reserved;
    peak->driver = driver;
}

vram_status vr_player_step(vr_player *p, bool *more)
{
    vr_rehearsal *r = p->out;
    *more = false;
    if (r->failed || p->at >= p->tape->n)
        return VRAM_OK;
    const vr_event *e = &p->tape->events[p->at++];
    VR_TRY(play(p, e));
    r->n_events = p->at;
    r->n_retries = p->stats->n_retries;
    r->span = p->stats->span;
    if (p->stats->allocated > r->peak_allocated)
        r->peak_allocated = p->stats->allocated;
    follow_peak(p, &r->peak);
    *more = !r->failed && p->at < p->tape->n;
    return VRAM_OK;
}

vram_status vr_rehearse(vr_rehearsal *out, const vr_tape *tape, const vr_stage *stage, vr_arena *scratch)
{
    vr_player *p = NULL;
    bool more = true;
    vr_arena_reset(scratch);
    VR_TRY(vr_player_new(&p, out, tape, stage, scratch));
    while (more)
        VR_TRY(vr_player_step(p, &more));
    return VRAM_OK;
}

/* ---- one after the other ---- */

void vr_hall_open(vr_hall *h, vram_ctx *ctx)
{
    *h = (vr_hall){ 0 };
    vr_arena_init(&h->arena, ctx);
}

void vr_hall_close(vr_hall *h)
{
    vr_arena_free(&h->arena);
}

/* No memory is cleared but that of the blocks' marks. */
static vram_status set_up(vr_hall *h, vr_player *p, const vr_alloc_conf *conf)
{
    vr_driver driver = { .room = has_room, .ud = p, .total = p->stage.usable };
    uint32_t n = p->tape->n_blocks;
    if (n > h->n_blocks || h->blocks == NULL) {
        h->blocks = VR_ARRAY(&h->arena, held_block, n);
        h->n_blocks = h->blocks != NULL ? n : 0;
    } else if (n > 0) {
        memset(h->blocks, 0, n * sizeof(held_block));
    }
    if (h->blocks == NULL)
        return VRAM_ENOMEM;
    if (h->allocator == NULL)
        VR_TRY(vr_allocator_new(&h->allocator, &h->arena, conf, &driver));
    else
        vr_allocator_reset(h->allocator, conf, &driver);
    p->blocks = h->blocks;
    p->allocator = h->allocator;
    p->stats = vr_allocator_stats(p->allocator);
    return VRAM_OK;
}

vram_status vr_rehearse_in(vr_rehearsal *out, const vr_tape *tape, const vr_stage *stage, vr_hall *hall)
{
    vr_player p;
    bool more = true;
    *out = (vr_rehearsal){ 0 };
    VR_TRY(playable(tape, stage));
    begin(&p, out, tape, stage);
    VR_TRY(set_up(hall, &p, stage->alloc));
    while (more)
        VR_TRY(vr_player_step(&p, &more));
    return VRAM_OK;
}
