/* SPDX-License-Identifier: MIT
 * libcurl, loaded when the first request is made: with it come thirty more libraries, and loading them takes
 * longer than most local answers (7 of 16 ms). Files that include this call its functions by their usual
 * names. */
#ifndef IO_CURL_H
#define IO_CURL_H

#include <stdbool.h>

#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>
#undef curl_easy_setopt
#undef curl_easy_getinfo
#undef curl_multi_setopt

#define IO_CURL_FUNCTIONS(X)                                                                                 \
    X(curl_easy_cleanup)                                                                                     \
    X(curl_easy_getinfo)                                                                                     \
    X(curl_easy_init)                                                                                        \
    X(curl_easy_setopt)                                                                                      \
    X(curl_easy_strerror)                                                                                    \
    X(curl_free)                                                                                             \
    X(curl_getdate)                                                                                          \
    X(curl_global_cleanup)                                                                                   \
    X(curl_global_init)                                                                                      \
    X(curl_multi_add_handle)                                                                                 \
    X(curl_multi_cleanup)                                                                                    \
    X(curl_multi_info_read)                                                                                  \
    X(curl_multi_init)                                                                                       \
    X(curl_multi_perform)                                                                                    \
    X(curl_multi_poll)                                                                                       \
    X(curl_multi_remove_handle)                                                                              \
    X(curl_multi_setopt)                                                                                     \
    X(curl_slist_append)                                                                                     \
    X(curl_slist_free_all)                                                                                   \
    X(curl_url)                                                                                              \
    X(curl_url_cleanup)                                                                                      \
    X(curl_url_get)                                                                                          \
    X(curl_url_set)

typedef struct io_curl_table {
    bool there; /* all of them were found; otherwise none may be called */
#define X(name) __typeof__(name) *name;
    IO_CURL_FUNCTIONS(X)
#undef X
} io_curl_table;

/* Loaded at the first call, by whichever thread. */
const io_curl_table *io_curl(void);

#ifndef IO_CURL_ITSELF
#define curl_easy_cleanup (io_curl()->curl_easy_cleanup)
#define curl_easy_getinfo (io_curl()->curl_easy_getinfo)
#define curl_easy_init (io_curl()->curl_easy_init)
#define curl_easy_setopt (io_curl()->curl_easy_setopt)
#define curl_easy_strerror (io_curl()->curl_easy_strerror)
#define curl_free (io_curl()->curl_free)
#define curl_getdate (io_curl()->curl_getdate)
#define curl_global_cleanup (io_curl()->curl_global_cleanup)
#define curl_global_init (io_curl()->curl_global_init)
#define curl_multi_add_handle (io_curl()->curl_multi_add_handle)
#define curl_multi_cleanup (io_curl()->curl_multi_cleanup)
#define curl_multi_info_read (io_curl()->curl_multi_info_read)
#define curl_multi_init (io_curl()->curl_multi_init)
#define curl_multi_perform (io_curl()->curl_multi_perform)
#define curl_multi_poll (io_curl()->curl_multi_poll)
#define curl_multi_remove_handle (io_curl()->curl_multi_remove_handle)
#define curl_multi_setopt (io_curl()->curl_multi_setopt)
#define curl_slist_append (io_curl()->curl_slist_append)
#define curl_slist_free_all (io_curl()->curl_slist_free_all)
#define curl_url (io_curl()->curl_url)
#define curl_url_cleanup (io_curl()->curl_url_cleanup)
#define curl_url_get (io_curl()->curl_url_get)
#define curl_url_set (io_curl()->curl_url_set)
#endif

#endif
