/* SPDX-License-Identifier: MIT
 * Addresses of the web as text: their parts, percent signs. */
#ifndef IO_ADDRESS_H
#define IO_ADDRESS_H

#include "base/base.h"

#define IO_MOST_TEXT 4096

/* What is left of s behind its first n bytes. */
vr_str io_past(vr_str s, size_t n);
/* Up to the first of the characters in `ends`, which stays in *rest. */
vr_str io_take_until(vr_str *rest, const char *ends);

typedef struct io_address {
    vr_str origin; /* https://host:port */
    vr_str host;   /* without port */
    vr_str path;   /* without the slash at its begin, without query and fragment */
    vr_str all;    /* without the fragment */
} io_address;

/* text begins with http:// or https:// in either case. False with *why, a constant sentence: a user before
 * the host, characters that no address has, '.' or '..' as a word of the path. */
bool io_address_split(io_address *a, vr_str text, const char **why);

/* Decodes percent signs, once. False: no two digits behind one, a control character, or too long. */
bool io_decode(char *out, size_t room, vr_str s);
/* Encodes all but letters, digits and the characters in `kept`. False: too long. */
bool io_encode(char *out, size_t room, const char *text, const char *kept);

#endif
