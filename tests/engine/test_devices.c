/* SPDX-License-Identifier: MIT
 * Which module lies on which device, against what transformers and accelerate decided (device_maps.tsv). */
#include "engine/device_map.h"
#include "planned.h"

#define MOST_CARDS 8

typedef struct recorded {
    char version[16], model[32], type[32], shape[896], dtype[16], quant[16], map[24], cards[160], host[24];
    char modules[2048];
} recorded;

static int device_of(vr_str word)
{
    return vr_str_is(word, "cpu") ? VR_ON_HOST : vr_str_is(word, "disk") ? VR_ON_DISK : atoi(word.s);
}

/* "model.layers.3-7" has "model.layers.5.mlp..." */
static bool among_layers(vr_str range, vr_str name)
{
    size_t n = range.n;
    while (n > 0 && range.s[n - 1] != '.')
        n--;
    const char *dash = memchr(range.s + n, '-', range.n - n);
    if (dash == NULL || name.n <= n || memcmp(name.s, range.s, n) != 0)
        return false;
    int layer = atoi(name.s + n);
    return layer >= atoi(range.s + n) && layer <= atoi(dash + 1);
}

static bool lies_in(vr_str module, vr_str name)
{
    return module.n == 0 ||
           (name.n > module.n && memcmp(name.s, module.s, module.n) == 0 && name.s[module.n] == '.');
}

/* The device that the recorded map has for a name. */
static int recorded_device(const char *modules, vr_str name)
{
    vr_str rest = vr_str_of(modules), word, module;
    int device = -1;
    while (vr_str_split(&rest, ' ', &word)) {
        assert_true(vr_str_split(&word, '=', &module));
        if (lies_in(module, name) || among_layers(module, name))
            device = device_of(word);
    }
    return device;
}

static shape shape_of_line(const recorded *r)
{
    shape s = { .model_type = r->type };
    unsigned long long tied;
    assert_int_equal(sscanf(r->shape, "%llu,%llu,%llu,%llu,%llu,%llu,%llu,%llu", &s.layers, &s.hidden,
                            &s.heads, &s.kv_heads, &s.head_dim, &s.ffn, &s.vocab, &tied),
                     8);
    s.tied = tied != 0;
    s.window = strncmp(r->type, "gemma", 5) == 0 ? 4096 : 0;
    s.kinds = s.window != 0 ? "sf" : NULL;
    return s;
}

static void open_line(world *w, const recorded *r)
{
    if (r->shape[0] == '{') {
        open_config(w, r->shape);
        return;
    }
    shape s = shape_of_line(r);
    open_world(w, &s);
}

static size_t cards_of(const recorded *r, uint64_t *out)
{
    size_t n = 0;
    for (const char *p = r->cards; p != NULL && *p != '\0';
         p = strchr(p, ',') != NULL ? strchr(p, ',') + 1 : NULL)
        out[n++] = strtoull(p, NULL, 10);
    return n;
}

static bool offloads(const uint16_t *devices, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (devices[i] >= VR_ON_HOST)
            return true;
    }
    return false;
}

static void check_devices(const recorded *r, const world *w, const vr_params *params, const uint16_t *devices,
                          uint16_t head)
{
    if (strchr(r->modules, '=') == NULL) { /* the exception: something does not fit on the cards */
        assert_true(offloads(devices, params->n));
        return;
    }
    for (size_t i = 0; i < params->n; i++) {
        int wanted = recorded_device(r->modules, params->list[i].name);
        if (wanted != devices[i])
            fail_msg("%s %s %s %s %s %s: %.*s on %d, ours %u", r->version, r->model, r->dtype, r->quant,
                     r->map, r->cards, (int)params->list[i].name.n, params->list[i].name.s, wanted,
                     devices[i]);
    }
    if (w->m->tied)
        assert_int_equal(head, recorded_device(r->modules, vr_str_of("lm_head.weight")));
}

