/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of the simulated device: slabs, and the mappings of each space
 *
 * A slab is a memfd, sealed so that it can neither shrink nor grow: no holder of the fd can make this process fault by
 * truncating it. Mapping a slab puts it at its device address in this process. So a device address *is* a host pointer,
 * for the interpreter as for copies. Pages appear when they are touched; the limit of half the RAM (sim.c) ensures that
 * the host has memory for them.
 *
 * Unmapping takes a mapping out of the space at once. The pages go when the last executing job that could see them is
 * done. Until then another slab may already be mapped there: a program with several threads frees and allocates while
 * its kernel runs.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "device/sim/internal.h"
#include "util/alloc.h"
#include "util/error.h"

#define VA_END (UINT64_C(1) << 47)

/* --- slabs and their charge --- */

static struct sim_slab *slab_find(ds_device *device, dev_t dev, ino_t ino)
{
        for (size_t i = 0; i < device->n_slabs; i++)
                if (device->slabs[i].ino == ino && device->slabs[i].dev == dev)
                        return &device->slabs[i];
        return NULL;
}

static int slab_add(ds_device *device, const struct stat *st, int fd)
{
        struct sim_slab *slabs;

        slabs = ds_realloc(device->slabs, device->n_slabs + 1, sizeof(*slabs));
        if (!slabs)
                return ds_error_origin(-ENOMEM);
        device->slabs = slabs;
        slabs[device->n_slabs++] = (struct sim_slab){
                .dev = st->st_dev,
                .ino = st->st_ino,
                .size = (uint64_t)st->st_size,
                .fd = fd,
        };
        device->charged += (uint64_t)st->st_size;
        return 0;
}

static void slab_drop(ds_device *device, struct sim_slab *slab)
{
        device->charged -= slab->size;
        *slab = device->slabs[--device->n_slabs];
}

/* Frees slabs that were closed without ever being mapped. The device does not notice the closing, so it checks here,
 * when memory is short. */
static void slabs_sweep(ds_device *device)
{
        struct sim_slab *slab;
        struct stat st;

        for (size_t i = device->n_slabs; i-- > 0;) {
                slab = &device->slabs[i];
                if (slab->mappings)
                        continue;
                if (fstat(slab->fd, &st) < 0 || st.st_ino != slab->ino || st.st_dev != slab->dev)
                        slab_drop(device, slab);
        }
}

static bool memory_has(ds_device *device, uint64_t size)
{
        uint64_t limit = device->info.memory_bytes;

        return size <= limit && device->charged <= limit - size;
}

int sim_mem_create(ds_device *device, uint64_t size, int *ret_fd)
{
        ds_cleanup(ds_closep) int fd = -1;
        struct stat st;
        int r;

        if (!size || size % SIM_GRANULARITY)
                return ds_error_origin(-EINVAL);
        if (!memory_has(device, size))
                slabs_sweep(device);
        if (!memory_has(device, size))
                return DS_CUDA_OUT_OF_MEMORY;
        fd = memfd_create("detshare-slab", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        if (fd < 0)
                return errno == ENOMEM ? DS_CUDA_OUT_OF_MEMORY : ds_error_origin(-errno);
        if (ftruncate(fd, (off_t)size) < 0)
                return errno == ENOMEM || errno == ENOSPC || errno == EFBIG ? DS_CUDA_OUT_OF_MEMORY
                                                                            : ds_error_origin(-errno);
        if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0 || fstat(fd, &st) < 0)
                return ds_error_origin(-errno);
        r = slab_add(device, &st, fd);
        if (r < 0)
                return ds_error_trace(r);
        *ret_fd = DS_TAKE_FD(fd);
        return 0;
}

/* --- regions and snapshots --- */

/* Whether the region contains address `at`. Lowers *next to the region's next boundary above `at`. */
static bool region_holds(const struct sim_region *region, uint64_t at, uint64_t *next)
{
        const uint64_t end = region->va + region->size;
        const bool holds = region->kind != SIM_REGION_GLOBAL && region->va <= at && at < end;

        if (holds && end < *next)
                *next = end;
        if (region->kind != SIM_REGION_GLOBAL && region->va > at && region->va < *next)
                *next = region->va;
        return holds;
}

static bool going_holds(const struct sim_space *space, uint64_t at, uint64_t *next)
{
        bool holds = false;

        for (const struct sim_region *region = space->going; region; region = region->next_going)
                holds |= region_holds(region, at, next);
        return holds;
}

