/* SPDX-License-Identifier: MIT
 *
 * The reader's inside: a window that moves over the text, what is open in it, and what is kept of it.
 *
 * Everything is decided by places in the text, never by how it was cut when it was fed: the window is worked
 * on when it is full or the text ends, and a hit only when all that its block may reach is there.
 */
#ifndef VR_READER_H
#define VR_READER_H

#include "diagnosis/anchors.h"
#include "diagnosis/block.h"
#include "diagnosis/findings.h"
#include "diagnosis/template.h"

#define VR_SIGN_TEXT 200u
#define VR_MAX_LANES 64u  /* processes that are told apart at one time */
#define VR_MAX_OPEN 32u   /* messages that are being read at one time */
#define VR_EVENT_ROWS 12u /* texts that one message may be of */
#define VR_FACT_TEXT 40u

/* A sign that lies where it is, with its text. */
typedef struct vr_kept_sign {
    vr_sign sign;
    char text[VR_SIGN_TEXT + 1];
} vr_kept_sign;

/* The same with figures. */
typedef struct vr_kept_facts {
    vr_fact f[VR_MAX_FOUND];
    char text[VR_MAX_FOUND][VR_FACT_TEXT];
    size_t n;
} vr_kept_facts;

/* A text that a message is of. */
typedef struct vr_event_row {
    const vr_text_row *row;
    uint32_t number, alternative;
} vr_event_row;

#define VR_STEP_FACTS 8u

/* A step, with the figures that such a line has. */
typedef struct vr_kept_step {
    vr_kept_sign sign;
    vr_fact f[VR_STEP_FACTS];
    char text[VR_STEP_FACTS][VR_FACT_TEXT];
} vr_kept_step;

/* A message from its first hit on; when it was read, an event that is kept. */
typedef struct vr_event {
    struct vr_event *next; /* of unused ones */
    vr_incident incident;
    vr_kept_sign sign;
    vr_kept_facts facts;
    vr_kept_step step;
    vr_kept_sign near[VR_NEAR_SIGNS];
    vr_sign near_signs[VR_NEAR_SIGNS];
    size_t n_near, n_before;
    char block[VR_BLOCK_BYTES + 1];
    uint64_t key;
    /* while it is open */
    uint64_t from, first, hit; /* offsets: of the block, of the first hit, of the one that leads */
    uint64_t end;              /* where the block ends at the latest */
    uint64_t from_line, first_line, last_line; /* of the block's start, of the first and the last hit */
    vr_event_row rows[VR_EVENT_ROWS];
    size_t n_rows;
    bool ended; /* nothing further belongs to it */
} vr_event;

/* What one process printed: the frames of its traceback so far, its last step. */
typedef struct vr_lane {
    uint64_t key, used;                 /* used: when last, to give way to another */
    vr_kept_sign frames[VR_NEAR_SIGNS]; /* a ring */
    uint64_t n_frames;
    vr_kept_step step;
    uint64_t stepped;   /* the settling that it is from */
    uint64_t event_end; /* offset behind the last line that was of an event */
    vr_event *last;     /* its last event, while frames behind it may belong to it */
    uint64_t last_line;
} vr_lane;

/* The last of a row, with its figures. */
typedef struct vr_seen_row {
    vr_kept_sign sign;
    vr_kept_facts facts;
} vr_seen_row;

/* A hit: an anchor in the window. */
typedef struct vr_hit {
    const vr_anchor *anchor;
    size_t start, end; /* in the window */
    size_t line_from;  /* start of its line, or of what is looked at of a long one */
    size_t line_to;    /* its end */
    uint64_t line;
    vr_origin origin;
    char text[VR_SIGN_TEXT * 2]; /* its line, cleaned */
    size_t text_n;
} vr_hit;

/* A hit of a row of which only the last counts: nothing is read of it before the window moves. */
typedef struct vr_pending {
    const vr_anchor *anchor; /* NULL: none */
    size_t start, end;       /* in the window */
} vr_pending;

#define VR_MARKS 8192u

typedef struct vr_mark {
    size_t at;       /* in the window */
    uint64_t offset; /* of that byte in the file */
} vr_mark;

#define VR_WAITING_STEPS 64u
#define VR_WAITING_FRAMES 256u

struct vr_reader {
    vram_ctx *ctx;
    vr_arena *arena;
    vr_anchors *anchors;
    vr_template **templates; /* of a row, made when it is first needed */
    bool *templated;
    vr_findings out;
    char **files;
    size_t n_files, files_room;

