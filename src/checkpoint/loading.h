/* SPDX-License-Identifier: MIT
 * State of a checkpoint while its files are being read; private to this folder.
 *
 * The steps: listing; which files matter (kinds.c, sets.c, listing.c); config.json and its like, each index
 * and the first bytes of each weight file; the rest of their headers. Then all is read once (the formats) and
 * held against each index (index.c). */
#ifndef VR_LOADING_H
#define VR_LOADING_H

#include "checkpoint/checkpoint.h"
#include "checkpoint/kinds.h"
#include "checkpoint/view.h"
#include "checkpoint/walk.h"

/* Ceilings. A configuration has a few KB; the index of DeepSeek-V3, 90,427 tensors, has 8.9 MB. */
#define VR_MAX_CONFIG_BYTES (4 * VR_MIB) /* also of the other small ones */
#define VR_MAX_INDEX_BYTES (256 * VR_MIB)
#define VR_MAX_HEADER_BYTES UINT64_C(100000000) /* safetensors/src/tensor.rs, MAX_HEADER_SIZE */
#define VR_MAX_HEADERS_BYTES VR_GIB             /* of all files together */
#define VR_MAX_FILES 100000                     /* weight files, with those that are missing */

#define VR_SNIFF_BYTES 16
#define VR_GUESS_LEAST (64 * VR_KIB) /* first request for a weight file */

struct vr_input;

/* A format of weight files. One file in this folder and one line in formats.c each. */
struct vr_format {
    const char *name; /* as reports say it */
    /* By the first VR_SNIFF_BYTES, or all of a shorter file. */
    bool (*is)(const unsigned char *head, size_t n);
    /* Asks for what it lacks of the file's header. VRAM_OK: all is known; VRAM_MORE: something is on the list
     * of wants, or a fault waits for what is (vr_fault_waits). Called again with each step, so progress that
     * is dear is kept in in->state. */
    vram_status (*probe)(vram_checkpoint *ck, struct vr_input *in);
    /* At most *n tensors are in it; called once, after probe has returned VRAM_OK for all files. */
    vram_status (*bound)(vram_checkpoint *ck, struct vr_input *in, size_t *n);
    /* Appends the file's tensors to ck->tensors by offset, their names to ck->names, and fills
     * ck->files[file]. */
    vram_status (*read)(vram_checkpoint *ck, const struct vr_input *in, uint32_t file);
};

/* A file of the listing that may matter. */
typedef struct vr_input {
    const char *name;
    uint64_t size;
    vr_view view;
    const vr_format *format; /* by its bytes; NULL: not known yet */
    void *state;             /* of its format */
    uint64_t header_bytes;   /* of a safetensors file, without the 8 bytes of length; 0: not known yet */
    const char *header;      /* in one piece, once all are known */
    vr_kind kind;            /* by its name */
    uint32_t set;            /* number of its set, of weights */
    uint32_t group;          /* number of its group + 1; 0: in none */
    uint64_t guess;          /* bytes asked for at its head while its format is not known */
    const char *why;         /* it is left out, or NULL */
    bool weights;            /* a weight file by its name */
    bool left_out;           /* it cannot be one of those that count */
    bool counts;             /* weights of this checkpoint, now that it is certain */
} vr_input;

/* Files of one folder that are loaded together: one file, the shards of one name, or what an index names. */
typedef struct vr_set {
    vr_input *first; /* the first of its files; the index when it has none */
    vr_input *index; /* or NULL */
    uint32_t n;      /* files */
    uint32_t rank;   /* the lowest is taken */
    uint64_t bytes;
    bool taken;
    bool matches; /* the pattern that was given */
} vr_set;

/* One row of the index's weight_map. */
typedef struct vr_entry {
    const char *name; /* raw, in the index's text */
    uint32_t n;
    uint32_t shard; /* number among the names of files in the index */
} vr_entry;

typedef struct vr_path_list {
    const char **p;
    size_t n, room;
} vr_path_list;

