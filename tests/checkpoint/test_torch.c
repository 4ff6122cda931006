/* SPDX-License-Identifier: MIT
 * Files of torch.save, made here as PyTorch writes them (support/torch_made.h): what is found in them, and
 * that nothing hostile does more than be refused. torch_oracle.sh holds the same reader against real files.
 */
#include "source.h"

#include <zlib.h>

#include "../support/torch_made.h"
#include "checkpoint/loading.h"

static const made_tensor two[] = {
    { "a.weight", "FloatStorage", "0", 20, 0, { 4, 5 }, { 5, 1 }, 2 },
    { "a.bias", "BFloat16Storage", "1", 4, 0, { 4 }, { 1 }, 1 },
};

static bytes state_pickle(const made_tensor *t, size_t n)
{
    bytes b = { NULL, 0, 0 };
    put_text(&b, "\x80\x02");
    pk_state(&b, t, n, 0);
    put_text(&b, ".");
    return b;
}

/* A zip file around a pickle, with storage "0" of 80 bytes and "1" of 8. */
static fake_file *add_pickle(world *w, const void *pickle, size_t n)
{
    made_zip z = { .n = 0 };
    zip_add(&z, "archive/data.pkl", pickle, n, n, 0);
    zip_storage(&z, "0", 80);
    zip_storage(&z, "1", 8);
    zip_end(&z);
    fake_file *f = add_bytes(w, "model.pt", z.file.p, z.file.n, z.file.n);
    free(z.file.p);
    return f;
}

static fake_file *add_state(world *w, const made_tensor *t, size_t n)
{
    bytes b = state_pickle(t, n);
    fake_file *f = add_pickle(w, b.p, b.n);
    free(b.p);
    return f;
}

static bytes legacy_file(const made_tensor *t, size_t n)
{
    bytes b = { NULL, 0, 0 };
    legacy_begin(&b);
    put_text(&b, "\x80\x02");
    pk_state(&b, t, n, 1);
    put_text(&b, ".");
    legacy_keys(&b, (const char *const[]){ "0", "1" }, 2);
    legacy_storage(&b, 20, 80);
    legacy_storage(&b, 4, 8);
    return b;
}

static const vr_tensor *tensor(const world *w, const char *name)
{
    const vr_tensor *t = vr_checkpoint_find(w->ck, vr_str_of(name));
    if (t == NULL)
        fail_msg("no tensor %s", name);
    return t;
}

static void expect_two(const world *w, const char *weight, const char *bias)
{
    const vram_checkpoint *ck = w->ck;
    assert_int_equal(ck->n_tensors, 2);
    assert_int_equal(ck->tensor_bytes, 88);
    assert_int_equal(ck->elements, 24);
    assert_string_equal(ck->files[0].format->name, "pytorch");
    assert_int_equal(ck->files[0].size, ck->files[0].header_bytes + 88);
    const vr_tensor *t = tensor(w, weight);
    assert_int_equal(t->dtype, VR_F32);
    assert_int_equal(t->n_dims, 2);
    assert_int_equal(t->dims[0], 4);
    assert_int_equal(t->dims[1], 5);
    assert_true(t->begin == 0 && t->end == 80 && !t->shared);
    t = tensor(w, bias);
    assert_int_equal(t->dtype, VR_BF16);
    assert_true(t->begin == 80 && t->end == 88 && !t->shared);
}

/* ---- what is found ---- */

static void test_zip(void **state)
{
    (void)state;
    for (feed how = FEED_MOST; how < FEEDS; how++) {
        world *w = new_world();
        add_state(w, two, 2);
        expect_ok(w, read_world(w, how));
        expect_two(w, "a.weight", "a.bias");
        assert_int_equal(n_warnings(w), 0);
        if (how == FEED_MOST)
            assert_int_equal(w->n_rounds, 2); /* the listing, and the whole of so small a file */
        end_world(w);
    }
}

static void test_legacy(void **state)
{
    (void)state;
    for (feed how = FEED_MOST; how < FEEDS; how++) {
        world *w = new_world();
        bytes b = legacy_file(two, 2);
        add_bytes(w, "model.bin", b.p, b.n, b.n);
        free(b.p);
        expect_ok(w, read_world(w, how));
        expect_two(w, "a.weight", "a.bias");
        end_world(w);
    }
}

