/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds kernels of libraries that wait for other blocks, by their machine code, and measures the time of the search
 *
 *     sass_scan [-v] SM FILE...      SM: 90, FILE: a library, a fatbin or a cubin; -v: their names
 *
 * Prints a line of counts per file: cubins for that SM, kernels, kernels that wait, kernels that read the size of their
 * shared memory, bytes, milliseconds, and the longest time for one kernel.
 */
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "image/cubin.h"
#include "image/image.h"
#include "image/sass.h"
#include "util/alloc.h"
#include "util/macro.h"

#define FATBIN_MAGIC 0xba55ed50u

struct counts {
        size_t cubins, kernels, waits, sees, bytes;
        double ms, longest_ms;
};

static bool verbose;

static double now_ms(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void scan(const void *cubin, size_t size, struct counts *c)
{
        ds_cleanup(ds_sass_freep) ds_sass *sass = NULL;
        double since = now_ms(), end;
        const char *name;

        if (ds_sass_open(cubin, size, &sass))
                return;
        c->cubins++;
        c->bytes += size;
        c->ms += now_ms() - since;
        for (size_t i = 0; (name = ds_sass_kernel_name(sass, i)); i++) {
                struct ds_sass_kernel facts;

                since = now_ms();
                if (ds_sass_kernel(sass, name, &facts))
                        exit(1);
                end = now_ms();
                c->ms += end - since;
                c->longest_ms = DS_MAX(c->longest_ms, end - since);
                c->kernels++;
                c->waits += facts.waits;
                c->sees += facts.sees_shared;
                if (verbose && (facts.waits || facts.sees_shared))
                        printf("  %s%s %s\n", facts.waits ? " waits" : "", facts.sees_shared ? " sees" : "", name);
        }
}

static void scan_container(const uint8_t *bytes, size_t size, uint32_t sm, struct counts *c)
{
        ds_cleanup(ds_image_freep) ds_image *image = NULL;

        if (ds_image_open(bytes, size, NULL, 0, &image))
                return;
        for (size_t i = 0; i < ds_image_count(image); i++) {
                const struct ds_image_entry *entry = ds_image_entry(image, i);
                void *elf = NULL;
                size_t n = 0;

                if (entry->kind != DS_IMAGE_ELF || entry->sm != sm || ds_image_elf(image, i, NULL, 0, &elf, &n))
                        continue;
                scan(elf, n, c);
                ds_free(elf);
        }
}

/* Scans a cubin, or any file that contains fatbin containers, which begin at multiples of 8 bytes. */
static void scan_file(const uint8_t *bytes, size_t size, uint32_t sm, struct counts *c)
{
        static const uint32_t magic = FATBIN_MAGIC;
        uint64_t payload;

        if (ds_cubin_is(bytes, size)) {
                scan(bytes, size, c);
                return;
        }
        for (size_t at = 0; at + 16 <= size; at += 8) {
                if (memcmp(bytes + at, &magic, sizeof(magic)))
                        continue;
                memcpy(&payload, bytes + at + 8, sizeof(payload));
                if (payload <= size - at - 16)
                        scan_container(bytes + at, 16 + payload, sm, c);
        }
}

int main(int argc, char **argv)
{
        int first = 1;

        verbose = argc > 1 && !strcmp(argv[1], "-v");
        first += verbose;
        if (argc < first + 2) {
                fprintf(stderr, "usage: sass_scan [-v] SM FILE...\n");
                return 2;
        }
        for (int i = first + 1; i < argc; i++) {
                int fd = open(argv[i], O_RDONLY | O_CLOEXEC);
                struct counts c = {0};
                struct stat st;
                void *bytes;

                if (fd < 0 || fstat(fd, &st) < 0) {
                        perror(argv[i]);
                        return 1;
                }
                bytes = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
                close(fd);
                if (bytes == MAP_FAILED) {
                        perror(argv[i]);
                        return 1;
                }
                scan_file(bytes, (size_t)st.st_size, (uint32_t)strtoul(argv[first], NULL, 10), &c);
                munmap(bytes, (size_t)st.st_size);
                printf("%s: cubins=%zu kernels=%zu waits=%zu sees_shared=%zu bytes=%zu ms=%.1f longest_ms=%.2f\n",
                        argv[i], c.cubins, c.kernels, c.waits, c.sees, c.bytes, c.ms, c.longest_ms);
        }
        return 0;
}
