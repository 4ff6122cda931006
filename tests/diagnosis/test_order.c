/* SPDX-License-Identifier: MIT
 * Which of several messages is the failure, and which follow from it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "read.h"

#define OOM                                                                                                  \
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 96.00 MiB. GPU 0 has a total capacity "   \
    "of "                                                                                                    \
    "23.50 GiB of which 40.00 MiB is free. Of the allocated memory 22.90 GiB is allocated by PyTorch, and "  \
    "90.00 MiB is reserved by PyTorch but unallocated.\n"
#define OOM_1                                                                                                \
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 96.00 MiB. GPU 1 has a total capacity "   \
    "of "                                                                                                    \
    "23.50 GiB of which 44.00 MiB is free. Of the allocated memory 22.80 GiB is allocated by PyTorch, and "  \
    "93.00 MiB is reserved by PyTorch but unallocated.\n"
#define KILLED "Out of memory: Killed process 3131 (python) total-vm:91000000kB, anon-rss:62000000kB\n"
#define XID "NVRM: Xid (PCI:0000:41:00): 31, pid=1222, MMU Fault\n"

typedef struct expected {
    const char *text, *first; /* id of the first finding's row, or how it begins */
    size_t n;
    const char *why;
} expected;

static const expected cases[] = {
    { "[rank0]: " OOM "\n\n[rank1]: " OOM_1, "pt-", 1, "ranks of one job fail together" },
    { OOM "\n\nexitcode: -9 (pid: 12)\nSIGKILL\n", "pt-", 1,
      "what is killed after the message follows from it" },
    { OOM "epoch\nepoch\nepoch\nepoch\n" KILLED, "pt-", 2,
      "the kernel's word is about another memory, whatever was before" },
    { KILLED "\n\n" OOM, "kernel-oom", 1, "the kill came first" },
    { "2024-03-01 08:00:00 " OOM "\n\n2024-03-01 14:30:00 " OOM_1, "pt-", 2,
      "six hours apart are two failures" },
    { "2024-03-01 08:00:00 " OOM "\n\n2024-03-01 08:01:00 " OOM_1, "pt-", 1, "a minute is one" },
    { XID "\n\n" OOM, "pt-", 1, "a message with figures that agree stands by itself" },
    { XID "\n\nRuntimeError: CUDA error: out of memory\n", "xid", 1, "a bare one is the echo of the fault" },
    { XID, "xid", 1, "nothing else failed" },
    { OOM "epoch\nepoch\nepoch\nepoch\nRuntimeError: [enforce fail at alloc_cpu.cpp:114] . "
          "DefaultCPUAllocator: can't "
          "allocate memory: you tried to allocate 8192000000 bytes. Error code 12 (Cannot allocate memory)\n",
      "pt-", 2, "the computer's memory failed too" },
    { "[rank0]: " OOM "[rank0]: torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\n", "pt-",
      1, "the launcher's word follows" },
    { "out of memory, perhaps\n"
      "a\nb\nc\nd\n" OOM,
      "pt-", 1, "a word in passing hides no message" },
    { "INFO 03-01 08:00:00 loader.py:1] Capturing the model for CUDA graphs. This may lead to unexpected "
      "consequences\n",
      "step-", 1, "the text ends in the middle of a step" },
    { "E tensorflow: ran out of memory trying to allocate 2.50GiB with freed_by_count=0. The caller "
      "indicates that "
      "this is not a failure, but may mean that there could be performance gains if more memory were "
      "available.\n",
      "tf-no-failure", 1, "a warning where nothing failed" },
};

static void order(void **state)
{
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const expected *e = &cases[i];
        struct vram_diagnosis *d = diagnosis_of(*state, e->text);
        const char *id = d->n != 0 ? d->list[0].event->sign.row->id : "-";
        if (d->n != e->n || strncmp(id, e->first, strlen(e->first)) != 0)
            fail_msg("case %zu (%s): %zu findings, the first is %s", i, e->why, d->n, id);
    }
}

static bool between(const char *a, const char *b, uint64_t *seconds)
{
    return vr_seconds_between(vr_log_time_of(vr_str_of(a)), vr_log_time_of(vr_str_of(b)), seconds);
}

static void times(void **state)
{
    uint64_t s;

    (void)state;
    assert_true(between("INFO 05-01 10:20:30 x", "INFO 05-02 10:20:29 y", &s));
    assert_int_equal(s, 86399);
    assert_true(between("[   12.000] a", "[ 1012.500] b", &s));
    assert_int_equal(s, 1000);
    assert_false(between("[   12.000] a", "10:20:30 b", &s)); /* not counted from one start */
    assert_false(between("99:99:99", "10:20:30", &s));        /* no time of a day */
    assert_false(between("", "10:20:30", &s));
    assert_false(between("10:20:3", "10:20:30", &s)); /* cut */
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(order), cmocka_unit_test(times) };

    return cmocka_run_group_tests(tests, open_world, close_world);
}