/* As another tool may write it: the pickle deflated. */
static bytes packed_file(int flags)
{
    bytes b = state_pickle(two, 2);
    char packed[4096], zeros[80] = { 0 };
    z_stream s = { .next_in = (Bytef *)b.p, .avail_in = (uInt)b.n, .next_out = (Bytef *)packed };
    s.avail_out = sizeof(packed);
    assert_int_equal(deflateInit2(&s, 9, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
    assert_int_equal(deflate(&s, Z_FINISH), Z_STREAM_END);
    deflateEnd(&s);
    made_zip z = { .flags = flags };
    zip_add(&z, "archive/data.pkl", packed, s.total_out, b.n, 8);
    zip_add(&z, "archive/data/0", zeros, 40, 80, 8); /* not looked into */
    zip_storage(&z, "1", 8);
    zip_end(&z);
    free(b.p);
    return z.file;
}

static void read_packed(feed how, int flags)
{
    world *w = new_world();
    bytes b = packed_file(flags);
    add_bytes(w, "model.ckpt", b.p, b.n, b.n);
    free(b.p);
    expect_ok(w, read_world(w, how));
    assert_int_equal(w->ck->tensor_bytes, 88);
    assert_int_equal(tensor(w, "a.bias")->dims[0], 4);
    end_world(w);
}

/* Members that another tool deflated, zip64 records, comments. */
static void test_packed(void **state)
{
    (void)state;
    for (int flags = 0; flags < 8; flags++) {
        for (feed how = FEED_MOST; how < FEEDS; how++) {
            if (how < FEED_BYTES || !(flags & ZIP_LONG_COMMENT))
                read_packed(how, flags);
        }
    }
}

/* A pickle and a directory that do not come with the first request. */
static void test_large(void **state)
{
    (void)state;
    enum { N = 3000 };
    static char names[N][16];
    made_tensor *t = calloc(N, sizeof(*t));
    assert_non_null(t);
    made_zip z = { .n = 0 };
    bytes legacy = { NULL, 0, 0 };
    const char **keys = calloc(N, sizeof(*keys));
    for (int i = 0; i < N; i++) {
        snprintf(names[i], sizeof(names[i]), "t%05d", i);
        t[i] = (made_tensor){ names[i], "FloatStorage", names[i], 3, 0, { 3 }, { 1 }, 1 };
        keys[i] = names[i];
    }
    bytes b = state_pickle(t, N);
    assert_true(b.n > 4 * 65536);
    zip_add(&z, "archive/data.pkl", b.p, b.n, b.n, 0);
    legacy_begin(&legacy);
    put_text(&legacy, "\x80\x02");
    pk_state(&legacy, t, N, 1);
    put_text(&legacy, ".");
    legacy_keys(&legacy, keys, N);
    for (int i = 0; i < N; i++) {
        zip_storage(&z, names[i], 12);
        legacy_storage(&legacy, 3, 12);
    }
    zip_end(&z);
    const bytes *files[] = { &z.file, &legacy };
    for (size_t i = 0; i < 2; i++) {
        for (feed how = FEED_MOST; how < FEED_BYTES; how++) {
            world *w = new_world();
            add_bytes(w, "model.pt", files[i]->p, files[i]->n, files[i]->n);
            expect_ok(w, read_world(w, how));
            assert_int_equal(w->ck->n_tensors, N);
            assert_int_equal(w->ck->tensor_bytes, 12 * N);
            assert_int_equal(tensor(w, "t02999")->end, 12 * N);
            if (how == FEED_MOST)
                assert_true(w->n_rounds <= (i == 0 ? 4 : 6)); /* the legacy form doubles from 64 KiB */
            end_world(w);
        }
    }
    free(z.file.p);
    free(legacy.p);
    free(b.p);
    free(t);
    free(keys);
}

static void test_shared(void **state)
{
    (void)state;
    static const made_tensor t[] = {
        { "part", "FloatStorage", "0", 20, 10, { 5 }, { 1 }, 1 },
        { "wide", "FloatStorage", "0", 20, 0, { 3, 4 }, { 1, 5 }, 2 },
        { "again", "FloatStorage", "0", 20, 0, { 3, 4 }, { 4, 1 }, 2 },
        { "same", "FloatStorage", "0", 20, 19, { 7 }, { 0 }, 1 },
        { "small", "BFloat16Storage", "1", 4, 3, { 1 }, { 1 }, 1 },
        { "empty", "BFloat16Storage", "1", 4, 900, { 0, 7 }, { 7, 1 }, 2 },
    };
    world *w = new_world();
    add_state(w, t, 6);
    expect_ok(w, read_world(w, FEED_MOST));
    assert_int_equal(w->ck->tensor_bytes, 88);
    /* The largest counts for the whole storage, the first of two. */
    assert_int_equal(tensor(w, "wide")->end - tensor(w, "wide")->begin, 80);
    assert_int_equal(tensor(w, "small")->end - tensor(w, "small")->begin, 8);
    assert_false(tensor(w, "wide")->shared);
    static const char *const shared[] = { "part", "again", "same", "empty" };
    for (size_t i = 0; i < 4; i++) {
        assert_true(tensor(w, shared[i])->shared);
        assert_true(tensor(w, shared[i])->begin == tensor(w, shared[i])->end);
    }
    assert_int_equal(tensor(w, "same")->elements, 7);
    end_world(w);
}

/* torch/storage.py, _dtype_to_storage_type_map; everything newer is an untyped storage and a dtype. */
static void test_dtypes(void **state)
{
    (void)state;
    static const struct {
        const char *type, *name;
        unsigned width;
    } rows[] = {
        { "DoubleStorage", "F64", 8 },
        { "FloatStorage", "F32", 4 },
        { "HalfStorage", "F16", 2 },
        { "BFloat16Storage", "BF16", 2 },
        { "LongStorage", "I64", 8 },
        { "IntStorage", "I32", 4 },
        { "ShortStorage", "I16", 2 },
        { "CharStorage", "I8", 1 },
        { "ByteStorage", "U8", 1 },
        { "BoolStorage", "BOOL", 1 },
        { "ComplexDoubleStorage", "C128", 16 },
        { "ComplexFloatStorage", "C64", 8 },
        { "QInt8Storage", "QINT8", 1 },
        { "QUInt8Storage", "QUINT8", 1 },
        { "QInt32Storage", "QINT32", 4 },
        { "float8_e4m3fn", "F8_E4M3", 1 },
        { "float8_e5m2", "F8_E5M2", 1 },
        { "float8_e4m3fnuz", "F8_E4M3FNUZ", 1 },
        { "float8_e5m2fnuz", "F8_E5M2FNUZ", 1 },
        { "float8_e8m0fnu", "F8_E8M0", 1 },
        { "uint16", "U16", 2 },
        { "uint32", "U32", 4 },
        { "uint64", "U64", 8 },
        { "complex32", "C32", 4 },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        bool typed = strstr(rows[i].type, "Storage") != NULL;
        made_tensor t = { "x", rows[i].type, "0", typed ? 80 / rows[i].width : 80, 0, { 0 }, { 1 }, 1 };
        t.dims[0] = 80 / rows[i].width;
        world *w = new_world();
        add_state(w, &t, 1);
        expect_ok(w, read_world(w, FEED_MOST));
        assert_string_equal(vr_dtype_name((vr_dtype)tensor(w, "x")->dtype), rows[i].name);
        assert_int_equal(tensor(w, "x")->elements, 80 / rows[i].width);
        assert_int_equal(w->ck->tensor_bytes, 80);
        t.dims[0]++; /* beyond its storage */
        end_world(w);
        w = new_world();
        add_state(w, &t, 1);
        assert_int_equal(read_world(w, FEED_MOST), VRAM_EFORMAT);
        assert_non_null(strstr(vram_last_error(w->ctx)->text, "reaches beyond its storage"));
        end_world(w);
    }
}

/* Halves of bytes: five by eight of them are in 20 bytes, eleven in six. */
static void test_halves(void **state)
{
    (void)state;
    made_tensor t = { "x", "QUInt4x2Storage", "0", 80, 0, { 10, 16 }, { 16, 1 }, 2 };
    world *w = new_world();
    add_state(w, &t, 1);
    expect_ok(w, read_world(w, FEED_MOST));
    assert_int_equal(tensor(w, "x")->elements, 160);
    assert_int_equal(w->ck->tensor_bytes, 80);
    end_world(w);
}

/* A pickle of {key: state, "optimizer": state of the other storage, "epoch": 3}. */
static bytes training_pickle(const char *key, const char *other)
{
    bytes b = { NULL, 0, 0 };
    put_text(&b, "\x80\x02}(");
    pk_text(&b, key);
    pk_state(&b, two, 1, 0);
    pk_text(&b, other);
    put_text(&b, "}(");
    pk_text(&b, "state");
    put(&b, "}K\0}(", 5);
    pk_text(&b, "exp_avg");
    pk_tensor(&b, &two[1], 0);
    put_text(&b, "us");
    put_text(&b, "u");
    pk_text(&b, "epoch");
    put_text(&b, "K\3u.");
    return b;
}

static void test_training(void **state)
{
    (void)state;
    static const struct {
        const char *key, *other, *warning, *name;
        uint64_t bytes;
    } rows[] = {
        { "state_dict", "optimizer_states",
          "holds optimizer states, not counted: optimizer_states with 1 tensor of 8 bytes", "a.weight", 80 },
        { "model", "optimizer", "holds optimizer states, not counted: optimizer with 1 tensor of 8 bytes",
          "a.weight", 80 },
        { "model_state_dict", "ema", "holds averaged weights, not counted: ema with 1 tensor of 8 bytes",
          "a.weight", 80 },
        { "module", "extra", "holds more than weights, not counted: extra with 1 tensor of 8 bytes",
          "a.weight", 80 },
        /* no usual key: names of other things are still not weights */
        { "net", "optimizer", "holds optimizer states, not counted: optimizer with 1 tensor of 8 bytes",
          "net.a.weight", 80 },
        { "unet", "vae", NULL, "vae.state.0.exp_avg", 88 },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        world *w = new_world();
        bytes b = training_pickle(rows[i].key, rows[i].other);
        add_pickle(w, b.p, b.n);
        free(b.p);
        expect_ok(w, read_world(w, FEED_MOST));
        tensor(w, rows[i].name);
        assert_int_equal(w->ck->tensor_bytes, rows[i].bytes);
        assert_int_equal(w->ck->n_tensors, rows[i].bytes == 88 ? 2 : 1);
        if (rows[i].warning != NULL)
            assert_true(has_warning(w, "model.pt", rows[i].warning));
        assert_int_equal(n_warnings(w), rows[i].warning != NULL);
        end_world(w);
    }
}

/* Nothing but an optimizer's state: it is told, and counted. */
static void test_optimizer(void **state)
{
    (void)state;
    for (int nested = 0; nested < 2; nested++) {
        bytes b = { NULL, 0, 0 };
        put_text(&b, "\x80\x02}(");
        pk_text(&b, nested ? "optimizer_state_dict" : "param_groups");
        pk_state(&b, &two[0], 1, 0);
        pk_text(&b, nested ? "epoch" : "state");
        put_text(&b, "]u.");
        world *w = new_world();
        add_pickle(w, b.p, b.n);
        free(b.p);
        expect_ok(w, read_world(w, FEED_MOST));
        assert_int_equal(tensor(w, nested ? "optimizer_state_dict.a.weight" : "param_groups.a.weight")->end,
                         80);
        assert_true(has_warning(w, "model.pt",
                                nested ? "holds no weights of a model, by the names of its entries"
                                       : "this is the state of an optimizer"));
        end_world(w);
    }
}

/* An nn.Module: names as in its state_dict(), and its class is no stranger. */
static void test_module(void **state)
{
    (void)state;
    bytes b = { NULL, 0, 0 };
    put_text(&b, "\x80\x02"
                 "cmy_models\nNet\n)\x81}(");
    pk_text(&b, "training");
    put_text(&b, "\x88");
    pk_text(&b, "_parameters");
    put_text(&b, "}");
    pk_text(&b, "_buffers");
    pk_state(&b, &two[1], 1, 0);
    pk_text(&b, "_modules");
    put_text(&b, "}");
    pk_text(&b, "sub");
    put_text(&b, "ctorch.nn.modules.linear\nLinear\n)\x81}(");
    pk_text(&b, "_parameters");
    put_text(&b, "}");
    pk_text(&b, "weight");
    put_text(&b, "ctorch._utils\n_rebuild_parameter\n(");
    pk_tensor(&b, &two[0], 0);
    put_text(&b, "\x88}tRs");
    pk_text(&b, "_modules");
    put_text(&b, "}ubsub.");
    world *w = new_world();
    add_pickle(w, b.p, b.n);
    free(b.p);
    expect_ok(w, read_world(w, FEED_MOST));
    assert_int_equal(tensor(w, "sub.weight")->dtype, VR_F32);
    assert_int_equal(tensor(w, "a.bias")->dtype, VR_BF16);
    assert_int_equal(w->ck->tensor_bytes, 88);
    assert_int_equal(n_warnings(w), 0);
    end_world(w);
}

/* ---- what is hostile ---- */

#define TENSOR                                                                                               \
    "ctorch._utils\n_rebuild_tensor_v2\n((X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\0"                   \
    "0X\3\0\0\0cpuK\x14tQ"                                                                                   \
    "K\0(K\x14t(K\1t\x89}tR"
#define STATE "X\1\0\0\0w" TENSOR
#define PICKLE(text) text, sizeof(text) - 1

/* Accepted with a warning: the tensor counts, the rest does nothing. */
static void test_not_executed(void **state)
{
    (void)state;
    static const struct {
        const char *p;
        size_t n;
        const char *warning;
    } rows[] = {
        { PICKLE("\x80\x02}(X\1\0\0\0xcos\nsystem\nX\7\0\0\0touch /\x85R" STATE "u."),
          "refers to os.system: not executed, not understood" },
        { PICKLE("}(V0\n(S'touch x'\nios\nsystem\n" STATE "u."), "refers to os.system: not executed" },
        { PICKLE("}(V0\n(cposix\nsystem\nS'x'\no" STATE "u."), "refers to posix.system: not executed" },
        { PICKLE("\x80\x04}(\x8c\1x\x8c\x08"
                 "builtins\x8c\4eval\x93\x8c\1y\x85R" STATE "u."),
          "refers to builtins.eval: not executed" },
        { PICKLE("\x80\x02}(X\1\0\0\0xctorch.serialization\nload\n)R" STATE "u."),
          "refers to torch.serialization.load: not executed" },
        { PICKLE("\x80\x02}(X\1\0\0\0xcos\nsystem\n" STATE "u."), "refers to os.system" }, /* named only */
        { PICKLE("\x80\x02}(X\1\0\0\0xcmine\nC\n)\x81}X\1\0\0\0ycos\nsystem\n)Rsb" STATE "u."),
          "refers to os.system" }, /* as a state */
        { PICKLE("\x80\x02}(X\1\0\0\0xcos\x1b[31m\nsystem\n)R" STATE "u."), "refers to os?[31m.system" },
        { PICKLE("\x80\x02}(X\1\0\0\0x\x82\7" STATE "u."), NULL },          /* a number of copyreg's table */
        { PICKLE("\x80\x02}q\0(X\1\0\0\0xh\0" STATE "u."), NULL },          /* contains itself */
        { PICKLE("\x80\x02}(X\1\0\0\0x]q\1(h\1h\1e" STATE "u."), NULL },    /* idem */
        { PICKLE("\x80\x02}(X\1\0\0\0xX\5\0\0\0helloQ" STATE "u."), NULL }, /* strange persistent ids */
        { PICKLE("\x80\x04}(X\1\0\0\0x]\x94X\1\0\0\0yh\0" STATE "u."), NULL }, /* the first place is 0 */
        { PICKLE("}(X\1\0\0\0xPanything\n" STATE "u."), NULL },
        { PICKLE("\x80\x02}(X\1\0\0\0xNQ" STATE "u."), NULL },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        for (feed how = FEED_MOST; how < FEEDS; how++) {
            world *w = new_world();
            add_pickle(w, rows[i].p, rows[i].n);
            expect_ok(w, read_world(w, how));
            assert_int_equal(w->ck->n_tensors, 1);
            assert_int_equal(tensor(w, "w")->elements, 20);
            assert_int_equal(w->ck->tensor_bytes, 80);
            if (rows[i].warning != NULL)
                assert_true(has_warning(w, "model.pt", rows[i].warning));
            end_world(w);
        }
    }
}

static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *p;
        size_t n;
        vram_status code;
        const char *text;
    } rows[] = {
        { PICKLE(""), VRAM_EFORMAT, "goes on beyond its end" },
        { PICKLE("\x80"), VRAM_EFORMAT, "goes on beyond its end" },
        { PICKLE("\x80\x09."), VRAM_EUNSUPPORTED, "has protocol 9" },
        { PICKLE("."), VRAM_EFORMAT, "takes a value that is not there" },
        { PICKLE("(."), VRAM_EFORMAT, "takes a value that is not there" },
        { PICKLE("}u."), VRAM_EFORMAT, "up to a mark that is not there" },
        { PICKLE("}(K\1u."), VRAM_EFORMAT, "without a value" },
        { PICKLE("(K\1d."), VRAM_EFORMAT, "without a value" },
        { PICKLE("](K\1K\1u."), VRAM_EFORMAT, "no dictionary" },
        { PICKLE("}K\1a."), VRAM_EFORMAT, "no list" },
        { PICKLE("NK\1\x88s."), VRAM_EFORMAT, "no dictionary" },
        { PICKLE("\xff."), VRAM_EFORMAT, "unknown instruction 255" },
        { PICKLE("h\0."), VRAM_EFORMAT, "takes place 0 of its memo" },
        { PICKLE("Nr\xff\xff\xff\xff."), VRAM_EFORMAT, "cannot have so many yet" },
        { PICKLE("Nq\1h\0."), VRAM_EFORMAT, "takes place 0 of its memo" }, /* below one that is taken */
        { PICKLE("Nr\3\0\0\0."), VRAM_EFORMAT, "cannot have so many yet" },
        { PICKLE("Np99999999999999999999\n."), VRAM_EFORMAT, "no number" },
        { PICKLE("Sx\n."), VRAM_EFORMAT, "without quotes" },
        { PICKLE("K\1K\2\x93."), VRAM_EFORMAT, "is no text" },
        { PICKLE("(o."), VRAM_EFORMAT, "object of no class" },
        { PICKLE("\x97."), VRAM_EUNSUPPORTED, "buffers outside" },
        { PICKLE("X\xff\xff\xff\xffx."), VRAM_EFORMAT, "goes on beyond its end" },
        { PICKLE("\x8d\xff\xff\xff\xff\xff\xff\xff\xffx."), VRAM_EFORMAT, "goes on beyond its end" },
        { PICKLE("\x8b\xff\xff\xff\x7fx."), VRAM_EFORMAT, "goes on beyond its end" },
        { PICKLE("cos\nsystem"), VRAM_EFORMAT, "goes on beyond its end" },
        { PICKLE("N."), VRAM_EUNSUPPORTED, "there is no tensor in the file" },
        { PICKLE("cos\nsystem\nX\1\0\0\0x\x85R."), VRAM_EUNSUPPORTED, "refers to os.system" },
        /* tensors that are none */
        { PICKLE("}X\1\0\0\0wctorch._utils\n_rebuild_tensor_v2\nNRs."), VRAM_EFORMAT,
          "as torch.save does not" },
        { PICKLE("}X\1\0\0\0wctorch._utils\n_rebuild_tensor_v2\n(NNNNtRs."), VRAM_EFORMAT, "has no storage" },
        { PICKLE("}X\1\0\0\0wctorch._utils\n_rebuild_tensor_v2\n(X\1\0\0\0xQNNNtRs."), VRAM_EFORMAT,
          "has no storage" },
        { PICKLE("}X\1\0\0\0wctorch._utils\n_rebuild_sparse_tensor\n(NNtRs."), VRAM_EFORMAT,
          "as torch.save does not" },
        { PICKLE("(X\7\0\0\0storageNX\1\0\0\0"
                 "0NK\1tQ."),
          VRAM_EUNSUPPORTED, "unknown type" },
        { PICKLE("(X\7\0\0\0storagetQ."), VRAM_EFORMAT, "a storage is described" },
        { PICKLE("(X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\0"
                 "0NJ\xff\xff\xff\xfftQ."),
          VRAM_EFORMAT, "a storage is described" },
        { PICKLE("(X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\0"
                 "0N\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7ftQ."),
          VRAM_EFORMAT, "overflows" },
        { PICKLE("(X\7\0\0\0storagectorch\nFloatStorage\nX\7\0\0\0../../xNK\1tQ."), VRAM_EFORMAT,
          "storage ../../x of 4 bytes is not in the file" },
        { PICKLE("(X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\0"
                 "0NK\1tQ."),
          VRAM_EFORMAT, "has 80 bytes, but 4 by its type" },
        { PICKLE("](X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\0"
                 "0NK\x14tQa(X\7\0\0\0storagectorch\nHalfStorage\n"
                 "X\1\0\0\0"
                 "0NK\x14tQa."),
          VRAM_EFORMAT, "40 bytes here and 80 elsewhere" },
        /* the same name twice */
        { PICKLE("}(" STATE STATE "u."), VRAM_EFORMAT, "is there twice" },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        for (feed how = FEED_MOST; how < FEEDS; how++) {
            world *w = new_world();
            fake_file *f = add_pickle(w, rows[i].p, rows[i].n);
            vram_status s = read_world(w, how);
            const vram_error *e = vram_last_error(w->ctx);
            if (s != rows[i].code || strstr(e->text, rows[i].text) == NULL) {
                show_error(w);
                fail_msg("row %zu, feed %d: expected %d: %s", i, (int)how, (int)rows[i].code, rows[i].text);
            }
            assert_string_equal(e->file, "model.pt");
            assert_true(e->has_offset && e->offset <= f->size);
            end_world(w);
        }
    }
}

