/* SPDX-License-Identifier: MIT
 *
 * libvram: will a model fit a GPU, where does every byte go, how will a load die, what to change.
 *
 * The library is pure: it reads no file, no clock, no environment and prints nothing. Where it needs bytes of
 * a checkpoint it says which (vram_checkpoint_wants), and the caller fetches them from wherever they lie.
 *
 * Conventions. Functions return VRAM_OK (0), a positive VRAM_MORE, or a negative error; the sentence, the
 * file and the byte offset of an error are in vram_last_error(ctx). Out parameters come first. An object
 * borrows the objects it was made from; vram_close frees everything made from a context, last made first. One
 * context belongs to one thread at a time. Byte counts are uint64_t. Strings are UTF-8. The API may change
 * before 1.0.
 */
#ifndef VRAM_H
#define VRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define VRAM_VERSION "0.1.0"

#if defined(__GNUC__)
#define VRAM_API __attribute__((visibility("default")))
#else
#define VRAM_API
#endif

/* name, value, text, exit status of the command */
#define VRAM_STATUSES(X)                                                                                     \
    X(OK, 0, "done", 0)                                                                                      \
    X(MORE, 1, "more bytes are wanted", 5)                                                                   \
    X(ENOMEM, -1, "out of host memory", 5)                                                                   \
    X(EFORMAT, -2, "the input is damaged", 3)                                                                \
    X(ELIMIT, -3, "the input is over a limit", 3)                                                            \
    X(EUNSUPPORTED, -4, "the input is not supported", 3)                                                     \
    X(ESETTING, -5, "wrong usage", 2)                                                                        \
    X(ENOTFOUND, -6, "not found", 4)                                                                         \
    X(EIO, -7, "not readable", 4)                                                                            \
    X(EINTERNAL, -8, "internal error", 5)

typedef enum vram_status {
#define X(name, value, text, exit_status) VRAM_##name = value,
    VRAM_STATUSES(X)
#undef X
} vram_status;

typedef struct vram_ctx vram_ctx;
typedef struct vram_checkpoint vram_checkpoint;
typedef struct vram_model vram_model;
typedef struct vram_workload vram_workload;
typedef struct vram_device vram_device;
typedef struct vram_fit vram_fit;
typedef struct vram_comparison vram_comparison;
typedef struct vram_scenario vram_scenario;
typedef struct vram_log vram_log;
typedef struct vram_diagnosis vram_diagnosis;

/* Allocates (ptr NULL), resizes, or frees (new_size 0) a block; old_size is what was asked for before. NULL =
 * failure. */
typedef void *(*vram_alloc_fn)(void *ud, void *ptr, size_t old_size, size_t new_size);
/* Takes n bytes of output; non-zero stops the writer, which then returns VRAM_EIO. */
typedef int (*vram_write_fn)(void *ud, const void *bytes, size_t n);

typedef struct vram_error {
    vram_status code;
    const char *text; /* one sentence, no full stop; never NULL */
    const char *file; /* the file it is about, or NULL */
    bool has_offset;
    uint64_t offset;  /* byte offset in that file */
    const char *hint; /* what to do next, or NULL */
} vram_error;

typedef struct vram_warning {
    const char *text;
    const char *file; /* or NULL */
} vram_warning;

/* ---- context ---- */

/* alloc NULL: the C library's allocator is not used by the core, so it must be given. */
VRAM_API vram_status vram_open(vram_ctx **out, vram_alloc_fn alloc, void *ud);
VRAM_API void vram_close(vram_ctx *ctx);
VRAM_API const vram_error *vram_last_error(const vram_ctx *ctx);
VRAM_API int vram_exit_status(vram_status code);
/* Makes e the last error and returns its code: for the side that fetches bytes and could not. Texts are
 * copied. */
VRAM_API vram_status vram_fail(vram_ctx *ctx, const vram_error *e);
/* Warnings of everything made so far, oldest first. */
VRAM_API size_t vram_warnings(const vram_ctx *ctx, const vram_warning **out);

/* Makes a text from an argument, a file or a name fit for a terminal, in place: control characters, line
 * separators, invisible characters, those that change the direction, and bytes that are no UTF-8 become one
 * '?' each. The texts of errors and warnings and all reports are clean already. */
VRAM_API void vram_clean(char *text);

/* ---- checkpoint: the core asks, the caller fetches ---- */

typedef enum vram_want_kind {
    /* Names and sizes of the regular files of the source, those of sub-folders with the folder's path in
     * front: "config.json", "unet/model.safetensors". */
    VRAM_WANT_LISTING,
    VRAM_WANT_RANGE /* bytes of one file */
} vram_want_kind;

