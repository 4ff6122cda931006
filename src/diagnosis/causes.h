/* SPDX-License-Identifier: MIT
 *
 * From one event to its cause: what is known of it as a set of traits, and a table of verdicts over traits.
 */
#ifndef VR_CAUSES_H
#define VR_CAUSES_H

#include "diagnosis/arithmetic.h"
#include "diagnosis/diagnosis.h"
#include "diagnosis/phases.h"

/* What can be asked of an event. */
typedef enum vr_trait {
    VR_TRAIT_NONE,
    /* the text itself */
    VR_SAYS_CAUSE,   /* its row names a cause */
    VR_SAYS_CERTAIN, /* and leaves no other reading */
    VR_IS_REFUSAL,
    VR_IS_LOOKALIKE,
    VR_IS_WARNING,
    VR_IS_CONSEQUENCE, /* only what follows from a failure is in the text */
    VR_ENDED_SILENTLY, /* a launcher saw a process end that had said nothing */
    VR_IS_STEP,        /* no failure in the text at all: it ends in the middle of a step */
    VR_IS_INFO,        /* nothing failed: figures alone; the largest of the shares that the text names: */
    VR_MOST_WEIGHTS,
    VR_MOST_KV,
    VR_MOST_ACTIVATIONS,
    VR_MOST_GRAPHS,
    VR_LIMIT_REACHED, /* and what is in use comes near it */
    VR_ROUND_LIMIT,   /* an allocator's limit is a whole number of MiB that a person would type */
    VR_IS_BARE,       /* a failure without any figure */
    VR_IS_GPU,
    VR_IS_KILLED, /* ended by signal 9, by the word of a shell or a supervisor */
    VR_KILLED_TWICE,
    VR_IS_HOST, /* the computer's memory, or shared-memory files */
    VR_IS_ON_CHIP,
    VR_IS_NONE, /* no memory at all */
    VR_IS_POOL, /* an engine's own pool */
    VR_SAYS_WEIGHTS,
    VR_SAYS_KV,
    /* the phase */
    VR_AT_NOTHING,      /* not known */
    VR_FRAME_PLACEMENT, /* the frame that says it is about spreading over cards */
    VR_FRAME_KV,        /* the frame that says it is about the KV cache */
    VR_AT_FRAME,        /* known from a frame, not only from the last step */
    VR_AT_START,
    VR_AT_LOAD,
    VR_AT_RESUME,
    VR_AT_PROFILE,
    VR_AT_KV_CACHE,
    VR_AT_COMPUTE_BUFFERS,
    VR_AT_CAPTURE,
    VR_AT_COMMUNICATOR,
    VR_AT_FORWARD,
    VR_AT_BACKWARD,
    VR_AT_OPTIMIZER,
    VR_AT_EVALUATION,
    VR_AT_SAVE,
    VR_AT_TRAINING,
    VR_AT_SERVING,
    VR_AT_DECODE_IMAGE,
    VR_AT_COMPILE,
    /* frames of a kind near it */
    VR_BY_LOGITS,
    VR_BY_ATTENTION,
    VR_BY_GATHER,
    VR_BY_GRADIENTS,
    VR_BY_GROWTH,
    VR_BY_PINNED,
    VR_BY_FIRST_CALL,
    VR_BY_HOOK, /* a hook that fetches layers for a pass */
    VR_BY_FOREACH,
    VR_BY_NCCL,
    /* the place and the settings */
    VR_ON_WSL,
    VR_ON_MAC,             /* the message has the Mac's limit on one process */
    VR_ON_LIMITED_BUFFERS, /* a back end that limits one allocation to about 4 GiB */
    VR_WITH_OFFLOAD,
    VR_WITH_FP32,
    VR_UNDER_ENGINE,    /* a serving engine runs */
    VR_UNDER_SHARDING,  /* makes flat pieces of whole models */
    VR_AFTER_VLLM_LOAD, /* vLLM had said how large the weights are, and nothing since */
    VR_BY_PYTORCH,      /* PyTorch's caching allocator printed it */
    VR_BY_GGML,
    VR_BY_CUDA,        /* a bare word of CUDA or its libraries */
    VR_OWN_BY_SIZE,    /* this process is in the list, but not by name */
    VR_SEVERAL_OTHERS, /* more than one process beside it, or other ranks of the job */
    VR_MANY_SIBLINGS,
    VR_RANKS_SHARE, /* two ranks of the job name the same card */
    /* engines' own figures */
    VR_HELD_LARGE,        /* total - free at an engine's start is more than contexts and a desktop take */
    VR_HELD_SMALL,        /* it is not */
    VR_FEW_TOKENS,        /* a prompt so short that no pass over it is large */
    VR_COPIES,            /* a pipeline over several cards keeps copies */
    VR_EMBEDDING_SIZED,   /* the request is as large as a known model's table of words */
    VR_CARD_EMPTY,        /* nvidia-smi in the same log shows less than half of the card in use */
    VR_GRAPHS_CAPTURED,   /* the message names pools of captured graphs */
    VR_OVER_WEIGHTS,      /* larger than the largest weight of the built-in models in 16 bits */
    VR_OVER_WIDE_WEIGHTS, /* ... in 32 bits */
    VR_SAYS_KILLED,       /* the message says `signal: killed` */
    VR_BLOCK_KV,          /* and that it was the buffer for the KV cache */
    VR_LARGE_PIECE,       /* as large as a weight of few models is */
    VR_BUFFER_OVER_FREE,  /* a buffer of ggml is larger than what was free before the first */
    VR_HUGE_BUFFER,       /* a buffer of ggml far larger than one pass takes */
    VR_SMALL_PIECE,       /* of 32 MiB or less */
    VR_ONE_BUFFER,        /* the text is about the largest single buffer */
    VR_BY_MLX_BUFFER,
    VR_LOGITS_SIZED,
    VR_WEIGHTS_OVER_BUDGET,
    VR_BUFFERS_OVER_BUDGET, /* weights fit a budget, and large buffers beside them do not */
    VR_CARD_TAKEN,          /* nvidia-smi in the same log shows more than half of the card in use */
    VR_CARDS_UNEVEN,        /* it shows a full card beside one with next to nothing on it */
    VR_SEVERAL_RANKS,       /* several processes of one job write into the text */
    VR_BY_BARE_CUDA,        /* "CUDA error: out of memory" and no figures */
    VR_BY_LIBRARY,          /* cuDNN, cuBLAS or cuSOLVER was refused memory or failed to start */
    VR_UNDER_PREALLOCATION, /* JAX or TensorFlow runs */
    VR_POOL_IN_PIECES,      /* the request would fit into what a pool has idle, which is 8 % of it or more */
    VR_ARENA_STEP,          /* ONNX Runtime's arena, and the request is a power of two of MiB */
    VR_RANK_ON_FIRST,       /* a rank of one machine that is not the first names card 0 */
    VR_PROGRAM_ALONE,       /* a compiler's count of temporaries exceeds the memory by itself */
    VR_SMALL_BUFFER,        /* a buffer of ggml of less than 1 GiB */
    VR_UNDER_GGML,          /* llama.cpp or what is built on it runs */
    VR_BY_MERGE,            /* an adapter is merged into the weights */
    VR_BY_FULL_STATE,       /* the whole state is gathered to be saved */
    VR_MOSTLY_PROGRAM,      /* a compiled program makes more on the way than it is given */
    VR_KV_NEGATIVE,         /* the engine's own sum leaves less than nothing for its cache */
    VR_HOST_FULL,           /* nine tenths of the computer's memory are in use */
    VR_PEAK_TWICE,          /* a half more is reserved than is live */
    VR_LATER_DEVICE,        /* the device that refused is not the first of several */
    VR_FITS_PROJECTED,      /* by the program's own sum the run fits what is free */
    /* arithmetic: VR_RULE_x holds for all values within the printed digits; last */
    VR_BY_RULE,
    VR_TRAIT_COUNT = VR_BY_RULE + VR_RULE_COUNT
} vr_trait;

