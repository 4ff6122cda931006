/* SPDX-License-Identifier: MIT
 * What a recorded run on a CPU and our tape of CUDA may differ in, each kind with a name and a reason. */
#ifndef VR_TEST_DIFFERENCES_H
#define VR_TEST_DIFFERENCES_H

#include "facts.h"

typedef enum difference {
    SAME,
    HOST_SCALAR,
    HOST_CAST,
    HOST_MEAN,
    HOST_WINDOW,
    HOST_NORMALISER,
    CPU_GEMM_SCRATCH,
    CPU_GEMM_PACKING,
    CPU_FLASH_SCRATCH,
    CPU_LOGSUMEXP,
    CPU_LAYOUT,
    CPU_INDEX,
    CPU_RANGE,
    CPU_SORT,
    CPU_HISTOGRAM,
    CPU_ADDED,
    CPU_SCATTERED,
    HOST_SHAPE,
    CPU_PROMOTED,
    CPU_CONVOLUTION,
    CPU_STATISTICS,
    CUDA_STATISTICS,
    CUDA_SOLVER,
    CUDA_WORKSPACE,
    CUDA_RANDOM,
    CUDA_WINDOW,
    CUDA_SUMS,
    CUDA_ALIGNED,
    CUDA_SCATTERED,
    LEFT_OUT_PLACES,
    CUDA_LEAVING,
    CPU_CONVOLVED,
    N_DIFFERENCES
} difference;

static const struct {
    const char *name, *reason;
} named[N_DIFFERENCES] = {
    [SAME] = { "the same", "" },
    [HOST_SCALAR] = { "number becomes a scalar tensor",
                      "Python numbers in arithmetic live on the host, also under CUDA" },
    [HOST_CAST] = { "scalar tensor in another dtype",
                    "CPU kernels convert the host's scalar; CUDA kernels take it as it is" },
    [HOST_MEAN] = { "divisor of a mean", "the CPU's mean is a sum and a division; CUDA's is one kernel" },
    [HOST_WINDOW] = { "window or length of the cache",
                      "made on the host and moved to the card at the first update" },
    [HOST_NORMALISER] = { "normaliser of gemma2", "torch.tensor() without a device: on the host" },
    [CPU_GEMM_SCRATCH] = { "scratch of the CPU's matrix product", "oneDNN's; cuBLAS works in its workspace" },
    [CPU_GEMM_PACKING] = { "packed operand",
                           "oneDNN wants the transposed matrix copied; cuBLAS reads it in place" },
    [CPU_FLASH_SCRATCH] = { "scratch of the CPU's flash kernel", "CUDA's keeps it in shared memory" },
    [CPU_LOGSUMEXP] = { "logsumexp",
                        "with a mask, or heads wider than 256, CUDA takes the memory-efficient kernel, which "
                        "keeps none in inference" },
    [CPU_LAYOUT] = { "copy of the attention output",
                     "with a mask: CUDA's kernel writes it token by token at once" },
    [CPU_INDEX] = { "contiguous token ids", "a column of ids; CUDA's index_select reads it with its stride" },
    [CPU_RANGE] = { "range of the experts' numbers",
                    "one_hot looks for numbers out of range; CUDA leaves that to the kernel" },
    [CPU_SORT] = { "numbers to be sorted along", "CUDA sorts them in place" },
    [CPU_HISTOGRAM] = { "edges and counts of each thread", "CUDA counts in shared memory" },
    [CPU_SCATTERED] = { "list of places to be filled or read",
                        "the CPU sorts them, of 16 bits when it reads; CUDA does it at once" },
    [HOST_SHAPE] = { "numbers of dimensions of what is repeated", "a few numbers on the host" },
    [CPU_ADDED] = { "list of rows to be added", "the CPU sorts them; CUDA adds atomically" },
    [CPU_PROMOTED] = { "operand in another dtype",
                       "the CPU widens it in a storage of its own; CUDA's kernels widen as they read" },
    [CPU_CONVOLUTION] = { "convolution in layouts of its own",
                          "oneDNN reorders input, weight and result; CUDA's depthwise kernel does not, and "
                          "cuDNN's workspace is not counted" },
    [CPU_STATISTICS] = { "mean and deviation of layer_norm", "in the input's dtype; see the next" },
    [CUDA_STATISTICS] = { "mean and deviation of layer_norm", "CUDA keeps them in 32 bits" },
    [CUDA_SOLVER] = { "addresses of a batched solver", "cuBLAS is given a list of matrices" },
    [CUDA_WORKSPACE] = { "cuBLAS and cublasLt workspaces", "there is no cuBLAS on the CPU" },
    [CUDA_RANDOM] = { "random state of the attention kernel", "CUDA kernels return it, dropout or not" },
    [CUDA_WINDOW] = { "window or length of the cache",
                      "its copy on the card; on the CPU there is nothing to move" },
    [CUDA_ALIGNED] = { "padded mask",
                       "memory-efficient kernel: rows of a mask begin at multiples of 16 bytes" },
    [CUDA_SCATTERED] = { "places of image features",
                         "masked_scatter counts them in 64 bits on CUDA, on the CPU one after the other" },
    [LEFT_OUT_PLACES] = { "places of patches and of their tokens, numbers of beams",
                          "some bytes each, left out: neither CUDA's nor the CPU's" },
    [CUDA_LEAVING] = { "keys or values on their way to the host",
                       "a window within a wider storage: gathered on the card, then copied" },
    [CUDA_SUMS] = { "sums of the attention kernel",
                    "memory-efficient kernel, more than 128 a head: not in registers" },
    [CPU_CONVOLVED] = { "copy of a convolution's result",
                        "in fp16 oneDNN gives a layout of its own; cuDNN the one that was asked for" },
};