/* Wants of one step can be answered in any order and in parallel. Supply at least `least` bytes from `offset`
 * (unless the file ends before), at most `most` make sense. */
typedef struct vram_want {
    vram_want_kind kind;
    const char *file; /* relative name; NULL for a listing */
    uint64_t offset, least, most;
} vram_want;

/* name: what errors and reports call the whole, e.g. the directory's path; copied. */
VRAM_API vram_status vram_checkpoint_new(vram_checkpoint **out, vram_ctx *ctx, const char *name);
/* Where its files lie: errors about one of them name it with this in front. Copied. */
VRAM_API vram_status vram_checkpoint_place(vram_checkpoint *ck, const char *directory);
/* Where it was read, in words for reports: "the hub's cache on this disk, commit 0123456". Copied. */
VRAM_API vram_status vram_checkpoint_read_from(vram_checkpoint *ck, const char *where);
/* Before the first step. Of several models that lie together, such as the quantisations of one, the one whose
 * files' names match: '*' and '?' as in a shell, letters of either case; without any of the two, a part of
 * the name. */
VRAM_API vram_status vram_checkpoint_choose(vram_checkpoint *ck, const char *pattern);
/* Before the first step, for who seeks the largest that fits: of several GGUF files or sets of such, each a
 * whole model, the n-th by size, from 1, which is the smallest; the largest where there are fewer. Of those
 * that match where a pattern was given as well. */
VRAM_API void vram_checkpoint_choose_size(vram_checkpoint *ck, size_t nth);

typedef struct vram_choice {
    const char *name; /* of the files, without what all names begin with: "Q4_K_M" */
    uint64_t bytes;   /* of all its files */
    bool taken;
} vram_choice;
/* After vram_checkpoint_choose_size, once the files are listed: what there was to choose from, smallest
 * first, the checkpoint's own; 0: nothing was, there is one model. */
VRAM_API size_t vram_checkpoint_choices(const vram_checkpoint *ck, const vram_choice **out);

/* Before the files are listed: the one of them that the user named. It is read as weights whatever its name
 * says, and of several models that lie together its own is meant. Copied. */
VRAM_API vram_status vram_checkpoint_named(vram_checkpoint *ck, const char *file);
/* Before the first step: how many bytes may well be read in vain to spare one more request. 0, as it is at
 * first, for a disk; about 1 MiB over a network. */
VRAM_API void vram_checkpoint_request_cost(vram_checkpoint *ck, uint64_t bytes);
/* Advances as far as the supplied bytes allow: VRAM_OK complete, VRAM_MORE see vram_checkpoint_wants, or an
 * error. */
VRAM_API vram_status vram_checkpoint_step(vram_checkpoint *ck);
VRAM_API size_t vram_checkpoint_wants(const vram_checkpoint *ck, const vram_want **out);
/* Names are copied. Called once per file, before vram_checkpoint_listed. */
VRAM_API vram_status vram_checkpoint_add_file(vram_checkpoint *ck, const char *file, uint64_t size);
VRAM_API vram_status vram_checkpoint_listed(vram_checkpoint *ck);
/* `bytes` are borrowed until the context is closed. */
VRAM_API vram_status vram_checkpoint_supply(vram_checkpoint *ck, const char *file, uint64_t offset,
                                            const void *bytes, size_t n);

/* False: files that the index or the numbers of the others name are not there; what is there is counted, and
 * reports say so. */
VRAM_API bool vram_checkpoint_complete(const vram_checkpoint *ck);
/* Of a complete checkpoint: the projector that llama-server loads beside a GGUF file of a repository, a name
 * of its listing and the checkpoint's own; NULL: there is none. */
VRAM_API const char *vram_checkpoint_projector(const vram_checkpoint *ck);
/* True: there is no file of weights; what the model's class declares by its configuration is all that is
 * known. */
VRAM_API bool vram_checkpoint_config_only(const vram_checkpoint *ck);

/* A model of the built-in catalogue, by its name, an alias or its repository: complete at once, a
 * configuration alone. VRAM_ENOTFOUND: there is none. */
VRAM_API vram_status vram_checkpoint_catalogue(vram_checkpoint **out, vram_ctx *ctx, const char *name);
/* Its own name there; NULL: it is not there. */
VRAM_API const char *vram_catalogue_name(const char *name);
/* A name or an alias near to a word that is none; NULL: none is near. Good until the context is closed. */
VRAM_API const char *vram_catalogue_near(vram_ctx *ctx, const char *word);

/* Of `names` the one within two changes of `word`, or with the same beginning; NULL: none is near. */
VRAM_API const char *vram_nearest(const char *word, const char *const *names, size_t n);

/* ---- model, workload, devices ---- */

