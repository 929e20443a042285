/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory files whose contents the daemon reads: images, graphs, inputs of a link
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/internal.h"

int dsc__write_all(int fd, const void *bytes, size_t size)
{
        const uint8_t *p = bytes;
        while (size > 0) {
                ssize_t n = write(fd, p, size);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        return -1;
                p += n;
                size -= (size_t)n;
        }
        return 0;
}

int dsc__sealed_file(const char *name, const void *bytes, size_t size, int seals, int *ret_fd)
{
        int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
        if (fd < 0)
                return DSC__OUT_OF_MEMORY;
        if (dsc__write_all(fd, bytes, size) < 0 || fcntl(fd, F_ADD_SEALS, seals) < 0) {
                close(fd);
                return DSC__OUT_OF_MEMORY;
        }
        *ret_fd = fd;
        return 0;
}
