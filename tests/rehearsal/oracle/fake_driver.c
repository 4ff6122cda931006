/* SPDX-License-Identifier: MIT
 * The parts of the CUDA runtime and driver that PyTorch's allocator calls, over a device that only counts
 * bytes. Loaded before the real libcudart (LD_PRELOAD), so that libc10_cuda.so runs on a machine without a
 * GPU. Addresses ascend by the rule of scenarios.h; nothing lies behind them.
 *
 * Environment: ORACLE_CAPACITY, bytes that the device gives at most. */
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scenarios.h"

#define MAX_ALLOCATIONS (1 << 20)

static uint64_t next_address = ORACLE_FIRST, used;
static struct {
    uint64_t address, size;
} allocations[MAX_ALLOCATIONS];
static size_t n_allocations;
static uint64_t handles[MAX_ALLOCATIONS]; /* sizes */
static size_t n_handles = 1;

static uint64_t capacity(void)
{
    const char *text = getenv("ORACLE_CAPACITY");
    return text != NULL ? strtoull(text, NULL, 10) : UINT64_MAX;
}

int oracle_capturing; /* set by drive.cpp: streams are being captured */

static enum cudaStreamCaptureStatus capture_status(void)
{
    return oracle_capturing ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
}

static bool take(uint64_t size)
{
    if (size > capacity() || used > capacity() - size)
        return false;
    used += size;
    return true;
}

static uint64_t address_for(uint64_t size)
{
    uint64_t address = next_address;
    next_address += size + ORACLE_GAP;
    return address;
}

cudaError_t cudaMalloc(void **p, size_t size)
{
    if (n_allocations == MAX_ALLOCATIONS || !take(size))
        return cudaErrorMemoryAllocation;
    allocations[n_allocations].address = address_for(size);
    allocations[n_allocations].size = size;
    *p = (void *)(uintptr_t)allocations[n_allocations++].address;
    return cudaSuccess;
}

cudaError_t cudaFree(void *p)
{
    for (size_t i = 0; i < n_allocations; i++) {
        if (allocations[i].address == (uintptr_t)p) {
            used -= allocations[i].size;
            allocations[i] = allocations[--n_allocations];
            return cudaSuccess;
        }
    }
    fprintf(stderr, "cudaFree of %p, which is no segment\n", p);
    exit(1);
}

cudaError_t cudaMemGetInfo(size_t *available, size_t *total)
{
    *total = ORACLE_TOTAL;
    *available = capacity() > used ? (size_t)(capacity() - used) : 0;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device)
{
    (void)device;
    memset(prop, 0, sizeof(*prop));
    strcpy(prop->name, "counter");
    prop->totalGlobalMem = ORACLE_TOTAL;
    prop->major = 8;
    prop->minor = 6;
    prop->multiProcessorCount = 28;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *n)
{
    *n = 1;
    return cudaSuccess;
}

cudaError_t cudaGetDevice(int *device)
{
    *device = 0;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device)
{
    return device == 0 ? cudaSuccess : cudaErrorInvalidDevice;
}

cudaError_t cudaDriverGetVersion(int *version)
{
    *version = 13020;
    return cudaSuccess;
}

cudaError_t cudaGetLastError(void)
{
    return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize(void)
{
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    (void)stream;
    return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status)
{
    (void)stream;
    *status = capture_status();
    return cudaSuccess;
}

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
                                     unsigned long long *id, cudaGraph_t *graph,
                                     const cudaGraphNode_t **dependencies, const cudaGraphEdgeData **edges,
                                     size_t *n_dependencies)
{
    (void)stream;
    *status = capture_status();
    if (id != NULL)
        *id = 1;
    if (graph != NULL)
        *graph = NULL;
    if (dependencies != NULL)
        *dependencies = NULL;
    if (edges != NULL)
        *edges = NULL;
    if (n_dependencies != NULL)
        *n_dependencies = 0;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    *least = *greatest = 0;
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned int flags, int priority)
{
    (void)flags, (void)priority;
    *stream = NULL;
    return cudaSuccess;
}

cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode)
{
    (void)mode;
    return cudaSuccess;
}

/* ---- the driver's functions, found by name ---- */

static CUresult address_reserve(CUdeviceptr *p, size_t size, size_t alignment, CUdeviceptr at,
                                unsigned long long flags)
{
    (void)alignment, (void)at, (void)flags;
    *p = address_for(size);
    return CUDA_SUCCESS;
}

static CUresult mem_create(CUmemGenericAllocationHandle *handle, size_t size, const CUmemAllocationProp *prop,
                           unsigned long long flags)
{
    (void)prop, (void)flags;
    if (n_handles == MAX_ALLOCATIONS || !take(size))
        return CUDA_ERROR_OUT_OF_MEMORY;
    handles[n_handles] = size;
    *handle = n_handles++;
    return CUDA_SUCCESS;
}

static CUresult mem_release(CUmemGenericAllocationHandle handle)
{
    used -= handles[handle];
    handles[handle] = 0;
    return CUDA_SUCCESS;
}

static CUresult granularity(size_t *size, const CUmemAllocationProp *prop,
                            CUmemAllocationGranularity_flags option)
{
    (void)prop, (void)option;
    *size = 2 * ORACLE_MIB;
    return CUDA_SUCCESS;
}

static CUresult attribute(int *value, CUdevice_attribute which, CUdevice device)
{
    (void)which, (void)device;
    *value = 0;
    return CUDA_SUCCESS;
}

static CUresult error_string(CUresult error, const char **text)
{
    (void)error;
    *text = "an error of the counting driver";
    return CUDA_SUCCESS;
}

static CUresult fine(void)
{
    return CUDA_SUCCESS;
}

static void *entry(const char *name)
{
    static const struct {
        const char *name;
        void *function;
    } table[] = {
        { "cuMemAddressReserve", (void *)address_reserve },
        { "cuMemCreate", (void *)mem_create },
        { "cuMemRelease", (void *)mem_release },
        { "cuMemGetAllocationGranularity", (void *)granularity },
        { "cuDeviceGetAttribute", (void *)attribute },
        { "cuGetErrorString", (void *)error_string },
    };
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        if (strcmp(table[i].name, name) == 0)
            return table[i].function;
    }
    return (void *)fine; /* cuMemMap, cuMemUnmap, cuMemSetAccess, cuMemAddressFree and what is not reached */
}

cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **function, unsigned int version,
                                             unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *status)
{
    (void)version, (void)flags;
    *function = entry(name);
    if (status != NULL)
        *status = cudaDriverEntryPointSuccess;
    return cudaSuccess;
}
