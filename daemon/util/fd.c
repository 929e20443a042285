/* SPDX-License-Identifier: Apache-2.0 */
#include "util/fd.h"

#include <errno.h>
#include <stdint.h>
#include <unistd.h>

#include "util/macro.h"

int ds_close(int fd)
{
        int saved = errno;

        if (fd >= 0)
                close(fd);
        errno = saved;
        return -1;
}

int ds_write_all(int fd, const void *bytes, size_t size)
{
        size_t done = 0;

        while (done < size) {
                ssize_t n = write(fd, (const uint8_t *)bytes + done, size - done);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        return n ? -errno : -EIO;
                done += (size_t)n;
        }
        return 0;
}