/* Windows that do not fit their storage of 20. */
static void test_windows(void **state)
{
    (void)state;
    static const struct {
        made_tensor t;
        const char *text;
    } rows[] = {
        { { "x", "FloatStorage", "0", 20, 0, { 21 }, { 1 }, 1 }, "reaches beyond" },
        { { "x", "FloatStorage", "0", 20, 1, { 20 }, { 1 }, 1 }, "reaches beyond" },
        { { "x", "FloatStorage", "0", 20, 20, { 1 }, { 1 }, 1 }, "reaches beyond" },
        { { "x", "FloatStorage", "0", 20, 0, { 3 }, { 10 }, 1 }, "reaches beyond" },
        { { "x", "FloatStorage", "0", 20, INT64_MAX, { 1 }, { 1 }, 1 }, "reaches beyond" },
        { { "x", "FloatStorage", "0", 20, 0, { INT64_MAX, 2 }, { INT64_MAX, 0 }, 2 }, "reaches beyond" },
        { { "x", "FloatStorage", "0", 20, 0, { INT64_MAX, INT64_MAX }, { 0, 0 }, 2 }, "overflows" },
        { { "x", "FloatStorage", "0", 20, 0, { INT64_MAX }, { 0 }, 1 }, "overflows" },
        { { "x", "FloatStorage", "0", 20, 0, { UINT64_MAX }, { 1 }, 1 }, "negative" },
        { { "x", "FloatStorage", "0", 20, 0, { 2 }, { UINT64_MAX }, 1 }, "negative" },
        { { "x", "FloatStorage", "0", 20, UINT64_MAX, { 2 }, { 1 }, 1 }, "fit each other" },
        { { "x", "uint4", "0", 80, 0, { 2 }, { 1 }, 1 }, "unknown dtype: uint4" },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        world *w = new_world();
        add_state(w, &rows[i].t, 1);
        vram_status s = read_world(w, FEED_MOST);
        if (vram_exit_status(s) != 3 || strstr(vram_last_error(w->ctx)->text, rows[i].text) == NULL) {
            show_error(w);
            fail_msg("row %zu: expected %s", i, rows[i].text);
        }
        end_world(w);
    }
}

