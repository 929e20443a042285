/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device addresses of mappings
 *
 * A session's memory must lie at fixed addresses in the session's window. The driver takes an address only as a hint,
 * and for small pieces it may choose another (on an H200, for 6 of 64 adjacent ones). A whole TiB it places where
 * requested. So the first mapping in a TiB of addresses reserves all of it until the device closes, and mappings are
 * placed inside. Windows never cross a TiB.
 *
 * Pinned memory is mapped over such a reservation. When it is unmapped the reservation is restored, so that nothing
 * else of this process can take the addresses. Inside a reservation only memory.c's own records say which addresses are
 * taken.
 *
 * A TiB in which something else lies is not reserved: there each mapping gets a reservation of its own or is refused.
 */
#include <sys/mman.h>

#include "device/cuda/internal.h"
#include "util/error.h"

#define BLOCK DS_TIB(1)

/* Reserves exactly these addresses, or fails. */
static int va_reserve(ds_device *device, uint64_t va, uint64_t size)
{
        CUdeviceptr got = 0;
        CUresult result;

        result = CU(device, cuMemAddressReserve)(&got, size, 0, va, 0);
        if (result)
                return ds_cuda_failed(device, result, "cuMemAddressReserve");
        if (got == va)
                return 0;
        CU(device, cuMemAddressFree)(got, size);
        return -EEXIST;
}

/* 1: these addresses lie in a TiB that the device has reserved. */
static int va_in_block(ds_device *device, uint64_t va, uint64_t size)
{
        uint64_t block = va / BLOCK;

        if (block >= CUDA_BLOCKS || (va + size - 1) / BLOCK != block)
                return 0;
        if (device->blocks[block] == CUDA_BLOCK_UNKNOWN) {
                device->blocks[block] = va_reserve(device, block * BLOCK, BLOCK) ? CUDA_BLOCK_REFUSED : CUDA_BLOCK_OURS;
                if (device->blocks[block] == CUDA_BLOCK_REFUSED)
                        ds_log(DS_LOG_WARNING, "the TiB of addresses at %#llx is not free as a whole",
                                (unsigned long long)(block * BLOCK));
        }
        return device->blocks[block] == CUDA_BLOCK_OURS;
}

int cuda_va_claim(ds_device *device, uint64_t va, uint64_t size, int *ret_own)
{
        int r;

        *ret_own = !va_in_block(device, va, size);
        r = *ret_own ? va_reserve(device, va, size) : 0;
        return r < 0 ? ds_error_origin(r) : r;
}

void cuda_va_release(ds_device *device, uint64_t va, uint64_t size, int own)
{
        if (own)
                CU(device, cuMemAddressFree)(va, size);
}

/* Maps the file at `want`. MAP_POPULATE, since registering takes a seventh of the time if the pages already exist. */
static void *host_new(int fd, void *want, uint64_t size, int place)
{
        return mmap(want, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE | place, fd, 0);
}

/* Moves a mapping with its page tables to `want`. Consumes the mapping. */
static void *host_moved(void *mapped, void *want, uint64_t size, int place)
{
        /* mremap cannot refuse occupied addresses, so a reservation claims them first */
        void *p = mmap(want, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | place, -1, 0);
        int error = errno;

        if (p == want && mremap(mapped, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, want) == want)
                return want;
        if (p == want) {
                error = errno;
                if (place != MAP_FIXED) /* in a block of reserved addresses no other thread may map anything */
                        munmap(want, size);
                p = MAP_FAILED;
        }
        munmap(mapped, size);
        errno = error;
        return p;
}

int cuda_va_host_map(ds_device *device, int fd, void *mapped, uint64_t va, uint64_t size, int *ret_own)
{
        void *want = (void *)(uintptr_t)va, *p;
        int place, r;

        *ret_own = !va_in_block(device, va, size);
        place = *ret_own ? MAP_FIXED_NOREPLACE : MAP_FIXED;
        p = mapped ? host_moved(mapped, want, size, place) : host_new(fd, want, size, place);
        if (p == want)
                return 0;
        r = p == MAP_FAILED ? -errno : -EEXIST;
        if (p != MAP_FAILED)
                /* the operating system's kernel does not support MAP_FIXED_NOREPLACE and mapped elsewhere */
                munmap(p, size);
        else if (!*ret_own)
                /* mmap may have removed the reservation of these addresses and then failed: reserve them again */
                cuda_va_host_unmap(va, size, 0);
        return ds_error_origin(r);
}

void cuda_va_host_unmap(uint64_t va, uint64_t size, int own)
{
        void *host = (void *)(uintptr_t)va;

        if (own || mmap(host, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != host)
                munmap(host, size);
}

void cuda_va_free(ds_device *device)
{
        for (uint64_t i = 0; i < CUDA_BLOCKS; i++) {
                if (device->blocks[i] == CUDA_BLOCK_OURS && cuda_usable(device))
                        CU(device, cuMemAddressFree)(i * BLOCK, BLOCK);
                device->blocks[i] = CUDA_BLOCK_UNKNOWN;
        }
}
