/* SPDX-License-Identifier: MIT
 * Which files of a listing make up the checkpoint: a listing in; out what counts, what is left out and why,
 * or the error. Each expectation has its reason: what an engine does with such a directory. */
#include "source.h"

#include "checkpoint/loading.h"

#define NAMES 16

typedef struct row {
    const char *reason;
    const char *files[NAMES]; /* "name" or "name=text of it"; a name may have "@size" behind it */
    const char *pattern;
    const char *counts; /* names, a blank between; NULL: an error is expected */
    const char *left;   /* "name: why" for each, in order, '|' between; NULL: not looked at */
    vram_status error;
    const char *text; /* part of the error */
} row;

#define INDEX_OF(file) "={\"weight_map\":{\"a\":\"" file "\"}}"
#define CONFIG "config.json={}"

static const row rows[] = {
    { .reason = "transformers: model.safetensors before anything else; TensorFlow, Flax, ONNX and PyTorch "
                "hold the same weights",
      .files = { "model.safetensors", "pytorch_model.bin", "tf_model.h5", "flax_model.msgpack",
                 "onnx/model.onnx", "onnx/model_int8.onnx", "rust_model.ot", CONFIG },
      .counts = "model.safetensors",
      .left = "flax_model.msgpack: Flax|onnx/model.onnx: ONNX|onnx/model_int8.onnx: ONNX|pytorch_model.bin: "
              "the same weights as PyTorch files|rust_model.ot: rust-bert|tf_model.h5: TensorFlow" },
    { .reason = "transformers: an index of safetensors before pytorch_model.bin",
      .files = { "model.safetensors.index.json" INDEX_OF("model-00001-of-00002.safetensors"),
                 "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors",
                 "pytorch_model.bin" },
      .counts = "model-00001-of-00002.safetensors",
      .left = "model-00002-of-00002.safetensors: not named by the index|pytorch_model.bin: the same weights "
              "as PyTorch files" },
    { .reason = "transformers: pytorch_model.bin before its index",
      .files = { "pytorch_model.bin",
                 "pytorch_model.bin.index.json" INDEX_OF("pytorch_model-00001-of-00001.bin"),
                 "pytorch_model-00001-of-00001.bin" },
      .counts = "pytorch_model.bin",
      .left = "pytorch_model-00001-of-00001.bin: PyTorch files" },
    { .reason = "the index of .bin files names .bin files",
      .files = { "pytorch_model.bin.index.json" INDEX_OF("pytorch_model-00001-of-00001.bin"),
                 "pytorch_model-00001-of-00001.bin" },
      .counts = "pytorch_model-00001-of-00001.bin",
      .left = "" },
    { .reason = "an index of .bin files that names safetensors would not load",
      .files = { "pytorch_model.bin.index.json" INDEX_OF("x.safetensors"), "x.bin" },
      .error = VRAM_EUNSUPPORTED,
      .text = "not *.bin" },
    { .reason = "a file in a sub-folder may be named by the index: it lies below",
      .files = { "model.safetensors.index.json" INDEX_OF("sub/x.safetensors"), "sub/x.safetensors" },
      .counts = "sub/x.safetensors",
      .left = "" },
    { .reason = "and is missing when it does not lie there",
      .files = { "model.safetensors.index.json" INDEX_OF("sub/x.safetensors"), "model-x.safetensors" },
      .counts = "sub/x.safetensors",
      .left = "model-x.safetensors: not named by the index" },
    { .reason = "up stays refused",
      .files = { "model.safetensors.index.json" INDEX_OF("../x.safetensors") },
      .error = VRAM_EFORMAT,
      .text = "outside of its directory" },
    { .reason = "diffusers: plain files before a precision variant",
      .files = { "diffusion_pytorch_model.safetensors", "diffusion_pytorch_model.fp16.safetensors",
                 "diffusion_pytorch_model.bin", "diffusion_pytorch_model.fp16.bin" },
      .counts = "diffusion_pytorch_model.safetensors",
      .left =
          "diffusion_pytorch_model.bin: the same weights as PyTorch files|diffusion_pytorch_model.fp16.bin: "
          "precision variant fp16: taken with variant=fp16|diffusion_pytorch_model.fp16.safetensors: "
          "precision variant fp16: taken with variant=fp16" },
    { .reason = "where only a variant exists, that is all there is",
      .files = { "model.fp16.safetensors" },
      .counts = "model.fp16.safetensors",
      .left = "" },
    { .reason = "shards of a variant, in both forms of the name (diffusers, variant_file_re and legacy)",
      .files = { "model.fp16-00001-of-00002.safetensors", "model.fp16-00002-of-00002.safetensors" },
      .counts = "model.fp16-00001-of-00002.safetensors model.fp16-00002-of-00002.safetensors",
      .left = "" },
    { .reason = "idem, legacy; the second one is missing",
      .files = { "model-00001-of-00002.fp16.safetensors" },
      .counts = "model-00001-of-00002.fp16.safetensors model-00002-of-00002.fp16.safetensors",
      .left = "" },
    { .reason = "the index of a variant belongs to it",
      .files = { "model.safetensors.index.fp16.json" INDEX_OF("model.fp16-00001-of-00001.safetensors"),
                 "model.fp16-00001-of-00001.safetensors", "model.safetensors" },
      .pattern = "fp16",
      .counts = "model.fp16-00001-of-00001.safetensors",
      .left = "model.safetensors: the precision that is taken without a variant" },
    { .reason = "Mistral: consolidated is the same again for its own code",
      .files = { "consolidated.safetensors", "model-00001-of-00001.safetensors", CONFIG },
      .counts = "model-00001-of-00001.safetensors",
      .left = "consolidated.safetensors: consolidated: the publisher's own format" },
    { .reason = "Llama: original/ is Meta's own format",
      .files = { "model.safetensors", "original/consolidated.00.pth", "original/consolidated.01.pth" },
      .counts = "model.safetensors",
      .left =
          "original/consolidated.00.pth: original/: the publisher's own format|original/consolidated.01.pth: "
          "original/: the publisher's own format" },
    { .reason = "Meta's download alone: all ranks together",
      .files = { "consolidated.00.pth", "consolidated.01.pth", "params.json", "tokenizer.model" },
      .counts = "consolidated.00.pth consolidated.01.pth",
      .left = "" },
    { .reason = "vLLM: all *.safetensors together where no index says otherwise and a config.json is there",
      .files = { "a.safetensors", "b.safetensors", CONFIG },
      .counts = "a.safetensors b.safetensors",
      .left = "" },
    { .reason = "without a config.json they are a collection",
      .files = { "a.safetensors@2000000000", "b.safetensors@1000000000" },
      .error = VRAM_ESETTING,
      .text = "2 different models lie here: b.safetensors 1.00 GB, a.safetensors 2.00 "
              "GB" },
    { .reason = "one quantisation is the model",
      .files = { "m-Q4_K_M.gguf", CONFIG },
      .counts = "m-Q4_K_M.gguf",
      .left = "" },
    { .reason = "of several quantisations none is meant more than the others",
      .files = { "Some-7B-Q8_0.gguf@8000000000", "Some-7B-Q4_K_M.gguf@4500000000",
                 "BF16/Some-7B-BF16-00001-of-00002.gguf@9000000000",
                 "BF16/Some-7B-BF16-00002-of-00002.gguf@6000000000" },
      .error = VRAM_ESETTING,
      .text = "3 different models lie here: Some-7B-*: Q4_K_M 4.50 GB, Q8_0 8.00 GB, "
              "BF16 15.00 GB in 2 files" },
    { .reason = "a part of the name chooses, letters of either case",
      .files = { "m-Q8_0.gguf", "m-Q4_K_M.gguf" },
      .pattern = "q4_k_m",
      .counts = "m-Q4_K_M.gguf",
      .left = "m-Q8_0.gguf: another GGUF" },
    { .reason = "a word before a part of a word: F16 is not BF16, Q4_K is not Q4_K_M",
      .files = { "m-F16.gguf", "m-BF16.gguf", "m-Q4_K.gguf", "m-Q4_K_M.gguf" },
      .pattern = "F16",
      .counts = "m-F16.gguf",
      .left = "m-BF16.gguf: another GGUF|m-Q4_K.gguf: another GGUF|m-Q4_K_M.gguf: another GGUF" },
    { .reason = "a pattern with wildcards is of the whole name, as a shell's is",
      .files = { "m-Q8_0.gguf", "m-Q4_K_S.gguf", "m-Q4_K_M.gguf" },
      .pattern = "Q4*",
      .error = VRAM_ESETTING,
      .text = "no weight file matches" },
    { .reason = "several match: those are listed and no others",
      .files = { "m-Q8_0.gguf", "m-Q4_K_S.gguf", "m-Q4_K_M.gguf" },
      .pattern = "*q4_?_?.gguf",
      .error = VRAM_ESETTING,
      .text = "2 of them match: m-Q4_K_M.gguf" },
    { .reason = "no match lists what there is",
      .files = { "m-Q8_0.gguf", "m-Q4_K_M.gguf" },
      .pattern = "Q9",
      .error = VRAM_ESETTING,
      .text = "no weight file matches \"Q9\"; there is m-Q4_K_M.gguf" },
    { .reason = "llama.cpp: mmproj is the vision projector beside the model",
      .files = { "m-Q8_0.gguf", "mmproj-m-F16.gguf" },
      .counts = "m-Q8_0.gguf",
      .left = "mmproj-m-F16.gguf: vision projector" },
    { .reason = "a pattern that both match means the model",
      .files = { "m-Q8_0.gguf", "mmproj-Q8_0.gguf" },
      .pattern = "Q8_0",
      .counts = "m-Q8_0.gguf",
      .left = "mmproj-Q8_0.gguf: vision projector" },
    { .reason = "unless it is the projector that is chosen",
      .files = { "m-Q8_0.gguf", "mmproj-F16.gguf" },
      .pattern = "mmproj",
      .counts = "mmproj-F16.gguf",
      .left = "m-Q8_0.gguf: another GGUF" },
    { .reason = "safetensors first; llama.cpp runs the GGUF, with a choice",
      .files = { "model.safetensors", "m-Q4_0.gguf", "m-Q8_0.gguf" },
      .counts = "model.safetensors",
      .left = "m-Q4_0.gguf: GGUF: run by llama.cpp|m-Q8_0.gguf: GGUF: run by llama.cpp" },
    { .reason = "a GGUF is loaded as it is, a PyTorch file of no known name by nobody but its own code",
      .files = { "m-Q8_0.gguf", "m.pth", "consolidated.00.pth" },
      .counts = "m-Q8_0.gguf",
      .left = "consolidated.00.pth: consolidated: the publisher's own format|m.pth: PyTorch files" },
    { .reason = "a split GGUF in a folder, its middle part missing",
      .files = { "Q4_K_M/m-Q4_K_M-00001-of-00003.gguf", "Q4_K_M/m-Q4_K_M-00003-of-00003.gguf" },
      .counts = "Q4_K_M/m-Q4_K_M-00001-of-00003.gguf Q4_K_M/m-Q4_K_M-00002-of-00003.gguf "
                "Q4_K_M/m-Q4_K_M-00003-of-00003.gguf",
      .left = "" },
    { .reason = "one of its shards chooses the whole set",
      .files = { "a-00001-of-00002.gguf", "a-00002-of-00002.gguf", "b.gguf" },
      .pattern = "a-00002-of-00002.gguf",
      .counts = "a-00001-of-00002.gguf a-00002-of-00002.gguf",
      .left = "b.gguf: another GGUF" },
    { .reason = "an importance matrix holds no weights",
      .files = { "m-Q4_0.gguf", "imatrix.gguf" },
      .counts = "m-Q4_0.gguf",
      .left = "imatrix.gguf: importance matrix, no weights" },
    { .reason = "the state of a training is no weights",
      .files = { "model.safetensors", "optimizer.pt", "scheduler.pt", "rng_state_0.pth", "training_args.bin",
                 "checkpoint-500/model.safetensors", "checkpoint-500/optimizer.pt" },
      .counts = "model.safetensors",
      .left =
          "checkpoint-500/model.safetensors: an earlier state of the training|checkpoint-500/optimizer.pt: "
          "state of a training, no weights|optimizer.pt: state of a training, no weights|rng_state_0.pth: "
          "state of a training, no weights|scheduler.pt: state of a training, no weights|training_args.bin: "
          "state of a training, no weights" },
    { .reason = "with a model and an adapter the model counts",
      .files = { "model.safetensors", "adapter_model.safetensors", "adapter_config.json={}" },
      .counts = "model.safetensors",
      .left = "adapter_model.safetensors: adapter" },
    { .reason = "an adapter alone",
      .files = { "adapter_model.safetensors", "adapter_model.bin", "adapter_config.json={}" },
      .counts = "adapter_model.safetensors",
      .left = "adapter_model.bin: adapter" },
    { .reason = "a damaged description of the adapter",
      .files = { "adapter_model.safetensors", "adapter_config.json={]" },
      .error = VRAM_EFORMAT,
      .text = "not valid JSON" },
    { .reason = "a lone sub-folder with weights is what is meant",
      .files = { "model/x.safetensors", "model/config.json={}" },
      .counts = "model/x.safetensors",
      .left = "" },
    { .reason = "a listing that leads out is a lie of its server",
      .files = { "../model.safetensors" },
      .error = VRAM_EFORMAT,
      .text = "outside of its directory" },
    { .reason = "idem", .files = { "/etc/model.bin" }, .error = VRAM_EFORMAT, .text = "outside" },
    { .reason = "idem", .files = { "a//model.bin" }, .error = VRAM_EFORMAT, .text = "outside" },
    { .reason = "a name twice cannot be of one directory",
      .files = { "model.safetensors", "model.safetensors" },
      .error = VRAM_EINTERNAL,
      .text = "listed twice" },
    { .reason = "control characters come to no terminal",
      .files = { "a\x1b[2J.gguf", "b.gguf" },
      .error = VRAM_ESETTING,
      .text = "a?[2J.gguf" },
    { .reason = "no weights",
      .files = { "README.md", CONFIG, "model.onnx" },
      .error = VRAM_EUNSUPPORTED,
      .text = "no weight files" },
};