static bool ends(const char *s, const char *end)
{
    size_t n = strlen(s), k = strlen(end);
    return n >= k && strcmp(s + n - k, end) == 0;
}

/* In a call of a binary operator, of a number's size. */
static bool is_host_cast(const char *op, uint64_t bytes)
{
    static const char *const operators[] = { "mul/", "add/",          "sub/",   "div/",
                                             "eq/",  "floor_divide/", "clamp/", "__lshift__/" };
    if (bytes > 8 || !ends(op, "to/_to_copy/empty_strided"))
        return false;
    for (size_t i = 0; i < sizeof(operators) / sizeof(operators[0]); i++) {
        if (strstr(op, operators[i]) != NULL)
            return true;
    }
    return false;
}

/* Tensors of 16 and of 32 bits in one binary operator. */
static bool is_promoted(const char *op)
{
    static const char *const operators[] = { "mul/to", "add/to", "mul_/to", "div/to", "sum/to", "pow/to" };
    for (size_t i = 0; i < sizeof(operators) / sizeof(operators[0]); i++) {
        char end[48];
        snprintf(end, sizeof(end), "%s/_to_copy/empty_strided", operators[i]);
        if (ends(op, end))
            return true;
    }
    return false;
}

static const char *op_of(const facts *f, size_t i)
{
    return f->events[i].kind == 'A' ? f->ops[f->events[i].op] : "";
}

static const char *next_op(const facts *f, size_t i)
{
    for (i++; i < f->n; i++) {
        if (f->events[i].kind == 'A')
            return op_of(f, i);
    }
    return "";
}

static const char *op_before_it(const facts *f, size_t i)
{
    while (i > 0 && f->events[i - 1].kind != 'A')
        i--;
    return i > 0 ? op_of(f, i - 1) : "";
}

static bool freed_at_once(const facts *f, size_t i)
{
    return i + 1 < f->n && f->events[i + 1].kind == 'F' && f->events[i + 1].storage == f->events[i].storage;
}

static bool freed_before_next(const facts *f, size_t i)
{
    for (size_t k = i + 1; k < f->n && f->events[k].kind == 'F'; k++) {
        if (f->events[k].storage == f->events[i].storage)
            return true;
    }
    return false;
}

/* Of the last flash call before event i. */
static bool was_masked(const facts *f, size_t i)
{
    while (i > 0 && !ends(op_of(f, i), "_for_cpu/empty_like/empty_strided"))
        i--;
    for (size_t k = 0; k < 6 && i > 0; k++, i--) {
        if (strcmp(op_of(f, i - 1), "scaled_dot_product_attention/where") == 0)
            return true;
    }
    return false;
}

/* Result and sums of the flash call before event i: CUDA's has heads of 256 at most. */
static bool was_wide(const facts *f, size_t i)
{
    unsigned width = strcmp(f->dtype, "float32") == 0 ? 4 : 2;
    return f->events[i - 1].bytes / width > 256 * (f->events[i].bytes / 4);
}