/* Weights whose tensors share one space of names: the checkpoint, or a part of it. */
typedef struct vr_group {
    const vr_set *set;  /* the one, or the first of those, that it is made of */
    vr_input *index;    /* or NULL */
    bool unclear;       /* other sets are as good */
    bool known;         /* paths are: */
    vr_path_list paths; /* of its files */
    vr_str index_text;
    vr_entry *entries;
    size_t n_entries, entries_room;
    uint32_t *file_of_path; /* number in ck->files */
    uint64_t promised;      /* metadata.total_size */
    size_t n_tensors, first_tensor;
    vr_names names; /* of its tensors, before they got the part's prefix */
} vr_group;

typedef struct vr_loading {
    vr_input *inputs; /* sorted by name once listed */
    size_t n_inputs, inputs_room;
    vr_set *sets;
    size_t n_sets, sets_room;
    vr_group *groups;
    size_t n_groups;
    vr_input *config, *pipeline, *modules, *adapter; /* NULL: not in the listing, or of no account */
    bool listed, looked, arranged, config_read, sides_read, files_known, done;
    vram_status failed;    /* once in error, always in error */
    const char *chosen;    /* pattern of the files that are meant, or NULL */
    const char *named;     /* the file that the user named, or NULL */
    size_t by_size;        /* the n-th by size is meant; 0: no such choice */
    uint64_t request_cost; /* bytes that may be read in vain to spare a request */
    uint64_t headers_bytes;

    vram_want *wants;
    size_t n_wants, wants_room;

    vr_input **input_of_file; /* beside ck->files; NULL: missing */

    size_t tensors_room;
    uint64_t *dims; /* where the next shapes go */
    size_t dims_left;
} vr_loading;

/* For messages: 1 byte, 2 bytes. */
static inline vr_piece vr_bytes_word(uint64_t n)
{
    return T(n == 1 ? " byte" : " bytes");
}

/* ---- checkpoint.c ---- */

/* NULL: not in the listing (or of no interest). */
vr_input *vr_input_find(const vr_loading *l, const char *name);
/* Sets *known when [begin, least_end) is known, otherwise puts the first gap on the list of wants, up to
 * most_end. */
vram_status vr_want_bytes(vram_checkpoint *ck, vr_input *in, uint64_t begin, uint64_t least_end,
                          uint64_t most_end, bool *known);
/* As above for the first bytes of a weight file, with what else its format will probably want. */
vram_status vr_want_first(vram_checkpoint *ck, vr_input *in, uint64_t least, bool *known);
/* The whole of a small text file, VRAM_MORE when it has to be fetched. */
vram_status vr_whole_text(vram_checkpoint *ck, vr_input *in, vr_str *text);

/* Which fault is reported must not depend on the pieces in which bytes come: while something before this file
 * is still wanted, the faults of that come first, and one in this file waits (return VRAM_MORE). */
static inline bool vr_fault_waits(const vram_checkpoint *ck)
{
    return ck->loading->n_wants > 0;
}

/* ---- formats.c ---- */

/* As vr_format.probe, of the format that the file's bytes show; an unknown one is refused with what it is. */
vram_status vr_format_probe(vram_checkpoint *ck, vr_input *in);

/* ---- tensors.c: for all formats ---- */

/* A copy of a shape, or NULL: no memory. Cut from blocks: an allocation for each would cost more than the
 * numbers. */
uint64_t *vr_keep_dims(vram_checkpoint *ck, const uint64_t *dims, size_t n);
/* Puts ck->tensors[number] and the n - 1 after it under their names; *put is how many were, and under n when
 * the name of the next one is taken by *other already. n may be over VR_NAMES_MANY. */
void vr_put_names(vram_checkpoint *ck, uint32_t number, size_t n, size_t *put, const vr_tensor **other);
/* Sorts n tensors by where they lie, unless they are in order. */
vram_status vr_sort_tensors(vram_checkpoint *ck, vr_tensor *t, size_t n);

/* ---- config.c ---- */

/* Reads config.json as Python's json module does; fills config_text and config. */
vram_status vr_config_read(vram_checkpoint *ck);

/* ---- bare.c: a configuration without weights ---- */

/* The named file, when its name says nothing, may be one: asks for its first bytes. VRAM_MORE until they are
 * there. */