/* ---- a listing without bytes: enough to see what is chosen ---- */

static vram_status list_row(vram_checkpoint *ck, const row *r)
{
    for (size_t i = 0; i < NAMES && r->files[i] != NULL; i++) {
        char name[256];
        const char *text = strchr(r->files[i], '='), *at = strchr(r->files[i], '@');
        size_t n = text != NULL ? (size_t)(text - r->files[i])
                   : at != NULL ? (size_t)(at - r->files[i])
                                : strlen(r->files[i]);
        uint64_t size = text != NULL ? strlen(text + 1) : at != NULL ? strtoull(at + 1, NULL, 10) : 1000;
        assert_true(n < sizeof(name));
        memcpy(name, r->files[i], n);
        name[n] = '\0';
        vram_status s = vram_checkpoint_add_file(ck, name, size);
        if (s != VRAM_OK)
            return s;
    }
    return vram_checkpoint_listed(ck);
}

static vram_status supply_texts(vram_checkpoint *ck, const row *r)
{
    const vram_want *wants;
    size_t n = vram_checkpoint_wants(ck, &wants);
    for (size_t k = 0; k < n; k++) {
        for (size_t i = 0; i < NAMES && r->files[i] != NULL; i++) {
            const char *text = strchr(r->files[i], '=');
            size_t name = strlen(wants[k].file);
            if (text == NULL || (size_t)(text - r->files[i]) != name ||
                memcmp(r->files[i], wants[k].file, name) != 0)
                continue;
            vram_status s = vram_checkpoint_supply(ck, wants[k].file, 0, text + 1, strlen(text + 1));
            if (s != VRAM_OK)
                return s;
            break;
        }
    }
    return VRAM_MORE;
}

