/* SPDX-License-Identifier: MIT
 * Loading of libcurl. */
#define _POSIX_C_SOURCE 200809L
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#define IO_CURL_ITSELF
#include "curl.h"

static io_curl_table table;

/* POSIX promises that a function's address fits where dlsym's does. */
static bool find(void *library, const char *name, void *function)
{
    void *symbol = dlsym(library, name);
    memcpy(function, &symbol, sizeof(symbol));
    return symbol != NULL;
}

static void load(void)
{
    static const char *const names[] = { "libcurl.so.4", "libcurl-gnutls.so.4", "libcurl.4.dylib" };
    void *library = NULL;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && library == NULL; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    table.there = library != NULL;
#define X(name) table.there = table.there && find(library, #name, &table.name);
    IO_CURL_FUNCTIONS(X)
#undef X
}

const io_curl_table *io_curl(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load);
    return &table;
}