/* Nesting and a name without end. */
static void test_bombs(void **state)
{
    (void)state;
    bytes own = { NULL, 0, 0 }, deep = { NULL, 0, 0 }, name = { NULL, 0, 0 };
    put(&deep, "}(" STATE "V1\n", sizeof("}(" STATE "V1\n") - 1);
    for (int i = 0; i < 100000; i++)
        put_text(&deep, "(");
    put_text(&deep, "N");
    for (int i = 0; i < 100000; i++)
        put_text(&deep, "t");
    put_text(&deep, "u.");
    put(&name, "}X\x10\x27\0\0", 6);
    for (int i = 0; i < 10000; i++)
        put_text(&name, "n");
    put(&name, TENSOR "s.", sizeof(TENSOR "s.") - 1);
    /* a list of arguments that is its own arguments */
    put_text(&own,
             "}(V0\nctorch._tensor\n_rebuild_from_type_v2\n]p1\n(ctorch._tensor\n_rebuild_from_type_v2\n");
    put_text(&own, "Ng1\nNeRu.");
    const struct {
        const bytes *b;
        const char *text;
    } rows[] = { { &own, "nested over 64 deep" },
                 { &deep, "nested over 64 deep" },
                 { &name, "a name in the pickle has over 4096 bytes" } };
    for (size_t i = 0; i < 3; i++) {
        world *w = new_world();
        add_pickle(w, rows[i].b->p, rows[i].b->n);
        assert_int_equal(read_world(w, FEED_MOST), VRAM_ELIMIT);
        assert_non_null(strstr(vram_last_error(w->ctx)->text, rows[i].text));
        end_world(w);
    }
    free(own.p);
    free(deep.p);
    free(name.p);
}