/* VRAM_MORE: the files are known, and their bytes would be read now. */
static vram_status read_row(vram_ctx *ctx, const row *r, vram_checkpoint **out)
{
    vram_checkpoint *ck;
    vram_status s = vram_checkpoint_new(&ck, ctx, "here");
    if (s == VRAM_OK && r->pattern != NULL)
        s = vram_checkpoint_choose(ck, r->pattern);
    if (s != VRAM_OK)
        return s;
    *out = ck;
    s = vram_checkpoint_step(ck);
    if (s == VRAM_MORE)
        s = list_row(ck, r);
    for (int rounds = 0; rounds < 3 && s >= 0 && ck->n_files == 0; rounds++) {
        s = vram_checkpoint_step(ck);
        if (s == VRAM_MORE && ck->n_files == 0)
            s = supply_texts(ck, r);
    }
    return s;
}

static void check_text(const row *r, const char *what, const char *got, const char *expected)
{
    if (strcmp(got, expected) != 0)
        fail_msg("%s: %s:\n  %s\nnot\n  %s", r->reason, what, got, expected);
}

static void check_files(const row *r, const vram_checkpoint *ck)
{
    char text[2048] = "";
    for (size_t i = 0; i < ck->n_files; i++) {
        strcat(text, i > 0 ? " " : "");
        strcat(text, ck->files[i].name);
    }
    check_text(r, "counts", text, r->counts);
    text[0] = '\0';
    for (size_t i = 0; i < ck->n_left_out; i++) {
        strcat(text, i > 0 ? "|" : "");
        strcat(text, ck->left_out[i].name);
        strcat(text, ": ");
        strcat(text, ck->left_out[i].why);
    }
    if (r->left != NULL)
        check_text(r, "left out", text, r->left);
}