#define VR_RULED(id) (VR_BY_RULE + VR_RULE_##id)

/* All that is known of one event. */
typedef struct vr_view {
    struct vram_diagnosis *d;
    vr_finding *f;
    const vr_incident *event;
    const vr_text_row *row;     /* of the event */
    const vr_text_row *telling; /* the one that names a cause: that, or of a later text about the same */
    vr_reckoning sum;
    vr_place_in_run place;
    bool has[VR_TRAIT_COUNT];
} vr_view;

/* One line of the table: the first that applies is the verdict. */
typedef struct vr_verdict {
    const char *rule;         /* short name, for tests */
    int16_t when[6];          /* traits that must hold; negative: must not; 0: end */
    uint8_t cause, certainty; /* 0: as the text's row has it; a row without is `possible` */
    const char *sub_cause;    /* or NULL */
    uint8_t memory, phase;    /* 0: as the row, or what was found, has it */
    /* One sentence each, figures in braces (causes_say.c). NULL: the row's own meaning. */
    const char *summary, *because;
} vr_verdict;

extern const vr_verdict vr_verdicts[];
extern const size_t vr_verdicts_n;

/* A request as large as the table of words of a model in use, in 2 or 4 bytes a value (causes_sizes.c). */
bool vr_embedding_sized(vr_span request);
/* A size in bytes that is exactly tokens x words of a known vocabulary x 2 or 4 bytes, and no likely table.
 */
bool vr_logits_sized(uint64_t bytes);

/* What was free on the device that refused, by ggml's own line before it loaded; NULL: not said. */
const vr_fact *vr_device_free(const vr_view *v);

void vr_view_event(struct vram_diagnosis *d, vr_finding *f, vr_view *v);
/* The last line of the table applies always. */
const vr_verdict *vr_find_verdict(const vr_view *v);
/* `text` with its figures in the diagnosis's arena; NULL: text is NULL, a figure is not known, or no memory.
 */
const char *vr_say(const vr_view *v, const char *text);
void vr_say_evidence(vr_view *v, const vr_verdict *verdict);
void vr_say_notes(vr_view *v);
void vr_set_shares(vr_view *v);
void vr_set_missing(vr_view *v);

#endif
