/* SPDX-License-Identifier: MIT
 * Checkpoints on a real file system, in a directory made for the test. */
#define _XOPEN_SOURCE 700

#include "source.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "vram_io.h"

#define HEADER "{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}"
#define INDEX "model.safetensors.index.json"

typedef struct disk {
    char dir[PATH_MAX / 2];
    char path[PATH_MAX];
    vram_io *io;
    hook memory;
    vram_ctx *ctx;
    vram_checkpoint *ck;
    size_t n_reads, fail_read, short_read; /* 0: none */
    int error;
} disk;

static const char *in_dir(disk *d, const char *name)
{
    snprintf(d->path, sizeof(d->path), "%s/%s", d->dir, name);
    return d->path;
}

static void write_file(disk *d, const char *name, const void *bytes, size_t n, uint64_t size)
{
    FILE *f = fopen(in_dir(d, name), "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(truncate(d->path, (off_t)size), 0);
}

static void write_header(disk *d, const char *name, const char *header, uint64_t data)
{
    char bytes[512] = { (char)strlen(header) };
    assert_true(strlen(header) < 128);
    memcpy(bytes + 8, header, strlen(header));
    write_file(d, name, bytes, 8 + strlen(header), 8 + strlen(header) + data);
}

static void write_text(disk *d, const char *name, const char *text)
{
    write_file(d, name, text, strlen(text), strlen(text));
}

static long counted_read(void *ud, int fd, void *bytes, size_t n, uint64_t offset)
{
    disk *d = ud;
    d->n_reads++;
    if (d->n_reads == d->fail_read) {
        errno = d->error;
        return -1;
    }
    if (d->short_read != 0 && d->n_reads >= d->short_read)
        return d->n_reads == d->short_read && n > 1 ? (long)pread(fd, bytes, n / 2, (off_t)offset) : 0;
    return (long)pread(fd, bytes, n > 7 ? 7 : n, (off_t)offset); /* in small pieces, as a slow pipe would */
}

static disk *new_disk(void)
{
    disk *d = calloc(1, sizeof(*d));
    const char *tmp = getenv("TMPDIR");
    assert_non_null(d);
    snprintf(d->dir, sizeof(d->dir), "%s/vram-test-XXXXXX", tmp != NULL ? tmp : "/tmp");
    assert_non_null(mkdtemp(d->dir));
    return d;
}

static vram_status open_path(disk *d, const char *path)
{
    assert_int_equal(vram_io_new(&d->io), VRAM_OK);
    vram_io_set_read(d->io, counted_read, d);
    d->n_reads = 0;
    d->ck = NULL;
    if (vram_open(&d->ctx, hook_alloc, &d->memory) != VRAM_OK) {
        d->ctx = NULL;
        return VRAM_ENOMEM;
    }
    return vram_io_open_path(&d->ck, d->io, d->ctx, path);
}

static void close_path(disk *d)
{
    if (d->ctx != NULL)
        vram_close(d->ctx);
    vram_io_free(d->io);
    assert_int_equal(d->memory.live_blocks, 0);
}

static void end_disk(disk *d)
{
    char command[PATH_MAX];
    snprintf(command, sizeof(command), "rm -rf '%s'", d->dir);
    assert_int_equal(system(command), 0);
    free(d);
}

static void expect(const disk *d, vram_status got, vram_status code, const char *file, const char *text)
{
    const vram_error *e = vram_last_error(d->ctx);
    if (got != code || e->file == NULL || strcmp(e->file, file) != 0 || strstr(e->text, text) == NULL)
        fail_msg("%d, %s: %s; expected %d, %s: %s", (int)got, e->file == NULL ? "-" : e->file, e->text,
                 (int)code, file, text);
}

static void expect_status(const disk *d, vram_status got)
{
    if (got != VRAM_OK)
        fail_msg("%d: %s", (int)got, vram_last_error(d->ctx)->text);
}

static void good(disk *d, const char *path, size_t n_tensors, bool config)
{
    vram_status s = open_path(d, path);
    if (s != VRAM_OK)
        fail_msg("%s: %s", path, vram_last_error(d->ctx)->text);
    assert_int_equal(d->ck->n_tensors, n_tensors);
    assert_int_equal(d->ck->has_config, config);
    assert_string_equal(d->ck->name, path);
    close_path(d);
}

static void test_paths(void **state)
{
    (void)state;
    disk *d = new_disk();
    char here[PATH_MAX];
    write_header(d, "model.safetensors", HEADER, 2);
    good(d, d->dir, 1, false);
    good(d, in_dir(d, ""), 1, false);
    write_text(d, "config.json", "{}");
    good(d, in_dir(d, "model.safetensors"), 1, true);
    assert_int_equal(mkdir(in_dir(d, "sub.safetensors"), 0700), 0); /* a directory is no weight file */
    good(d, d->dir, 1, true);
    assert_non_null(getcwd(here, sizeof(here)));
    assert_int_equal(chdir(d->dir), 0);
    good(d, "model.safetensors", 1, true);
    good(d, ".", 1, true);
    assert_int_equal(chdir(here), 0);
    write_text(d, INDEX, "{\"weight_map\":{\"a\":\"model.safetensors\"}}");
    good(d, in_dir(d, INDEX), 1, true); /* means its directory */
    vram_status s = open_path(d, in_dir(d, "config.json"));
    expect(d, s, VRAM_EUNSUPPORTED, d->path, "it has no model_type");
    close_path(d);
    write_text(d, "config.json", "{\"model_type\":\"llama\"}");
    write_text(d, "mine", " {\"model_type\":\"llama\"}");
    static const char *const alone[] = { "config.json", "mine" };
    for (size_t i = 0; i < 2; i++) { /* whatever lies beside it */
        expect_status(d, open_path(d, in_dir(d, alone[i])));
        assert_true(vram_checkpoint_config_only(d->ck) && vram_checkpoint_complete(d->ck));
        assert_int_equal(d->ck->n_files, 0);
        assert_string_equal(d->ck->config_file, alone[i]);
        assert_int_equal(vram_warnings(d->ctx, &(const vram_warning *){ NULL }), 0);
        assert_false(d->ck->quantised_elsewhere);
        close_path(d);
    }
    write_text(d, "hf_quant_config.json", "{}");
    expect_status(d, open_path(d, in_dir(d, "config.json")));
    assert_true(d->ck->quantised_elsewhere);
    close_path(d);
    end_disk(d);
}

/* ~/.cache/huggingface/hub/models--…/snapshots/<revision>/ holds links into ../../blobs/. */
static void test_links(void **state)
{
    (void)state;
    disk *d = new_disk();
    write_header(d, "blob", HEADER, 2);
    assert_int_equal(mkdir(in_dir(d, "snapshot"), 0700), 0);
    assert_int_equal(symlink("../blob", in_dir(d, "snapshot/model.safetensors")), 0);
    good(d, in_dir(d, "snapshot"), 1, false);
    good(d, in_dir(d, "snapshot/model.safetensors"), 1, false);
    /* a link to nothing is a missing file */
    assert_int_equal(unlink(in_dir(d, "blob")), 0);
    write_text(d, "snapshot/" INDEX, "{\"weight_map\":{\"a\":\"model.safetensors\"}}");
    assert_int_equal(open_path(d, in_dir(d, "snapshot")), VRAM_OK);
    assert_true(d->ck->incomplete);
    close_path(d);
    expect(d, open_path(d, in_dir(d, "snapshot/model.safetensors")), VRAM_ENOTFOUND, d->path, "No such file");
    close_path(d);
    end_disk(d);
}

static void test_not_there(void **state)
{
    (void)state;
    disk *d = new_disk();
    vram_status s = open_path(d, in_dir(d, "nothing"));
    expect(d, s, VRAM_ENOTFOUND, d->path, "No such file");
    assert_int_equal(vram_exit_status(s), 4);
    close_path(d);
    write_text(d, "file", "");
    expect(d, open_path(d, in_dir(d, "file/deeper")), VRAM_ENOTFOUND, d->path, "Not a directory");
    close_path(d);
    expect(d, open_path(d, ""), VRAM_ENOTFOUND, "", "No such file");
    close_path(d);
    end_disk(d);
}

static void test_not_files(void **state)
{
    (void)state;
    disk *d = new_disk();
    assert_int_equal(mkfifo(in_dir(d, "model.safetensors"), 0600), 0);
    expect(d, open_path(d, d->path), VRAM_EUNSUPPORTED, d->path, "a pipe");
    close_path(d);
    expect(d, open_path(d, d->dir), VRAM_EUNSUPPORTED, in_dir(d, "model.safetensors"),
           "a pipe"); /* and it does not wait */
    close_path(d);
    expect(d, open_path(d, "/dev/zero"), VRAM_EUNSUPPORTED, "/dev/zero", "a device");
    close_path(d);
    end_disk(d);
}

/* What has the name of a file and is none: named, with what it is. */
static void odd(const char *name, const char *what, vram_status code, const char *text)
{
    disk *d = new_disk();
    if (strcmp(name, "model.safetensors") != 0)
        write_header(d, "model.safetensors", HEADER, 2);
    in_dir(d, name);
    assert_int_equal(strcmp(what, "pipe") == 0        ? mkfifo(d->path, 0600)
                     : strcmp(what, "directory") == 0 ? mkdir(d->path, 0700)
                                                      : symlink(what, d->path),
                     0);
    vram_status s = open_path(d, d->dir);
    expect(d, s, code, in_dir(d, name), text);
    close_path(d);
    end_disk(d);
}

static void test_odd_files(void **state)
{
    (void)state;
    static const char *const names[] = { "model.safetensors", "config.json", INDEX };
    for (size_t i = 0; i < 3; i++) {
        odd(names[i], "pipe", VRAM_EUNSUPPORTED, "this is a pipe, not a file");
        odd(names[i], "directory", VRAM_EUNSUPPORTED, "this is a directory, not a file");
        odd(names[i], "nothing", VRAM_ENOTFOUND, "this is a link to nothing");
        odd(names[i], names[i], VRAM_EIO, "symbolic links");
    }
}

/* Errors of the library name the file with its directory, however that was written. */
static void test_places(void **state)
{
    (void)state;
    disk *d = new_disk();
    char slashes[PATH_MAX];
    write_header(d, "model.safetensors", HEADER, 2);
    write_text(d, "config.json", "{]");
    expect(d, open_path(d, d->dir), VRAM_EFORMAT, in_dir(d, "config.json"), "not valid JSON");
    close_path(d);
    snprintf(slashes, sizeof(slashes), "%s///", d->dir);
    expect(d, open_path(d, slashes), VRAM_EFORMAT, in_dir(d, "config.json"), "not valid JSON");
    close_path(d);
    vram_status s = open_path(d, in_dir(d, "model.safetensors"));
    expect(d, s, VRAM_EFORMAT, in_dir(d, "config.json"), "not valid JSON");
    close_path(d);
    write_text(d, "config.json", "{}");
    write_header(d, "model.safetensors", "{}", 0);
    expect(d, open_path(d, d->dir), VRAM_EUNSUPPORTED, in_dir(d, "model.safetensors"), "names no tensor");
    close_path(d);
    end_disk(d);
}

/* Root may read everything, so as root it is tried as nobody. */
static void test_permission(void **state)
{
    (void)state;
    disk *d = new_disk();
    bool root = geteuid() == 0;
    write_header(d, "model.safetensors", HEADER, 2);
    assert_int_equal(chmod(in_dir(d, "model.safetensors"), 0), 0);
    assert_int_equal(chmod(d->dir, 0755), 0);
    assert_true(!root || seteuid(65534) == 0);
    expect(d, open_path(d, d->dir), VRAM_EIO, in_dir(d, "model.safetensors"), "Permission denied");
    close_path(d);
    assert_true(!root || seteuid(0) == 0);
    assert_int_equal(chmod(d->dir, 0), 0);
    assert_true(!root || seteuid(65534) == 0);
    vram_status s = open_path(d, d->dir);
    expect(d, s, VRAM_EIO, d->dir, "Permission denied");
    assert_int_equal(vram_exit_status(s), 4);
    close_path(d);
    assert_true(!root || seteuid(0) == 0);
    assert_int_equal(chmod(d->dir, 0700), 0);
    end_disk(d);
}

/* Sparse: 100 MB that take no place on the disk, and are not read. */
static void test_large_config(void **state)
{
    (void)state;
    disk *d = new_disk();
    write_header(d, "model.safetensors", HEADER, 2);
    write_file(d, "config.json", "{", 1, 104857600);
    expect(d, open_path(d, d->dir), VRAM_ELIMIT, in_dir(d, "config.json"),
           "104,857,600 bytes, over the limit of 4,194,304");
    assert_int_equal(d->n_reads, 0);
    close_path(d);
    end_disk(d);
}

static void make_sharded(disk *d)
{
    write_header(d, "one.safetensors", HEADER, 2);
    write_header(d, "two.safetensors", "{\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}", 2);
    write_text(d, INDEX, "{\"weight_map\":{\"a\":\"one.safetensors\",\"b\":\"two.safetensors\"}}");
    write_text(d, "config.json", "{\"model_type\":\"llama\"}");
}

/* The n-th read fails, for every n; interrupted ones are repeated. */
static void test_reads_fail(void **state)
{
    (void)state;
    disk *d = new_disk();
    make_sharded(d);
    good(d, d->dir, 2, true);
    size_t n = d->n_reads;
    assert_true(n > 20);
    for (d->fail_read = 1; d->fail_read <= n; d->fail_read++) {
        d->error = EIO;
        vram_status s = open_path(d, d->dir);
        const vram_error *e = vram_last_error(d->ctx);
        assert_int_equal(s, VRAM_EIO);
        assert_string_equal(e->text, strerror(EIO));
        assert_true(e->file != NULL && e->has_offset && e->offset % 7 == 0);
        close_path(d);
        d->error = EINTR;
        good(d, d->dir, 2, true);
    }
    end_disk(d);
}

/* A file that ends before its size, at every read. */
static void test_files_shrink(void **state)
{
    (void)state;
    disk *d = new_disk();
    make_sharded(d);
    good(d, d->dir, 2, true);
    size_t n = d->n_reads;
    for (d->short_read = 1; d->short_read <= n; d->short_read++) {
        vram_status s = open_path(d, d->dir);
        const vram_error *e = vram_last_error(d->ctx);
        assert_int_equal(s, VRAM_EIO);
        assert_non_null(strstr(e->text, "was it changed meanwhile"));
        assert_true(e->file != NULL && e->has_offset);
        close_path(d);
    }
    end_disk(d);
}

static void test_allocations(void **state)
{
    (void)state;
    disk *d = new_disk();
    make_sharded(d);
    for (int after = 0; after < 2; after++) {
        d->memory = (hook){ .fail_after = after != 0 };
        for (d->memory.fail_at = 1;; d->memory.fail_at++) {
            d->memory.n_calls = 0;
            vram_status s = open_path(d, d->dir);
            close_path(d);
            if (s == VRAM_OK)
                break;
            assert_int_equal(s, VRAM_ENOMEM);
        }
        assert_true(d->memory.fail_at > 4);
    }
    end_disk(d);
}

static void test_plain_read(void **state)
{
    (void)state;
    disk *d = new_disk();
    vram_io *io = NULL;
    vram_ctx *ctx = NULL;
    vram_checkpoint *one = NULL, *two = NULL;
    make_sharded(d);
    assert_int_equal(vram_io_new(&io), VRAM_OK);
    vram_io_set_read(io, counted_read, d);
    vram_io_set_read(io, NULL, NULL);
    assert_int_equal(vram_open(&ctx, vram_io_alloc, NULL), VRAM_OK);
    assert_int_equal(vram_io_open_path(&one, io, ctx, d->dir), VRAM_OK);
    uint64_t held = vram_io_bytes(io);
    assert_true(held > 0);
    assert_int_equal(vram_io_open_path(&two, io, ctx, in_dir(d, "one.safetensors")),
                     VRAM_OK); /* of one context */
    assert_true(vram_io_bytes(io) > held);
    assert_int_equal(one->n_tensors + two->n_tensors, 3);
    assert_int_equal(d->n_reads, 0);
    vram_close(ctx);
    vram_io_free(io);
    vram_io_free(NULL);
    end_disk(d);
}

/* ---- sub-folders ---- */

static void make_folder(disk *d, const char *name)
{
    assert_int_equal(mkdir(in_dir(d, name), 0755), 0);
}

/* What is left out is what was listed and does not count. */
static void expect_listed(disk *d, const char *const *left_out, size_t n)
{
    expect_status(d, open_path(d, d->dir));
    for (size_t i = 0; i < d->ck->n_left_out && i < n; i++)
        assert_string_equal(d->ck->left_out[i].name, left_out[i]);
    assert_int_equal(d->ck->n_left_out, n);
    close_path(d);
}

static void test_sub_folders(void **state)
{
    (void)state;
    disk *d = new_disk();
    static const char *const all[] = { "a/b/two.onnx", "a/one.onnx", "linked/one.onnx" };
    write_header(d, "model.safetensors", HEADER, 2);
    make_folder(d, "a");
    make_folder(d, "a/b");
    make_folder(d, "a/b/c");
    make_folder(d, ".cache");
    write_text(d, "a/one.onnx", "x");
    write_text(d, "a/b/two.onnx", "x");
    write_text(d, "a/b/c/three.onnx", "x"); /* a level too deep */
    write_text(d, ".cache/hidden.onnx", "x");
    write_text(d, ".hidden.onnx", "x");
    assert_int_equal(mkfifo(in_dir(d, "a/pipe.safetensors"), 0600), 0); /* not waited for */
    assert_int_equal(symlink("nothing", in_dir(d, "a/gone.safetensors")), 0);
    assert_int_equal(symlink("..", in_dir(d, "a/up")), 0); /* back to where it came from */
    assert_int_equal(symlink(".", in_dir(d, "a/b/here")), 0);
    assert_int_equal(symlink("self", in_dir(d, "self")), 0);
    expect_listed(d, all, 2);
    assert_int_equal(symlink("a", in_dir(d, "linked")), 0); /* links to folders are followed */
    assert_int_equal(unlink(in_dir(d, "a/b/two.onnx")), 0);
    expect_listed(d, all + 1, 2);
    end_disk(d);
}

/* Weights in a folder are read there, and errors name the file with its folder. */
static void test_weights_in_folders(void **state)
{
    (void)state;
    disk *d = new_disk();
    make_folder(d, "unet");
    write_text(d, "model_index.json", "{\"_class_name\":\"P\",\"unet\":[\"diffusers\",\"UNet\"]}");
    write_header(d, "unet/diffusion_pytorch_model.safetensors", HEADER, 2);
    expect_status(d, open_path(d, d->dir));
    assert_string_equal(d->ck->files[0].name, "unet/diffusion_pytorch_model.safetensors");
    assert_non_null(vr_checkpoint_find(d->ck, VR_LIT("unet/a")));
    close_path(d);
    expect_status(d, open_path(d, in_dir(d, "model_index.json"))); /* means its directory */
    assert_int_equal(d->ck->n_parts, 1);
    close_path(d);
    write_header(d, "unet/diffusion_pytorch_model.safetensors", "{}", 0);
    expect(d, open_path(d, d->dir), VRAM_EUNSUPPORTED, in_dir(d, "unet/diffusion_pytorch_model.safetensors"),
           "names no tensor");
    close_path(d);
    end_disk(d);
}

/* As if it were not there, unless nothing else is: then it is said. */
static void test_unreadable_folder(void **state)
{
    (void)state;
    disk *d = new_disk();
    bool root = geteuid() == 0;
    make_folder(d, "closed");
    write_header(d, "closed/model.safetensors", HEADER, 2);
    write_header(d, "model.safetensors", HEADER, 2);
    assert_int_equal(chmod(d->dir, 0755), 0);
    assert_int_equal(chmod(in_dir(d, "closed"), 0), 0);
    assert_true(!root || seteuid(65534) == 0);
    expect_listed(d, NULL, 0);
    assert_true(!root || seteuid(0) == 0);
    assert_int_equal(unlink(in_dir(d, "model.safetensors")), 0);
    assert_true(!root || seteuid(65534) == 0);
    expect(d, open_path(d, d->dir), VRAM_EIO, in_dir(d, "closed"), "Permission denied");
    close_path(d);
    assert_true(!root || seteuid(0) == 0);
    assert_int_equal(chmod(in_dir(d, "closed"), 0700), 0);
    end_disk(d);
}

/* A shard that is given alone means its set, and its index. */
static void test_shard_alone(void **state)
{
    (void)state;
    disk *d = new_disk();
    write_header(d, "m-00001-of-00002.safetensors", HEADER, 2);
    write_header(d, "m-00002-of-00002.safetensors",
                 "{\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}", 2);
    write_header(d, "n-00001-of-00002.safetensors", HEADER, 2);
    good(d, in_dir(d, "m-00002-of-00002.safetensors"), 2, false);
    expect_status(d, open_path(d, in_dir(d, "n-00001-of-00002.safetensors")));
    assert_true(d->ck->incomplete);
    assert_int_equal(d->ck->n_files, 2);
    close_path(d);
    end_disk(d);
}

#define ONE(name) "{\"" name "\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}"

/* A file that was named is meant, whatever would be taken of its directory, and whatever its name says. */
static void test_named(void **state)
{
    (void)state;
    static const struct {
        const char *name, *tensor;
    } rows[] = {
        { "model.safetensors", "single" },
        { "consolidated.safetensors", "consolidated" },
        { "other.safetensors.index.json", "shard" },
        { "other-00001-of-00001.safetensors", "shard" },
        { "model.fp16.safetensors", "half" },
        { "optimizer.pt", "state" }, /* told by its bytes */
        { "training_args.bin", "state" },
        { "weights", "state" },
        { "model.pth.tar", "state" },
    };
    disk *d = new_disk();
    write_header(d, "model.safetensors", ONE("single"), 2);
    write_header(d, "consolidated.safetensors", ONE("consolidated"), 2);
    write_header(d, "other-00001-of-00001.safetensors", ONE("shard"), 2);
    write_header(d, "model.fp16.safetensors", ONE("half"), 2);
    for (size_t i = 5; i < sizeof(rows) / sizeof(rows[0]); i++)
        write_header(d, rows[i].name, ONE("state"), 2);
    write_text(d, "model_index.json", "{}");
    write_text(d, "other.safetensors.index.json",
               "{\"weight_map\":{\"shard\":\"other-00001-of-00001.safetensors\"}}");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        vram_status s = open_path(d, in_dir(d, rows[i].name));
        if (s != VRAM_OK || d->ck->n_tensors != 1 || !vr_str_is(d->ck->tensors[0].name, rows[i].tensor))
            fail_msg("%s: status %d", rows[i].name, (int)s);
        const vram_warning *w = NULL;
        assert_int_equal(vram_warnings(d->ctx, &w), 0);
        close_path(d);
    }
    end_disk(d);
}