static void test_rows(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const row *r = &rows[i];
        hook memory = { 0 };
        vram_ctx *ctx;
        vram_checkpoint *ck = NULL;
        assert_int_equal(vram_open(&ctx, hook_alloc, &memory), VRAM_OK);
        vram_status s = read_row(ctx, r, &ck);
        const vram_error *e = vram_last_error(ctx);
        if (r->counts == NULL && (s != r->error || strstr(e->text, r->text) == NULL))
            fail_msg("%s: %d %s", r->reason, (int)s, e->text);
        if (r->counts != NULL && s < 0)
            fail_msg("%s: %d %s", r->reason, (int)s, e->text);
        if (r->counts != NULL)
            check_files(r, ck);
        if (s == VRAM_ESETTING)
            assert_non_null(strstr(e->hint, "--file"));
        vram_close(ctx);
        assert_int_equal(memory.live_blocks, 0);
    }
}

/* The n-th allocation fails, once and for good. */
static void test_allocations(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        for (int after = 0; after < 2; after++) {
            hook memory = { .fail_after = after != 0 };
            for (memory.fail_at = 1;; memory.fail_at++) {
                vram_ctx *ctx = NULL;
                vram_checkpoint *ck;
                memory.n_calls = 0;
                vram_status s = vram_open(&ctx, hook_alloc, &memory);
                if (s == VRAM_OK) {
                    s = read_row(ctx, &rows[i], &ck);
                    vram_close(ctx);
                }
                assert_int_equal(memory.live_blocks, 0);
                if (memory.n_calls < memory.fail_at)
                    break;
                assert_int_equal(s, VRAM_ENOMEM);
            }
        }
    }
}

