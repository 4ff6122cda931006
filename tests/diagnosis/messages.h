/* SPDX-License-Identifier: MIT
 * Messages of our own that several tests write. */
#ifndef VR_TEST_MESSAGES_H
#define VR_TEST_MESSAGES_H

/* A message of PyTorch 2.x on a card of 23.50 GiB. */
#define SAYS(request, left, own, live, idle)                                                                 \
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate " request                                 \
    ". GPU 0 has a total capacity of 23.50 GiB of which " left                                               \
    " is free. Including non-PyTorch memory, this process has " own                                          \
    " memory in use. Of the allocated memory " live " is allocated by PyTorch, and " idle                    \
    " is reserved by PyTorch but unallocated.\n"

#endif