/* a = [w, w, ...] of ten, b = [a, a, ...] of ten, ...: a tree of 10^40 from 1 KB. */
static void test_laughs(void **state)
{
    (void)state;
    bytes b = { NULL, 0, 0 };
    put_text(&b, "\x80\x02]q\1");
    for (unsigned char i = 1; i <= 40; i++) {
        put_text(&b, "](");
        for (int k = 0; k < 10; k++)
            put(&b, (char[]){ 'h', (char)i }, 2);
        put(&b, (char[]){ 'e', 'q', (char)(i + 1) }, 3);
    }
    put_text(&b, ".");
    world *w = new_world();
    add_pickle(w, b.p, b.n);
    assert_int_equal(read_world(w, FEED_MOST), VRAM_ELIMIT);
    assert_non_null(strstr(vram_last_error(w->ctx)->text, "refer to each other so often"));
    assert_true(w->memory.peak_bytes < 200000);
    free(b.p);
    end_world(w);
}

/* One dictionary as the state of many objects, one row of pairs as the argument of many calls: what is
 * searched without being entered has its price too. */
static void test_searched(void **state)
{
    (void)state;
    for (int rows = 0; rows < 2; rows++) {
        bytes b = { NULL, 0, 0 };
        put_text(&b, rows ? "\x80\x02](" : "\x80\x02}(");
        for (int i = 0; i < 40000; i++)
            put_text(&b, "NN");
        put_text(&b, rows ? "eq\1" : "u");
        if (!rows) {
            pk_text(&b, "_parameters");
            put_text(&b, "}s");
            pk_text(&b, "_modules");
            put_text(&b, "}sq\1");
        }
        put_text(&b, "0](");
        for (int i = 0; i < 40000; i++)
            put_text(&b, rows ? "ccollections\nOrderedDict\nh\1\x85R" : "ca\nb\n)\x81h\1b");
        put_text(&b, "e.");
        world *w = new_world();
        add_pickle(w, b.p, b.n);
        assert_int_equal(read_world(w, FEED_MOST), VRAM_ELIMIT);
        assert_non_null(strstr(vram_last_error(w->ctx)->text, "refer to each other so often"));
        free(b.p);
        end_world(w);
    }
}