/* ---- large and odd ---- */

static vram_status list_many(size_t n, const char *form, hook *memory)
{
    vram_ctx *ctx;
    vram_checkpoint *ck;
    char name[64];
    assert_int_equal(vram_open(&ctx, hook_alloc, memory), VRAM_OK);
    assert_int_equal(vram_checkpoint_new(&ck, ctx, "here"), VRAM_OK);
    assert_int_equal(vram_checkpoint_step(ck), VRAM_MORE);
    vram_status s = VRAM_OK;
    for (size_t i = 0; i < n && s == VRAM_OK; i++) {
        snprintf(name, sizeof(name), form, i);
        s = vram_checkpoint_add_file(ck, name, 1000 + i);
    }
    if (s == VRAM_OK)
        s = vram_checkpoint_listed(ck);
    if (s == VRAM_OK)
        s = vram_checkpoint_step(ck);
    vram_close(ctx);
    assert_int_equal(memory->live_blocks, 0);
    return s;
}

/* 100,000 names in bounded time and memory, of files and of folders. */
static void test_many(void **state)
{
    (void)state;
    hook memory = { 0 };
    assert_int_equal(list_many(100000, "m-%zu.gguf", &memory), VRAM_ESETTING);
    assert_int_equal(list_many(100000, "%zu/model.safetensors", &memory), VRAM_ESETTING);
    assert_int_equal(list_many(100000, "%zu.txt", &memory), VRAM_EUNSUPPORTED);
    assert_int_equal(list_many(100001, "m-%zu.gguf", &memory), VRAM_ELIMIT);
    assert_true(memory.peak_bytes < UINT64_C(128) << 20);
}