VRAM_API vram_status vram_model_new(vram_model **out, const vram_checkpoint *ck);

/* One row drives the command line, JSON, completion and the manual. */
typedef enum vram_option_type {
    VRAM_OPT_FLAG, /* no value */
    VRAM_OPT_STRING,
    VRAM_OPT_COUNT,  /* 4096, 16K = 16384, 16k = 16000 */
    VRAM_OPT_BYTES,  /* 24GiB, 512MiB, 12GB, plain bytes */
    VRAM_OPT_NUMBER, /* decimal, e.g. 0.2 or 7e9 */
    VRAM_OPT_CHOICE
} vram_option_type;

typedef struct vram_option {
    const char *key;   /* as in JSON, e.g. "prefill_batch" */
    const char *flags; /* own name first, then aliases: "--context -c --max-model-len" */
    vram_option_type type;
    const char *argument; /* placeholder in help, e.g. "TOKENS"; NULL for a flag */
    const char *choices;  /* "all|last", or NULL */
    const char *fallback; /* default in words, or NULL */
    const char *help;     /* one sentence */
    const char *commands; /* "fit inspect"; NULL: not on any command line */
    uint64_t min, max;    /* of COUNT and BYTES; max 0 = none */
} vram_option;

/* Options of the workload (not of a command), of all engines; NULL behind the last. */
VRAM_API const vram_option *vram_workload_option(size_t i);

/* engine NULL: the default, "transformers", or llama.cpp once it is known that the model is a GGUF file. An
 * option that the engine lacks is VRAM_ESETTING, at the latest when the model is judged. */
VRAM_API vram_status vram_workload_new(vram_workload **out, vram_ctx *ctx, const char *engine);
/* key is that of a vram_workload_option; a value that does not parse is VRAM_ESETTING. */
VRAM_API vram_status vram_workload_set(vram_workload *w, const char *key, const char *value);

/* What is sought instead of given, the most of it that fits: "ngl" (layers on the cards), "context",
 * "sequences", "experts" (as few as can be on the CPU), "cache" (the type of keys and values), "ubatch"
 * (tokens computed at once), "split" (layers over several cards); another word is VRAM_ESETTING. So is,
 * from vram_fit_new, an engine or a model without that setting, and a fit without cards. */
VRAM_API vram_status vram_workload_solve(vram_workload *w, const char *what);

/* A smaller model of the same context that drafts tokens for the one that is judged (assisted decoding of
 * transformers), beside the setting "assistant_model", its name. */
VRAM_API vram_status vram_workload_assist(vram_workload *w, const vram_model *assistant);

/* A file that is loaded beside the model, by the key of the setting that names it: "mmproj", "model_draft",
 * "lora" (each adapter), "control_vector". Of llama.cpp; but for "mmproj", which it stands for as the model's
 * own choice, the setting has to be given too. Borrowed: it has to live as long as the workload and its fits.
 * VRAM_ESETTING: no such setting, or too many files. */
VRAM_API vram_status vram_workload_attach(vram_workload *w, const char *key, const vram_model *file);

/* "24GiB", "512 MiB", "12GB", plain bytes; G and M alone are binary. False when it does not parse. */
VRAM_API bool vram_parse_bytes(const char *text, uint64_t *out);

/* query: a table id ("rtx-3060-12gb"), a name or an unambiguous part of it, a bare size ("24GiB"), each with
 * an optional count in front ("2xh100-sxm-80gb"). free_bytes: 0 = not given. VRAM_EUNSUPPORTED: a card of
 * another maker than NVIDIA, whose memory is not modelled yet. */
VRAM_API vram_status vram_device_new(vram_device **out, vram_ctx *ctx, const char *query,
                                     uint64_t free_bytes);

/* ---- answers ---- */

typedef enum vram_verdict { VRAM_FITS, VRAM_TIGHT, VRAM_DOES_NOT_FIT, VRAM_UNKNOWN } vram_verdict;

/* devices: one or more alternatives are not meant here, but the cards of one run; n 0: which cards of the
 * table fit. */
VRAM_API vram_status vram_fit_new(vram_fit **out, const vram_model *m, const vram_workload *w,
                                  const vram_device *const *devices, size_t n);
VRAM_API vram_verdict vram_fit_verdict(const vram_fit *f);
/* Bytes, on the card that is worst off: what is available less what is counted; negative when that does not
 * fit. 0 without cards, and where nobody said how much memory the computer has. */
VRAM_API int64_t vram_fit_headroom(const vram_fit *f);
/* It fits, or where not all is counted what is counted does, on given cards; not when it is tight, nor when
 * an engine leaves a part on the CPU by itself. */
VRAM_API bool vram_fit_may(const vram_fit *f);