static difference in_flash(const facts *f, size_t i)
{
    if (!ends(op_of(f, i - 1), "empty_like/empty_strided"))
        return CPU_FLASH_SCRATCH;
    return was_masked(f, i) || was_wide(f, i) ? CPU_LOGSUMEXP : SAME;
}

/* The first allocation after the kernel's. */
static bool follows_flash(const facts *f, size_t i)
{
    while (i > 0 && f->events[i - 1].kind == 'F')
        i--;
    return i > 0 && ends(op_of(f, i - 1), "_for_cpu/empty");
}

/* Two to the power of a tensor. */
static bool is_base(const facts *f, size_t i)
{
    return f->events[i].bytes == 8 && strcmp(op_of(f, i), "pow") == 0 &&
           strncmp(next_op(f, i), "pow/to", 6) == 0;
}

/* A number beside a tensor in a comparison: the first of two storages that the comparison takes. */
static bool is_compared_number(const facts *f, size_t i)
{
    static const char *const operators[] = { "greater/gt", "eq", "ne", "ge", "gt", "le", "lt" };
    const char *op = op_of(f, i);
    bool compares = false;
    for (size_t k = 0; k < sizeof(operators) / sizeof(operators[0]); k++)
        compares = compares || strcmp(op, operators[k]) == 0;
    return compares && f->events[i].bytes == 8 && strcmp(next_op(f, i), op) == 0;
}

/* What routing tokens to experts takes on a CPU alone. */
static difference in_routing(const facts *f, size_t i)
{
    const char *op = op_of(f, i);
    if (strcmp(op, "one_hot/aminmax") == 0)
        return CPU_RANGE;
    if (strcmp(op, "sort/arange/resize_") == 0)
        return CPU_SORT;
    if (strcmp(op, "histc/zeros/empty") == 0 || (strcmp(op, "histc") == 0 && strcmp(next_op(f, i), op) == 0))
        return CPU_HISTOGRAM;
    if (strcmp(op, "index_add_/scatter_add_/zeros/empty") == 0)
        return CPU_ADDED;
    if (strcmp(op, "scatter_/empty") == 0 || strcmp(op, "gather/empty") == 0)
        return CPU_SCATTERED;
    if (strncmp(op, "repeat/", 7) == 0 && strcmp(op, "repeat/empty") != 0 && f->events[i].bytes <= 64)
        return HOST_SHAPE;
    return is_compared_number(f, i) ? HOST_SCALAR : SAME;
}

/* The result comes first, and the other two at once behind it. */
static bool is_statistics(const facts *f, size_t i)
{
    static const char native[] = "layer_norm/native_layer_norm/empty";
    return i > 0 && ends(op_of(f, i), native) && ends(op_of(f, i - 1), native);
}

static size_t op_before(const facts *f, size_t i, const char *op)
{
    while (i > 0 && (f->events[i].kind != 'A' || strcmp(op_of(f, i), op) != 0))
        i--;
    return i;
}

static size_t op_after(const facts *f, size_t i, const char *op)
{
    while (i < f->n && (f->events[i].kind != 'A' || strstr(op_of(f, i), op) == NULL))
        i++;
    return i;
}

/* ---- left out where there are pictures, or beams ---- */

typedef enum stretch {
    NOWHERE,
    BEFORE_SEARCH,  /* what generate() looks at before the model is called */
    IN_SEARCH,      /* between the logits of one call and the next call */
    BEFORE_PATCHES, /* between the pixels in the model's width and the first convolution */
    IN_TOWER,
    AFTER_TOWER, /* up to the last of the positions */
    IN_STEPS,
} stretch;

/* What places patches and tokens: the most that a storage of that operator takes of each patch (before and in
 * the tower), token, or beam (in a search), 0: some numbers, of pictures, windows and calls. Each was read
 * off the recorded runs, so that one of another operator or larger is compared. */
