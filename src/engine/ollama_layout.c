/* SPDX-License-Identifier: MIT
 * Which layers Ollama gave to which GPU before it ran llama-server.
 *
 * Source: Ollama v0.3.6 to v0.12.10, llm/memory.go (EstimateGPULayers); v0.12.11 to v0.24.0, llm/server.go
 * (llamaServer.Load, buildLayout, assignLayers, findBestFit, greedyFit). */
#include "engine/ollama.h"

typedef struct laying {
    vr_ollama_layout *out;
    const vr_ollama_rules *r;
    const vr_ollama_facts *f;
    const vr_ollama_ask *q;
    const uint64_t *available;
    size_t n;
    uint64_t minimum, last; /* last: the output layer and what lies with it */
} laying;

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t layer_bytes(const laying *l, size_t i)
{
    return vr_add_sat(l->f->layers[i], l->out->graph.kv_of[i]);
}

/* ---- by an estimate ---- */

typedef struct spaces {
    size_t of[VR_MOST_GPUS], n; /* GPUs that may still have room, in their order */
} spaces;

static void drop(spaces *s, size_t at)
{
    s->n--;
    for (; at < s->n; at++)
        s->of[at] = s->of[at + 1];
}

static bool takes(const laying *l, size_t gpu, uint64_t bytes)
{
    uint64_t graph = larger(l->out->graph.partial, l->out->graph.full);
    uint64_t used = vr_add_sat(vr_add_sat(l->q->overhead, l->out->gpu_bytes[gpu]), vr_add_sat(graph, bytes));
    return l->available[gpu] > used;
}

static void give(laying *l, size_t gpu, uint64_t bytes)
{
    l->out->gpu_bytes[gpu] = vr_add_sat(l->out->gpu_bytes[gpu], bytes);
    l->out->gpu_layers[gpu]++;
    l->out->layers++;
}

/* A GPU counts that has room for graph, a spare layer and one more. */
static void open_gpus(laying *l, spaces *s)
{
    uint64_t layer = l->f->n_layers != 0 ? layer_bytes(l, 0) : 0;
    uint64_t graph = larger(l->out->graph.partial, l->out->graph.full);
    uint64_t least =
        vr_add_sat(vr_add_sat(l->q->overhead, graph), vr_add_sat(l->minimum, vr_mul_sat(2, layer)));
    for (size_t i = 0; i < l->n; i++) {
        if (l->available[i] < least)
            continue;
        s->of[s->n++] = i;
        l->out->gpu_bytes[i] = vr_add_sat(l->minimum, layer);
    }
}

/* Layers go round the GPUs; one that has no room for a layer gets none any more. */
static uint64_t give_layers(laying *l, spaces *s)
{
    uint64_t overflow = 0;
    for (size_t k = 0; k < l->f->n_layers; k++) {
        size_t i = l->r->from_last != 0 ? l->f->n_layers - 1 - k : k;
        uint64_t bytes = layer_bytes(l, i);
        bool given = false, enough = l->out->layers >= l->q->num_gpu;
        for (size_t j = s->n; j > 0 && !enough && !given; j--) {
            size_t at = i % j;
            given = takes(l, s->of[at], bytes);
            if (given)
                give(l, s->of[at], bytes);
            else
                drop(s, at);
        }
        if (!given && (enough || s->n == 0))
            overflow = vr_add_sat(overflow, bytes);
    }
    return overflow;
}

static uint64_t give_output(laying *l, const spaces *s)
{
    bool given = false;
    for (size_t j = s->n; j > 0 && l->out->layers < l->q->num_gpu && !given; j--) {
        size_t gpu = s->of[l->out->layers % j];
        given = takes(l, gpu, l->last);
        if (given)
            give(l, gpu, l->last);
    }
    return given ? 0 : l->last;
}

