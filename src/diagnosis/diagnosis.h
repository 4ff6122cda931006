/* SPDX-License-Identifier: MIT
 *
 * What an error text says: which memory, where, why, how sure, what it does not mean, what to change.
 */
#ifndef VR_DIAGNOSIS_H
#define VR_DIAGNOSIS_H

#include "diagnosis/findings.h"

/* A reason, with the line it is read from. */
typedef struct vr_reason {
    const char *text; /* one sentence without a full stop, plain words, figures in it */
    uint64_t line;    /* 0: of no line: arithmetic, or a symptom */
    uint32_t file;
} vr_reason;

/* Something people try that cannot work here. */
typedef struct vr_futile {
    const char *what; /* as typed or said: "expandable_segments", "a smaller batch", "empty_cache" */
    const char *why;  /* in figures where there are any: "0.9 % of the card is idle" */
} vr_futile;

typedef struct vr_remedy {
    const char *id;
    const char *change;  /* in words: "load the weights in 8 bits" */
    const char *command; /* what to type, complete, in the words of the program found */
    const char *cost;    /* in words; NULL: none */
    const char *gain;    /* in words: "half of the cache"; or NULL */
    bool is_done;        /* the command is words on what to do: nothing to type */
    bool one_line;       /* the command must not be broken over lines: a shell would run two */
    bool sized;          /* needs is known, from a rehearsal */
    uint64_t needs;      /* bytes the run needs with it */
    bool fits;           /* with it, on that card; meaningful when sized */
} vr_remedy;

/* The shares of the card at the failure; 0 where not known. allocated, idle, left and outside sum to `total`.
 */
typedef struct vr_shares {
    bool known;
    uint64_t total, allocated, idle, own_outside, others, left;
    bool outside_is_split; /* own_outside and others are told apart */
    int64_t outside;       /* total - free - reserved; negative where figures contradict each other */
} vr_shares;

/* What a rehearsal of the model adds; all NULL or 0 without --model. */
typedef struct vr_spot {
    bool tried, found;
    const char *label;        /* the tensor or step, "model.layers.23.mlp.down_proj.weight" */
    uint32_t loaded_permille; /* where it died in the load; 0 elsewhere */
    uint64_t to_come;         /* bytes of weights that are not loaded yet, this tensor's included */
    uint64_t short_bytes;     /* at least */
    bool weights_alone;       /* short_bytes is of the weights alone */
    const char *matched;      /* the figures that agree, in words */
    const char *assumed;      /* what of the run was not said and makes them agree, in words; NULL: nothing */
    const char *not_found;    /* why there is no place; or NULL */
    uint64_t places;          /* how many places of the run fit the figures; 1: this one only */
    const char *expandable;   /* what expandable_segments would have changed, in words; or NULL */
    const char *expandable_label; /* the tensor at which it would die then; or NULL */
} vr_spot;

typedef struct vr_finding {
    const vr_incident *event; /* NULL: from a symptom alone */
    const vr_sign *named_by;  /* a later text of the same failure that says more of its cause; or NULL */
    uint8_t memory, phase, cause, certainty, program;
    const char
        *sub_cause;      /* "logits", "cuda_graphs", "fragmentation", ...: a word of docs/json.md; or NULL */
    const char *summary; /* one sentence, "the weights are larger than the card" */
    vr_reason *evidence;
    size_t n_evidence;
    vr_shares shares;
    bool missing_known;
    uint64_t missing_at_least; /* bytes, of `memory` */
    const char *missing_note;  /* of what, in words */
    vr_futile *futile;
    size_t n_futile;
    vr_remedy *remedies;
    size_t n_remedies;
    const char *tell; /* the one command that would tell, where the cause is not certain; or NULL */
    const char *tell_why;
    const char *notes[8]; /* what else the message does not mean */
    size_t n_notes;
    vr_spot spot;
} vr_finding;

struct vram_diagnosis {
    vr_object object;
    vram_ctx *ctx;
    vr_arena arena;
    vr_findings found;
    vr_finding *list; /* first cause first */
    size_t n;
    uint64_t n_follow;       /* events that follow from another */
    const char *model;       /* name of --model, or NULL */
    const vram_device *card; /* that ran out, where it is known beside the text; or NULL */
};

#define VR_MAX_FINDINGS 8
#define VR_MAX_EVIDENCE 8
#define VR_MAX_FUTILE 6
#define VR_MAX_REMEDIES 5

/* The vr_memory that a vr_cause is about, where the text does not say another. */
uint8_t vr_memory_of_cause(unsigned cause);

/* ---- from findings to a diagnosis, in this order ---- */

/* Which events are causes and which follow from them; makes d->list with event and program. order.c */
vram_status vr_diagnose_order(struct vram_diagnosis *d);
/* Memory, phase, cause, certainty, evidence, shares, missing. Of one finding. causes.c and what it calls */
vram_status vr_diagnose_cause(struct vram_diagnosis *d, vr_finding *f);
/* From words alone, when nothing was recognised or beside it. symptoms.c */
vram_status vr_diagnose_symptom(struct vram_diagnosis *d);
/* The place in a rehearsal of the model whose figures are those of the message. place.c */
struct vram_fit;
vram_status vr_diagnose_place(struct vram_diagnosis *d, vr_finding *f, const vram_model *m,
                              const vram_workload *w);
/* What cannot help, what to type, and the one command that would tell. remedies.c */
vram_status vr_diagnose_remedies(struct vram_diagnosis *d, vr_finding *f);

/* Appends; the texts must lie in d->arena or be constant. Full lists drop the rest. */
void vr_add_evidence(struct vram_diagnosis *d, vr_finding *f, uint64_t line, const char *text);
void vr_add_futile(struct vram_diagnosis *d, vr_finding *f, const char *what, const char *why);
void vr_add_note(vr_finding *f, const char *text);

/* What reads the log. diagnosis.c */
vr_reader *vr_log_reader(vram_log *log);

/* Facts of the event, or of the log where the event does not have it. */
const vr_fact *vr_finding_fact(const struct vram_diagnosis *d, const vr_finding *f, vr_fact_id id);

#endif