static void check_line(const recorded *r)
{
    world w;
    vr_arena a;
    vr_params params;
    vr_modules tree;
    vram_workload *resolved;
    uint64_t cards[MOST_CARDS];
    uint16_t head, *devices;
    open_line(&w, r);
    set(&w, "engine_version", r->version);
    set(&w, "dtype", r->dtype);
    set(&w, "device_map", r->map);
    set(&w, "quantization", r->quant);
    vr_arena_init(&a, w.ctx);
    assert_int_equal(vr_workload_resolve(&resolved, w.w, w.m, &a), VRAM_OK);
    assert_int_equal(vr_params_of(&params, w.m, vr_rules_of(resolved), &a), VRAM_OK);
    assert_int_equal(vr_modules_of(&tree, w.m, &params, resolved, &a), VRAM_OK);
    devices = VR_ARRAY(&a, uint16_t, params.n);
    vr_map_room room = { .gpus = cards, .n = cards_of(r, cards), .host = strtoull(r->host, NULL, 10) };
    assert_int_equal(vr_device_map_of(devices, &head, &tree, &params, resolved, &room, &a), VRAM_OK);
    check_devices(r, &w, &params, devices, head);
    vr_arena_free(&a);
    close_world(&w);
}

static void recorded_maps(void **state)
{
    char line[4096];
    size_t n = 0;
    FILE *in = fopen(VRAM_DEVICE_MAPS, "r");
    (void)state;
    assert_non_null(in);
    while (fgets(line, sizeof(line), in) != NULL) {
        recorded r;
        if (line[0] == '#')
            continue;
        assert_int_equal(
            sscanf(line,
                   "%15[^\t]\t%31[^\t]\t%31[^\t]\t%895[^\t]\t%15[^\t]\t%15[^\t]\t%23[^\t]\t%159[^\t]\t"
                   "%23[^\t]\t%2047[^\n]",
                   r.version, r.model, r.type, r.shape, r.dtype, r.quant, r.map, r.cards, r.host, r.modules),
            10);
        check_line(&r);
        n++;
    }
    fclose(in);
    assert_true(n > 500);
}

/* ---- the card that is just large enough ---- */

static bool all_on_card(const char *map, const shape *s, uint64_t card)
{
    world w;
    vr_arena a;
    vr_params params;
    vr_modules tree;
    vram_workload *resolved;
    vr_map_room room = { .gpus = &card, .n = 1, .host = UINT64_MAX };
    uint16_t head;
    open_world(&w, s);
    set(&w, "engine_version", "5.24");
    set(&w, "device_map", map);
    vr_arena_init(&a, w.ctx);
    assert_int_equal(vr_workload_resolve(&resolved, w.w, w.m, &a), VRAM_OK);
    assert_int_equal(vr_params_of(&params, w.m, vr_rules_of(resolved), &a), VRAM_OK);
    assert_int_equal(vr_modules_of(&tree, w.m, &params, resolved, &a), VRAM_OK);
    uint16_t *devices = VR_ARRAY(&a, uint16_t, params.n);
    assert_non_null(devices);
    assert_int_equal(vr_device_map_of(devices, &head, &tree, &params, resolved, &room, &a), VRAM_OK);
    bool all = !offloads(devices, params.n);
    vr_arena_free(&a);
    close_world(&w);
    return all;
}

static uint64_t least_card(const char *map, const shape *s)
{
    uint64_t low = 0, high = VR_MIB;
    assert_true(all_on_card(map, s, high));
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        if (all_on_card(map, s, middle))
            high = middle;
        else
            low = middle;
    }
    return high;
}

/* utils/modeling.py, get_balanced_memory: with one card auto takes 0.9 of what sequential takes, to the byte.
 */
static void nine_tenths(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 9; i++) {
        shape s = small_llama;
        s.vocab += i;
        uint64_t whole = least_card("sequential", &s);
        assert_int_equal(least_card("auto", &s), (10 * whole + 8) / 9);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(recorded_maps), cmocka_unit_test(nine_tenths) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
