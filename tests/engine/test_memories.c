/* SPDX-License-Identifier: MIT
 * One run over several memories: what all tapes hold together, what moves between them, what is brought from
 * the host, and the loading of weights that bitsandbytes quantises (its functional.py and nn/modules.py, by
 * hand). */
#include "engine/loading.h"
#include "ledger/fit.h"
#include "made.h"
#include "rehearsal/rehearsal.h"

#define MOST 4

static const shape eight = { .model_type = "llama",
                             .layers = 8,
                             .hidden = 1024,
                             .heads = 8,
                             .kv_heads = 8,
                             .head_dim = 128,
                             .ffn = 2048,
                             .vocab = 4096,
                             .tied = false };
/* Of it in 16 bits: a layer, the embeddings, the head. */
#define LAYER (2 * (4 * 1024 * 1024 + 3 * 1024 * 2048 + 2 * 1024))
#define ENDS (2 * 4096 * 1024)

typedef struct several {
    world w;
    vr_arena a;
    vram_workload *resolved;
    vr_device_facts facts[MOST];
    vr_placement placement;
    vr_plan plan[MOST];
    size_t n;
} several;

typedef const char *const settings[][2];

/* free_bytes: after CUDA's context, of each card; 0 ends the list. */
static void make(several *s, const shape *like, const char *const (*sets)[2], const uint64_t *free_bytes)
{
    *s = (several){ .n = 0 };
    open_world(&s->w, like);
    set(&s->w, "context", "16");
    for (size_t i = 0; sets != NULL && sets[i][0] != NULL; i++)
        set(&s->w, sets[i][0], sets[i][1]);
    vr_arena_init(&s->a, s->w.ctx);
    assert_int_equal(vr_workload_resolve(&s->resolved, s->w.w, s->w.m, &s->a), VRAM_OK);
    for (; free_bytes[s->n] != 0; s->n++)
        s->facts[s->n] = (vr_device_facts){
            .cc_major = 8, .usable = free_bytes[s->n], .available = free_bytes[s->n], .rank = s->n
        };
    const vr_engine *e = s->resolved->engine;
    assert_int_equal(e->place(&s->placement, s->w.m, s->resolved, s->facts, s->n, &s->a), VRAM_OK);
    assert_null(s->placement.unknown);
    for (size_t i = 0; i < s->n; i++) {
        s->facts[i].placement = &s->placement;
        assert_int_equal(e->plan(&s->plan[i], s->w.m, s->resolved, &s->facts[i], &s->a), VRAM_OK);
    }
}

static void done(several *s)
{
    vr_arena_free(&s->a);
    close_world(&s->w);
}

static uint64_t sum_of(const vr_tape *t, vr_item item)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < t->n; i++)
        sum += t->events[i].kind == VR_EV_ALLOC && t->events[i].item == item ? t->events[i].bytes : 0;
    return sum;
}

static size_t count_of(const vr_tape *t, const char *label)
{
    size_t n = 0;
    for (size_t i = 0; i < t->n; i++)
        n += t->events[i].kind == VR_EV_ALLOC && vr_str_is(t->labels[t->events[i].label], label);
    return n;
}

static const vr_event *first_of(const vr_tape *t, vr_item item)
{
    for (size_t i = 0; i < t->n; i++) {
        if (t->events[i].kind == VR_EV_ALLOC && t->events[i].item == item)
            return &t->events[i];
    }
    return NULL;
}

/* What stays when all is released is what was loaded. */
static void check_end(several *s, size_t i)
{
    vr_stage stage = { .available = UINT64_MAX };
    vr_rehearsal run;
    vr_arena scratch;
    vr_live live;
    vr_player *player;
    bool more = true;
    vr_arena_init(&scratch, s->w.ctx);
    assert_int_equal(vr_player_new(&player, &run, &s->plan[i].tape, &stage, &scratch), VRAM_OK);
    while (more)
        assert_int_equal(vr_player_step(player, &more), VRAM_OK);
    vr_player_live(player, &live);
    assert_int_equal(live.items[VR_ITEM_PARAMETERS], s->plan[i].weight_bytes);
    assert_int_equal(live.items[VR_ITEM_KV], 0);
    assert_int_equal(live.items[VR_ITEM_HIDDEN] + live.items[VR_ITEM_LOGITS] + live.items[VR_ITEM_INPUTS] +
                         live.items[VR_ITEM_SCORES],
                     0);
    vr_arena_free(&scratch);
}

static settings automatic = { { "device_map", "auto" }, { NULL, NULL } };

