/* SPDX-License-Identifier: MIT
 * A fit made by hand for the renderers: Qwen2.5-7B on an RTX 3060 12 GB. The figures that users have
 * published: 15,231,233,024 bytes of weights, a usable total of 12,490,457,088, 130.00 MiB tried at
 * layers.23.mlp.down_proj, 11.34 GiB allocated. */
#ifndef MADE_H
#define MADE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../support/hook.h"
#include "engine/pass.h"
#include "report/fit_report.h"
#include "report/inspect_report.h"

#define USABLE UINT64_C(12490457088)
#define WEIGHTS UINT64_C(15231233024)
#define KV UINT64_C(234881024)
#define ACTIVATIONS UINT64_C(536870912)
#define CONTEXT_BYTES (102 * VR_MIB)
#define KERNEL_BYTES (32 * VR_MIB)
#define IDLE_BYTES UINT64_C(110592000)

#define MESSAGE                                                                                              \
    "CUDA out of memory. Tried to allocate 130.00 MiB. GPU 0 has a total capacity of 11.63 GiB of which "    \
    "89.88 MiB is "                                                                                          \
    "free. Including non-PyTorch memory, this process has 11.54 GiB memory in use."

/* What a renderer wrote. */
typedef struct page {
    char *p;
    size_t n, fail_after; /* fail_after: bytes after which writing fails; 0: never */
} page;

static inline int page_write(void *ud, const void *bytes, size_t n)
{
    page *g = ud;
    char *p;

    if (g->fail_after != 0 && g->n + n > g->fail_after)
        return 1;
    p = realloc(g->p, g->n + n + 1);
    if (p == NULL)
        return 1;
    g->p = p;
    memcpy(g->p + g->n, bytes, n);
    g->n += n;
    g->p[g->n] = '\0';
    return 0;
}

typedef struct made {
    hook memory;
    vram_ctx *ctx;
    vr_engine engine;
    vr_gpu gpu;
    vr_family family;
    vr_file file;
    vr_layer layers[2];
    vr_tensor tensors[1];
    uint64_t parameters[1];
    uint64_t dims[2];
    vram_checkpoint checkpoint;
    vram_model model;
    vram_workload workload;
    vram_device device;
    vr_str labels[2];
    vr_lever levers[3];
    struct vr_card cards[3];
    vram_fit fit;
} made;

static inline vr_figure figure(uint64_t bytes, vr_basis basis)
{
    return (
        vr_figure){ .counted = true, .bytes = bytes, .low = bytes, .high = bytes, .basis = (uint8_t)basis };
}

static inline void make_ledger(vr_ledger *l)
{
    l->category[VR_WEIGHTS] = figure(WEIGHTS, VR_BASIS_EXACT);
    l->category[VR_GRADIENTS] = figure(0, VR_BASIS_EXACT);
    l->category[VR_OPTIMIZER] = figure(0, VR_BASIS_EXACT);
    l->category[VR_KV_CACHE] = figure(KV, VR_BASIS_EXACT);
    l->category[VR_ACTIVATIONS] = figure(ACTIVATIONS, VR_BASIS_SIMULATED);
    l->category[VR_ACTIVATIONS].formula = "grows with tokens";
    l->category[VR_OVERHEAD] = figure(CONTEXT_BYTES + KERNEL_BYTES + IDLE_BYTES, VR_BASIS_SIMULATED);
    l->item[VR_ITEM_PARAMETERS] = figure(WEIGHTS, VR_BASIS_EXACT);
    l->item[VR_ITEM_KV] = figure(KV, VR_BASIS_EXACT);
    l->item[VR_ITEM_HIDDEN] = figure(ACTIVATIONS, VR_BASIS_SIMULATED);
    l->item[VR_ITEM_CONTEXT] = figure(CONTEXT_BYTES, VR_BASIS_TABLE);
    l->item[VR_ITEM_KERNELS] = figure(KERNEL_BYTES, VR_BASIS_TABLE);
    l->item[VR_ITEM_IDLE] = figure(IDLE_BYTES, VR_BASIS_SIMULATED);
    l->required = WEIGHTS + KV + ACTIVATIONS + CONTEXT_BYTES + KERNEL_BYTES + IDLE_BYTES;
    l->required_low = l->required_high = l->required;
    l->least_certain = VR_ACTIVATIONS;
}