/* The dearest instructions for their bytes: memory stays within a multiple of the file. */
static void test_memory(void **state)
{
    (void)state;
    static const char *const dear[] = { "]", "N", "(", "}0", ")\x85", "]\x94", "NNR", "]2a", "K\1", "Nq\1" };
    enum { BYTES = 200000 };
    for (size_t i = 0; i < sizeof(dear) / sizeof(dear[0]); i++) {
        bytes b = { NULL, 0, 0 };
        put_text(&b, "](");
        while (b.n < BYTES)
            put_text(&b, dear[i]);
        world *w = new_world();
        add_pickle(w, b.p, b.n);
        assert_true(vram_exit_status(read_world(w, FEED_MOST)) == 3);
        if (w->memory.peak_bytes > 120 * (size_t)BYTES)
            fail_msg("%s: %zu bytes", dear[i], w->memory.peak_bytes);
        free(b.p);
        end_world(w);
    }
}

/* A storage that is said to unpack to a million times what is stored; or packed in ways PyTorch does not
 * know. */
static void test_packed_storages(void **state)
{
    (void)state;
    static const struct {
        size_t packed, unpacked;
        int method;
        const char *text;
    } rows[] = {
        { 1, 80, 8, NULL },
        { 1, 80000000, 8, "cannot have 80,000,000 bytes when 1 are stored" },
        { 8, 80, 12, "is packed by method 12" },
        { 8, 80, 0, "has 8 bytes as stored and 80 as unpacked" },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        made_tensor t = two[0];
        t.elements = rows[i].unpacked / 4;
        bytes b = state_pickle(&t, 1);
        made_zip z = { .n = 0 };
        zip_add(&z, "archive/data.pkl", b.p, b.n, b.n, 0);
        zip_add(&z, "archive/data/0", "12345678", rows[i].packed, rows[i].unpacked, rows[i].method);
        zip_end(&z);
        world *w = new_world();
        add_bytes(w, "model.pt", z.file.p, z.file.n, z.file.n);
        free(z.file.p);
        free(b.p);
        vram_status s = read_world(w, FEED_MOST);
        assert_int_equal(vram_exit_status(s), rows[i].text != NULL ? 3 : 0);
        if (rows[i].text != NULL)
            assert_non_null(strstr(vram_last_error(w->ctx)->text, rows[i].text));
        end_world(w);
    }
}