static const struct {
    stretch at;
    const char *op;
    unsigned each;
} left_out[] = {
    { BEFORE_PATCHES, "abs", 8 },
    { BEFORE_PATCHES, "add", 32 }, /* numbers of four corners of 8 bytes */
    { BEFORE_PATCHES, "arange/resize_", 8 },
    { BEFORE_PATCHES, "cat", 16 },
    { BEFORE_PATCHES, "clamp", 16 },
    { BEFORE_PATCHES, "cumsum", 0 },
    { BEFORE_PATCHES, "cumsum/to/_to_copy/empty_strided", 0 },
    { BEFORE_PATCHES, "div", 4 },
    { BEFORE_PATCHES, "div/to/_to_copy/empty_strided", 4 },
    { BEFORE_PATCHES, "empty", 0 },
    { BEFORE_PATCHES, "flatten/clone/empty_like/empty", 8 },
    { BEFORE_PATCHES, "floor", 4 },
    { BEFORE_PATCHES, "floor_divide/empty", 8 },
    { BEFORE_PATCHES, "index", 2 },
    { BEFORE_PATCHES, "index/nonzero", 2 },
    { BEFORE_PATCHES, "mul", 16 },
    { BEFORE_PATCHES, "ne", 0 },
    { BEFORE_PATCHES, "pad/constant_pad_nd/empty", 4 },
    { BEFORE_PATCHES, "remainder", 8 },
    { BEFORE_PATCHES, "repeat/add", 0 },
    { BEFORE_PATCHES, "repeat/arange/resize_", 0 },
    { BEFORE_PATCHES, "repeat/cat", 0 },
    { BEFORE_PATCHES, "repeat/empty", 16 },
    { BEFORE_PATCHES, "repeat_interleave/cumsum", 0 },
    { BEFORE_PATCHES, "repeat_interleave/empty", 8 },
    { BEFORE_PATCHES, "repeat_interleave/index_select", 8 },
    { BEFORE_PATCHES, "repeat_interleave/min/empty", 0 },
    { BEFORE_PATCHES, "reshape/clone/empty_like/empty", 4 },
    { BEFORE_PATCHES, "rsub", 0 },
    { BEFORE_PATCHES, "rsub/sub", 8 },
    { BEFORE_PATCHES, "stack/cat", 16 },
    { BEFORE_PATCHES, "sub", 8 },
    { BEFORE_PATCHES, "sum", 0 },
    { BEFORE_PATCHES, "sum/to/_to_copy/empty_strided", 4 },
    { BEFORE_PATCHES, "to/_to_copy/empty_strided", 8 },
    { BEFORE_PATCHES, "unique_consecutive/empty", 0 },
    { IN_TOWER, "argsort/sort", 2 },
    { IN_TOWER, "argsort/sort/arange/resize_", 2 },
    { IN_TOWER, "sub", 0 }, /* lengths of windows and pictures */
    { AFTER_TOWER, "_is_all_true/all", 0 },
    { AFTER_TOWER, "add", 4 },
    { AFTER_TOWER, "arange/resize_", 2 },
    { AFTER_TOWER, "cat", 24 }, /* three positions of 8 bytes */
    { AFTER_TOWER, "empty", 0 },
    { AFTER_TOWER, "eq", 1 },
    { AFTER_TOWER, "floor_divide/empty", 0 },
    { AFTER_TOWER, "gt", 0 },
    { AFTER_TOWER, "max/empty", 0 },
    { AFTER_TOWER, "mul", 0 },
    { AFTER_TOWER, "prod", 0 },
    { AFTER_TOWER, "stack/cat", 24 },
    { AFTER_TOWER, "sub", 0 },
    { AFTER_TOWER, "sum", 0 },
    { AFTER_TOWER, "sum/to/_to_copy/empty_strided", 8 },
    { AFTER_TOWER, "to/_to_copy/empty_strided", 0 },
    { IN_STEPS, "arange/resize_", 0 },
    { IN_STEPS, "repeat_interleave/clone/empty_like/empty", 0 },
    { BEFORE_SEARCH, "add", 8 },
    { BEFORE_SEARCH, "all", 0 },
    { BEFORE_SEARCH, "any", 0 },
    { BEFORE_SEARCH, "bitwise_not", 0 },
    { BEFORE_SEARCH, "cat", 0 },
    { BEFORE_SEARCH, "clone/empty_strided", 0 },
    { BEFORE_SEARCH, "cumsum", 8 },
    { BEFORE_SEARCH, "empty", 0 },
    { BEFORE_SEARCH, "eq", 1 },
    { BEFORE_SEARCH, "full/empty", 0 },
    { BEFORE_SEARCH, "gt", 0 },
    { BEFORE_SEARCH, "isin", 1 },
    { BEFORE_SEARCH, "lt", 1 },
    { BEFORE_SEARCH, "masked_fill/clone/empty_like/empty", 8 },
    { BEFORE_SEARCH, "mul", 8 },
    { BEFORE_SEARCH, "mul/to/_to_copy/empty_strided", 0 },
    { BEFORE_SEARCH, "ne", 1 },
    { BEFORE_SEARCH, "ones/empty", 8 },
    { BEFORE_SEARCH, "sub", 8 },
    { BEFORE_SEARCH, "sum", 0 },
    { BEFORE_SEARCH, "sum/to/_to_copy/empty_strided", 0 },
    { BEFORE_SEARCH, "to/_to_copy/empty_strided", 8 },
    { BEFORE_SEARCH, "zeros/empty", 0 },
    { IN_SEARCH, "__and__/bitwise_and", 2 },
    { IN_SEARCH, "__or__/bitwise_or", 2 },
    { IN_SEARCH, "add", 16 },
    { IN_SEARCH, "add/to/_to_copy/empty_strided", 0 },
    { IN_SEARCH, "all", 1 },
    { IN_SEARCH, "any", 2 },
    { IN_SEARCH, "arange/resize_", 4 },
    { IN_SEARCH, "bitwise_not", 2 },
    { IN_SEARCH, "cat", 48 }, /* three numbers of beams of each of four calls */
    { IN_SEARCH, "clone/empty_like/empty", 8 },
    { IN_SEARCH, "div", 8 },
    { IN_SEARCH, "div/to/_to_copy/empty_strided", 0 },
    { IN_SEARCH, "floor_divide/empty", 16 },
    { IN_SEARCH, "full/empty", 2 },
    { IN_SEARCH, "gt", 1 },
    { IN_SEARCH, "index_select/contiguous/clone/empty_like/empty", 4 },
    { IN_SEARCH, "isin", 2 },
    { IN_SEARCH, "max/empty", 0 },
    { IN_SEARCH, "min", 4 },
    { IN_SEARCH, "mul", 8 },
    { IN_SEARCH, "mul/to/_to_copy/empty_strided", 8 },
    { IN_SEARCH, "remainder", 16 },
    { IN_SEARCH, "sum", 4 },
    { IN_SEARCH, "sum/to/_to_copy/empty_strided", 16 },
    { IN_SEARCH, "take_along_dim/gather", 32 },
    { IN_SEARCH, "take_along_dim/remainder", 64 },
    { IN_SEARCH, "to/_to_copy/empty_strided", 8 },
    { IN_SEARCH, "topk", 16 },
    { IN_SEARCH, "where", 4 },
    { IN_SEARCH, "where/scalar_tensor", 0 },
};
#define N_LEFT_OUT (sizeof(left_out) / sizeof(left_out[0]))
#define SOME_NUMBERS 512
static size_t times_left_out[N_LEFT_OUT];