/* Weights, keys and values are on the cards once, whatever their number. */
static void nothing_twice(void **state)
{
    const uint64_t one[] = { 1 << 30, 0 }, three[] = { 1 << 30, 1 << 30, 1 << 30, 0 };
    several a, b;
    uint64_t weights = 0, kv = 0;
    (void)state;
    make(&a, &eight, automatic, one);
    make(&b, &eight, automatic, three);
    assert_false(a.placement.spread);
    assert_true(b.placement.spread);
    for (size_t i = 0; i < b.n; i++) {
        assert_true(b.plan[i].weight_bytes > 0);
        weights += b.plan[i].weight_bytes;
        kv += sum_of(&b.plan[i].tape, VR_ITEM_KV);
        check_end(&b, i);
    }
    assert_int_equal(weights, a.plan[0].weight_bytes);
    assert_int_equal(kv, sum_of(&a.plan[0].tape, VR_ITEM_KV));
    done(&a);
    done(&b);
}

/* Hidden states come to a card with its first layer only, positions and tables with each layer; logits go
 * back to where the input was (hooks.py, io_same_device). */
static void what_moves(void **state)
{
    const uint64_t two[] = { 1 << 30, 1 << 30, 0 };
    several s;
    size_t on_second = 0;
    (void)state;
    make(&s, &eight, automatic, two);
    for (size_t i = 0; i < 8; i++)
        on_second += s.placement.layers[i] == 1;
    assert_in_range(on_second, 1, 7);
    assert_int_equal(s.placement.embedding, 0);
    assert_int_equal(s.placement.head, 1);
    assert_int_equal(s.placement.rotary, 1);
    const vr_tape *first = &s.plan[0].tape, *second = &s.plan[1].tape;
    assert_int_equal(count_of(first, "hidden states from another device"), 0);
    /* for the rotary tables, which are made on the second card, and for its first layer */
    assert_int_equal(count_of(second, "hidden states from another device"), 2);
    assert_int_equal(first_of(second, VR_ITEM_HIDDEN)->bytes, 16 * 1024 * 2);
    assert_int_equal(count_of(second, "position ids"), 1 + on_second);
    assert_int_equal(count_of(first, "model.rotary_emb output"), 2 * (8 - on_second));
    assert_int_equal(count_of(first, "lm_head output"), 1);
    assert_int_equal(count_of(second, "lm_head output"), 1);
    assert_int_equal(sum_of(first, VR_ITEM_LOGITS), 4096 * 2);
    done(&s);
}

/* What the card has no room for comes to it piece by piece, and goes. */
static void what_is_brought(void **state)
{
    /* nine tenths of it, less the largest piece, are the embeddings and three layers */
    const uint64_t small[] = { (uint64_t)(ENDS + 4 * LAYER + LAYER / 2) * 10 / 9, 0 };
    several s;
    (void)state;
    make(&s, &eight, automatic, small);
    assert_int_equal(s.placement.layers_off, 5);
    assert_int_equal(s.placement.host_bytes, 5 * (uint64_t)LAYER + ENDS + 2 * 1024);
    assert_int_equal(s.placement.disk_bytes, 0);
    assert_int_equal(s.plan[0].weight_bytes, ENDS + 3 * (uint64_t)LAYER);
    const vr_tape *t = &s.plan[0].tape;
    assert_int_equal(sum_of(t, VR_ITEM_PARAMETERS), s.plan[0].weight_bytes + s.placement.host_bytes);
    assert_int_equal(count_of(t, "model.layers.3.mlp.up_proj weight, brought to the card"), 1);
    assert_int_equal(count_of(t, "model.layers.2.mlp.up_proj weight, brought to the card"), 0);
    check_end(&s, 0);
    done(&s);
}

/* The host has a limit: the rest lies on disk. bitsandbytes takes neither. */
static void host_and_disk(void **state)
{
    settings limited = { { "device_map", "auto" }, { "host_memory", "110MiB" }, { NULL, NULL } };
    settings packed = { { "device_map", "auto" }, { "quantization", "bnb-8bit" }, { NULL, NULL } };
    const uint64_t small[] = { (uint64_t)(ENDS + 4 * LAYER + LAYER / 2) * 10 / 9, 0 };
    const uint64_t tiny[] = { ENDS + 4 * LAYER, 0 };
    several s;
    (void)state;
    make(&s, &eight, limited, small);
    assert_int_equal(s.placement.layers_off, 5);
    assert_true(s.placement.host_bytes > 0 && s.placement.disk_bytes > 0);
    assert_int_equal(s.placement.host_bytes + s.placement.disk_bytes, 5 * (uint64_t)LAYER + ENDS + 2 * 1024);
    assert_null(s.placement.refused);
    done(&s);
    make(&s, &eight, packed, tiny);
    assert_non_null(strstr(s.placement.refused, "dispatched on the CPU or the disk"));
    done(&s);
}

