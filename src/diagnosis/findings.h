/* SPDX-License-Identifier: MIT
 *
 * What a text holds: events, with the figures and frames that belong to them, and what the log tells on the
 * way. Made by reader.c from pieces of any size in memory that does not grow with the text.
 */
#ifndef VR_FINDINGS_H
#define VR_FINDINGS_H

#include "diagnosis/facts.h"
#include "diagnosis/texts.h"
#include "diagnosis/when.h"

/* A row that was seen, and where. */
typedef struct vr_sign {
    const vr_text_row *row;
    uint64_t line, offset; /* of its file; line 1 is the first, offset in bytes */
    uint32_t file;         /* index into vr_findings.files */
    int32_t rank;          /* of the process, from a prefix such as [rank3]:; -1: none */
    vr_fact_list facts;    /* of its template */
    vr_log_time when;      /* of its line, before what loggers put in front was taken off */
    const char *text;      /* the line, cleaned and cut to 200 bytes */
} vr_sign;

#define VR_MAX_EVENTS 64 /* kept; of more only the number is known */
#define VR_NEAR_SIGNS 48 /* kept of each event */

typedef struct vr_incident {
    vr_sign sign;
    const vr_sign
        *near; /* frames of the same traceback and rank, in the order of the text; before and after */
    size_t n_near;
    const vr_sign *step;  /* the last step before it, of the same rank if there is one; or NULL */
    size_t n_before_line; /* how many of `near` stand before the event */
    const char *block;    /* the message with what belongs to it, cleaned; at most 4 KiB */
    uint64_t repeats;     /* further events of the same row with the same figures */
} vr_incident;

typedef struct vr_findings {
    const vr_incident *events; /* in the order of the text */
    size_t n_events;
    uint64_t n_dropped;  /* events behind the first VR_MAX_EVENTS, repetitions of those included */
    const vr_sign *seen; /* INFO, PROGRAM, PLATFORM, OPTION and WARNING: the last of each row (the first of
                            WARNING), in the order of the text; without any event FRAME and STEP too */
    size_t n_seen;
    const char *const *files; /* names; "" of one without */
    size_t n_files;
    uint64_t bytes, lines; /* read in all */
    bool binary;           /* more bytes that no text has than any log */
    const char *symptom;   /* --symptom, or NULL */
} vr_findings;

/* True when a row of that id was seen (of `seen`), or stands near that event (event may be NULL). */
bool vr_seen(const vr_findings *f, const vr_incident *event, const char *row_id);
/* Figures of `seen`, the last of that kind; NULL: none. */
const vr_fact *vr_seen_fact(const vr_findings *f, vr_fact_id id);

/* ---- reading ---- */

typedef struct vr_reader vr_reader;

vram_status vr_reader_new(vr_reader **out, vram_ctx *ctx, vr_arena *a);
/* What is fed from now on is another file of that name: its lines count from 1. */
vram_status vr_reader_file(vr_reader *r, vr_str name);
vram_status vr_reader_feed(vr_reader *r, const void *bytes, size_t n);
/* Ends the text. *out lies in the arena. */
vram_status vr_reader_end(vr_reader *r, vr_findings *out);

#endif