/* ---- other files ---- */

static void test_others(void **state)
{
    (void)state;
    static const struct {
        const char *members[3];
        const char *text;
    } rows[] = {
        { { "a.npy", "b.npy" }, "this is a NumPy archive" },
        { { "config.json", "model.weights.h5" }, "this is a Keras file" },
        { { "archive/data.pkl", "archive/code/__torch__.py" }, "this is a TorchScript archive" },
        { { "archive/data.pkl", "archive/constants.pkl" }, "this is a TorchScript archive" },
        { { "readme.txt" }, "not one of torch.save: it has no data.pkl" },
        { { "a/b/data.pkl" }, "not one of torch.save: it has no data.pkl" },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        made_zip z = { .n = 0 };
        for (int k = 0; k < 3 && rows[i].members[k] != NULL; k++)
            zip_add(&z, rows[i].members[k], "N.", 2, 2, 0);
        zip_end(&z);
        world *w = new_world();
        add_bytes(w, "model.bin", z.file.p, z.file.n, z.file.n);
        free(z.file.p);
        expect_error(w, read_world(w, FEED_MOST), VRAM_EUNSUPPORTED, "model.bin", 0, rows[i].text);
        end_world(w);
    }
    world *w = new_world();
    add_bytes(w, "model.pt", "sys_info\0\0\0\0\0\0\0\0\0\0\0\0", 20, 20);
    expect_error(w, read_world(w, FEED_MOST), VRAM_EUNSUPPORTED, "model.pt", 0, "tar file of torch.save");
    end_world(w);
    w = new_world();
    add_bytes(w, "model.pt", "\x80\x04\x95\0\0\0\0\0\0\0\0N.", 13, 13);
    expect_error(w, read_world(w, FEED_MOST), VRAM_EUNSUPPORTED, "model.pt", 0, "not one of torch.save");
    end_world(w);
    for (size_t i = 2; i < 14; i++) { /* each byte of the magic number counts */
        bytes b = legacy_file(two, 2);
        b.p[i] = (char)(b.p[i] ^ 1);
        w = new_world();
        add_bytes(w, "model.pt", b.p, b.n, b.n);
        assert_int_equal(vram_exit_status(read_world(w, FEED_MOST)), 3);
        free(b.p);
        end_world(w);
    }
}

/* ---- damage ---- */

enum { ZIP64, LEGACY, PLAIN, PACKED, SAMPLES };

static bytes sample(int kind)
{
    if (kind == LEGACY)
        return legacy_file(two, 2);
    if (kind == PACKED)
        return packed_file(0);
    bytes b = state_pickle(two, 2);
    made_zip z = { .flags = kind == ZIP64 ? ZIP_64 : 0 };
    zip_add(&z, "archive/data.pkl", b.p, b.n, b.n, 0);
    zip_storage(&z, "0", 80);
    zip_storage(&z, "1", 8);
    zip_end(&z);
    free(b.p);
    return z.file;
}

