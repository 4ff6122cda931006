/* SPDX-License-Identifier: MIT
 * `vram ledger`: the six categories from bare numbers, by formula; several scenarios and card sizes side by
 * side. */
#ifndef VR_SCENARIO_H
#define VR_SCENARIO_H

#include "base/base.h"
#include "base/json.h"
#include "engine/engine.h"
#include "ledger/fit.h"

#define VR_SCENARIOS_MAX 64
#define VR_SCENARIO_CARDS 16 /* sizes side by side */
#define VR_SCENARIO_LEVERS 7 /* rows of the table of levers */

/* Every setting: enumerator, key (JSON and vram_scenario_set; the flag is "--" with dashes for underscores)
 */
#define VR_NUMBERS(X)                                                                                        \
    X(NAME, "name")                                                                                          \
    X(PARAMS, "params")                                                                                      \
    X(MODE, "mode")                                                                                          \
    X(WEIGHT_BYTES, "weight_bytes")                                                                          \
    X(SEQUENCES, "sequences")                                                                                \
    X(CONTEXT, "context")                                                                                    \
    X(PREFILL_BATCH, "prefill_batch")                                                                        \
    X(LOGITS, "logits")                                                                                      \
    X(KV_BYTES_PER_TOKEN, "kv_bytes_per_token")                                                              \
    X(TRAINABLE, "trainable")                                                                                \
    X(OVERHEAD, "overhead")                                                                                  \
    X(LAYERS, "layers")                                                                                      \
    X(HIDDEN, "hidden")                                                                                      \
    X(VOCAB, "vocab")                                                                                        \
    X(FFN, "ffn")                                                                                            \
    X(HEADS, "heads")                                                                                        \
    X(KV_HEADS, "kv_heads")                                                                                  \
    X(HEAD_DIM, "head_dim")                                                                                  \
    X(GPU_MEMORY_GIB, "gpu_memory_gib")                                                                      \
    X(GPUS, "gpus")

typedef enum vr_number {
#define X(id, key) VR_NUM_##id,
    VR_NUMBERS(X)
#undef X
        VR_NUMBER_COUNT
} vr_number;

const char *vr_number_key(vr_number n);

/* value / scale; scale 0: not given */
typedef struct vr_ratio {
    uint64_t value, scale;
} vr_ratio;

/* What is given. A field counts when given[] of its setting is true; after solving every field that has a
 * default is given. */
typedef struct vr_numbers {
    const char *name;
    bool train, logits_all;
    uint64_t params;
    vr_ratio weight_bytes;         /* per parameter */
    vr_ratio trainable;            /* share of the parameters that is trained */
    vr_ratio overhead;             /* share of the weights' bytes */
    vr_ratio trained_weight_bytes; /* of the trained parameters; weight_bytes unless a lever kept it higher */
    uint64_t sequences, context, prefill_batch;
    uint64_t kv_bytes_per_token;
    uint64_t layers, hidden, vocab, ffn, heads, kv_heads, head_dim;
    uint64_t card_bytes[VR_SCENARIO_CARDS];
    size_t n_cards;
    uint64_t gpus;
    bool given[VR_NUMBER_COUNT];
    uint8_t set_by[VR_NUMBER_COUNT];  /* vr_set_by */
    uint64_t offset[VR_NUMBER_COUNT]; /* in the file, for errors; UINT64_MAX: not from the file */
} vr_numbers;

typedef struct vr_scenario_lever {
    const char *ids[VR_SCENARIO_LEVERS];
    size_t n_ids;
    const char *change; /* in words; of a combination: joined by ", " */
    const char *option; /* what to type here: "--weight-bytes 0.5" */
    const char *cost;   /* in words; of a combination: joined by ", " */
    unsigned rank;      /* 1 first */
    uint64_t required;
    int64_t saved;
    bool fits[VR_SCENARIO_CARDS]; /* on each card size of the scenario (all its GPUs together) */
} vr_scenario_lever;