static void estimate(laying *l)
{
    spaces s = { .n = 0 };
    vr_ollama_graph *g = &l->out->graph;
    uint64_t overflow = 0;
    if (l->q->metal)
        g->partial = g->full;
    else if (l->n > 1)
        g->full = g->partial;
    open_gpus(l, &s);
    overflow = give_layers(l, &s);
    if (l->last > 0)
        overflow = vr_add_sat(overflow, give_output(l, &s));
    bool whole = l->out->layers > l->f->n_layers || (l->last == 0 && l->out->layers == l->f->n_layers);
    for (size_t i = 0; i < l->n; i++) {
        if (l->out->gpu_layers[i] != 0)
            l->out->gpu_bytes[i] = vr_add_sat(l->out->gpu_bytes[i], whole ? g->full : g->partial);
        l->out->on_gpus = vr_add_sat(l->out->on_gpus, l->out->gpu_bytes[i]);
    }
    l->out->total = vr_add_sat(l->out->on_gpus, overflow);
}

/* ---- by a layout ---- */

typedef struct gpu {
    size_t id;
    uint64_t room;
} gpu;

typedef struct assigned {
    uint64_t layers[VR_MOST_GPUS]; /* by place in the list of GPUs */
    uint64_t sum;
} assigned;

/* Capacities are counted in single precision. */
static uint64_t share_of(uint64_t room, float capacity)
{
    float bytes = (float)room * capacity;
    return bytes >= 1.8e19F ? UINT64_MAX : (uint64_t)bytes;
}

/* From the last layer and the last GPU on, as many as go. */
static assigned greedy(const uint64_t *layers, size_t n_layers, const gpu *gpus, size_t n, float capacity,
                       uint64_t most)
{
    assigned out = { .sum = 0 };
    size_t at = n - 1;
    uint64_t room = share_of(gpus[at].room, capacity);
    for (size_t i = n_layers; i-- > 0 && out.sum < most;) {
        while (layers[i] > room) {
            if (at == 0)
                return out;
            room = share_of(gpus[--at].room, capacity);
        }
        out.layers[at]++;
        out.sum++;
        room -= layers[i];
    }
    return out;
}

/* The smallest share of each GPU that still takes as many. */
static assigned best_fit(const uint64_t *layers, size_t n_layers, const gpu *gpus, size_t n, uint64_t asked,
                         bool force)
{
    float high = asked != UINT64_MAX && force ? 1000.0F : 1.0F, low = 0.0F;
    assigned best = greedy(layers, n_layers, gpus, n, high, asked);
    uint64_t most = best.sum;
    while (high - low > 1e-6F) {
        float mid = (low + high) / 2;
        if (mid <= low || mid >= high) /* no number lies between */
            break;
        assigned now = greedy(layers, n_layers, gpus, n, mid, asked);
        if (now.sum == most) {
            high = mid;
            best = now;
        } else {
            low = mid;
        }
    }
    return best;
}

/* Onto as few GPUs as it takes; without room for all rather without the output layer. *n_layers: those that
 * were to be assigned in the end. */
static assigned assign(const laying *l, const uint64_t *layers, size_t *n_layers, const gpu *gpus,
                       size_t last)
{
    assigned out = { .sum = 0 };
    for (int turn = 0; turn < 2; turn++) {
        uint64_t asked = l->q->num_gpu;
        if (asked != UINT64_MAX && asked > *n_layers)
            asked = *n_layers;
        for (size_t i = l->q->spread ? l->n - 1 : last; i < l->n; i++) {
            out = best_fit(layers, *n_layers, gpus, i + 1, asked, i + 1 == l->n);
            if (out.sum == *n_layers || out.sum == asked)
                break;
        }
        if (turn == 1 || out.sum == *n_layers)
            break;
        (*n_layers)--;
    }
    return out;
}

static void sort_by_room(gpu *gpus, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        gpu x = gpus[i];
        size_t k = i;
        for (; k > 0 && gpus[k - 1].room < x.room; k--)
            gpus[k] = gpus[k - 1];
        gpus[k] = x;
    }
}

