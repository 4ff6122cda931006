/* SPDX-License-Identifier: MIT
 * Facts and events made by hand, as the reader would make them of a message. */
#ifndef VR_TEST_MADE_H
#define VR_TEST_MADE_H

#include <stdlib.h>
#include <string.h>

#include "../support/hook.h"
#include "diagnosis/diagnosis.h"

/* As printed with two decimals: the true value is within half of the last digit. */
static inline vr_fact printed(vr_fact_id id, const char *text)
{
    char *unit;
    double number = strtod(text, &unit), one = 1, size;

    if (strstr(unit, "GiB") != NULL)
        one = (double)VR_GIB;
    else if (strstr(unit, "MiB") != NULL)
        one = (double)VR_MIB;
    size = (number < 0 ? -number : number) * one + 0.5;
    return (vr_fact){ .id = (uint8_t)id,
                      .negative = number < 0,
                      .value = size < 1.8e19 ? (uint64_t)size : UINT64_MAX,
                      .slack = one > 1 ? (uint64_t)(one * 0.005) : 0,
                      .line = 1,
                      .text = text };
}

typedef struct made {
    vr_fact facts[24];
    vr_fact_list list;
} made;

static inline void made_add(made *m, vr_fact_id id, const char *text)
{
    if (text == NULL)
        return;
    m->facts[m->list.n++] = printed(id, text);
    m->list.f = m->facts;
}

/* A message of PyTorch 2.x; NULL: not printed. */
typedef struct message {
    const char *request, *total, *left, *allocated, *idle, *this_process, *allowed, *pools;
    struct {
        const char *pid, *bytes;
    } others[12];
} message;

static inline made made_of(const message *p)
{
    made m = { 0 };

    made_add(&m, VR_FACT_REQUEST, p->request);
    made_add(&m, VR_FACT_TOTAL, p->total);
    made_add(&m, VR_FACT_FREE, p->left);
    for (size_t i = 0; i < 12 && p->others[i].pid != NULL; i++) {
        made_add(&m, VR_FACT_PROCESS_ID, p->others[i].pid);
        made_add(&m, VR_FACT_PROCESS, p->others[i].bytes);
    }
    made_add(&m, VR_FACT_THIS_PROCESS, p->this_process);
    made_add(&m, VR_FACT_ALLOWED, p->allowed);
    made_add(&m, VR_FACT_ALLOCATED, p->allocated);
    made_add(&m, VR_FACT_PRIVATE_POOLS, p->pools);
    made_add(&m, VR_FACT_IDLE, p->idle);
    return m;
}

#endif