/* Unmaps those parts of [at, end) that belong to no region of the space and to no region being removed. */
static void unmap_rest(const struct sim_space *space, uint64_t at, uint64_t end)
{
        for (uint64_t next; at < end; at = next) {
                next = end;
                bool holds = going_holds(space, at, &next);

                for (size_t i = 0; i < space->n_regions; i++)
                        holds |= region_holds(space->regions[i], at, &next);
                if (!holds)
                        munmap((void *)(uintptr_t)at, next - at);
        }
}

static void going_end(struct sim_region *region)
{
        struct sim_region **at = &region->going->going;

        while (*at != region)
                at = &(*at)->next_going;
        *at = region->next_going;
        unmap_rest(region->going, region->va, region->va + region->size);
}

static struct sim_region *region_put(struct sim_region *region)
{
        if (region && !--region->refs) {
                if (region->kind == SIM_REGION_GLOBAL)
                        sim_module_put(region->module);
                else if (region->going)
                        going_end(region);
                else
                        munmap((void *)(uintptr_t)region->va, region->size);
                ds_free(region);
        }
        return NULL;
}

static struct sim_snapshot *snapshot_new(const struct sim_space *space)
{
        struct sim_snapshot *snapshot;
        struct ds_interp_range *last = NULL;
        size_t n = space->n_regions;

        snapshot = ds_alloc(sizeof(*snapshot) + n * (sizeof(struct sim_region *) + sizeof(struct ds_interp_range)));
        if (!snapshot)
                return NULL;
        *snapshot = (struct sim_snapshot){.refs = 1, .n_regions = n};
        snapshot->ranges = (struct ds_interp_range *)(snapshot + 1);
        snapshot->regions = (struct sim_region **)(snapshot->ranges + n);
        for (size_t i = 0; i < n; i++) {
                struct sim_region *region = space->regions[i];

                region->refs++;
                snapshot->regions[i] = region;
                if (last && last->va + last->size == region->va) {
                        last->size += region->size;
                        continue;
                }
                last = &snapshot->ranges[snapshot->n_ranges++];
                *last = (struct ds_interp_range){.va = region->va, .size = region->size};
        }
        return snapshot;
}

struct sim_snapshot *sim_snapshot_put(struct sim_snapshot *snapshot)
{
        if (snapshot && !--snapshot->refs) {
                for (size_t i = 0; i < snapshot->n_regions; i++)
                        region_put(snapshot->regions[i]);
                ds_free(snapshot);
        }
        return NULL;
}

struct sim_snapshot *sim_snapshot_get(struct sim_space *space)
{
        if (!space->snapshot)
                space->snapshot = snapshot_new(space);
        if (space->snapshot)
                space->snapshot->refs++;
        return space->snapshot;
}

static void space_changed(struct sim_space *space)
{
        space->snapshot = sim_snapshot_put(space->snapshot);
}

bool sim_snapshot_covers(const struct sim_snapshot *snapshot, uint64_t va, uint64_t size)
{
        size_t low = 0, high = snapshot->n_ranges, middle;
        const struct ds_interp_range *range;

        while (low < high) {
                middle = (low + high) / 2;
                range = &snapshot->ranges[middle];
                if (va < range->va)
                        high = middle;
                else if (va - range->va >= range->size)
                        low = middle + 1;
                else
                        return size <= range->size - (va - range->va);
        }
        return false;
}

bool sim_space_covers(struct sim_space *space, uint64_t va, uint64_t size)
{
        struct sim_snapshot *snapshot = sim_snapshot_get(space);
        bool covered = snapshot && sim_snapshot_covers(snapshot, va, size);

        sim_snapshot_put(snapshot);
        return covered;
}

