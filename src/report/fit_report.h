/* SPDX-License-Identifier: MIT
 * The renderers of one fit, and what its text and its details share. */
#ifndef VR_FIT_REPORT_H
#define VR_FIT_REPORT_H

#include "ledger/comparison.h"
#include "report/report.h"

#define VR_FIT_INDENT 9 /* where the text beside a heading starts */

void vr_fit_text(vr_report *r, const vram_fit *f);
void vr_fit_json(vr_report *r, const vram_fit *f);

void vr_comparison_text(vr_report *r, const vram_comparison *c);
void vr_comparison_json(vr_report *r, const vram_comparison *c);

/* The parts that only -v shows: figures with bounds and formulas, the three ways of counting. */
void vr_fit_details(vr_report *r, const vram_fit *f);

/* Moments and allocators are known of this run; of others only sums are. */
bool vr_fit_rehearsed(const vram_fit *f);
/* "RTX 3060 12 GB", "24GiB GPU", "2 x 24GiB" */
const char *vr_fit_cards(vr_report *r, const vram_device *d, uint64_t count);
/* The total that CUDA gives to programs, what is free of it where that was given, what a memory fraction
 * leaves: the figure that people compare with. */
uint64_t vr_fit_room(const vram_fit *f);
/* False of a setting of an engine that does not run the model. */
bool vr_fit_setting_known(const vram_fit *f, vr_setting s);
/* Settings in words by who set them: the last lines of the report. */
void vr_fit_settings(vr_report *r, const vram_fit *f);
/* Of several GPUs, each a column. */
void vr_fit_side_by_side(vr_report *r, const vram_fit *f);
/* What lies on each GPU and what stays on the host; nothing where all is on one. */
void vr_fit_places(vr_report *r, const vram_fit *f);
/* "embeddings, layers 0-10" of a GPU, or VR_ON_HOST: also what lies on disk. */
const char *vr_fit_pieces(vr_report *r, const vram_fit *f, uint16_t where);
/* Settings that were sought, and the command line that has them. */
void vr_fit_solved(vr_report *r, const vram_fit *f);
void vr_fit_command(vr_report *r, const char *command);
void vr_fit_solver_json(vr_json_out *o, const vram_fit *f);
/* What to change and the cards that would do. */
void vr_fit_advice(vr_report *r, const vram_fit *f);

/* "exact", "simulated", ... as people read it */
const char *vr_basis_screen(uint8_t basis);
/* True for a category that the short form leaves out: nothing of it in this mode. */
bool vr_figure_absent(const vr_figure *figure);

/* A figure of a ledger as members of a JSON object; used by fit and ledger. overhead: what the runtime
 * overhead is called where it is one figure without items, or NULL. */
void vr_json_ledger(vr_json_out *o, const vr_ledger *l, const char *overhead);
void vr_json_overhead(vr_json_out *o, const vr_ledger *l, const char *overhead);
/* The least number of cards that hold it; 0: null. */
void vr_json_gpu_count(vr_json_out *o, uint64_t count, const char *note);
void vr_json_totals(vr_json_out *o, const vr_ledger *l);

/* "simulated, least certain"; extra (may be NULL) follows. */
const char *vr_ledger_note(vr_report *r, const vr_ledger *l, size_t c, const char *extra);
/* The rows of a ledger with bars (plain without a terminal) and a note on each.
 * head: stands above the notes on a terminal; may be NULL. */
void vr_ledger_rows(vr_report *r, const vr_ledger *l, const uint64_t *edges, size_t n_edges,
                    const char *const notes[VR_CATEGORY_COUNT], const char *head);

#endif