/* ---- what moves, against accelerate's own hooks (device_moves.tsv) ---- */

typedef struct moved {
    char version[16], type[32], tied[4], attention[8], places[32], pass[16], copies[1024];
} moved;

static shape shape_of_moved(const moved *r)
{
    bool gemma = strncmp(r->type, "gemma", 5) == 0;
    return (shape){ .model_type = r->type,
                    .layers = 4,
                    .hidden = 64,
                    .heads = 4,
                    .kv_heads = 2,
                    .head_dim = 16,
                    .ffn = 128,
                    .vocab = 96,
                    .tied = r->tied[0] == '1',
                    .window = gemma ? 64 : 0,
                    .kinds = gemma ? "sf" : NULL };
}

static uint16_t place_of(const moved *r, size_t layer)
{
    const char *p = r->places;
    while (layer-- > 0)
        p = strchr(p, ',') + 1;
    return strncmp(p, "cpu", 3) == 0 ? VR_ON_HOST : (uint16_t)(*p - '0');
}

/* The recorded places instead of those that a map of so small a model has. */
static void put_places(vr_placement *out, const moved *r, const vr_params *params, vr_arena *a)
{
    uint16_t last = place_of(r, 3), *of = VR_ARRAY(a, uint16_t, params->n),
             *layers = VR_ARRAY(a, uint16_t, 4);
    for (size_t i = 0; i < 4; i++)
        layers[i] = place_of(r, i);
    for (size_t i = 0; i < params->n; i++) {
        int layer;
        char name[128];
        snprintf(name, sizeof(name), "%.*s", (int)params->list[i].name.n, params->list[i].name.s);
        of[i] = sscanf(name, "model.layers.%d.", &layer) == 1 ? layers[layer]
                : strstr(name, "embed") != NULL               ? 0
                                                              : last;
        if (strstr(name, "inv_freq") != NULL && last == VR_ON_HOST)
            of[i] = 0;
    }
    *out = (vr_placement){ .n_gpus = 2, .spread = true, .params = of, .layers = layers, .layers_off = 2 };
    out->rotary = out->norm = last;
    out->head = r->tied[0] == '1' ? 0 : last;
}

/* The bytes of all copies in one direction, as a text of sorted numbers. */
static int ascending(const void *a, const void *b)
{
    unsigned long long x = *(const unsigned long long *)a, y = *(const unsigned long long *)b;
    return x < y ? -1 : x > y;
}

typedef struct sizes {
    unsigned long long list[256];
    size_t n;
} sizes;

static void add_size(sizes *s, unsigned long long bytes)
{
    assert_true(s->n < 256);
    s->list[s->n++] = bytes;
}

static void recorded_sizes(sizes *out, const moved *r, const char *direction)
{
    vr_str rest = vr_str_of(r->copies), word;
    out->n = 0;
    while (vr_str_split(&rest, ' ', &word)) {
        if (vr_str_starts(word, direction))
            add_size(out, strtoull(word.s + strlen(direction), NULL, 10));
    }
}

static bool is_label(const vr_tape *t, const vr_event *e, const char *text)
{
    return vr_str_is(t->labels[e->label], text);
}

/* Labels that on this card and in this placement only copies have; nothing else of that name is made there.
 */
static bool is_copy(const moved *r, const vr_tape *t, const vr_event *e, size_t rank)
{
    bool host = place_of(r, 3) == VR_ON_HOST, tied = r->tied[0] == '1';
    if (is_label(t, e, "hidden states from another device"))
        return true;
    if (is_label(t, e, "model.rotary_emb output"))
        return host == (rank == 1);
    if (rank == 1)
        return is_label(t, e, "attention mask") || is_label(t, e, "position ids");
    return !host && (is_label(t, e, "model.norm output") || (!tied && is_label(t, e, "lm_head output")));
}