static inline void make_model(made *m)
{
    m->file = (vr_file){ .name = "model.safetensors",
                         .size = WEIGHTS + 40000,
                         .header_bytes = 40000,
                         .tensor_bytes = WEIGHTS,
                         .n_tensors = 1 };
    m->dims[0] = 7615616;
    m->dims[1] = 1000;
    m->tensors[0] = (vr_tensor){ .name = VR_LIT("model.layers.0.mlp.down_proj.weight"),
                                 .dims = m->dims,
                                 .n_dims = 2,
                                 .dtype = VR_BF16,
                                 .end = WEIGHTS,
                                 .elements = WEIGHTS / 2 };
    m->checkpoint = (vram_checkpoint){ .ctx = m->ctx,
                                       .name = "models/Qwen2.5-7B/",
                                       .tensors = m->tensors,
                                       .n_tensors = 1,
                                       .files = &m->file,
                                       .n_files = 1,
                                       .tensor_bytes = WEIGHTS,
                                       .elements = WEIGHTS / 2,
                                       .has_config = true };
    m->family = (vr_family){ .model_type = "qwen2", .class_name = "Qwen2ForCausalLM" };
    m->parameters[0] = WEIGHTS / 2;
    m->model = (vram_model){ .ctx = m->ctx,
                             .parameters = WEIGHTS / 2,
                             .packing.parameters = m->parameters,
                             .checkpoint = &m->checkpoint,
                             .architecture = "Qwen2ForCausalLM",
                             .model_type = "qwen2",
                             .family = &m->family,
                             .dtype = VR_BF16,
                             .prefix = "model.",
                             .n_layers = 1,
                             .hidden = 3584,
                             .heads = 28,
                             .kv_heads = 4,
                             .head_dim = 128,
                             .ffn = 18944,
                             .vocab = 152064,
                             .max_context = 32768,
                             .layers = m->layers,
                             .kv_bytes_per_token_16bit = 57344 };
}

static inline void make_failure(made *m)
{
    vram_fit *f = &m->fit;

    m->labels[1] = VR_LIT("model.layers.23.mlp.down_proj.weight");
    f->plan.tape.labels = m->labels;
    f->plan.tape.n_labels = 2;
    f->run.failed = true;
    f->run.failure.label = 1;
    f->run.failure.tried = f->run.failure.requested = 130 * VR_MIB;
    f->run.failure.driver_free = 94244864;
    f->run.failure.next_moment = VR_AT_LOADED;
    f->run.failure.live.allocated = UINT64_C(12178161664);
    f->run.failure.live.reserved = UINT64_C(12288753664);
    f->run.failure.live.items[VR_ITEM_PARAMETERS] = UINT64_C(12178161664);
    f->run.failure.live.items[VR_ITEM_CONTEXT] = CONTEXT_BYTES;
    f->run.failure.live.items[VR_ITEM_IDLE] = IDLE_BYTES;
    f->needs.n_moments = 2;
    f->needs.moments[0] = (vr_moment){ VR_AT_CONTEXT, 0, 0, CONTEXT_BYTES };
    f->needs.moments[1] = (vr_moment){ VR_AT_LOADED, WEIGHTS, WEIGHTS, WEIGHTS + CONTEXT_BYTES };
    f->message = MESSAGE;
    f->short_bytes = f->weights_over_usable = WEIGHTS - USABLE;
    f->loaded_permille = 800;
}

static inline void make_levers(made *m)
{
    m->levers[0] = (vr_lever){ .ids = { "weights_8bit" },
                               .change = "weights in 8 bits (bitsandbytes)",
                               .flag = "quantization_config=BitsAndBytesConfig(load_in_8bit=True)",
                               .option = "--quantization 8bit",
                               .cost = "a small loss of quality",
                               .rank = 1,
                               .required = 10 * VR_GIB,
                               .saved = (int64_t)(5 * VR_GIB),
                               .fits = true,
                               .basis = VR_BASIS_FORMULA };
    m->levers[1] = (vr_lever){ .ids = { "another_gpu" },
                               .change = "a larger card: NVIDIA GeForce RTX 3090",
                               .cost = "other hardware",
                               .option = "--gpu rtx-3090-24gb",
                               .rank = 2,
                               .required = 15 * VR_GIB,
                               .fits = true,
                               .basis = VR_BASIS_SIMULATED };
    m->levers[2] = (vr_lever){ .ids = { "half_context", "weights_8bit" },
                               .change = "a context of 2,048 tokens",
                               .option = "--context 2048",
                               .rank = 3,
                               .required = 15 * VR_GIB,
                               .saved = 1 };
    m->fit.levers = m->levers;
    m->fit.n_levers = 3;
    m->fit.ranked_by = "cost";
}

