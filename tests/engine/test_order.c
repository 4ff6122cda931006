/* SPDX-License-Identifier: MIT
 * What .to("cuda") moves: names, order and sizes against what real classes declare
 * (tests/oracle/facts/order-*.tsv). */
#include "facts.h"

static size_t next_alloc(const vr_tape *t, size_t i)
{
    while (i < t->n && t->events[i].kind != VR_EV_ALLOC)
        i++;
    return i;
}

static unsigned long long bytes_of(const char *dtype)
{
    return strcmp(dtype, "int64") == 0 ? 8 : strcmp(dtype, "float32") == 0 ? 4 : 2;
}

static bool is_stored(const char *path, const char *name)
{
    char line[512], tensor[128];
    FILE *in = fopen(path, "r");
    bool found = false;
    assert_non_null(in);
    while (!found && fgets(line, sizeof(line), in) != NULL)
        found = sscanf(line, "S %127s", tensor) == 1 && strcmp(tensor, name) == 0;
    fclose(in);
    return found;
}

/* Ours are the names of checkpoints; a class may have another for what it loads (gpt_neox's head from 5.0),
 * and buffers are in no checkpoint: of these the last word counts (olmo3 of 4.57 has two rotary modules). */
static void check_name(const char *path, char kind, const char *parameter, vr_str ours)
{
    const char *last = strrchr(parameter, '.');
    bool alike = kind == 'B' ? vr_str_ends(ours, last != NULL ? last : parameter)
                             : vr_str_is(ours, parameter) || !is_stored(path, parameter);
    if (!alike)
        fail_msg("%s: %s, ours %.*s", path, parameter, (int)ours.n, ours.s);
}

static size_t check_lines(const char *path, FILE *in, const vr_tape *t)
{
    char line[512], kind, parameter[128], dtype[32];
    unsigned long long elements;
    size_t i = 0, n = 0;
    while (fgets(line, sizeof(line), in) != NULL) {
        if (sscanf(line, "%c %127s %llu %31s", &kind, parameter, &elements, dtype) != 4 ||
            strchr("PB", kind) == NULL)
            continue;
        i = next_alloc(t, i);
        assert_true(i < t->n);
        const vr_event *e = &t->events[i++];
        check_name(path, kind, parameter, t->labels[e->label]);
        /* The oracle's models are not loaded, which is when 5.17 makes it one of 32 bits. */
        bool loaded_wide =
            strstr(path, "-5.17.0") != NULL && strstr(parameter, "e_score_correction_bias") != NULL;
        assert_int_equal(e->bytes, elements * (loaded_wide ? 4 : bytes_of(dtype)));
        assert_int_equal(e->item, kind == 'P' ? VR_ITEM_PARAMETERS : VR_ITEM_BUFFERS);
        n++;
    }
    while (i < t->n && t->events[i].kind != VR_EV_MARK)
        assert_int_not_equal(t->events[i++].kind, VR_EV_ALLOC);
    return n;
}

static void check_file(const char *folder, const char *name, void *user)
{
    facts *f = read_facts(folder, name);
    char path[512];
    world w;
    vr_plan plan;
    vr_arena a;
    (void)user;
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *in = fopen(path, "r");
    assert_non_null(in);
    open_facts(&w, f);
    set(&w, "dtype", "bf16");
    set(&w, "attention", "eager");
    assert_int_equal(make_plan(&w, &ampere, &plan, &a), VRAM_OK);
    assert_true(check_lines(path, in, &plan.tape) >= 8); /* an MPT of one layer has as many */
    vr_arena_free(&a);
    close_world(&w);
    fclose(in);
    free(f);
}

static void every_class(void **state)
{
    size_t n = each_facts(true, check_file, NULL);
    (void)state;
    assert_true(n >= 30 || !all_facts());
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(every_class) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