/* After the mark before the pass, up to the mark behind it. */
static void our_sizes(sizes *out, const moved *r, const vr_tape *t, size_t rank, bool brought)
{
    bool decode = strcmp(r->pass, "decode") == 0;
    uint64_t begins = decode ? VR_AT_PREFILL : VR_AT_LOADED, ends = decode ? VR_AT_DECODE : VR_AT_PREFILL;
    size_t i = 0;
    out->n = 0;
    while (t->events[i].kind != VR_EV_MARK || t->events[i].bytes != begins)
        i++;
    for (i++; t->events[i].kind != VR_EV_MARK || t->events[i].bytes != ends; i++) {
        const vr_event *e = &t->events[i];
        bool weight = e->item == VR_ITEM_PARAMETERS;
        if (e->kind == VR_EV_ALLOC && (brought ? weight : !weight && is_copy(r, t, e, rank)))
            add_size(out, e->bytes);
    }
}

static void compare(const moved *r, const vr_tape *t, size_t rank, const char *direction, bool brought)
{
    sizes theirs, ours;
    recorded_sizes(&theirs, r, direction);
    our_sizes(&ours, r, t, rank, brought);
    qsort(theirs.list, theirs.n, sizeof(*theirs.list), ascending);
    qsort(ours.list, ours.n, sizeof(*ours.list), ascending);
    if (theirs.n != ours.n || memcmp(theirs.list, ours.list, ours.n * sizeof(*ours.list)) != 0) {
        for (size_t i = 0; i < theirs.n || i < ours.n; i++)
            print_message("  %lld %lld\n", i < theirs.n ? (long long)theirs.list[i] : -1,
                          i < ours.n ? (long long)ours.list[i] : -1);
        fail_msg("%s %s %s %s %s %s: theirs, ours", r->version, r->type, r->attention, r->places, r->pass,
                 direction);
    }
}

static void check_moved(const moved *r)
{
    world w;
    vr_arena a;
    vr_plan plan;
    vr_params params;
    vr_placement placement;
    vram_workload *resolved;
    shape s = shape_of_moved(r);
    open_world(&w, &s);
    set(&w, "engine_version", r->version);
    set(&w, "dtype", "bf16");
    set(&w, "attention", r->attention);
    set(&w, "device_map", "auto");
    set(&w, "context", "5");
    set(&w, "sequences", "2");
    set(&w, "decode", "1");
    vr_arena_init(&a, w.ctx);
    assert_int_equal(vr_workload_resolve(&resolved, w.w, w.m, &a), VRAM_OK);
    assert_int_equal(vr_params_of(&params, w.m, vr_rules_of(resolved), &a), VRAM_OK);
    put_places(&placement, r, &params, &a);
    for (size_t rank = 0; rank < 2; rank++) {
        vr_device_facts d = ampere;
        d.rank = rank;
        d.placement = &placement;
        assert_int_equal(resolved->engine->plan(&plan, w.m, resolved, &d, &a), VRAM_OK);
        compare(r, &plan.tape, rank, rank == 0 ? "1>0:" : "0>1:", false);
        if (rank == 0)
            compare(r, &plan.tape, rank, "cpu>0:", true);
    }
    vr_arena_free(&a);
    close_world(&w);
}

static void recorded_moves(void **state)
{
    char line[2048];
    size_t n = 0;
    FILE *in = fopen(VRAM_DEVICE_MOVES, "r");
    (void)state;
    assert_non_null(in);
    while (fgets(line, sizeof(line), in) != NULL) {
        moved r;
        if (line[0] == '#')
            continue;
        assert_int_equal(sscanf(line, "%15[^\t]\t%31[^\t]\t%3[^\t]\t%7[^\t]\t%31[^\t]\t%15[^\t]\t%1023[^\n]",
                                r.version, r.type, r.tied, r.attention, r.places, r.pass, r.copies),
                         7);
        check_moved(&r);
        n++;
    }
    fclose(in);
    assert_true(n > 100);
}

/* ---- bitsandbytes ---- */

typedef struct piece {
    bool taken;
    uint64_t bytes;
} piece;

/* The events of one weight, up to the last release that is named. */
static void check_pieces(const shape *like, const char *const (*sets)[2], const char *label, const piece *p,
                         size_t n)
{
    world w;
    vr_plan plan;
    vr_arena a;
    size_t k = 0;
    open_world(&w, like);
    for (size_t i = 0; sets[i][0] != NULL; i++)
        set(&w, sets[i][0], sets[i][1]);
    assert_int_equal(make_plan(&w, &ampere, &plan, &a), VRAM_OK);
    size_t i = 0;
    while (!vr_str_is(plan.tape.labels[plan.tape.events[i].label], label))
        i++;
    for (; k < n; k++, i++) {
        assert_int_equal(plan.tape.events[i].kind, p[k].taken ? VR_EV_ALLOC : VR_EV_RELEASE);
        if (p[k].taken)
            assert_int_equal(plan.tape.events[i].bytes, p[k].bytes);
    }
    vr_arena_free(&a);
    close_world(&w);
}