/* Quantisations of one model, smallest first; those that were not judged have no fit. */
typedef struct vram_quant {
    const char *name;
    uint64_t bytes; /* of the files */
    const vram_fit *fit;
} vram_quant;
/* f is the fit of the `chosen` of them: its reports tell of the others. List and names are copied, the fits
 * borrowed. VRAM_ENOMEM. */
VRAM_API vram_status vram_fit_quants(vram_fit *f, const vram_quant *list, size_t n, size_t chosen);

/* The same in every engine, side by side. w: made without an engine; what was set of it counts for the
 * engines that have it. An engine that refuses model or settings is told so, which is no error. */
VRAM_API vram_status vram_comparison_new(vram_comparison **out, const vram_model *m, const vram_workload *w,
                                         const vram_device *const *devices, size_t n);
/* The best of all: it fits as soon as it fits in one of them; unknown comes before does not fit. */
VRAM_API vram_verdict vram_comparison_verdict(const vram_comparison *c);

/* The same from bare numbers: `vram ledger`. json/n: a scenario file, or NULL and only settings. */
VRAM_API const vram_option *vram_scenario_options(size_t *n);
VRAM_API vram_status vram_scenario_new(vram_scenario **out, vram_ctx *ctx);
VRAM_API vram_status vram_scenario_set(vram_scenario *s, const char *key, const char *value);
/* Several scenarios of one JSON document are compared side by side; file: its name in errors. */
VRAM_API vram_status vram_scenario_read(vram_scenario *s, const char *file, const void *json, size_t n);
VRAM_API vram_status vram_scenario_solve(vram_scenario *s);
/* Over what is counted; the worst of all scenarios and cards. */
VRAM_API vram_verdict vram_scenario_verdict(const vram_scenario *s);

/* ---- diagnosis: what an error text says ---- */

/* A text being read: a message, a traceback, a log of any length, fed in pieces of any size. It takes
 * a few MiB until the context is closed, whatever the length. */
VRAM_API vram_status vram_log_new(vram_log **out, vram_ctx *ctx);
/* What is fed from here on is another file of that name (copied), whose lines count from 1. */
VRAM_API vram_status vram_log_file(vram_log *log, const char *name);
VRAM_API vram_status vram_log_feed(vram_log *log, const void *bytes, size_t n);
/* What people saw, in words: "fine for hours, then dies". Copied. */
VRAM_API vram_status vram_log_symptom(vram_log *log, const char *words);
/* The card that ran out, when it is known beside the text; borrowed. Without it the text's figures are all
 * that is known of it. */
VRAM_API void vram_log_card(vram_log *log, const vram_device *card);
/* Ends the text; once for each. m and w: the model that ran and how, to find the place of the failure in its
 * rehearsal; both NULL: from the text alone. */
VRAM_API vram_status vram_diagnosis_new(vram_diagnosis **out, vram_log *log, const vram_model *m,
                                        const vram_workload *w);
/* False: nothing in the text is an error that is known, nor is the symptom. */
VRAM_API bool vram_diagnosis_recognised(const vram_diagnosis *d);

/* ---- reports ---- */

typedef enum vram_format { VRAM_TEXT, VRAM_JSON } vram_format;

typedef struct vram_style {
    vram_format format;
    unsigned columns; /* width of the terminal; 0: plain, not a terminal: no bars */
    bool colour;
    int verbose;  /* 0, 1 (-v) */
    bool tensors; /* inspect: list every tensor */
} vram_style;

VRAM_API vram_status vram_fit_render(const vram_fit *f, const vram_style *style, vram_write_fn write,
                                     void *ud);
VRAM_API vram_status vram_comparison_render(const vram_comparison *c, const vram_style *style,
                                            vram_write_fn write, void *ud);
VRAM_API vram_status vram_inspect_render(const vram_model *m, const vram_style *style, vram_write_fn write,
                                         void *ud);
VRAM_API vram_status vram_scenario_render(const vram_scenario *s, const vram_style *style,
                                          vram_write_fn write, void *ud);
VRAM_API vram_status vram_diagnosis_render(const vram_diagnosis *d, const vram_style *style,
                                           vram_write_fn write, void *ud);
/* search NULL: all cards of the table; otherwise those whose id or name contains every word of it.
 * VRAM_ENOTFOUND: none, or no word. */
VRAM_API vram_status vram_gpus_render(vram_ctx *ctx, const char *search, const vram_style *style,
                                      vram_write_fn write, void *ud);

/* The built-in models, in the same way. */
VRAM_API vram_status vram_models_render(vram_ctx *ctx, const char *search, const vram_style *style,
                                        vram_write_fn write, void *ud);

#ifdef __cplusplus
}
#endif
#endif