/* A part of a file is refused; only where its first bytes are missing, as something else. */
static void test_prefixes(void **state)
{
    (void)state;
    for (int kind = 0; kind < SAMPLES; kind++) {
        bytes b = sample(kind);
        for (size_t n = 0; n < b.n; n++) {
            world *w = new_world();
            add_bytes(w, "model.pt", b.p, n, n);
            vram_status s = read_world(w, n % 2 == 0 ? FEED_MOST : FEED_REVERSED);
            assert_int_equal(vram_exit_status(s), 3);
            assert_string_equal(vram_last_error(w->ctx)->file, "model.pt");
            assert_true(vram_last_error(w->ctx)->offset <= n);
            end_world(w);
        }
        free(b.p);
    }
}

typedef struct result {
    vram_status s;
    uint64_t offset, bytes, elements;
    char text[512];
} result;

static result read_result(const bytes *b, feed how)
{
    world *w = new_world();
    add_bytes(w, "model.pt", b->p, b->n, b->n);
    result r = { .s = read_world(w, how) };
    assert_true(r.s == VRAM_OK || vram_exit_status(r.s) == 3);
    if (r.s == VRAM_OK) {
        r.bytes = w->ck->tensor_bytes;
        r.elements = w->ck->elements;
        assert_true(r.bytes <= b->n);
    } else {
        r.offset = vram_last_error(w->ctx)->offset;
        snprintf(r.text, sizeof(r.text), "%s", vram_last_error(w->ctx)->text);
    }
    end_world(w);
    return r;
}

/* Whatever a damaged byte does, it does the same in whatever pieces the bytes come. */
static void test_flips(void **state)
{
    (void)state;
    size_t refused = 0, n = 0;
    for (int kind = 0; kind < SAMPLES; kind++) {
        bytes b = sample(kind);
        for (size_t i = 0; i < b.n; i++) {
            for (int bit = 0; bit < 8; bit++, n++) {
                b.p[i] = (char)(b.p[i] ^ 1 << bit);
                result most = read_result(&b, FEED_MOST), other = read_result(&b, (feed)(1 + (int)(n % 3)));
                assert_int_equal(most.s, other.s);
                assert_int_equal(most.offset, other.offset);
                assert_int_equal(most.bytes, other.bytes);
                assert_int_equal(most.elements, other.elements);
                assert_string_equal(most.text, other.text);
                refused += most.s != VRAM_OK;
                b.p[i] = (char)(b.p[i] ^ 1 << bit);
            }
        }
        free(b.p);
    }
    assert_true(refused > n / 4 && refused < n);
}

/* ---- no memory ---- */

static void test_no_memory(void **state)
{
    (void)state;
    for (int kind = 0; kind < 4; kind++) {
        bytes b = kind < 2 ? sample(kind) : training_pickle("model", "optimizer");
        for (int after = 0; after < 2; after++) {
            size_t n = 1;
            for (;; n++) {
                world *w = new_world();
                w->memory.fail_at = n;
                w->memory.fail_after = after;
                if (kind < 2)
                    add_bytes(w, "model.pt", b.p, b.n, b.n);
                else
                    add_pickle(w, b.p, b.n);
                vram_status s = read_world(w, kind == 3 ? FEED_REVERSED : FEED_MOST);
                if (w->memory.n_calls < n) {
                    expect_ok(w, s);
                    end_world(w);
                    break;
                }
                assert_int_equal(s, VRAM_ENOMEM);
                end_world(w);
            }
            assert_true(n > 5);
        }
        free(b.p);
    }
}

/* A byte of the word in a file becomes another. */
static void damage(bytes *b, const char *word)
{
    size_t n = strlen(word), i = 0;
    while (i + n < b->n && memcmp(b->p + i, word, n) != 0)
        i++;
    assert_true(i + n < b->n);
    b->p[i] = '?';
}

/* Of two files the first one's fault is reported, however the bytes come. */
static void test_first_fault(void **state)
{
    (void)state;
    for (int first = 0; first < 2; first++) {
        for (feed how = FEED_MOST; how < FEEDS; how++) {
            world *w = new_world();
            bytes a = sample(first), b = sample(!first);
            damage(&a, "FloatStorage");
            damage(&b, "BFloat16Storage");
            add_bytes(w, "pytorch_model-00001-of-00002.bin", a.p, a.n, a.n);
            add_bytes(w, "pytorch_model-00002-of-00002.bin", b.p, b.n, b.n);
            free(a.p);
            free(b.p);
            assert_int_equal(read_world(w, how), VRAM_EUNSUPPORTED);
            assert_string_equal(vram_last_error(w->ctx)->file, "pytorch_model-00001-of-00002.bin");
            assert_string_equal(vram_last_error(w->ctx)->text, "storage 0 has an unknown type");
            end_world(w);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_zip),
        cmocka_unit_test(test_legacy),
        cmocka_unit_test(test_packed),
        cmocka_unit_test(test_large),
        cmocka_unit_test(test_shared),
        cmocka_unit_test(test_dtypes),
        cmocka_unit_test(test_halves),
        cmocka_unit_test(test_training),
        cmocka_unit_test(test_module),
        cmocka_unit_test(test_optimizer),
        cmocka_unit_test(test_not_executed),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_windows),
        cmocka_unit_test(test_bombs),
        cmocka_unit_test(test_laughs),
        cmocka_unit_test(test_searched),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_others),
        cmocka_unit_test(test_packed_storages),
        cmocka_unit_test(test_prefixes),
        cmocka_unit_test(test_flips),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_first_fault),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
