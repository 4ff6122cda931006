/* SPDX-License-Identifier: MIT
 * The context: opening and closing, errors, warnings, objects; and the arena. */
#include "support.h"

static void opens_and_closes(void **state)
{
    (void)state;
    hook h = { 0 };
    assert_int_equal(vram_open(NULL, hook_alloc, &h), VRAM_ESETTING);
    vram_ctx *ctx = (vram_ctx *)&h;
    assert_int_equal(vram_open(&ctx, NULL, NULL), VRAM_ESETTING);
    assert_null(ctx);
    h.fail_at = 1;
    assert_int_equal(vram_open(&ctx, hook_alloc, &h), VRAM_ENOMEM);
    assert_null(ctx);
    assert_int_equal(vram_last_error(NULL)->code, VRAM_ENOMEM);
    assert_string_equal(vram_last_error(NULL)->text, "out of host memory");
    h = (hook){ 0 };
    ctx = open_context(&h);
    assert_int_equal(vram_last_error(ctx)->code, VRAM_OK);
    assert_string_equal(vram_last_error(ctx)->text, "no error");
    assert_null(vram_last_error(ctx)->file);
    close_context(ctx, &h);
    vram_close(NULL);
}

/* DESIGN.md's table of exit codes */
static void statuses_become_exit_codes(void **state)
{
    (void)state;
    static const struct {
        vram_status status;
        int code;
    } rows[] = {
        { VRAM_OK, 0 },           { VRAM_ESETTING, 2 }, { VRAM_EFORMAT, 3 },    { VRAM_ELIMIT, 3 },
        { VRAM_EUNSUPPORTED, 3 }, { VRAM_EIO, 4 },      { VRAM_ENOTFOUND, 4 },  { VRAM_ENOMEM, 5 },
        { VRAM_EINTERNAL, 5 },    { VRAM_MORE, 5 },     { (vram_status)77, 5 }, { (vram_status)-77, 5 },
    };
    for (size_t i = 0; i < COUNT(rows); i++)
        assert_int_equal(vram_exit_status(rows[i].status), rows[i].code);
}

static void errors_carry_their_place(void **state)
{
    (void)state;
    hook h = { 0 };
    vram_ctx *ctx = open_context(&h);
    const vram_error *e = vram_last_error(ctx);
    size_t calls = h.n_calls;
    assert_int_equal(vr_fail_at(ctx, VRAM_EFORMAT, "a.safetensors", 1234, T("cut at "), U(8)), VRAM_EFORMAT);
    vr_hint(ctx, "download it again");
    assert_int_equal(e->code, VRAM_EFORMAT);
    assert_string_equal(e->text, "cut at 8");
    assert_string_equal(e->file, "a.safetensors");
    assert_true(e->has_offset);
    assert_int_equal(e->offset, 1234);
    assert_string_equal(e->hint, "download it again");
    /* An error may quote the one before, file and all. */
    assert_int_equal(vr_fail_file(ctx, VRAM_ENOTFOUND, e->file, T("index: "), T(e->text)), VRAM_ENOTFOUND);
    assert_string_equal(e->text, "index: cut at 8");
    assert_string_equal(e->file, "a.safetensors");
    assert_false(e->has_offset);
    assert_null(e->hint);
    vr_hint(ctx, NULL);
    assert_null(e->hint);
    assert_int_equal(vr_fail(ctx, VRAM_ESETTING, T("no such key")), VRAM_ESETTING);
    assert_null(e->file);
    /* The side that fetches bytes sets errors too, and may pass on the one it got. */
    vram_error io = { VRAM_EIO, "no permission", "b.json", true, 7, "ask" };
    assert_int_equal(vram_fail(ctx, &io), VRAM_EIO);
    assert_int_equal(vram_fail(ctx, e), VRAM_EIO);
    assert_string_equal(e->text, "no permission");
    assert_string_equal(e->file, "b.json");
    assert_true(e->has_offset && e->offset == 7);
    assert_string_equal(e->hint, "ask");
    io = (vram_error){ .code = VRAM_EIO, .text = "gone" };
    vram_fail(ctx, &io);
    assert_false(e->has_offset);
    assert_null(e->file);
    assert_null(e->hint);
    assert_int_equal(h.n_calls, calls); /* none of it allocates */
    close_context(ctx, &h);
}