/* One trip for the directory at a zip's end and for a vocabulary in a GGUF's head. */
static void test_first_wants(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint64_t cost, head, tail;
    } cases[] = {
        { "pytorch_model.bin", 0, 65536, 65536 },
        { "pytorch_model.bin", 1 << 20, 65536, 65536 },
        { "m.gguf", 0, 65536, 0 },
        { "m.gguf", 1 << 20, 1 << 20, 0 },
        { "model.safetensors", 1 << 20, 65536, 0 },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        hook memory = { 0 };
        vram_ctx *ctx;
        vram_checkpoint *ck;
        const vram_want *wants;
        const uint64_t size = UINT64_C(5) << 30;
        assert_int_equal(vram_open(&ctx, hook_alloc, &memory), VRAM_OK);
        assert_int_equal(vram_checkpoint_new(&ck, ctx, "here"), VRAM_OK);
        vram_checkpoint_request_cost(ck, cases[i].cost);
        assert_int_equal(vram_checkpoint_step(ck), VRAM_MORE);
        assert_int_equal(vram_checkpoint_add_file(ck, cases[i].name, size), VRAM_OK);
        assert_int_equal(vram_checkpoint_listed(ck), VRAM_OK);
        assert_int_equal(vram_checkpoint_step(ck), VRAM_MORE);
        assert_int_equal(vram_checkpoint_wants(ck, &wants), cases[i].tail != 0 ? 2 : 1);
        assert_int_equal(wants[0].offset, 0);
        assert_int_equal(wants[0].most, cases[i].head);
        if (cases[i].tail != 0) {
            assert_int_equal(wants[1].offset, size - cases[i].tail);
            assert_int_equal(wants[1].least, cases[i].tail);
        }
        vram_close(ctx);
    }
}

/* ---- by size ---- */