static inline void make_rest(made *m)
{
    m->engine = (vr_engine){ .name = "transformers",
                             .default_version = "5.17",
                             .options = vr_transformers_options,
                             .n_options = VR_TRANSFORMERS_OPTIONS };
    m->workload = (vram_workload){ .ctx = m->ctx,
                                   .engine = &m->engine,
                                   .version_major = 5,
                                   .version_minor = 17,
                                   .context = 4096,
                                   .sequences = 1,
                                   .prefill_batch = 1,
                                   .dtype = VR_BF16 };
    m->workload.set_by[VR_SET_DTYPE] = VR_BY_MODEL;
    m->workload.set_by[VR_SET_CONTEXT] = VR_BY_USER;
    m->gpu = (vr_gpu){ .id = "rtx-3060-12gb",
                       .name = "NVIDIA GeForce RTX 3060",
                       .marketed_gb = 12,
                       .cuda_total_bytes = USABLE };
    m->device = (vram_device){ .ctx = m->ctx,
                               .gpu = &m->gpu,
                               .id = m->gpu.id,
                               .name = m->gpu.name,
                               .count = 1,
                               .usable = { USABLE, USABLE, USABLE, VR_BASIS_TABLE },
                               .available = { USABLE, USABLE, USABLE, VR_BASIS_TABLE } };
}

/* Everything set; the memory hook counts. */
static inline void make(made *m)
{
    memset(m, 0, sizeof *m);
    assert_int_equal(vram_open(&m->ctx, hook_alloc, &m->memory), VRAM_OK);
    make_model(m);
    make_rest(m);
    m->fit.ctx = m->ctx;
    m->fit.model = &m->model;
    m->fit.workload = &m->workload;
    m->fit.device = &m->device;
    m->fit.plan.weight_bytes = WEIGHTS;
    make_ledger(&m->fit.ledger);
    m->fit.verdict = VRAM_DOES_NOT_FIT;
    m->fit.headroom = vr_diff(USABLE, m->fit.ledger.required);
    m->fit.smallest_count = 2;
    m->fit.count_note = "real sharding is never perfect";
    make_failure(m);
    make_levers(m);
}

static inline void unmake(made *m)
{
    vram_close(m->ctx);
    assert_int_equal(m->memory.live_blocks, 0);
    assert_int_equal(m->memory.live_bytes, 0);
}

/* The same made to fit: half the weights. */
static inline void make_it_fit(made *m)
{
    vram_fit *f = &m->fit;

    f->ledger.category[VR_WEIGHTS] = f->ledger.item[VR_ITEM_PARAMETERS] = figure(WEIGHTS / 2, VR_BASIS_EXACT);
    f->ledger.required = f->ledger.required_low = f->ledger.required_high = f->ledger.required - WEIGHTS / 2;
    f->headroom = vr_diff(USABLE, f->ledger.required);
    f->verdict = VRAM_FITS;
    f->run.failed = false;
    f->run.n_moments = f->needs.n_moments;
    memcpy(f->run.moments, f->needs.moments, sizeof f->run.moments);
    f->message = NULL;
    f->weights_over_usable = 0;
    f->smallest_count = 1;
}

/* ---- looking at pages ---- */

static inline size_t columns_of(const char *line, size_t n)
{
    size_t w = 0;

    for (size_t i = 0; i < n; i++)
        w += ((unsigned char)line[i] & 0xc0) != 0x80;
    return w;
}

/* No line is wider. */
static inline void assert_within(const page *g, size_t columns)
{
    for (const char *line = g->p; *line != '\0';) {
        size_t n = strcspn(line, "\n");
        if (columns_of(line, n) > columns)
            fail_msg("%zu columns instead of %zu: %.*s", columns_of(line, n), columns, (int)n, line);
        line += n + (line[n] == '\n');
    }
}

static inline size_t count_lines(const page *g)
{
    size_t n = 0;

    for (size_t i = 0; i < g->n; i++)
        n += g->p[i] == '\n';
    return n;
}

static inline bool is_ascii(const page *g)
{
    for (size_t i = 0; i < g->n; i++)
        if ((unsigned char)g->p[i] >= 0x7f || ((unsigned char)g->p[i] < 0x20 && g->p[i] != '\n'))
            return false;
    return true;
}

static inline void assert_has(const page *g, const char *what)
{
    if (strstr(g->p, what) == NULL)
        fail_msg("not found: \"%s\" in:\n%s", what, g->p);
}

static inline void assert_lacks(const page *g, const char *what)
{
    if (strstr(g->p, what) != NULL)
        fail_msg("found: \"%s\" in:\n%s", what, g->p);
}

#endif
