/* SPDX-License-Identifier: MIT
 *
 * A message and what belongs to it: lines of a log without what loggers, terminals and containers put around
 * them.
 */
#ifndef VR_BLOCK_H
#define VR_BLOCK_H

#include "base/base.h"

typedef enum vr_level {
    VR_LEVEL_NONE,
    VR_LEVEL_DEBUG,
    VR_LEVEL_INFO,
    VR_LEVEL_WARNING,
    VR_LEVEL_ERROR
} vr_level;

/* Who printed a line, from what stands before it. */
typedef struct vr_origin {
    uint64_t key; /* of the process: its rank or its number; 0: not said */
    int32_t rank; /* -1: not said */
    uint8_t level;
    bool prefixed; /* something was taken off */
} vr_origin;

/* Bytes of prefixes at the start of s: times, levels, ranks, names of containers, quotes. Never more than
 * `keep`. Sets what they say. prefix.c */
size_t vr_prefix(vr_str s, size_t keep, vr_origin *origin);

#define VR_BLOCK_BYTES 4096u
#define VR_BLOCK_LINES 40u
/* More bytes of the text than this are not looked at for one block. */
#define VR_BLOCK_REACH 12288u

/* Cleans one line (without its end) into out, at most room bytes, and returns their number: no escape
 * sequences, of a line that was written over only the last state, or the one that holds `hit` (an offset in
 * raw; SIZE_MAX: none), no prefixes. A line that is a JSON text is unfolded, which may give several lines. */
size_t vr_line_clean(vr_str raw, size_t hit, char *out, size_t room, vr_origin *origin);

typedef struct vr_block {
    char s[VR_BLOCK_BYTES];
    size_t n;
    uint32_t at[VR_BLOCK_LINES + 1]; /* where lines begin in s */
    uint64_t line[VR_BLOCK_LINES + 1];
    uint32_t width[VR_BLOCK_LINES + 1]; /* of the line as it was printed */
    size_t n_lines;
    uint32_t main; /* where the line with the hit begins: what is before it may be of another message */
} vr_block;

/* Makes the block of the message that holds `hit`, an offset in text. It begins at `from`, the start of a
 * line whose number is `line`, and ends before `end`. */
void vr_block_make(vr_block *b, vr_str text, size_t from, size_t hit, size_t end, uint64_t line);
/* The line of the text that the byte `at` of the block is of. */
uint64_t vr_block_line(const vr_block *b, size_t at);

#endif