/* Nothing of the model comes before the next place. */
static stretch of_search(const facts *f, size_t i)
{
    bool called = false;
    for (size_t k = 0; k < i; k++)
        called = called || f->events[k].kind == '=';
    for (; i < f->n && f->events[i].kind != '='; i++) {
        if (strcmp(op_of(f, i), "linear/matmul/mm") == 0)
            return NOWHERE;
    }
    return called ? IN_SEARCH : BEFORE_SEARCH;
}

static stretch stretch_of(const facts *f, size_t i)
{
    if (f->beams != 0)
        return of_search(f, i);
    size_t pixels = op_after(f, 1, "to/_to_copy"), conv = op_after(f, 0, "conv3d");
    size_t scattered = op_after(f, 0, "masked_scatter");
    if (conv == f->n || i <= pixels)
        return NOWHERE;
    if (i <= conv)
        return i < conv ? BEFORE_PATCHES : IN_TOWER;
    size_t last = op_after(f, scattered, "max/empty");
    while (last < f->n && strcmp(op_of(f, last), "empty") != 0)
        last++;
    if (i > last)
        return IN_STEPS;
    return i > op_before(f, scattered, "linear/addmm") ? AFTER_TOWER : IN_TOWER;
}

static bool is_left_out(const facts *f, size_t i)
{
    const char *op = op_of(f, i);
    stretch at = stretch_of(f, i);
    if (at == NOWHERE || (at == IN_STEPS && strcmp(op, "arange/resize_") == 0 &&
                          strstr(next_op(f, i), "repeat_interleave") == NULL))
        return false;
    uint64_t n = at == BEFORE_PATCHES || at == IN_TOWER ? f->patches : f->batch * f->tokens;
    n = at == IN_SEARCH ? f->batch * f->beams : n;
    for (size_t k = 0; k < N_LEFT_OUT; k++) {
        uint64_t most = left_out[k].each != 0 ? left_out[k].each * n : SOME_NUMBERS;
        if (left_out[k].at != at || strcmp(left_out[k].op, op) != 0 || f->events[i].bytes > most)
            continue;
        times_left_out[k]++;
        return true;
    }
    return false;
}

