/* SPDX-License-Identifier: MIT
 * Runs a fuzz target as an ordinary test: over the files (and files of the directories) given, and over
 * mutations of them from a fixed seed. After the idea of zstd's tests/fuzz/regression_driver.c, with
 * mutations added.
 *
 *   replay [-n MUTATIONS-PER-FILE] [-w FILE] PATH...
 *
 * -w writes every input to FILE before it is run: after a crash, that is the input. */
#define _POSIX_C_SOURCE 200809L
#include "fuzz.h"

#include <dirent.h>
#include <string.h>
#include <sys/stat.h>

#define LARGEST ((size_t)1 << 20)

typedef struct input {
    uint8_t *bytes;
    size_t n;
} input;

typedef struct inputs {
    input *list;
    size_t n, room;
} inputs;

static const char *written; /* -w */
static uint64_t random_state = 1;
static size_t runs;

static void die(const char *what, const char *name)
{
    fprintf(stderr, "replay: %s: %s\n", what, name);
    exit(2);
}

static void *grown(void *p, size_t n)
{
    p = realloc(p, n != 0 ? n : 1);
    if (p == NULL)
        die("out of memory", "realloc");
    return p;
}

/* splitmix64 (Steele, Lea, Flood 2014) */
static uint64_t next_random(void)
{
    uint64_t z = (random_state += UINT64_C(0x9E3779B97F4A7C15));
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

static size_t below(size_t n)
{
    return n == 0 ? 0 : (size_t)(next_random() % n);
}

static void read_file(inputs *all, const char *path)
{
    FILE *f = fopen(path, "rb");
    if (f == NULL)
        die("cannot read", path);
    input in = { grown(NULL, LARGEST), 0 };
    in.n = fread(in.bytes, 1, LARGEST, f);
    if (ferror(f) || fclose(f) != 0)
        die("cannot read", path);
    in.bytes = grown(in.bytes, in.n);
    if (all->n == all->room) {
        all->room = all->room * 2 + 8;
        all->list = grown(all->list, all->room * sizeof *all->list);
    }
    all->list[all->n++] = in;
}

static int visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static void read_path(inputs *all, const char *path)
{
    struct stat st;
    struct dirent **names;
    if (stat(path, &st) != 0)
        die("cannot read", path);
    if (!S_ISDIR(st.st_mode)) {
        read_file(all, path);
        return;
    }
    int n = scandir(path, &names, visible, alphasort); /* sorted: the mutations must not depend on the disk */
    if (n < 0)
        die("cannot read", path);
    for (int i = 0; i < n; i++) {
        char file[4096];
        snprintf(file, sizeof file, "%s/%s", path, names[i]->d_name);
        read_path(all, file);
        free(names[i]);
    }
    free(names);
}

/* A copy of exactly the size, so that a sanitizer or valgrind sees a read behind the end. */
static void run_one(const uint8_t *bytes, size_t n)
{
    uint8_t *copy = grown(NULL, n);
    memcpy(copy, bytes, n);
    if (written != NULL) {
        FILE *f = fopen(written, "wb");
        if (f == NULL || fwrite(bytes, 1, n, f) != n || fclose(f) != 0)
            die("cannot write", written);
    }
    LLVMFuzzerTestOneInput(copy, n);
    free(copy);
    runs++;
}

/* Replaces `cut` bytes at `at` by n others; other may lie in the same input. */
static void splice(input *in, size_t at, size_t cut, const uint8_t *other, size_t n)
{
    if (in->n - cut + n > LARGEST)
        return;
    uint8_t *made = grown(NULL, in->n - cut + n);
    memcpy(made, in->bytes, at);
    memcpy(made + at, other, n);
    memcpy(made + at + n, in->bytes + at + cut, in->n - at - cut);
    free(in->bytes);
    in->bytes = made;
    in->n = in->n - cut + n;
}

/* Values at which size arithmetic goes wrong, as text and as eight little-endian bytes. */
static void put_number(input *in, size_t at)
{
    static const uint64_t numbers[] = { 0,
                                        1,
                                        0x7F,
                                        0xFF,
                                        0xFFFF,
                                        0x7FFFFFFF,
                                        0x80000000,
                                        0xFFFFFFFF,
                                        0x100000000,
                                        UINT64_C(1) << 53,
                                        UINT64_C(1) << 60,
                                        UINT64_C(1) << 62,
                                        (UINT64_C(1) << 63) - 1,
                                        UINT64_C(1) << 63,
                                        UINT64_MAX - 7,
                                        UINT64_MAX };
    uint64_t v = numbers[below(sizeof numbers / sizeof *numbers)];
    uint8_t text[24];
    if (next_random() % 2 == 0) {
        for (int i = 0; i < 8; i++)
            text[i] = (uint8_t)(v >> (8 * i));
        splice(in, at, in->n - at < 8 ? in->n - at : 8, text, 8);
        return;
    }
    int n = snprintf((char *)text, sizeof text, "%llu", (unsigned long long)v);
    size_t digits = 0; /* in place of the number that stands there */
    while (at + digits < in->n && in->bytes[at + digits] >= '0' && in->bytes[at + digits] <= '9')
        digits++;
    splice(in, at, digits, text, (size_t)n);
}

static void put_token(input *in, size_t at)
{
    static const char *const tokens[] = {
        "{",       "}",  "[",     "]",     "\"",     ":",        ",",  "\\u0000",
        "\\ud83d", "-1", "1e300", "null",  "0.5",    "{}",       "[]", "\"\"",
        "\xff",    "\n", "true",  "1e400", "\\\"\\", "\xc3\xa9", "-",  "1e999999999999999999999"
    };
    const char *t = tokens[below(sizeof tokens / sizeof *tokens)];
    size_t cut = below(2);
    splice(in, at, at < in->n ? cut : 0, (const uint8_t *)t, strlen(t));
}

/* Each random number is drawn in a statement of its own: the order of arguments is the compiler's. */
static void mutate(input *in, const inputs *all)
{
    size_t at = below(in->n + 1), rest = in->n - at;
    size_t cut = below(rest < 16 ? rest + 1 : 16);
    const input *other = &all->list[below(all->n)];
    size_t from = below(other->n + 1);
    size_t length = below(other->n - from < 64 ? other->n - from + 1 : 64);
    uint8_t byte = (uint8_t)next_random();
    switch (next_random() % 8) {
    case 0:
        if (rest != 0)
            in->bytes[at] ^= (uint8_t)(1u << (byte & 7));
        break;
    case 1:
        splice(in, at, rest != 0, &byte, 1);
        break;
    case 2:
        splice(in, at, cut, &byte, 0);
        break;
    case 3:
        splice(in, at, cut, other->bytes + from, length);
        break;
    case 4:
        put_number(in, at);
        break;
    case 5:
        put_token(in, at);
        break;
    case 6:
        if (byte % 4 == 0)
            in->n = at;
        break;
    default: /* what stands here, twice */
        splice(in, at, 0, in->bytes + at, rest < 64 ? rest : byte % 64);
        break;
    }
}

static void run_mutations(const inputs *all, const input *seed, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        input in = { grown(NULL, seed->n), seed->n };
        memcpy(in.bytes, seed->bytes, seed->n);
        for (size_t k = 1 + below(4); k > 0; k--)
            mutate(&in, all);
        run_one(in.bytes, in.n);
        free(in.bytes);
    }
}

int main(int argc, char **argv)
{
    inputs all = { NULL, 0, 0 };
    size_t mutations = 500;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "-n") == 0 && i + 1 < argc)
            mutations = strtoul(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "-w") == 0 && i + 1 < argc)
            written = argv[++i];
        else
            read_path(&all, argv[i]);
    }
    if (all.n == 0)
        die("no inputs", "give files or directories");
    run_one((const uint8_t *)"", 0);
    for (size_t i = 0; i < all.n; i++)
        run_one(all.list[i].bytes, all.list[i].n);
    for (size_t i = 0; i < all.n; i++)
        run_mutations(&all, &all.list[i], mutations);
    printf("%zu inputs, %zu runs\n", all.n, runs);
    for (size_t i = 0; i < all.n; i++)
        free(all.list[i].bytes);
    free(all.list);
    return 0;
}