/* Index in the sorted array at which a region at va belongs. */
static size_t region_place(const struct sim_space *space, uint64_t va)
{
        size_t low = 0, high = space->n_regions, middle;

        while (low < high) {
                middle = (low + high) / 2;
                if (space->regions[middle]->va < va)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low;
}

/* Inserts the region, and takes over the caller's reference if it succeeds. The caller has checked that nothing
 * overlaps. */
static int region_insert(struct sim_space *space, struct sim_region *region)
{
        size_t at = region_place(space, region->va);
        struct sim_region **regions;

        regions = ds_realloc(space->regions, space->n_regions + 1, sizeof(*regions));
        if (!regions)
                return ds_error_origin(-ENOMEM);
        space->regions = regions;
        memmove(regions + at + 1, regions + at, (space->n_regions - at) * sizeof(*regions));
        regions[at] = region;
        space->n_regions++;
        space_changed(space);
        return 0;
}

static void region_remove(struct sim_space *space, size_t at)
{
        struct sim_region *region = space->regions[at];

        space->n_regions--;
        memmove(space->regions + at, space->regions + at + 1, (space->n_regions - at) * sizeof(*space->regions));
        space_changed(space);
        if (region->refs > 1 && region->kind != SIM_REGION_GLOBAL) {
                region->going = space;
                region->next_going = space->going;
                space->going = region;
        }
        region_put(region);
}

/* --- spaces --- */

static size_t space_place(const ds_device *device, uint32_t id)
{
        size_t low = 0, high = device->n_spaces, middle;

        while (low < high) {
                middle = (low + high) / 2;
                if (device->spaces[middle]->id < id)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low;
}

struct sim_space *sim_space_find(const ds_device *device, uint32_t id)
{
        size_t at = space_place(device, id);

        return at < device->n_spaces && device->spaces[at]->id == id ? device->spaces[at] : NULL;
}

int sim_space_add(ds_device *device, uint32_t id)
{
        ds_cleanup(ds_freep) struct sim_space *space = NULL;
        size_t at = space_place(device, id);
        struct sim_space **spaces;

        if (sim_space_find(device, id))
                return -EEXIST;
        space = ds_alloc0(1, sizeof(*space));
        spaces = ds_realloc(device->spaces, device->n_spaces + 1, sizeof(*spaces));
        if (spaces)
                device->spaces = spaces;
        if (!space || !spaces)
                return ds_error_origin(-ENOMEM);
        space->id = id;
        memmove(spaces + at + 1, spaces + at, (device->n_spaces - at) * sizeof(*spaces));
        spaces[at] = DS_TAKE_PTR(space);
        device->n_spaces++;
        return 0;
}

static void region_uncharge(ds_device *device, const struct sim_region *region)
{
        struct sim_slab *slab;

        if (region->kind != SIM_REGION_DEVICE)
                return;
        slab = slab_find(device, region->slab_dev, region->slab_ino);
        if (slab && !--slab->mappings)
                slab_drop(device, slab);
}

static void space_free(ds_device *device, struct sim_space *space)
{
        sim_kept_drop(space);
        sim_evicted_drop(space);
        while (space->n_regions) {
                region_uncharge(device, space->regions[space->n_regions - 1]);
                region_remove(space, space->n_regions - 1);
        }
        space_changed(space);
        /* jobs still list these regions only while the device closes */
        for (struct sim_region *region = space->going; region; region = region->next_going)
                region->going = NULL;
        ds_free(space->regions);
        ds_free(space);
}

int sim_space_remove(ds_device *device, uint32_t id)
{
        size_t at = space_place(device, id);
        struct sim_space *space = sim_space_find(device, id);

        if (!space)
                return -ENOENT;
        if (space->in_flight)
                return ds_error_origin(-EBUSY);
        device->n_spaces--;
        memmove(device->spaces + at, device->spaces + at + 1, (device->n_spaces - at) * sizeof(*device->spaces));
        space_free(device, space);
        return 0;
}

void sim_spaces_free(ds_device *device)
{
        while (device->n_spaces)
                space_free(device, device->spaces[--device->n_spaces]);
        device->spaces = ds_free(device->spaces);
        device->slabs = ds_free(device->slabs);
}

/* --- mapping --- */

static int map_check(int fd, uint64_t va, uint64_t size, uint64_t granularity, struct stat *ret_st)
{
        int seals;

        if (!size || size % granularity || !va || va % granularity || va >= VA_END || size > VA_END - va)
                return ds_error_origin(-EINVAL);
        if (fstat(fd, ret_st) < 0)
                return ds_error_origin(-errno);
        if (ret_st->st_size < 0 || (uint64_t)ret_st->st_size < size)
                return ds_error_origin(-EINVAL);
        seals = fcntl(fd, F_GET_SEALS);
        /* only files sealed against shrinking: a process that truncates the file could make this process fault */
        if (seals < 0 || !(seals & F_SEAL_SHRINK))
                return ds_error_origin(-EPERM);
        return 0;
}

/*
 * Maps over regions that are being removed. A job under execution keeps its memory mapped, even after it is freed. The
 * address may be allocated again meanwhile; then the new file replaces the old. A kernel that touches freed memory sees
 * only its own session's.
 */
static int map_over_going(const struct sim_space *space, int fd, uint64_t va, uint64_t size)
{
        for (uint64_t at = va, next; at < va + size; at = next) {
                next = va + size;
                const int fixed = going_holds(space, at, &next) ? MAP_FIXED : MAP_FIXED_NOREPLACE;
                void *want = (void *)(uintptr_t)at;
                void *p = mmap(want, next - at, PROT_READ | PROT_WRITE, MAP_SHARED | fixed, fd, (off_t)(at - va));
                int r = p == MAP_FAILED ? -errno : p != want ? -EEXIST : 0;

                /* the operating system's kernel does not support MAP_FIXED_NOREPLACE */
                if (p != MAP_FAILED && p != want)
                        munmap(p, next - at);
                if (r) {
                        unmap_rest(space, va, at);
                        return ds_error_origin(r);
                }
        }
        return 0;
}

static int region_map(
        struct sim_space *space, enum sim_region_kind kind, int fd, uint64_t va, uint64_t size, const struct stat *st)
{
        ds_cleanup(ds_freep) struct sim_region *region = NULL;
        int r;

        region = ds_alloc0(1, sizeof(*region));
        if (!region)
                return ds_error_origin(-ENOMEM);
        *region = (struct sim_region){
                .refs = 1, .kind = kind, .va = va, .size = size, .slab_dev = st->st_dev, .slab_ino = st->st_ino};
        r = map_over_going(space, fd, va, size);
        if (r < 0)
                return ds_error_trace(r);
        r = region_insert(space, region);
        if (r < 0) {
                unmap_rest(space, va, va + size);
                return ds_error_trace(r);
        }
        region = NULL;
        return 0;
}

int sim_mem_map(ds_device *device, uint32_t id, int fd, uint64_t va, uint64_t size)
{
        struct sim_space *space = sim_space_find(device, id);
        struct sim_slab *slab;
        struct stat st;
        int r;

        if (!space)
                return ds_error_origin(-ENOENT);
        r = map_check(fd, va, size, SIM_GRANULARITY, &st);
        if (r < 0)
                return ds_error_trace(r);
        if (!slab_find(device, st.st_dev, st.st_ino)) {
                r = slab_add(device, &st, fd);
                if (r < 0)
                        return ds_error_trace(r);
        }
        r = region_map(space, SIM_REGION_DEVICE, fd, va, size, &st);
        slab = slab_find(device, st.st_dev, st.st_ino);
        if (r < 0)
                return ds_error_trace(r);
        slab->mappings++;
        return 0;
}

int sim_host_map(ds_device *device, uint32_t id, int fd, uint64_t va, uint64_t size)
{
        struct sim_space *space = sim_space_find(device, id);
        struct stat st;
        int r;

        if (!space)
                return ds_error_origin(-ENOENT);
        r = map_check(fd, va, size, (uint64_t)sysconf(_SC_PAGESIZE), &st);
        if (r < 0)
                return ds_error_trace(r);
        return ds_error_trace(region_map(space, SIM_REGION_HOST, fd, va, size, &st));
}

/* Nothing here depends on page tables, so the mapping at va is a new one. */
int sim_host_move(ds_device *device, uint32_t id, int fd, void *mapped, uint64_t va, uint64_t size)
{
        munmap(mapped, size);
        return ds_error_trace(sim_host_map(device, id, fd, va, size));
}

static int region_unmap(ds_device *device, uint32_t id, enum sim_region_kind kind, uint64_t va, uint64_t size)
{
        struct sim_space *space = sim_space_find(device, id);
        struct sim_region *region;
        size_t at;

        if (!space)
                return ds_error_origin(-ENOENT);
        at = region_place(space, va);
        region = at < space->n_regions ? space->regions[at] : NULL;
        if (!region || region->va != va || region->size != size || region->kind != kind)
                return ds_error_origin(-ENOENT);
        region_uncharge(device, region);
        region_remove(space, at);
        return 0;
}

int sim_mem_unmap(ds_device *device, uint32_t space, uint64_t va, uint64_t size)
{
        return ds_error_trace(region_unmap(device, space, SIM_REGION_DEVICE, va, size));
}

int sim_host_unmap(ds_device *device, uint32_t space, uint64_t va, uint64_t size)
{
        return ds_error_trace(region_unmap(device, space, SIM_REGION_HOST, va, size));
}

/* --- module variables --- */

int sim_space_add_global(struct sim_space *space, ds_device_module *module, uint64_t va, uint64_t size)
{
        ds_cleanup(ds_freep) struct sim_region *region = NULL;
        int r;

        if (!size || sim_space_covers(space, va, size))
                return 0;
        region = ds_alloc0(1, sizeof(*region));
        if (!region)
                return ds_error_origin(-ENOMEM);
        *region = (struct sim_region){.refs = 1, .kind = SIM_REGION_GLOBAL, .va = va, .size = size, .module = module};
        r = region_insert(space, region);
        if (r < 0)
                return ds_error_trace(r);
        module->refs++;
        region = NULL;
        return 0;
}

void sim_space_drop_globals(struct sim_space *space, const ds_device_module *module)
{
        for (size_t i = space->n_regions; i-- > 0;)
                if (space->regions[i]->module == module)
                        region_remove(space, i);
}
