/* SPDX-License-Identifier: Apache-2.0 */
#include "supervisor/page.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "util/error.h"
#include "util/macro.h"

#define SIZE_SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

static int create_file(const char *name, size_t bytes, int *ret_fd, void **ret_map)
{
        ds_cleanup(ds_closep) int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
        void *map;

        if (fd < 0 || ftruncate(fd, (off_t)bytes) < 0)
                return ds_error_origin(-errno);
        map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (map == MAP_FAILED)
                return ds_error_origin(-errno);
        *ret_fd = DS_TAKE_FD(fd);
        *ret_map = map;
        return 0;
}

int ds_page_create(int simulated, struct ds_page *ret)
{
        void *map;
        int r, fd;

        r = create_file("detshare-page", DS_PAGE_BYTES, &fd, &map);
        if (r)
                return ds_error_trace(r);
        *ret = (struct ds_page){.fd = fd, .map = map};
        ret->map->version = DS_WIRE_VERSION;
        ret->map->bytes = DS_PAGE_BYTES;
        ret->map->streams = DS_STREAMS_MAX;
        ret->map->simulated = simulated != 0;
        return 0;
}

int ds_page_seal(const struct ds_page *page)
{
        if (fcntl(page->fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
                return ds_error_origin(-errno);
        return 0;
}

void ds_page_kill(struct ds_page *page, int32_t error)
{
        struct ds_completion_page *map = page->map;

        if (!map)
                return;
        if (error) {
                atomic_store(&map->error, error);
                atomic_fetch_add(&map->error_count, 1);
        }
        atomic_store(&map->dead, 1);
        atomic_fetch_add(&map->wake, 1);
        syscall(SYS_futex, &map->wake, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void ds_page_deinit(struct ds_page *page)
{
        if (page->map)
                munmap(page->map, DS_PAGE_BYTES);
        ds_close(page->fd);
        *page = (struct ds_page)DS_PAGE_INIT;
}

/* Maps the header of a ring. Consumes *fd. */
static int map_header(int *fd, struct ds_ring *ret)
{
        void *map = mmap(NULL, DS_RING_HEADER, PROT_READ, MAP_SHARED, *fd, 0);

        if (map == MAP_FAILED)
                return ds_error_origin(-errno);
        *ret = (struct ds_ring){.fd = DS_TAKE_FD(*fd), .header = map};
        return 0;
}

int ds_ring_create(struct ds_ring *ret)
{
        ds_cleanup(ds_closep) int fd = -1;
        struct ds_ring_header *header;
        void *map;
        int r;

        r = create_file("detshare-ring", DS_RING_BYTES, &fd, &map);
        if (r)
                return ds_error_trace(r);
        header = map;
        header->version = DS_WIRE_VERSION;
        header->bytes = DS_RING_BYTES;
        header->slots = DS_RING_SLOTS;
        header->slot_bytes = DS_RING_SLOT;
        munmap(map, DS_RING_BYTES);
        if (fcntl(fd, F_ADD_SEALS, SIZE_SEALS) < 0)
                return ds_error_origin(-errno);
        return ds_error_trace(map_header(&fd, ret));
}

int ds_page_file_has(int fd, uint64_t bytes, int more_seals)
{
        int seals = fcntl(fd, F_GET_SEALS), want = SIZE_SEALS | more_seals;
        struct statfs fs;
        struct stat st;

        /* an access to a mapping of huge pages ends with SIGBUS if the machine has no free one */
        if (fstatfs(fd, &fs) < 0 || fs.f_type == HUGETLBFS_MAGIC)
                return 0;
        return seals >= 0 && (seals & want) == want && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size >= 0 &&
               (uint64_t)st.st_size == bytes;
}

int ds_ring_adopt(int fd, struct ds_ring *ret)
{
        ds_cleanup(ds_closep) int owned = fd;

        if (!ds_page_file_has(fd, DS_RING_BYTES, 0))
                return 1;
        return ds_error_trace(map_header(&owned, ret));
}

void ds_ring_deinit(struct ds_ring *ring)
{
        if (ring->header)
                munmap((void *)ring->header, DS_RING_HEADER);
        ds_close(ring->fd);
        *ring = (struct ds_ring)DS_RING_INIT;
}

int ds_page_in_flight(const struct ds_page *page, const struct ds_ring *ring)
{
        if (!page->map)
                return 0;
        if (atomic_load(&page->map->accepted) != atomic_load(&page->map->completed))
                return 1;
        return ring->header && atomic_load(&ring->header->tail) != atomic_load(&page->map->head);
}