/* ---- which it is ---- */

static difference name_of_fact(const facts *f, size_t i)
{
    const char *op = op_of(f, i);
    uint64_t bytes = f->events[i].bytes;
    if (is_left_out(f, i))
        return LEFT_OUT_PLACES;
    if ((bytes <= 8 && (strcmp(op, "-") == 0 || strcmp(op, "GeLUFunction") == 0)) || is_base(f, i) ||
        is_compared_number(f, i) ||
        (bytes == 8 && (strcmp(op, "eq") == 0 || strcmp(op, "isinf/eq") == 0 || ends(op, "__lshift__"))) ||
        (bytes == 8 && ends(op, "_scaled_dot_product_attention_math/mul")))
        return HOST_SCALAR;
    if (strstr(op, "mean/div_") != NULL && bytes <= 8)
        return HOST_MEAN;
    if (is_host_cast(op, bytes))
        return HOST_CAST;
    if (is_promoted(op))
        return CPU_PROMOTED;
    if (is_statistics(f, i))
        return CPU_STATISTICS;
    if (ends(op, "_convolution/mkldnn_convolution"))
        return CPU_CONVOLUTION;
    if (ends(op, "mkldnn_convolution/contiguous/clone/empty_like/empty"))
        return CPU_CONVOLVED;
    if (strcmp(op, "empty") == 0 && bytes == 8)
        return HOST_WINDOW;
    if (strcmp(op, "empty") == 0 && strcmp(next_op(f, i), "mul") == 0)
        return HOST_NORMALISER;
    if (strcmp(op, "embedding/index_select/contiguous/clone/empty_like/empty") == 0)
        return CPU_INDEX;
    if (strcmp(op, "contiguous/clone/empty_like/empty") == 0 && follows_flash(f, i) && was_masked(f, i))
        return CPU_LAYOUT;
    if (ends(op, "matmul/bmm/contiguous/clone/empty_like/empty") ||
        strcmp(op, "baddbmm/contiguous/clone/empty_like/empty") == 0)
        return CPU_GEMM_PACKING;
    bool product = ends(op, "/mm") || ends(op, "/bmm") || ends(op, "addmm");
    /* the result comes first */
    if (strcmp(op, "baddbmm") == 0 && (bytes <= 8 || strcmp(op_before_it(f, i), op) == 0))
        return CPU_GEMM_SCRATCH;
    if ((product && freed_at_once(f, i)) || (strcmp(op, "bmm") == 0 && freed_before_next(f, i)))
        return CPU_GEMM_SCRATCH;
    return ends(op, "_for_cpu/empty") ? in_flash(f, i) : in_routing(f, i);
}

static difference name_of_event(const vr_tape *t, const vr_event *e)
{
    vr_str label = t->labels[e->label];
    if (e->item == VR_ITEM_WORKSPACES)
        return e->bytes == 8519680 || e->bytes == 1048576 ? CUDA_WORKSPACE : SAME;
    if (vr_str_is(label, "random state of the attention kernel") && e->bytes <= 16)
        return CUDA_RANDOM;
    if ((vr_str_is(label, "sliding window of the cache") ||
         vr_str_is(label, "length and place in the cache")) &&
        e->bytes == 8)
        return CUDA_WINDOW;
    if (vr_str_is(label, "keys or values on their way to the host"))
        return CUDA_LEAVING;
    if (vr_str_is(label, "addresses of a batched solver"))
        return CUDA_SOLVER;
    if (vr_str_is(label, "statistics of a normalisation"))
        return CUDA_STATISTICS;
    if (vr_str_is(label, "places of image features"))
        return CUDA_SCATTERED;
    if (vr_str_is(label, "attention mask in rows of 16 bytes"))
        return CUDA_ALIGNED;
    return vr_str_is(label, "sums of the attention kernel") && e->bytes > 16 ? CUDA_SUMS : SAME;
}

#endif
