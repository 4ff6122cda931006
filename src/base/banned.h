/* SPDX-License-Identifier: MIT
 * Included before every file of the core by the build: what the core must not call does not compile. */
#ifndef VR_BANNED_H
#define VR_BANNED_H
#if defined(__GNUC__)
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* It has a field "time". Z_SOLO: without files, and memory only from the caller. */
#define Z_SOLO
#define ZLIB_CONST
#include <zlib.h>
#pragma GCC poison printf fprintf sprintf snprintf vsnprintf vfprintf puts putchar fopen fread fwrite fclose
#pragma GCC poison malloc calloc realloc free strdup strndup strcpy strcat strncpy strncat strtok
#pragma GCC poison strtod strtol strtoul strtoll strtoull atoi atol atof sscanf fscanf
#pragma GCC poison qsort bsearch assert abort exit setlocale getenv time clock rand srand
#endif
#endif