static void long_errors_are_cut_between_characters(void **state)
{
    (void)state;
    hook h = { 0 };
    vram_ctx *ctx = open_context(&h);
    char name[2001];
    for (int i = 0; i < 1000; i++)
        memcpy(name + 2 * i, "é", 2);
    name[2000] = '\0';
    for (size_t lead = 0; lead < 4; lead++) {
        vr_fail_file(ctx, VRAM_EFORMAT, name, T(&"xxxx"[lead]), T(name), T("never seen"));
        vr_hint(ctx, name);
        const vram_error *e = vram_last_error(ctx);
        size_t n = strlen(e->text);
        assert_in_range(n, sizeof ctx->error_text - 3, sizeof ctx->error_text - 1);
        assert_string_equal(e->text + n - 3, "...");
        assert_true(vr_utf8_check(vr_str_of(e->text), NULL));
        assert_string_equal(e->file + strlen(e->file) - 3, "...");
        assert_true(vr_utf8_check(vr_str_of(e->file), NULL));
        assert_string_equal(e->hint + strlen(e->hint) - 3, "...");
    }
    /* Exactly the room is not cut. */
    char exact[sizeof ctx->error_text];
    memset(exact, 'a', sizeof exact - 1);
    exact[sizeof exact - 1] = '\0';
    vr_fail(ctx, VRAM_EFORMAT, T(exact));
    assert_string_equal(vram_last_error(ctx)->text, exact);
    close_context(ctx, &h);
}

static void hostile_names_cannot_drive_a_terminal(void **state)
{
    (void)state;
    hook h = { 0 };
    vram_ctx *ctx = open_context(&h);
    vr_fail_file(ctx, VRAM_EFORMAT, "a\x1b]0;b", T("x\x1b[2J\n\x7f\xC2\x9B"), S(((vr_str){ "\0\xFFz", 3 })),
                 T("é"));
    assert_string_equal(vram_last_error(ctx)->text, "x?[2J?????zé");
    assert_string_equal(vram_last_error(ctx)->file, "a?]0;b");
    assert_int_equal(vr_warn(ctx, "f\n", T("w\r")), VRAM_OK);
    const vram_warning *w;
    assert_int_equal(vram_warnings(ctx, &w), 1);
    assert_string_equal(w[0].text, "w?");
    assert_string_equal(w[0].file, "f?");
    close_context(ctx, &h);
}

static void warnings_are_kept_once(void **state)
{
    (void)state;
    hook h = { 0 };
    vram_ctx *ctx = open_context(&h);
    const vram_warning *w;
    assert_int_equal(vram_warnings(ctx, &w), 0);
    vr_warn(ctx, NULL, T("one"));
    vr_warn(ctx, "f", T("one"));
    vr_warn(ctx, "f", T("o"), T("ne"));
    vr_warn(ctx, NULL, T("one"));
    assert_int_equal(vram_warnings(ctx, &w), 2);
    assert_string_equal(w[0].text, "one");
    assert_null(w[0].file);
    assert_string_equal(w[1].file, "f");
    for (uint64_t i = 0; i < 1000; i++)
        assert_int_equal(vr_warn(ctx, NULL, T("number "), U(i)), VRAM_OK);
    size_t n = vram_warnings(ctx, &w);
    assert_int_equal(n, 201);
    assert_string_equal(w[2].text, "number 0");
    assert_string_equal(w[n - 1].text, "further warnings are left out");
    close_context(ctx, &h);
}

static vram_status warn_much(vram_ctx *ctx)
{
    for (uint64_t i = 0; i < 100; i++)
        VR_TRY(vr_warn(ctx, "file", T("a warning with some length to fill chunks, number "), U(i)));
    return VRAM_OK;
}

static void warnings_survive_failures(void **state)
{
    (void)state;
    assert_true(survives_failures(warn_much) >= 3);
}

typedef struct thing {
    vr_object head;
    vr_arena arena;
    vr_buf text;
    int number, *seen, *at;
} thing;

static void release_thing(vr_object *o)
{
    thing *t = (thing *)o;
    t->seen[(*t->at)++] = t->number;
    vr_buf_free(&t->text);
    vr_arena_free(&t->arena); /* the arena that holds the thing itself */
}

static vram_status make_thing(vram_ctx *ctx, int number, int *seen, int *at)
{
    vr_arena a;
    vr_arena_init(&a, ctx);
    thing *t = VR_NEW(&a, thing);
    if (t == NULL)
        return VRAM_ENOMEM;
    t->arena = a;
    t->number = number;
    t->seen = seen;
    t->at = at;
    vr_buf_init(&t->text, ctx, 100);
    vr_object_register(ctx, &t->head, release_thing);
    vr_put(&t->text, I(number));
    return t->text.failed || VR_ARRAY(&t->arena, char, 100000) == NULL ? VRAM_ENOMEM : VRAM_OK;
}