static void measure_gpus(gpu *gpus, const laying *l, size_t used)
{
    uint64_t spare = l->f->n_layers != 0 ? layer_bytes(l, 0) : 0;
    uint64_t graph = larger(l->out->graph.partial, l->out->graph.full);
    for (size_t i = 0; i < l->n; i++)
        gpus[i] = (gpu){ i, vr_sub_floor(l->available[i], spare) };
    sort_by_room(gpus, l->n);
    for (size_t i = 0; i < l->n; i++) {
        uint64_t reserved = vr_add_sat(vr_add_sat(l->minimum, l->q->overhead), i < used ? graph : 0);
        gpus[i].room = vr_sub_floor(gpus[i].room, reserved);
    }
}

static size_t gpus_used(const assigned *got, size_t n)
{
    while (n > 0 && got->layers[n - 1] == 0)
        n--;
    return n;
}

/* The last of `end` layers lie on the last GPU. */
static void add_up(laying *l, const uint64_t *layers, size_t all, size_t end, const gpu *gpus,
                   const assigned *got)
{
    uint64_t graph = got->sum == all ? l->out->graph.full : l->out->graph.partial;
    l->out->layers = got->sum;
    for (size_t i = end; i < all; i++)
        l->out->total = vr_add_sat(l->out->total, layers[i]);
    for (size_t i = l->n; i-- > 0;) {
        uint64_t bytes = got->layers[i] != 0 ? graph : 0;
        for (uint64_t k = 0; k < got->layers[i] && end > 0; k++)
            bytes = vr_add_sat(bytes, layers[--end]);
        l->out->gpu_layers[gpus[i].id] = got->layers[i];
        l->out->gpu_bytes[gpus[i].id] = bytes;
        l->out->on_gpus = vr_add_sat(l->out->on_gpus, bytes);
    }
    while (end > 0)
        l->out->total = vr_add_sat(l->out->total, layers[--end]);
    l->out->total = vr_add_sat(l->out->total, l->out->on_gpus);
}

/* Graphs are set aside on as many GPUs as the layers turned out to need, until that is enough. */
static vram_status layout(laying *l, vr_arena *a)
{
    size_t all = l->f->n_layers + 1, used = 0, end = all;
    uint64_t *layers = VR_ARRAY(a, uint64_t, all);
    gpu gpus[VR_MOST_GPUS];
    assigned got = { .sum = 0 };
    if (layers == NULL)
        return VRAM_ENOMEM;
    for (size_t i = 0; i < l->f->n_layers; i++)
        layers[i] = layer_bytes(l, i);
    layers[all - 1] = l->last;
    for (size_t turn = 0; turn <= l->n; turn++) {
        end = all;
        measure_gpus(gpus, l, used);
        got = assign(l, layers, &end, gpus, used > 0 ? used - 1 : 0);
        if (gpus_used(&got, l->n) <= used)
            break;
        used = gpus_used(&got, l->n);
    }
    add_up(l, layers, all, end, gpus, &got);
    return VRAM_OK;
}

/* ---- the whole ---- */

vram_status vr_ollama_layout_of(vr_ollama_layout *out, const vr_ollama_rules *r, const vr_ollama_facts *f,
                                const vr_ollama_ask *q, const uint64_t *available, size_t n, vr_arena *a)
{
    laying l = { .out = out, .r = r, .f = f, .q = q, .available = available, .n = n };
    *out = (vr_ollama_layout){ .layers = 0 };
    l.minimum = q->metal ? VR_OLLAMA_METAL : VR_OLLAMA_MINIMUM;
    l.last = vr_add_sat(f->output, q->projector);
    VR_TRY(vr_ollama_graph_of(&out->graph, r, f, q, a));
    if (n == 0 || n > VR_MOST_GPUS)
        return VRAM_OK;
    if (r->era != VR_OLLAMA_ESTIMATE)
        return layout(&l, a);
    estimate(&l);
    return VRAM_OK;
}
