/* SPDX-License-Identifier: MIT
 * What .to("cuda") moves: names, order and sizes against what real classes declare
 * (tests/oracle/facts/order-*.tsv). */
#include "facts.h"

#include <dirent.h>

static size_t next_alloc(const vr_tape *t, size_t i)
{
    while (i < t->n && t->events[i].kind != VR_EV_ALLOC)
        i++;
    return i;
}

static size_t check_lines(const char *name, FILE *in, const vr_tape *t)
{
    char line[256], kind, parameter[128], dtype[32];
    unsigned long long elements;
    size_t i = 0, n = 0;
    while (fgets(line, sizeof(line), in) != NULL) {
        if (sscanf(line, "%c %127s %llu %31s", &kind, parameter, &elements, dtype) != 4 || kind == '#')
            continue;
        i = next_alloc(t, i);
        assert_true(i < t->n);
        const vr_event *e = &t->events[i++];
        if (!vr_str_is(t->labels[e->label], parameter))
            fail_msg("%s: %s, ours %.*s", name, parameter, (int)t->labels[e->label].n, t->labels[e->label].s);
        assert_int_equal(e->bytes, elements * (strcmp(dtype, "float32") == 0 ? 4 : 2));
        assert_int_equal(e->item, kind == 'P' ? VR_ITEM_PARAMETERS : VR_ITEM_BUFFERS);
        n++;
    }
    while (i < t->n && t->events[i].kind != VR_EV_MARK)
        assert_int_not_equal(t->events[i++].kind, VR_EV_ALLOC);
    return n;
}

static void check_file(const char *path)
{
    facts *f = read_facts(path);
    FILE *in = fopen(path, "r");
    world w;
    vr_plan plan;
    vr_arena a;
    assert_non_null(in);
    shape s = shape_of(f);
    s.window = strncmp(f->model_type, "gemma", 5) == 0 ? 512 : 0;
    s.kinds = s.window != 0 ? "sf" : NULL;
    open_world(&w, &s);
    set(&w, "engine_version", f->version);
    set(&w, "dtype", "bf16");
    set(&w, "attention", "eager");
    assert_int_equal(make_plan(&w, &ampere, &plan, &a), VRAM_OK);
    assert_true(check_lines(f->name, in, &plan.tape) > 15);
    vr_arena_free(&a);
    close_world(&w);
    fclose(in);
    free(f);
}

static void every_class(void **state)
{
    DIR *folder = opendir(VRAM_FACTS);
    char path[512];
    size_t n = 0;
    (void)state;
    assert_non_null(folder);
    for (struct dirent *e = readdir(folder); e != NULL; e = readdir(folder)) {
        if (strncmp(e->d_name, "order-", 6) != 0)
            continue;
        snprintf(path, sizeof(path), "%s/%s", VRAM_FACTS, e->d_name);
        check_file(path);
        n++;
    }
    closedir(folder);
    assert_true(n >= 30);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(every_class) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
