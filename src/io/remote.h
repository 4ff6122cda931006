/* SPDX-License-Identifier: MIT
 * A checkpoint on a server: the table of its files, and the fetch that all kinds of servers share: what an
 * earlier request or the cache of headers has is taken from there, all the rest is asked for at once. */
#ifndef IO_REMOTE_H
#define IO_REMOTE_H

#include "base/json.h"
#include "io/cache.h"
#include "io/http.h"
#include "io/place.h"

#define IO_REMOTE_COST (UINT64_C(1) << 20) /* of one more round trip, for vram_checkpoint_request_cost */
#define IO_REMOTE_HEAD (UINT64_C(64) << 10)
#define IO_SIZE_UNKNOWN UINT64_MAX
#define IO_SHOWN_URL 2048

typedef struct io_remote_file {
    const char *name; /* in the checkpoint */
    const char *url;
    const char *shown;     /* url without what is secret, also its key in the cache */
    const char *version;   /* what its bytes are cached under: a commit; "": what the server says */
    uint64_t size;         /* IO_SIZE_UNKNOWN until its head has come */
    bool size_told;        /* size is the listing's word */
    bool optional, absent; /* it may be missing; it is */
    bool wanted;           /* some of it was asked for */
    char validator[160];   /* of its first answer */
    const char *head;      /* its first bytes, when they came before they were wanted */
    size_t n_head;
} io_remote_file;

/* A file as the listing of a repository has it. */
typedef struct io_listed {
    const char *name;
    uint64_t size;       /* or IO_SIZE_UNKNOWN */
    const char *version; /* what is cached of it is cached under, or "" */
} io_listed;

typedef struct io_remote {
    io_source source; /* first: the kind's functions get this */
    vr_arena arena;
    io_remote_file *files;
    size_t n_files, room;
    vr_map by_name;     /* once listed */
    const char *bearer; /* for all files, or NULL */
    const char *place;  /* what errors call the whole */
    const char *commit; /* that all files are of, or NULL */
    /* Makes the answer to a file's request, which is none that can be used, the context's error. */
    vram_status (*fail)(struct io_remote *r, const io_request *answer);
    bool offline;
    bool changed; /* that is why it failed: another try may do */
} io_remote;

vram_status io_remote_begin(io_remote *r, vram_io *io, vram_ctx *ctx, const char *place);
void io_remote_end(io_remote *r);

/* The texts are borrowed; *out may be NULL, and is good until the next call. */
vram_status io_remote_add(io_remote *r, const char *name, const char *url, uint64_t size,
                          io_remote_file **out);

/* Room for one io_listed for each element of a list that a server sent. */
vram_status io_remote_room(io_remote *r, vr_json list, io_listed **out);
/* Adds those that place means and that matter; a file's address is `prefix` and its encoded name. Reads
 * heads. */
vram_status io_remote_add_listed(io_remote *r, const io_place *place, const io_listed *list, size_t n,
                                 const char *prefix);

/* Reads the head of each file whose size is not known; the optional ones that are not there are then absent.
 */
vram_status io_remote_heads(io_remote *r);

/* All of a small file whose size is known, as its head. */
vram_status io_remote_whole(io_remote *r, io_remote_file *f);

/* The two functions of the kind. VRAM_EFORMAT: a name is there twice. */
vram_status io_remote_list(io_source *s); /* of the table as it is */
vram_status io_remote_fetch(io_source *s, const vram_want *wants, size_t n);

/* What all kinds of servers do with s->ck once it is made: names, the cost of a request, what is chosen,
 * steps. */
vram_status io_remote_read(vram_checkpoint **out, io_remote *r, const char *called, const char *quant);

/* A text that was kept whole of url, the newest; false: none. */
bool io_remote_kept(const io_remote *r, const char *url, vr_str *text);

/* Names come from servers: only those that lead down and are printable are files of a checkpoint. */
bool io_remote_name_fits(vr_str name);
/* A file that a checkpoint could be read from: weights, or a small text about them. */
bool io_remote_matters(const char *name);

#endif
