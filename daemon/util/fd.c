/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
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