#define UP "model.layers.0.mlp.up_proj.weight"
#define PIECES(...) ((const piece[]){ __VA_ARGS__ }), sizeof((const piece[]){ __VA_ARGS__ }) / sizeof(piece)

static void quantised_pieces(void **state)
{
    settings four5 = { { "quantization", "bnb-4bit" }, { NULL, NULL } };
    settings four4 = { { "quantization", "bnb-4bit" }, { "engine_version", "4.57" }, { NULL, NULL } };
    settings twice5 = { { "quantization", "bnb-4bit-dq" }, { NULL, NULL } };
    settings eight5 = { { "quantization", "bnb-8bit" }, { NULL, NULL } };
    const uint64_t n = 1024 * 2048, rows = 2048;
    (void)state;
    check_pieces(&eight, four5, UP,
                 PIECES({ true, n * 2 }, { true, n / 64 * 4 }, { true, n / 2 }, { true, 64 }, { false, 0 }));
    /* fp16 is the default of 4: read in bf16, converted, sent back and once more to the card */
    check_pieces(&eight, four4, UP,
                 PIECES({ true, n * 2 }, { true, n * 2 }, { false, 0 }, { true, n * 2 }, { true, n / 64 * 4 },
                        { true, n / 2 }, { true, 64 }, { false, 0 }, { false, 0 }));
    check_pieces(&eight, twice5, UP,
                 PIECES({ true, n * 2 }, { true, n / 64 * 4 }, { true, n / 2 }, { true, 64 }, { true, 4 },
                        { true, n / 64 * 4 }, { true, n / 64 / 256 * 4 }, { true, n / 64 }, { false, 0 },
                        { false, 0 }, { false, 0 }));
    check_pieces(&eight, eight5, UP,
                 PIECES({ true, n * 2 }, { true, n * 2 }, { true, rows * 4 }, { true, n }, { false, 0 },
                        { false, 0 }));
}

/* ---- the whole answer ---- */

static vram_status try_fit(world *w, const shape *s, vram_fit **out)
{
    vram_device *cards[2];
    vram_status status = open_objects(w, s);
    if (status == VRAM_OK)
        status = vram_workload_set(w->w, "device_map", "auto");
    for (size_t i = 0; i < 2 && status == VRAM_OK; i++)
        status = vram_device_new(&cards[i], w->ctx, "512MiB", 0);
    return status == VRAM_OK ? vram_fit_new(out, w->m, w->w, (const vram_device *const *)cards, 2) : status;
}

/* The n-th allocation fails: an error, nothing lost, nothing left. */
static void every_allocation_fails_once(void **state)
{
    world w;
    vram_fit *f;
    vram_status s = VRAM_ENOMEM;
    size_t n = 0;
    (void)state;
    make_world(&w, &eight);
    while (s != VRAM_OK) {
        n += n < 300 ? 1 : 17;
        w.h = (hook){ .fail_at = n };
        s = try_fit(&w, &eight, &f);
        assert_true(s == VRAM_OK || s == VRAM_ENOMEM);
        close_objects(&w);
    }
    assert_true(n > 5);
    close_world(&w);
}

/* Each card has a ledger whose items add up to what it needs; the head is of the one that is worst off. */
static void each_has_its_own(void **state)
{
    world w;
    vram_fit *f;
    (void)state;
    make_world(&w, &eight);
    assert_int_equal(try_fit(&w, &eight, &f), VRAM_OK);
    assert_int_equal(f->n_ranks, 2);
    for (size_t i = 0; i < 2; i++) {
        const vram_fit *r = &f->ranks[i];
        uint64_t items = 0;
        for (int k = 0; k < VR_ITEM_COUNT; k++)
            items += r->ledger.item[k].bytes;
        assert_int_equal(items, r->ledger.required);
        assert_int_equal(r->device->facts.rank, i);
        assert_true(f->headroom <= r->headroom || f->verdict != r->verdict);
    }
    close_objects(&w);
    close_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_twice),
        cmocka_unit_test(what_moves),
        cmocka_unit_test(what_is_brought),
        cmocka_unit_test(host_and_disk),
        cmocka_unit_test(quantised_pieces),
        cmocka_unit_test(recorded_moves),
        cmocka_unit_test(every_allocation_fails_once),
        cmocka_unit_test(each_has_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