/* The state of a training is not of the model whose configuration lies beside it. */
static void test_named_apart(void **state)
{
    (void)state;
    disk *d = new_disk();
    write_header(d, "model.safetensors", HEADER, 2);
    write_header(d, "optimizer.pt", HEADER, 2);
    write_text(d, "config.json", "{}");
    expect_status(d, open_path(d, in_dir(d, "model.safetensors")));
    assert_true(d->ck->has_config);
    close_path(d);
    expect_status(d, open_path(d, in_dir(d, "optimizer.pt")));
    assert_false(d->ck->has_config);
    close_path(d);
    end_disk(d);
}

/* --file on a directory. */
static void test_pattern(void **state)
{
    (void)state;
    disk *d = new_disk();
    vram_io *io = NULL;
    vram_ctx *ctx = NULL;
    vram_checkpoint *ck = NULL;
    const vram_io_options options = { .file = "two" };
    write_header(d, "one.safetensors", HEADER, 2);
    write_header(d, "two.safetensors", HEADER, 2);
    assert_int_equal(vram_io_new(&io), VRAM_OK);
    assert_int_equal(vram_open(&ctx, vram_io_alloc, NULL), VRAM_OK);
    assert_int_equal(vram_io_open_path(&ck, io, ctx, d->dir), VRAM_ESETTING);
    vram_io_set_options(io, &options);
    assert_int_equal(vram_io_open_path(&ck, io, ctx, d->dir), VRAM_OK);
    assert_string_equal(ck->files[0].name, "two.safetensors");
    vram_close(ctx);
    vram_io_free(io);
    end_disk(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_paths),
        cmocka_unit_test(test_links),
        cmocka_unit_test(test_not_there),
        cmocka_unit_test(test_not_files),
        cmocka_unit_test(test_odd_files),
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_permission),
        cmocka_unit_test(test_large_config),
        cmocka_unit_test(test_reads_fail),
        cmocka_unit_test(test_files_shrink),
        cmocka_unit_test(test_allocations),
        cmocka_unit_test(test_plain_read),
        cmocka_unit_test(test_sub_folders),
        cmocka_unit_test(test_weights_in_folders),
        cmocka_unit_test(test_unreadable_folder),
        cmocka_unit_test(test_shard_alone),
        cmocka_unit_test(test_named),
        cmocka_unit_test(test_named_apart),
        cmocka_unit_test(test_pattern),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