typedef struct vr_scenario_card {
    uint64_t bytes;          /* of one card, as given */
    uint64_t count;          /* --gpus */
    uint64_t available;      /* of all of them together */
    vram_verdict verdict;    /* over what is counted */
    int64_t headroom;        /* available - required */
    uint64_t smallest_count; /* of such cards, by division; 0: not known */
    /* Smallest set of levers that fits; NULL: it fits as it is, or nothing does (see combination_note). */
    const vr_scenario_lever *combination;
    const char *combination_note; /* sentence, or NULL */
} vr_scenario_card;

/* One setting for reports: only those that have a value. */
typedef struct vr_scenario_setting {
    vr_number number;
    const char *value; /* "7000000000", "0.5", "train", "24, 80" */
    vr_set_by set_by;
} vr_scenario_setting;

typedef struct vr_scenario_result {
    vr_numbers numbers;    /* with defaults filled in */
    vr_ledger ledger;      /* category[].formula: words with the numbers put in, or why not counted */
    uint64_t logits_bytes; /* of one prefill, or of a training step; 0: not known. Counted in activations
                              where they peak */
    uint64_t layer_bytes; /* most of what one layer (inference) or all layers (training) hold; 0: not known */
    bool activations_partly;       /* activations are counted without the layers, or without the logits */
    uint64_t kv_per_token;         /* bytes of one token of one sequence; 0: not known */
    const char *least_certain_why; /* sentence for ledger.least_certain */
    const char *count_note;        /* "real sharding is never perfect ..."; NULL without a card */
    vram_verdict verdict;          /* the worst of its cards; VRAM_FITS without a card */
    vr_scenario_card cards[VR_SCENARIO_CARDS];
    size_t n_cards;
    vr_scenario_lever *levers; /* one at a time, by rank; only those that change something and save */
    size_t n_levers;
    vr_scenario_setting settings[VR_NUMBER_COUNT];
    size_t n_settings;
} vr_scenario_result;

struct vram_scenario {
    vr_object object;
    vram_ctx *ctx;
    vr_arena arena;
    vr_numbers flags; /* from vram_scenario_set; they win over the file's */
    const char *file; /* name of the file read, or NULL */
    vr_numbers *read; /* the file's scenarios */
    size_t n_read;
    vr_scenario_result *results; /* after vram_scenario_solve */
    size_t n_results;
    vram_verdict verdict;  /* the worst */
    const char *ranked_by; /* of the levers, a sentence */
};

/* What a category grows with, in words: "context x sequences". */
const char *vr_category_grows_with(vr_category c, bool train);

/* ---- between the files of this folder ---- */

/* Parses one setting into n; lists append. VRAM_ESETTING: *why is then a sentence about the value. */
vram_status vr_numbers_set(vr_numbers *n, vr_number what, vr_str value, vr_arena *a, const char **why);
/* Takes from `other` what n does not have (wins: whatever other has). */
void vr_numbers_merge(vr_numbers *n, const vr_numbers *other, bool wins);
const char *vr_numbers_value(const vr_numbers *n, vr_number what, vr_arena *a); /* NULL: out of memory */
bool vr_number_of_key(vr_str key, vr_number *out);
const char *vr_number_nearest(vr_str key); /* the known key most like it; NULL: none is near */
vr_str vr_number_flag(vr_number n);        /* "--context" */
/* Fails with the setting's name and, when it came from the file, file and offset. */
vram_status vr_number_fail(const vram_scenario *s, const vr_numbers *n, vr_number what, const char *reason);

/* x * ratio, rounded half up; saturating. */
uint64_t vr_ratio_of(uint64_t x, vr_ratio ratio);
vr_piece vr_ratio_piece(vr_ratio ratio);

/* The ledger of r->numbers, which have their defaults: fills ledger, logits_bytes, layer_bytes, kv_per_token
 * and, with words, the formulas. An overflow names the setting. */
vram_status vr_scenario_ledger(vr_scenario_result *r, vram_scenario *s, bool words);
/* Fills levers and the cards' combinations. */
vram_status vr_scenario_levers(vr_scenario_result *r, vram_scenario *s);
vram_verdict vr_scenario_judge(const vr_ledger *l, uint64_t available);

#endif
