/* SPDX-License-Identifier: MIT
 * The JSON of `vram fit` and `vram inspect` against its contract: names, sums, null for what is not known. */
#include "made.h"

static vr_json parse(const page *g)
{
    vr_json doc;
    vr_json_error error;

    if (!vr_json_parse((vr_str){ g->p, g->n }, &doc, &error))
        fail_msg("%s at %zu in:\n%s", error.reason, error.offset, g->p);
    return doc;
}

static vr_json at(vr_json object, const char *path)
{
    vr_json v;

    if (!vr_json_get(object, path, &v))
        fail_msg("no %s", path);
    return v;
}

static uint64_t number(vr_json object, const char *path)
{
    uint64_t n;

    assert_true(vr_json_u64(at(object, path), &n));
    return n;
}

static vr_json first(vr_json array)
{
    vr_json v;
    vr_json_iter it = vr_json_each(array);

    assert_true(vr_json_next(&it, &v));
    return v;
}

static uint64_t sum_bytes(vr_json array)
{
    vr_json v;
    vr_json_iter it = vr_json_each(array);
    uint64_t sum = 0;

    while (vr_json_next(&it, &v))
        sum += number(v, "bytes");
    return sum;
}

static page fit_page(made *m)
{
    page g = { 0 };
    vram_style style = { .format = VRAM_JSON };

    assert_int_equal(vram_fit_render(&m->fit, &style, page_write, &g), VRAM_OK);
    return g;
}

static void six_categories_in_order_sum_up(void **state)
{
    made m;
    page g;
    vr_json doc, device, ledger, key, value;
    vr_json_iter it;
    uint64_t sum = 0;
    size_t c = 0;
    (void)state;

    make(&m);
    g = fit_page(&m);
    doc = parse(&g);
    assert_true(vr_json_str_is(at(doc, "schema"), "vram.fit/1"));
    assert_true(vr_json_str_is(at(doc, "verdict"), "does_not_fit"));
    device = first(at(doc, "devices"));
    ledger = at(device, "ledger");
    it = vr_json_each(ledger);
    while (vr_json_next_member(&it, &key, &value)) {
        assert_true(c < VR_CATEGORY_COUNT && vr_json_str_is(key, vr_category_json((vr_category)c)));
        sum += number(value, "bytes");
        assert_int_equal(sum_bytes(at(value, "items")), number(value, "bytes"));
        c++;
    }
    assert_int_equal(c, VR_CATEGORY_COUNT);
    assert_true(sum == number(device, "required_bytes"));
    assert_true(sum_bytes(at(device, "overhead")) == number(ledger, "runtime_overhead.bytes"));
    free(g.p);
    unmake(&m);
}

static void a_death_is_described(void **state)
{
    made m;
    page g;
    vr_json death;
    (void)state;

    make(&m);
    g = fit_page(&m);
    death = at(first(at(parse(&g), "devices")), "failure");
    assert_true(vr_json_str_is(at(death, "moment"), "loaded"));
    assert_true(vr_json_str_is(at(death, "label"), "model.layers.23.mlp.down_proj.weight"));
    assert_true(vr_json_str_is(at(death, "message"), MESSAGE));
    assert_true(number(death, "short_bytes") == UINT64_C(2740775936));
    assert_true(number(death, "reserved_unallocated_bytes") == 110592000);
    assert_true(vr_str_is(at(death, "loaded_fraction").text, "0.800"));
    assert_true(number(death, "live.weights") == UINT64_C(12178161664));
    assert_true(number(death, "live.runtime_overhead") == CONTEXT_BYTES + IDLE_BYTES);
    free(g.p);
    unmake(&m);
}

static void what_is_not_counted_is_null(void **state)
{
    made m;
    page g;
    vr_json device;
    (void)state;

    make(&m);
    m.fit.ledger.category[VR_KV_CACHE] = (vr_figure){ .basis = VR_BASIS_NOT_COUNTED, .formula = "why" };
    g = fit_page(&m);
    device = first(at(parse(&g), "devices"));
    assert_int_equal(at(device, "ledger.kv_cache.bytes").type, VR_JSON_NULL);
    assert_true(vr_json_str_is(at(device, "ledger.kv_cache.basis"), "not_counted"));
    free(g.p);
    unmake(&m);
}