static void objects_are_released_last_made_first(void **state)
{
    (void)state;
    hook h = { 0 };
    vram_ctx *ctx = open_context(&h);
    int seen[3] = { 0 }, at = 0;
    for (int i = 1; i <= 3; i++)
        assert_int_equal(make_thing(ctx, i, seen, &at), VRAM_OK);
    close_context(ctx, &h);
    assert_int_equal(at, 3);
    assert_int_equal(seen[0], 3);
    assert_int_equal(seen[1], 2);
    assert_int_equal(seen[2], 1);
}

static int faulty_seen[2], faulty_at;

static vram_status make_two_things(vram_ctx *ctx)
{
    faulty_at = 0;
    VR_TRY(make_thing(ctx, 1, faulty_seen, &faulty_at));
    return make_thing(ctx, 2, faulty_seen, &faulty_at);
}

static void objects_survive_failures(void **state)
{
    (void)state;
    assert_true(survives_failures(make_two_things) >= 6);
}

static void arena_gives_zeroed_aligned_blocks(void **state)
{
    (void)state;
    hook h = { 0 };
    vram_ctx *ctx = open_context(&h);
    uint64_t seed = 3;
    unsigned char *blocks[300];
    size_t sizes[300];
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < COUNT(blocks); i++) {
            sizes[i] = (size_t)(next_random(&seed) >> (next_random(&seed) % 16 + 48));
            blocks[i] = vr_arena_alloc(&ctx->arena, sizes[i]);
            assert_non_null(blocks[i]);
            assert_int_equal((uintptr_t)blocks[i] % 16, 0);
            for (size_t k = 0; k < sizes[i]; k++)
                assert_int_equal(blocks[i][k], 0);
            memset(blocks[i], (int)i, sizes[i]);
        }
        for (size_t i = 0; i < COUNT(blocks); i++) {
            for (size_t k = 0; k < sizes[i]; k++)
                assert_int_equal(blocks[i][k], i & 0xFF);
        }
        vr_arena_reset(&ctx->arena);
    }
    close_context(ctx, &h);
}

static void arena_reset_keeps_its_memory(void **state)
{
    (void)state;
    hook h = { 0 };
    vram_ctx *ctx = open_context(&h);
    vr_arena a;
    vr_arena_init(&a, ctx);
    vr_arena_reset(&a);
    size_t calls = 0;
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < 1000; i++)
            assert_non_null(vr_arena_alloc(&a, 1000));
        assert_non_null(vr_arena_alloc(&a, 3000000));
        if (round == 0)
            calls = h.n_calls;
        assert_int_equal(h.n_calls, calls);
        vr_arena_reset(&a);
    }
    vr_arena_free(&a);
    vr_arena_free(&a);
    assert_non_null(vr_arena_alloc(&a, 5)); /* usable again */
    vr_arena_free(&a);
    close_context(ctx, &h);
}

/* Blocks that fill a good part of a chunk must not ask the hook one by one. */
static void arena_asks_rarely(void **state)
{
    (void)state;
    for (size_t n = 16; n <= 200000; n = n * 3 / 2) {
        hook h = { 0 };
        vram_ctx *ctx = open_context(&h);
        size_t count = 40000000 / n < 5000 ? 40000000 / n : 5000;
        for (size_t i = 0; i < count; i++)
            assert_non_null(vr_arena_alloc(&ctx->arena, n));
        assert_true(h.n_calls <= 10 + 2 * count * n / 1048576);
        assert_true(h.live_bytes <= 2 * count * (n + 32) + 10000);
        close_context(ctx, &h);
    }
}

static void arena_refuses_sizes_that_overflow(void **state)
{
    (void)state;
    hook h = { 0 };
    vram_ctx *ctx = open_context(&h);
    vr_arena *a = &ctx->arena;
    static const size_t huge[] = { SIZE_MAX, SIZE_MAX - 1, SIZE_MAX - 31, SIZE_MAX / 2 + 1 };
    for (size_t i = 0; i < COUNT(huge); i++) {
        assert_null(vr_arena_alloc(a, huge[i]));
        assert_int_equal(vram_last_error(ctx)->code, VRAM_ENOMEM);
    }
    assert_null(vr_arena_array(a, SIZE_MAX / 2, 3));
    assert_null(vr_arena_grow(a, NULL, 0, SIZE_MAX / 8, 16));
    vr_fail(ctx, VRAM_EIO, T("before"));
    assert_null(vr_arena_copy(a, (vr_str){ "", SIZE_MAX }));
    assert_int_equal(vram_last_error(ctx)->code, VRAM_ENOMEM);
    assert_int_equal(h.n_calls, 1); /* the context itself: nothing of this reached the hook */
    void *x = vr_arena_alloc(a, 0), *y = vr_arena_array(a, 0, 8);
    assert_non_null(x);
    assert_non_null(y);
    assert_ptr_not_equal(x, y);
    close_context(ctx, &h);
}