    /* the window */
    char *text;
    size_t n;        /* bytes in it */
    size_t searched; /* of them */
    size_t spaced;   /* of them, in which blanks of browsers are blanks */
    uint64_t base;   /* bytes of the file's text before it */
    uint64_t raw;    /* offset of the file's next byte */
    vr_mark *marks;  /* which bytes of the file the window's are */
    size_t n_marks;
    size_t counted;           /* bytes whose lines are counted */
    uint64_t line;            /* number of the line at `counted` */
    size_t looked;            /* bytes of it in which those that no text has were counted ... */
    uint64_t odd;             /* ... in all */
    bool odd_now, odd_before; /* whether some are of the bytes that came last, and of those before */
    uint8_t wide;             /* UTF-16: 1 little, 2 big endian */
    uint8_t head_n;           /* of the file's first two bytes, how many came */
    char head[2];
    uint8_t escape; /* inside an escape sequence, and how far */
    unsigned escape_n;
    bool half; /* the first byte of a wide character came */
    char half_byte;

    vr_lane *lanes[VR_MAX_LANES];
    size_t n_lanes;
    vr_event *open[VR_MAX_OPEN];
    size_t n_open;
    vr_event *kept[VR_MAX_EVENTS];
    size_t n_kept;
    vr_event *unused;
    vr_seen_row **seen;  /* of a row, or NULL */
    vr_kept_step step;   /* the last of any process */
    vr_pending *pending; /* of a row */
    uint32_t *pending_rows;
    size_t n_pending;
    vr_pending steps[VR_WAITING_STEPS]; /* rings: of more that wait the first are forgotten */
    uint64_t n_steps;
    vr_pending frames[VR_WAITING_FRAMES]; /* frames, and where tracebacks begin */
    uint64_t n_frames;
    uint64_t settled; /* how often */
    uint64_t warned;  /* offset behind the last warning, 0: none; and its rank */
    uint32_t warned_rank;
    vr_hit last_line; /* the last hit whose line was looked at; where it is, and where that line ends */
    uint64_t last_line_at, last_line_end;
    uint64_t long_at;  /* a place that has no line end shortly before it, 0: none known */
    vr_block needs;    /* of the last hit whose row needs more; */
    uint64_t needs_at; /* where its line begins + 1 */
    uint64_t ticks;
    vr_block block;
    vr_found_list found;
    vr_kept_facts step_facts;
};

#define VR_WINDOW ((size_t)256 * 1024)
#define VR_AHEAD ((size_t)16 * 1024) /* behind a hit, before it is worked on */
#define VR_BACK ((size_t)16 * 1024)  /* kept before what was worked on */
#define VR_LINE_BACK 2048u

/* What a reader searches for; NULL: out of memory. One reader after the other may be given the same before
 * its first byte, in `anchors`, which is then not made again (vr_anchors_restart between them). */
vr_anchors *vr_reader_anchors(vr_arena *a);
uint64_t vr_newlines(const char *s, size_t n);
/* Works on the window up to `to` and moves it. */
vram_status vr_reader_work(vr_reader *r, size_t to);
/* reader_intake.c: takes bytes of the file; at its end what is still held back; which byte of the file stands
 * at a place of the window; the window moves. */
vram_status vr_reader_put(vr_reader *r, const char *s, size_t n);
vram_status vr_reader_put_rest(vr_reader *r);
uint64_t vr_reader_offset(const vr_reader *r, size_t at);
void vr_reader_move_marks(vr_reader *r, size_t drop);
/* reader_hits.c */
/* Reads what waits before the window moves, or the next message begins: what only the last of counts, and
 * what counts only for a message. */
vram_status vr_reader_settle(vr_reader *r);
vram_status vr_reader_settle_steps(vr_reader *r);
vram_status vr_reader_settle_frames(vr_reader *r);
vram_status vr_reader_hit(vr_reader *r, const vr_anchor *a, size_t start, size_t end);
vr_lane *vr_reader_lane(vr_reader *r, uint64_t key);
void vr_keep_sign(vr_kept_sign *to, const vr_reader *r, const vr_hit *hit, const vr_text_row *row);
/* How much of the text before the hit's line may be of its message: some lines, not before `low`, an offset
 * of the file. Returns the place in the window; *lines: how many. */
size_t vr_reader_before(const vr_reader *r, const vr_hit *hit, uint64_t low, uint64_t *lines);
void vr_copy_step(vr_kept_step *to, const vr_kept_step *from);
void vr_copy_sign(vr_kept_sign *to, const vr_kept_sign *from);
const vr_template *vr_reader_template(vr_reader *r, const vr_text_row *row, size_t number);
void vr_keep_facts(vr_kept_facts *to, const vr_block *b, const vr_found_list *found);
/* reader_events.c */
vram_status vr_reader_event(vr_reader *r, const vr_hit *hit);
/* Closes what can have nothing further: blocks that reach no further than `to`. */
vram_status vr_reader_close(vr_reader *r, uint64_t to);
/* A warning: takes a message in the same line away that it says more of. */
void vr_reader_warned(vr_reader *r, const vr_hit *hit);
/* Frames of a traceback end, another exception follows. */
void vr_reader_mark(vr_reader *r, const vr_hit *hit);
vram_status vr_reader_collect(vr_reader *r, vr_findings *out);

#endif
