/* SPDX-License-Identifier: Apache-2.0 */
/* facts: device memory by the block, pinned host memory, copies */
#include "facts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define VMM_BASE UINT64_C(0x300000000000)
#define VMM_BIG UINT64_C(0x301000000000)
#define VMM_WIDE UINT64_C(0x310000000000)
#define HOST_BASE UINT64_C(0x320000000000)
#define HOST_RESERVED UINT64_C(0x330000000000)
#define SLAB MIB(64)
#define N_SLABS 64

static CUmemAllocationProp properties(void)
{
        CUmemAllocationProp p = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = gpu.device}};

        return p;
}

CUresult vmm_create(CUmemGenericAllocationHandle *handle, size_t size)
{
        CUmemAllocationProp p = properties();

        return cu.cuMemCreate(handle, size, &p, 0);
}

CUresult vmm_access(CUdeviceptr at, size_t size)
{
        CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = gpu.device},
                .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

        return cu.cuMemSetAccess(at, size, &access, 1);
}

/* --- virtual memory management ------------------------------------------------------------------------------------ */
static struct {
        struct series create, export, import, release, map, access, unmap;
} vmm;

/* measures one block from creation to release, at an address that is already reserved */
static bool vmm_cycle(CUdeviceptr at, size_t size)
{
        CUmemGenericAllocationHandle made, taken;
        bool good;
        int fd = -1;

        if (!SAMPLE(&vmm.create, vmm_create(&made, size)))
                return false;
        if (!SAMPLE(&vmm.export,
                    cu.cuMemExportToShareableHandle(&fd, made, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0)))
                return false;
        if (!SAMPLE(&vmm.import, cu.cuMemImportFromShareableHandle(
                                         &taken, (void *)(uintptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)))
                return false;
        good = SAMPLE(&vmm.map, cu.cuMemMap(at, size, 0, taken, 0)) && SAMPLE(&vmm.access, vmm_access(at, size));
        if (good)
                good = SAMPLE(&vmm.unmap, cu.cuMemUnmap(at, size));
        SAMPLE(&vmm.release, cu.cuMemRelease(taken));
        close(fd);
        SAMPLE(&vmm.release, cu.cuMemRelease(made));
        return good;
}

static void vmm_say(const char *what)
{
        fact("%s:", what);
        series_fact(&vmm.create, "  cuMemCreate");
        series_fact(&vmm.export, "  export");
        series_fact(&vmm.import, "  import");
        series_fact(&vmm.map, "  cuMemMap");
        series_fact(&vmm.access, "  cuMemSetAccess");
        series_fact(&vmm.unmap, "  cuMemUnmap");
        series_fact(&vmm.release, "  cuMemRelease (one of two is the last of the memory)");
}

static CUresult vmm_cycles(CUdeviceptr at, size_t size, unsigned int n)
{
        for (unsigned int i = 0; i < n; i++)
                if (!vmm_cycle(at, size))
                        return CUDA_ERROR_UNKNOWN;
        return CUDA_SUCCESS;
}

static void vmm_reserve(void)
{
        static struct series reserve, release;
        unsigned int as_asked = 0;
        CUdeviceptr got[N_SLABS] = {0};

        for (unsigned int i = 0; i < N_SLABS; i++) {
                CUdeviceptr wish = VMM_BASE + i * SLAB;

                if (SAMPLE(&reserve, cu.cuMemAddressReserve(&got[i], SLAB, 0, wish, 0)))
                        as_asked += got[i] == wish;
        }
        fact("%u of %u reservations of 64 MiB lie where asked", as_asked, N_SLABS);
        series_fact(&reserve, "cuMemAddressReserve 64 MiB");
        for (unsigned int i = 1; i < N_SLABS; i++)
                if (got[i])
                        SAMPLE(&release, cu.cuMemAddressFree(got[i], SLAB));
        series_fact(&release, "cuMemAddressFree 64 MiB");
        /* the first reservation is not released */
}

static unsigned int vmm_dirty(bool write, const char *what)
{
        static unsigned int words[SLAB / 4];
        CUmemGenericAllocationHandle handles[32];
        unsigned int not_zero = 0, n = 0;

        while (n < 32 && TRY(vmm_create(&handles[n], SLAB)))
                n++;
        for (unsigned int i = 0; i < n; i++) {
                size_t dirty = 0;

                if (!TRY(cu.cuMemMap(VMM_BASE, SLAB, 0, handles[i], 0)) || !TRY(vmm_access(VMM_BASE, SLAB)))
                        break;
                if (write) {
                        TRY(cu.cuMemsetD8Async(VMM_BASE, 0xa5, SLAB, busy.ls.high));
                        TRY(cu.cuStreamSynchronize(busy.ls.high));
                } else if (i < 8 && TRY(cu.cuMemcpyDtoH(words, VMM_BASE, SLAB))) {
                        for (size_t w = 0; w < SLAB / 4; w++)
                                dirty += words[w] != 0;
                        not_zero += dirty != 0;
                }
                TRY(cu.cuMemUnmap(VMM_BASE, SLAB));
        }
        for (unsigned int i = 0; i < n; i++)
                TRY(cu.cuMemRelease(handles[i]));
        fact("%s: %u slabs, of 8 read %u were not all zero", what, n, not_zero);
        return not_zero;
}

static double memset_us(CUstream stream)
{
        double t = now_us();

        TRY(cu.cuMemsetD8Async(VMM_BASE, 0, SLAB, stream));
        TRY(cu.cuStreamSynchronize(stream));
        return now_us() - t;
}

static void vmm_memset(void)
{
        CUmemGenericAllocationHandle handle;
        static struct series idle, call;
        struct green all, most;
        double t, us;

        if (!TRY(vmm_create(&handle, SLAB)) || !TRY(cu.cuMemMap(VMM_BASE, SLAB, 0, handle, 0)) ||
                !TRY(vmm_access(VMM_BASE, SLAB)) || !green_make(&all, 0, gpu.n_groups) ||
                !green_make(&most, 0, gpu.n_groups * 7 / 8))
                return;
        for (int i = 0; i < 10; i++) {
                us = memset_us(all.high);
                if (i > 0)
                        series_add(&idle, us);
        }
        series_fact(&idle, "memset of 64 MiB, idle GPU, call to done");
        for (int i = 0; i < 3; i++) {
                TRY(launch_spin(most.low, 2 * most.sms, 1024, BUSY_NS));
                usleep(2000);
                t = now_us();
                TRY(cu.cuMemsetD8Async(VMM_BASE, 0, SLAB, all.high));
                series_add(&call, now_us() - t);
                TRY(cu.cuStreamSynchronize(all.high));
                us = now_us() - t;
                t = now_us();
                TRY(cu.cuStreamSynchronize(most.low));
                fact("memset of 64 MiB on all TPCs at high priority beside BE on 7/8: %.1f us, BE ran on for %.0f us",
                        us, now_us() - t);
        }
        series_fact(&call, "the call of it");
        TRY(cu.cuMemUnmap(VMM_BASE, SLAB));
        TRY(cu.cuMemRelease(handle));
}

void section_vmm(void)
{
        CUmemAllocationProp p;
        size_t least = 0, best = 0;
        CUdeviceptr got = 0;

        if (!gpu_open())
                return;
        p = properties();
        TRY(cu.cuMemGetAllocationGranularity(&least, &p, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
        TRY(cu.cuMemGetAllocationGranularity(&best, &p, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
        fact("granularity: least %zu, recommended %zu", least, best);
        vmm_reserve();
        TRY(cu.cuMemAddressReserve(&got, GIB(1), 0, VMM_BIG, 0));
        fact("1 GiB reserved at %#llx", got);
        vmm_cycles(VMM_BASE, SLAB, 32);
        vmm_say("64 MiB, idle");
        vmm_cycles(VMM_BIG, GIB(1), 5);
        vmm_say("1 GiB, idle");
        got = 0;
        ONCE("reserve 4 TiB", cu.cuMemAddressReserve(&got, GIB(4096), 0, VMM_WIDE, 0));
        fact("it lies at %#llx", got);
        if (got) {
                vmm_cycles(got + GIB(1000), SLAB, 16);
                vmm_say("64 MiB inside the 4 TiB, idle");
                ONCE("free the 4 TiB", cu.cuMemAddressFree(got, GIB(4096)));
        }
        if (!busy_open())
                return;
        BUSY("8 cycles of 64 MiB", vmm_cycles(VMM_BASE, SLAB, 8));
        vmm_say("64 MiB, busy");
        BUSY("2 cycles of 1 GiB", vmm_cycles(VMM_BIG, GIB(1), 2));
        vmm_say("1 GiB, busy");
        got = 0;
        BUSY("reserve 64 MiB", cu.cuMemAddressReserve(&got, SLAB, 0, VMM_BASE + SLAB, 0));
        if (got)
                BUSY("free the reservation", cu.cuMemAddressFree(got, SLAB));
        vmm_dirty(false, "first slabs");
        vmm_dirty(true, "written");
        vmm_dirty(false, "made again after that");
        vmm_memset();
}

/* --- pinned host memory ------------------------------------------------------------------------------------------- */
static void *host_map(uint64_t at, size_t size, unsigned int memfd_flags, int map_flags)
{
        int fd = memfd_create("facts", MFD_CLOEXEC | memfd_flags);
        void *p = MAP_FAILED;

        if (fd >= 0 && ftruncate(fd, (off_t)size) == 0)
                p = mmap((void *)(uintptr_t)at, size, PROT_READ | PROT_WRITE, MAP_SHARED | map_flags, fd, 0);
        if (p == MAP_FAILED)
                fact("memfd of %zu KiB with flags %#x, %#x: %s", size >> 10, memfd_flags, (unsigned int)map_flags,
                        strerror(errno));
        if (fd >= 0)
                close(fd);
        return p == MAP_FAILED ? NULL : p;
}

#define REGISTER (CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP)

static void pinned_once(size_t size, const char *kind, unsigned int memfd_flags, int map_flags, bool beside_be)
{
        void *p = host_map(HOST_BASE, size, memfd_flags, MAP_FIXED_NOREPLACE | map_flags);
        char what[128];
        CUdeviceptr d = 0;
        CUresult result;

        if (!p)
                return;
        snprintf(what, sizeof(what), "cuMemHostRegister %zu KiB%s", size >> 10, kind);
        result = beside_be ? BUSY(what, cu.cuMemHostRegister(p, size, REGISTER))
                           : ONCE(what, cu.cuMemHostRegister(p, size, REGISTER));
        if (result == CUDA_SUCCESS) {
                TRY(cu.cuMemHostGetDevicePointer(&d, p, 0));
                if (d != (CUdeviceptr)(uintptr_t)p)
                        fact("device pointer %#llx is not the host's %p", d, p);
                snprintf(what, sizeof(what), "cuMemHostUnregister %zu KiB%s", size >> 10, kind);
                if (beside_be)
                        BUSY(what, cu.cuMemHostUnregister(p));
                else
                        ONCE(what, cu.cuMemHostUnregister(p));
        }
        munmap(p, size);
}

static void pinned_reserved(void)
{
        CUdeviceptr got = 0, d = 0;
        CUresult result;
        void *p;

        result = cu.cuMemAddressReserve(&got, SLAB, 0, HOST_RESERVED, 0);
        fact("reserve for host memory: result %d at %#llx", (int)result, got);
        if (result != CUDA_SUCCESS)
                return;
        p = host_map(got, MIB(16), 0, MAP_FIXED_NOREPLACE);
        fact("mmap without replacing inside the reservation: %s", p ? "works" : "refused");
        if (!p)
                p = host_map(got, MIB(16), 0, MAP_FIXED);
        if (!p)
                return;
        result = ONCE("cuMemHostRegister 16 MiB inside a reservation", cu.cuMemHostRegister(p, MIB(16), REGISTER));
        if (result == CUDA_SUCCESS) {
                TRY(cu.cuMemHostGetDevicePointer(&d, p, 0));
                fact("device pointer %#llx, host %p", d, p);
                TRY(cu.cuMemsetD8Async(d, 7, MIB(16), NULL));
                TRY(cu.cuCtxSynchronize());
                fact("a memset by the GPU arrives: %d", ((volatile char *)p)[MIB(16) - 1]);
                TRY(cu.cuMemHostUnregister(p));
        }
        munmap(p, MIB(16));
        ONCE("free that reservation", cu.cuMemAddressFree(got, SLAB));
}

void section_pinned(void)
{
        static const size_t sizes[] = {64u << 10, MIB(1), MIB(16), MIB(64)};

        if (!gpu_open())
                return;
        for (int repeat = 0; repeat < 2; repeat++) {
                for (int i = 0; i < 4; i++)
                        pinned_once(sizes[i], "", 0, 0, false);
                pinned_once(MIB(64), " populated", 0, MAP_POPULATE, false);
        }
        pinned_once(MIB(64), " of huge pages", MFD_HUGETLB, 0, false);
        pinned_reserved();
        if (!busy_open())
                return;
        for (int i = 0; i < 4; i++)
                pinned_once(sizes[i], "", 0, 0, true);
        pinned_once(MIB(64), " populated", 0, MAP_POPULATE, true);
        pinned_once(MIB(64), " populated", 0, MAP_POPULATE, true);
}

/* --- copies ------------------------------------------------------------------------------------------------------- */
static struct green copier;
static CUdeviceptr on_device;

static void bandwidth(const char *what, void *host)
{
        static struct series to, from;

        for (int i = 0; i < 8; i++) {
                double t = now_us();

                TRY(cu.cuMemcpyHtoDAsync(on_device, host, SLAB, copier.high));
                TRY(cu.cuStreamSynchronize(copier.high));
                if (i > 0)
                        series_add(&to, now_us() - t);
                t = now_us();
                TRY(cu.cuMemcpyDtoHAsync(host, on_device, SLAB, copier.high));
                TRY(cu.cuStreamSynchronize(copier.high));
                if (i > 0)
                        series_add(&from, now_us() - t);
        }
        fact("64 MiB, %s:", what);
        series_fact(&to, "  to the device");
        series_fact(&from, "  to the host");
}

static CUresult copy_2d(const void *from, CUdeviceptr to)
{
        CUDA_MEMCPY2D copy = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                .srcHost = from,
                .srcPitch = 4096,
                .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                .dstDevice = to,
                .dstPitch = 8192,
                .WidthInBytes = 4096,
                .Height = 4096};

        return cu.cuMemcpy2DAsync(&copy, copier.high);
}

/* measures a copy's call with 5 ms of work queued before it in the stream, and checks whether the copy is right */
#define BEHIND(what, call)                                                                                            \
        do {                                                                                                          \
                double t_, call_, all_;                                                                               \
                CUresult r_;                                                                                          \
                TRY(launch_spin(copier.high, 4, 1024, 5000000));                                                      \
                t_ = now_us();                                                                                        \
                r_ = (call);                                                                                          \
                call_ = now_us() - t_;                                                                                \
                TRY(cu.cuStreamSynchronize(copier.high));                                                             \
                all_ = now_us() - t_;                                                                                 \
                t_ = now_us();                                                                                        \
                TRY(call);                                                                                            \
                TRY(cu.cuStreamSynchronize(copier.high));                                                             \
                fact("%s behind 5 ms: result %d, call %.1f us, done after %.1f; alone %.1f us", what, (int)r_, call_, \
                        all_, now_us() - t_);                                                                         \
        } while (0)

void section_copies(void)
{
        void *a, *b, *allocated = NULL, *plain = malloc(SLAB);
        CUdeviceptr da, db;

        if (!gpu_open() || !green_make(&copier, 0, gpu.n_groups) || !TRY(cu.cuMemAlloc(&on_device, SLAB)))
                return;
        a = host_map(HOST_BASE, SLAB, 0, MAP_FIXED_NOREPLACE);
        b = host_map(HOST_BASE + GIB(1), SLAB, 0, MAP_FIXED_NOREPLACE);
        if (!a || !b || !plain || !TRY(cu.cuMemHostAlloc(&allocated, SLAB, CU_MEMHOSTALLOC_PORTABLE)) ||
                !TRY(cu.cuMemHostRegister(a, SLAB, REGISTER)) || !TRY(cu.cuMemHostRegister(b, SLAB, REGISTER)))
                return;
        memset(plain, 1, SLAB);
        bandwidth("a registered memfd", a);
        bandwidth("cuMemHostAlloc", allocated);
        bandwidth("malloc", plain);
        da = (CUdeviceptr)(uintptr_t)a;
        db = (CUdeviceptr)(uintptr_t)b;
        memset(a, 0x11, SLAB);
        memset(b, 0x22, SLAB);
        BEHIND("cuMemcpyDtoDAsync of 16 MiB between registered host memory",
                cu.cuMemcpyDtoDAsync(db, da, MIB(16), copier.high));
        fact("the last byte is %#x", ((unsigned char *)b)[MIB(16) - 1]);
        memset(a, 0x33, SLAB);
        BEHIND("cuMemcpyAsync of 16 MiB between registered host memory",
                cu.cuMemcpyAsync(db, da, MIB(16), copier.high));
        fact("the last byte is %#x", ((unsigned char *)b)[MIB(16) - 1]);
        BEHIND("cuMemcpyHtoDAsync of 16 MiB, registered", cu.cuMemcpyHtoDAsync(on_device, a, MIB(16), copier.high));
        BEHIND("cuMemcpyDtoHAsync of 16 MiB, registered", cu.cuMemcpyDtoHAsync(a, on_device, MIB(16), copier.high));
        BEHIND("cuMemcpyHtoDAsync of 16 MiB, malloc", cu.cuMemcpyHtoDAsync(on_device, plain, MIB(16), copier.high));
        BEHIND("cuMemcpyHtoDAsync of 4 KiB, malloc", cu.cuMemcpyHtoDAsync(on_device, plain, 4096, copier.high));
        BEHIND("cuMemcpy2DAsync of 4096 x 4 KiB, registered", copy_2d(a, on_device));
        BEHIND("cuMemcpy2DAsync of 4096 x 4 KiB, malloc", copy_2d(plain, on_device));
        BEHIND("cuMemcpyDtoDAsync of 16 MiB on the device",
                cu.cuMemcpyDtoDAsync(on_device + MIB(32), on_device, MIB(16), copier.high));
        BEHIND("cuMemsetD32Async of 16 MiB of registered host memory", cu.cuMemsetD32Async(db, 5, MIB(4), copier.high));
        if (!busy_open())
                return;
        BUSY("call of cuMemcpyHtoDAsync 64 MiB, registered", cu.cuMemcpyHtoDAsync(on_device, a, SLAB, busy.ls.low));
        BUSY("call of cuMemcpyHtoDAsync 64 MiB, malloc", cu.cuMemcpyHtoDAsync(on_device, plain, SLAB, busy.ls.low));
        BUSY("cuMemFreeHost 64 MiB", cu.cuMemFreeHost(allocated));
}

/* --- amounts of memory -------------------------------------------------------------------------------------------- */
static void all_but_one_gib(size_t available)
{
        CUmemGenericAllocationHandle handle;
        size_t size = (available - GIB(1)) & ~(MIB(2) - 1);
        CUdeviceptr at = 0;

        fact("in one piece: %.1f GiB", (double)size / GIB(1));
        if (ONCE("  cuMemCreate", vmm_create(&handle, size)) != CUDA_SUCCESS)
                return;
        if (ONCE("  reserve", cu.cuMemAddressReserve(&at, size, 0, VMM_BASE, 0)) == CUDA_SUCCESS &&
                ONCE("  cuMemMap", cu.cuMemMap(at, size, 0, handle, 0)) == CUDA_SUCCESS) {
                ONCE("  cuMemSetAccess", vmm_access(at, size));
                ONCE("  cuMemUnmap", cu.cuMemUnmap(at, size));
        }
        ONCE("  cuMemRelease", cu.cuMemRelease(handle));
}

void section_all_memory(void)
{
        struct {
                CUdeviceptr out;
                uint64_t bytes;
        } params;
        uint64_t pointers[32] = {0};
        size_t available = 0, total = 0, before;
        unsigned int n = 0;

        if (!gpu_open())
                return;
        ONCE("cuMemGetInfo", cu.cuMemGetInfo(&available, &total));
        fact("free %zu of %zu", available, total);
        if (available > GIB(2))
                all_but_one_gib(available);
        before = gpu_free();
        params.out = gpu.scratch;
        params.bytes = 1024;
        TRY(launch(kernel("heap"), NULL, 1, 32, &params, sizeof(params)));
        TRY(cu.cuCtxSynchronize());
        TRY(cu.cuMemcpyDtoH(pointers, gpu.scratch, sizeof(pointers)));
        for (int i = 0; i < 32; i++)
                n += pointers[i] != 0;
        fact("malloc in a kernel: %u of 32 threads got memory, the first at %#llx; %.2f MiB more in use", n,
                (unsigned long long)pointers[0], ((double)before - (double)gpu_free()) / MIB(1));
}