static void arena_copies_and_grows(void **state)
{
    (void)state;
    hook h = { 0 };
    vram_ctx *ctx = open_context(&h);
    char *copy = vr_arena_copy(&ctx->arena, (vr_str){ "abcdef", 3 });
    assert_string_equal(copy, "abc");
    assert_string_equal(vr_arena_copy(&ctx->arena, (vr_str){ NULL, 0 }), "");
    int *numbers = vr_arena_grow(&ctx->arena, NULL, 0, 2, sizeof(int));
    numbers[0] = 10;
    numbers[1] = 11;
    int *more = vr_arena_grow(&ctx->arena, numbers, 2, 1000, sizeof(int));
    assert_int_equal(more[0], 10);
    assert_int_equal(more[1], 11);
    assert_int_equal(more[2], 0);
    assert_int_equal(more[999], 0);
    int *less = vr_arena_grow(&ctx->arena, more, 1000, 1, sizeof(int));
    assert_int_equal(less[0], 10);
    close_context(ctx, &h);
}

/* A hook that returns addresses off by 8, as a 32-bit allocator may. */
static void *crooked_alloc(void *ud, void *ptr, size_t old_size, size_t new_size)
{
    char *base = ptr == NULL ? NULL : (char *)ptr - 8;
    if (new_size == 0) {
        hook_alloc(ud, base, base == NULL ? 0 : old_size + 8, 0);
        return NULL;
    }
    char *p = hook_alloc(ud, base, base == NULL ? 0 : old_size + 8, new_size + 8);
    return p == NULL ? NULL : p + 8;
}

static void arena_aligns_by_itself(void **state)
{
    (void)state;
    hook h = { 0 };
    vram_ctx *ctx = NULL;
    assert_int_equal(vram_open(&ctx, crooked_alloc, &h), VRAM_OK);
    for (size_t n = 1; n < 20000; n = n * 2 + 1) {
        void *p = vr_arena_alloc(&ctx->arena, n);
        assert_int_equal((uintptr_t)p % 16, 0);
        memset(p, 1, n);
    }
    close_context(ctx, &h);
}

static vram_status allocate_much(vram_ctx *ctx)
{
    vr_arena a;
    vr_arena_init(&a, ctx);
    bool ok = true;
    for (size_t n = 1; ok && n < 3000000; n *= 3)
        ok = vr_arena_alloc(&a, n) != NULL && vr_arena_copy(&a, VR_LIT("name")) != NULL;
    void *grown = ok ? vr_arena_grow(&a, NULL, 0, 1000, 10) : NULL;
    grown = grown != NULL ? vr_arena_grow(&a, grown, 1000, 2000000, 10) : NULL;
    vr_arena_free(&a);
    return grown != NULL ? VRAM_OK : VRAM_ENOMEM;
}

static void arena_survives_failures(void **state)
{
    (void)state;
    assert_true(survives_failures(allocate_much) >= 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opens_and_closes),
        cmocka_unit_test(statuses_become_exit_codes),
        cmocka_unit_test(errors_carry_their_place),
        cmocka_unit_test(long_errors_are_cut_between_characters),
        cmocka_unit_test(hostile_names_cannot_drive_a_terminal),
        cmocka_unit_test(warnings_are_kept_once),
        cmocka_unit_test(warnings_survive_failures),
        cmocka_unit_test(objects_are_released_last_made_first),
        cmocka_unit_test(objects_survive_failures),
        cmocka_unit_test(arena_gives_zeroed_aligned_blocks),
        cmocka_unit_test(arena_reset_keeps_its_memory),
        cmocka_unit_test(arena_asks_rarely),
        cmocka_unit_test(arena_refuses_sizes_that_overflow),
        cmocka_unit_test(arena_copies_and_grows),
        cmocka_unit_test(arena_aligns_by_itself),
        cmocka_unit_test(arena_survives_failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
