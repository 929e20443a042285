/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Images in files that the process has mapped
 *
 * Most code of a program is part of its own file or of a library's, read-only where the dynamic linker mapped it.
 * Instead of a copy, the daemon gets the file and the position. That is allowed only if the file holds the same bytes
 * as the memory:
 *
 *   - Only segments that are not writable count: they contain no relocations.
 *   - The file at the object's path must be the mapped one: device and inode as in /proc/self/maps. Some file systems
 *     show other numbers there than in stat(), and paths change while a program runs: then the bytes themselves are
 *     compared, which costs no more than the copy that is saved.
 *
 * Only named files on this machine's disks are passed (util/foreign.h has the reason). For programs on other file
 * systems, such as a container's layers, a memory file is sent.
 *
 * No descriptor is kept, because a program may close descriptors that it did not open. The contents of /proc/self/maps
 * are cached per object until an object is unloaded.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "core/internal.h"

#define SMALLEST 16384u             /* smallest image for which passing the file is faster than a memory file, bytes */
#define LARGEST ((uint64_t)4 << 30) /* largest file that the daemon closes without delay, bytes */
#define OBJECTS 64u                 /* most objects whose mappings are cached */
#define LINE_MAX_BYTES 512
#define COMPARE_BYTES 65536u

/* The object that contains an image, by the dynamic linker's list. */
struct place {
        uintptr_t address;
        size_t size;
        uintptr_t object; /* base address of the object */
        unsigned long long unloaded;
        uint64_t offset;
        bool found;
        char path[PATH_MAX];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
        uintptr_t object;
        dev_t dev;
        ino_t ino;
} objects[OBJECTS];
static size_t n_objects;
static unsigned long long objects_unloaded; /* dynamic linker's count of unloaded objects when the cache was filled */

static void look_at_segment(const struct dl_phdr_info *info, const ElfW(Phdr) * segment, struct place *place)
{
        const uintptr_t start = info->dlpi_addr + segment->p_vaddr;
        if (segment->p_type != PT_LOAD || segment->p_flags & PF_W || !(segment->p_flags & PF_R))
                return;
        if (place->address < start || place->address - start > segment->p_filesz ||
                place->size > segment->p_filesz - (place->address - start))
                return;
        const char *path = info->dlpi_name && info->dlpi_name[0] ? info->dlpi_name : "/proc/self/exe";
        const int n = snprintf(place->path, sizeof(place->path), "%s", path);
        place->found = n > 0 && (size_t)n < sizeof(place->path);
        place->object = info->dlpi_addr;
        place->unloaded = info->dlpi_subs;
        place->offset = segment->p_offset + (place->address - start);
}

static int look_at_object(struct dl_phdr_info *info, size_t size, void *user)
{
        struct place *place = user;
        (void)size;
        for (size_t i = 0; i < info->dlpi_phnum && !place->found; i++)
                look_at_segment(info, &info->dlpi_phdr[i], place);
        return place->found;
}

/* *ret: device and inode of the file that is mapped at the address. False: no file is mapped there. */
static bool mapped_file(uintptr_t address, dev_t *ret_dev, ino_t *ret_ino)
{
        FILE *maps = fopen("/proc/self/maps", "re");
        char line[LINE_MAX_BYTES];
        bool found = false, whole = true;
        while (maps && !found && fgets(line, sizeof(line), maps)) {
                const bool begins = whole;
                unsigned long start, end, ino;
                unsigned dev_major, dev_minor;
                whole = strchr(line, '\n') != NULL;
                if (!begins ||
                        sscanf(line, "%lx-%lx %*s %*x %x:%x %lu", &start, &end, &dev_major, &dev_minor, &ino) != 5)
                        continue;
                if (address < start || address >= end)
                        continue;
                *ret_dev = makedev(dev_major, dev_minor);
                *ret_ino = ino;
                found = ino != 0;
                break;
        }
        if (maps)
                fclose(maps);
        return found;
}

static bool remembered(const struct place *place, dev_t *ret_dev, ino_t *ret_ino)
{
        bool found = false;
        pthread_mutex_lock(&lock);
        for (size_t i = 0; i < n_objects && !found && objects_unloaded == place->unloaded; i++) {
                found = objects[i].object == place->object;
                *ret_dev = objects[i].dev;
                *ret_ino = objects[i].ino;
        }
        pthread_mutex_unlock(&lock);
        return found;
}

static void remember(const struct place *place, dev_t dev, ino_t ino)
{
        pthread_mutex_lock(&lock);
        if (objects_unloaded != place->unloaded || n_objects == OBJECTS)
                n_objects = 0;
        objects_unloaded = place->unloaded;
        objects[n_objects].object = place->object;
        objects[n_objects].dev = dev;
        objects[n_objects++].ino = ino;
        pthread_mutex_unlock(&lock);
}

static bool is_mapped(const struct place *place, const struct stat *st)
{
        dev_t dev;
        ino_t ino;
        if (!remembered(place, &dev, &ino)) {
                if (!mapped_file(place->address, &dev, &ino))
                        return false;
                remember(place, dev, ino);
        }
        return dev == st->st_dev && ino == st->st_ino;
}

static bool holds_bytes(int fd, const struct place *place)
{
        uint8_t *chunk = malloc(COMPARE_BYTES);
        size_t at = 0;
        while (chunk && at < place->size) {
                const size_t want = place->size - at < COMPARE_BYTES ? place->size - at : COMPARE_BYTES;
                const ssize_t n = pread(fd, chunk, want, (off_t)(place->offset + at));
                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0 || memcmp(chunk, (const uint8_t *)place->address + at, (size_t)n) != 0)
                        break;
                at += (size_t)n;
        }
        free(chunk);
        return at == place->size;
}

static int open_place(const struct place *place)
{
        const int fd = dsc__fd_above_standard(open(place->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK));
        struct stat st;
        if (fd < 0)
                return -1;
        if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && major(st.st_dev) != 0 && st.st_nlink > 0 &&
                (uint64_t)st.st_size < LARGEST && (uint64_t)st.st_size >= place->offset + place->size &&
                (is_mapped(place, &st) || holds_bytes(fd, place)))
                return fd;
        close(fd);
        return -1;
}

int dsc__mapped(const void *bytes, size_t size, uint64_t *ret_offset)
{
        struct place place = {.address = (uintptr_t)bytes, .size = size};
        if (size < SMALLEST)
                return -1;
        dl_iterate_phdr(look_at_object, &place);
        const int fd = place.found ? open_place(&place) : -1;
        if (fd >= 0)
                *ret_offset = place.offset;
        return fd;
}