static vram_checkpoint *list_sizes(vram_ctx *ctx, size_t nth, const char *pattern, const char *named)
{
    static const struct {
        const char *name;
        uint64_t size;
    } files[] = {
        { "q-Q4_K_M.gguf", 400 },
        { "q-F16-00002-of-00002.gguf", 500 },
        { "mmproj-q.gguf", 100 },
        { "q-Q2_K.gguf", 200 },
        { "q-F16-00001-of-00002.gguf", 500 },
        { "imatrix.gguf", 5 },
        { "sub/q-Q3_K.gguf", 300 },
        { "config.json", 10 },
    };
    vram_checkpoint *ck;
    assert_int_equal(vram_checkpoint_new(&ck, ctx, "here"), VRAM_OK);
    if (pattern != NULL)
        assert_int_equal(vram_checkpoint_choose(ck, pattern), VRAM_OK);
    if (named != NULL)
        assert_int_equal(vram_checkpoint_named(ck, named), VRAM_OK);
    vram_checkpoint_choose_size(ck, nth);
    assert_int_equal(vram_checkpoint_step(ck), VRAM_MORE);
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
        assert_int_equal(vram_checkpoint_add_file(ck, files[i].name, files[i].size), VRAM_OK);
    assert_int_equal(vram_checkpoint_listed(ck), VRAM_OK);
    return ck;
}

/* The n-th by size, all shards of one together; projectors and importance matrices are no models. */
static void test_by_size(void **state)
{
    static const char *const names[] = { "Q2_K", "Q3_K", "Q4_K_M", "F16" };
    static const uint64_t bytes[] = { 200, 300, 400, 1000 };
    hook memory = { 0 };
    vram_ctx *ctx;
    const vram_choice *list;
    (void)state;
    assert_int_equal(vram_open(&ctx, hook_alloc, &memory), VRAM_OK);
    for (size_t nth = 1; nth < 6; nth++) {
        size_t meant = nth < 4 ? nth : 4;
        vram_checkpoint *ck = list_sizes(ctx, nth, NULL, NULL);
        assert_int_equal(vram_checkpoint_step(ck), VRAM_MORE);
        assert_int_equal(vram_checkpoint_choices(ck, &list), 4);
        for (size_t i = 0; i < 4; i++) {
            assert_non_null(strstr(list[i].name, names[i]));
            assert_int_equal(list[i].bytes, bytes[i]);
            assert_int_equal(list[i].taken, i + 1 == meant);
        }
        const vram_want *wants;
        size_t n = vram_checkpoint_wants(ck, &wants), met = 0;
        for (size_t i = 0; i < n; i++) {
            bool weights = strstr(wants[i].file, ".gguf") != NULL;
            met += weights;
            assert_true(!weights || strstr(wants[i].file, names[meant - 1]) != NULL);
        }
        assert_int_equal(met, meant == 4 ? 2 : 1);
    }
    vram_checkpoint *ck = list_sizes(ctx, 1, "*_K*", NULL);
    assert_int_equal(vram_checkpoint_step(ck), VRAM_MORE);
    assert_int_equal(vram_checkpoint_choices(ck, &list), 3);
    ck = list_sizes(ctx, 1, NULL, "q-Q4_K_M.gguf"); /* one file is one file */
    assert_int_equal(vram_checkpoint_step(ck), VRAM_MORE);
    assert_int_equal(vram_checkpoint_choices(ck, &list), 0);
    ck = list_sizes(ctx, 1, "F16", NULL);
    assert_int_equal(vram_checkpoint_step(ck), VRAM_MORE);
    assert_int_equal(vram_checkpoint_choices(ck, &list), 0);
    ck = list_sizes(ctx, 0, NULL, NULL);
    assert_int_equal(vram_checkpoint_step(ck), VRAM_ESETTING);
    vram_close(ctx);
    assert_int_equal(memory.live_bytes, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows), cmocka_unit_test(test_by_size),     cmocka_unit_test(test_allocations),
        cmocka_unit_test(test_many), cmocka_unit_test(test_first_wants),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