vram_status vr_bare_look(vram_checkpoint *ck);
/* Nothing but a configuration is there, or the user named it. */
bool vr_bare_is(const vram_checkpoint *ck);
/* A file beside a configuration that says how the weights are quantised. */
bool vr_bare_tells_quantised(const char *file);
/* It is read: is it one of a model? Otherwise an error that says what it is. */
vram_status vr_bare_check(vram_checkpoint *ck);

/* ---- sets.c: which files are loaded together, and which of such sets is taken ---- */

/* Sorts the weight files into sets. */
vram_status vr_sets_make(vram_checkpoint *ck);
/* There is nothing to take: the error. */
vram_status vr_no_weights(vram_checkpoint *ck);
/* Takes one, or several that are loaded together; an error when it is not clear which. */
vram_status vr_sets_take(vram_checkpoint *ck);
/* Says of each weight file that is in no group why it is left out. */
vram_status vr_sets_explain(vram_checkpoint *ck);
bool vr_set_is_adapter(const vr_set *s);
bool vr_set_is_projector(const vr_set *s); /* GGUF, by its name */

/* ---- choose.c: what the user means by a pattern ---- */

/* Marks the sets that match best; the number of them. */
size_t vr_choose(vram_checkpoint *ck);
/* Takes of those in `sets` the one that l->by_size means; all are in ck->choices, smallest first. */
vram_status vr_choose_by_size(vram_checkpoint *ck, vr_set **sets, size_t n);
/* Every set with its size, or those that match, in the error text. */
vram_status vr_choose_fail(vram_checkpoint *ck, const vr_set *const *sets, size_t n, const char *what);

/* ---- shards.c ---- */

vram_status vr_path_add(vram_checkpoint *ck, vr_path_list *list, const char *path);
/* Adds the files that the numbers of the others say that there are. */
vram_status vr_shards_missing(vram_checkpoint *ck, vr_group *g, uint32_t number);

/* ---- listing.c ---- */

/* Decides by names and sizes. */
vram_status vr_listing_arrange(vram_checkpoint *ck);
/* One of the small files is not empty and not over the limit; NULL is fine. */
vram_status vr_check_size(vram_checkpoint *ck, const vr_input *in, uint64_t limit);
/* The set is what group g has. */
vram_status vr_group_fill(vram_checkpoint *ck, uint32_t g, const vr_set *s);
/* All groups are known: fills ck->files and ck->left_out. */
vram_status vr_files_set(vram_checkpoint *ck);
/* "X: missing", for the first few and then their number. by_index: how many tensors of each file, or NULL. */
vram_status vr_warn_missing(vram_checkpoint *ck, uint32_t group, const uint32_t *by_index);

/* ---- sides.c: the small JSON files that say what the folders and files are ---- */

vram_status vr_sides_read(vram_checkpoint *ck);

/* ---- parts.c: models in folders of their own ---- */

/* Takes a set of each folder; whether the folder counts is known when model_index.json is read. */
vram_status vr_parts_take(vram_checkpoint *ck);
bool vr_parts_any(const vr_loading *l); /* is there a folder with weights? */
/* Is the pattern the word of a precision that such a folder has? It then means that one of each. */
bool vr_parts_choose(const vr_loading *l);
/* model_index.json, modules.json */
vram_status vr_parts_pipeline(vram_checkpoint *ck, vr_json root, const char *text);
vram_status vr_parts_modules(vram_checkpoint *ck, vr_json root, const char *text);
/* Puts the part's prefix before the names of tensors and sums them up. */
vram_status vr_parts_finish(vram_checkpoint *ck);

/* ---- index.c ---- */

/* Reads the index of the group, fills its paths. */
vram_status vr_index_read(vram_checkpoint *ck, vr_group *g);
/* Holds it against the headers. */
vram_status vr_index_check(vram_checkpoint *ck, uint32_t group);

/* ---- gguf_split.c ---- */

/* What the files say of their set; may find that files are missing. */
vram_status vr_gguf_check_split(vram_checkpoint *ck);

/* ---- the formats ---- */

extern const vr_format vr_format_safetensors;
extern const vr_format vr_format_gguf;
extern const vr_format vr_format_torch;

#endif
