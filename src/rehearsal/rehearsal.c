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
    held_block *blocks; /* by the tape's number */
    uint64_t items[VR_ITEM_COUNT];
    uint64_t outside;
    size_t at;
};

static bool has_room(void *ud, uint64_t reserved, uint64_t bytes)
{
    const vr_player *p = ud;
    uint64_t sum;
    return vr_add(p->outside, reserved, &sum) && vr_add(sum, bytes, &sum) && sum <= p->stage.available;
}

vram_status vr_player_new(vr_player **player, vr_rehearsal *out, const vr_tape *tape, const vr_stage *stage,
                          vr_arena *arena)
{
    *out = (vr_rehearsal){ 0 };
    if (tape->status != VRAM_OK)
        return tape->status;
    if (stage->alloc != NULL && stage->alloc->memory_fraction_permille != 0 && stage->usable == 0)
        return vr_fail(arena->ctx, VRAM_ESETTING,
                       T("per_process_memory_fraction needs a device whose total memory is known"));
    vr_player *p = VR_NEW(arena, vr_player);
    held_block *blocks = p != NULL ? VR_ARRAY(arena, held_block, tape->n_blocks) : NULL;
    if (blocks == NULL)
        return VRAM_ENOMEM;
    *p = (vr_player){ .out = out, .tape = tape, .stage = *stage, .blocks = blocks };
    if (p->stage.activation_permille == 0)
        p->stage.activation_permille = 1000;
    vr_driver driver = { .room = has_room, .ud = p, .total = stage->usable };
    VR_TRY(vr_allocator_new(&p->allocator, arena, stage->alloc, &driver));
    p->stats = vr_allocator_stats(p->allocator);
    *player = p;
    return VRAM_OK;
}

void vr_player_live(const vr_player *p, vr_live *live)
{
    memcpy(live->items, p->items, sizeof(live->items));
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
    r->failure.label = e->label;
    r->failure.requested = requested;
    r->failure.tried = tried;
    r->failure.next_moment = next_moment(p);
    vr_player_live(p, &r->failure.live);
    r->failure.driver_free = vr_sub_floor(p->stage.available, r->failure.live.driver);
    for (int i = 0; i < VR_ITEM_COUNT; i++) {
        if (vr_item_category((vr_item)i) == VR_WEIGHTS)
            r->failure.loaded_bytes += p->items[i];
    }
}

static vram_status play_alloc(vr_player *p, const vr_event *e)
{
    if (e->block >= p->tape->n_blocks || p->blocks[e->block].held)
        return contradicts(p, "its block is in use");
    uint64_t bytes = e->bytes, tried;
    if (p->stage.activation_permille != 1000 && vr_item_category((vr_item)e->item) == VR_ACTIVATIONS)
        bytes = vr_mul_div(bytes, p->stage.activation_permille, 1000);
    held_block *b = &p->blocks[e->block];
    VR_TRY(vr_allocator_alloc(p->allocator, bytes, e->stream, e->pool, &b->block, &tried));
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

static void play_outside(vr_player *p, const vr_event *e)
{
    uint64_t bytes = e->bytes;
    if (bytes == 0 && e->item == VR_ITEM_CONTEXT)
        bytes = p->stage.context;
    if (bytes == 0 && e->item == VR_ITEM_KERNELS)
        bytes = p->stage.kernels;
    if (!has_room(p, p->stats->reserved, bytes)) {
        fail(p, e, bytes, bytes);
        return;
    }
    p->outside += bytes;
    p->items[e->item] += bytes;
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
        play_outside(p, e);
        return VRAM_OK;
    case VR_EV_EMPTY_CACHE:
        return vr_allocator_empty_cache(p->allocator);
    case VR_EV_MARK:
        return play_mark(p, e);
    }
    return contradicts(p, "there is no such kind of event");
}

/* The driver's figure stays up once memory is taken, so among equals the fullest event tells most: it is the
 * one that needs the memory. */
static bool is_peak(const vr_player *p, const vr_live *peak)
{
    uint64_t driver = p->outside + p->stats->reserved;
    return driver > peak->driver || (driver == peak->driver && p->stats->allocated > peak->allocated);
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
    if (p->stats->allocated > r->peak_allocated)
        r->peak_allocated = p->stats->allocated;
    if (is_peak(p, &r->peak))
        vr_player_live(p, &r->peak);
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