static void settings_tell_who_set_them(void **state)
{
    made m;
    page g;
    vr_json doc;
    (void)state;

    make(&m);
    g = fit_page(&m);
    doc = parse(&g);
    assert_int_equal(number(doc, "workload.context.value"), 4096);
    assert_true(vr_json_str_is(at(doc, "workload.context.set_by"), "user"));
    assert_true(vr_json_str_is(at(doc, "workload.dtype.set_by"), "model"));
    assert_true(vr_json_str_is(at(doc, "workload.sequences.set_by"), "default"));
    assert_true(vr_json_str_is(at(doc, "engine.name"), "transformers"));
    assert_true(number(first(at(doc, "levers")), "rank") == 1);
    assert_int_equal(number(doc, "smallest_gpu_count.count"), 2);
    free(g.p);
    unmake(&m);
}

static void without_a_card_devices_is_empty(void **state)
{
    made m;
    page g;
    vr_json doc, v;
    vr_json_iter it;
    (void)state;

    make(&m);
    make_it_fit(&m);
    m.cards[0] = (struct vr_card){ .gpu = &m.gpu, .verdict = VRAM_TIGHT, .required = 5, .headroom = -7 };
    m.fit.device = NULL;
    m.fit.cards = m.cards;
    m.fit.n_cards = 1;
    g = fit_page(&m);
    doc = parse(&g);
    it = vr_json_each(at(doc, "devices"));
    assert_false(vr_json_next(&it, &v));
    v = first(at(doc, "cards"));
    assert_true(vr_json_str_is(at(v, "id"), "rtx-3060-12gb"));
    assert_true(vr_json_str_is(at(v, "verdict"), "tight"));
    assert_true(vr_str_is(at(v, "headroom_bytes").text, "-7"));
    free(g.p);
    unmake(&m);
}

/* Names come from files that anyone may have written. */
static void hostile_names_are_escaped(void **state)
{
    made m;
    page g;
    (void)state;

    make(&m);
    m.checkpoint.name = "a\"b\\c\x01";
    m.labels[1] = VR_LIT("l\xff\n");
    g = fit_page(&m);
    parse(&g);
    assert_has(&g, "a\\\"b\\\\c");
    free(g.p);
    unmake(&m);
}

static void inspect_has_what_scripts_rely_on(void **state)
{
    made m;
    page g = { 0 };
    vram_style style = { .format = VRAM_JSON, .tensors = true };
    vr_json doc;
    (void)state;

    make(&m);
    assert_int_equal(vram_inspect_render(&m.model, &style, page_write, &g), VRAM_OK);
    doc = parse(&g);
    assert_true(vr_json_str_is(at(doc, "schema"), "vram.inspect/1"));
    assert_true(number(doc, "checkpoint_bytes") == WEIGHTS);
    assert_int_equal(number(doc, "tensors"), 1);
    assert_true(number(doc, "parameters") == WEIGHTS / 2);
    assert_true(number(doc, "dtypes.BF16.bytes") == WEIGHTS);
    assert_int_equal(number(doc, "kv_bytes_per_token"), 57344);
    assert_int_equal(number(doc, "logits_bytes_per_token"), 304128);
    assert_int_equal(at(doc, "promised_bytes").type, VR_JSON_NULL);
    assert_true(vr_json_str_is(at(first(at(doc, "tensor_list")), "dtype"), "BF16"));
    free(g.p);
    unmake(&m);
}

static void inspect_names_missing_files(void **state)
{
    vr_file files[2] = { { .name = "model-00001-of-00002.safetensors", .size = 5 },
                         { .name = "model-00002-of-00002.safetensors", .missing = true } };
    made m;
    page g = { 0 };
    vram_style style = { .columns = 80 };
    (void)state;

    make(&m);
    m.checkpoint.files = files;
    m.checkpoint.n_files = 2;
    m.checkpoint.incomplete = true;
    m.checkpoint.promised_bytes = 2 * WEIGHTS;
    m.checkpoint.n_missing_tensors = 7;
    assert_int_equal(vram_inspect_render(&m.model, &style, page_write, &g), VRAM_OK);
    assert_has(&g, "INCOMPLETE");
    assert_has(&g, "model-00002-of-00002.safetensors");
    assert_has(&g, "promises 30,462,466,048 bytes");
    assert_within(&g, 80);
    free(g.p);
    unmake(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(six_categories_in_order_sum_up),   cmocka_unit_test(a_death_is_described),
        cmocka_unit_test(what_is_not_counted_is_null),      cmocka_unit_test(settings_tell_who_set_them),
        cmocka_unit_test(without_a_card_devices_is_empty),  cmocka_unit_test(hostile_names_are_escaped),
        cmocka_unit_test(inspect_has_what_scripts_rely_on), cmocka_unit_test(inspect_names_missing_files),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
