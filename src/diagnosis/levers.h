/* SPDX-License-Identifier: MIT
 *
 * The table data/remedies.tsv, and what a finding shows of the circumstances that its rows ask for.
 * data/README.md says what may stand in the columns.
 */
#ifndef VR_LEVERS_H
#define VR_LEVERS_H

#include "diagnosis/arithmetic.h"
#include "diagnosis/diagnosis.h"

#define VR_BIT(n) (UINT64_C(1) << (n))

#define X(id, word, meaning) VR_COST_##id,
typedef enum vr_cost { VR_COSTS(X) VR_COST_COUNT } vr_cost;
#undef X
#define X(id, word) VR_LANGUAGE_##id,
typedef enum vr_language { VR_LANGUAGES(X) VR_LANGUAGE_COUNT } vr_language;
#undef X
#define X(id, word) VR_IF_##id,
typedef enum vr_circumstance { VR_CIRCUMSTANCES(X) VR_IF_COUNT } vr_circumstance;
#undef X
extern const vr_term vr_cost_words[];

/* Sets of programs that rows name by one word. */
#define VR_HF_PROGRAMS                                                                                       \
    (VR_BIT(VR_PROGRAM_TRANSFORMERS) | VR_BIT(VR_PROGRAM_ACCELERATE) | VR_BIT(VR_PROGRAM_BITSANDBYTES))
#define VR_TORCH_PROGRAMS                                                                                    \
    (VR_HF_PROGRAMS | VR_BIT(VR_PROGRAM_PYTORCH) | VR_BIT(VR_PROGRAM_TRAINER) |                              \
     VR_BIT(VR_PROGRAM_DEEPSPEED) | VR_BIT(VR_PROGRAM_FSDP) | VR_BIT(VR_PROGRAM_MEGATRON) |                  \
     VR_BIT(VR_PROGRAM_LIGHTNING) | VR_BIT(VR_PROGRAM_DIFFUSERS))

/* A lever. Masks have a bit for each word of the cell; 0: any. */
typedef struct vr_lever_row {
    const char *id;
    const char *group; /* of the levers of one group the one of the best rank is offered */
    uint64_t programs, causes, phases, memories;
    uint64_t when;       /* circumstances that all must hold */
    uint64_t unless;     /* and of which none may */
    const char *says;    /* what the message must hold, in lower case; "#xid": begins its row's id; or NULL */
    const char *change;  /* in words */
    const char *command; /* with holes such as {length_that_fits}; without the figures it is not offered */
    uint8_t language, cost;
    const char *gain, *cost_in_words; /* or NULL */
    uint32_t rank;                    /* 1 is the best */
    const char *source;
} vr_lever_row;

extern const vr_lever_row vr_remedy_table[];
extern const size_t vr_remedy_table_n;

/* The figures of an allocator's message in bytes, each with whether it is known. */
typedef struct vr_figures {
    bool has_request, has_total, has_free, has_idle, has_reserved;
    uint64_t request, total, left, idle, reserved; /* left: free on the card */
    bool has_outside;                              /* total - free - reserved, 0 where that is negative */
    uint64_t outside;
} vr_figures;

/* What rows ask of a finding, found once. */
typedef struct vr_case {
    struct vram_diagnosis *d;
    vr_finding *f;
    vr_figures n;
    vr_reckoning sum; /* of the same figures, with what their last digits leave open */
    uint8_t
        runs; /* vr_program: what ran, where the text is of what lies below it; else the finding's program */
    uint64_t holds; /* a bit for each circumstance that is known to hold */
} vr_case;

void vr_case_of(vr_case *c, struct vram_diagnosis *d, vr_finding *f);
bool vr_holds(const vr_case *c, vr_circumstance what);
/* The message, its rows of the traceback and the line of its text hold that; lower case, letters of either
 * case. */
bool vr_case_says(const vr_case *c, const char *what);
/* A frame or step beside the event, or the event itself, whose row's id begins so. */
bool vr_case_near(const vr_case *c, const char *prefix);
bool vr_lever_applies(const vr_case *c, const vr_lever_row *row);

/* The log says that the lever with that command, its holes filled, is in force already. remedies_force.c */
bool vr_in_force(const vr_case *c, const vr_lever_row *row, const char *command);

/* A command with its holes filled, in the diagnosis' arena; NULL: a figure is not there, or memory ran out.
 */
const char *vr_filled(const vr_case *c, const char *command);

/* Holes of llama.cpp: false where the figures are not there. remedies_ggml.c */
bool vr_put_smaller_context(const vr_case *c, vr_buf *b);
bool vr_put_context_in_8_bits(const vr_case *c, vr_buf *b);
bool vr_put_fewer_layers(const vr_case *c, vr_buf *b);

/* The longest request that does fit, in whole blocks of the KV cache; false: not known, or useless. */
bool vr_length_that_fits(const vr_case *c, uint64_t *out);
/* The model's name on the hub, from --model or the log. remedies_name.c */
bool vr_case_model(const vr_case *c, vr_str *out);

/* By its name the weights of the model have more than the card has, in 16 bits. */
bool vr_half_too_large(const vr_case *c);

/* What will not help. futile.c */
void vr_judge_futile(const vr_case *c);
/* The one command that would tell. tell.c */
void vr_judge_tell(const vr_case *c);

#endif
