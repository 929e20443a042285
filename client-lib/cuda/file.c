/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading a code image from a file
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cuda/file.h"
#include "cuda/image.h"

static CUresult read_all(int fd, char *bytes, size_t size)
{
        size_t done = 0;

        while (done < size) {
                ssize_t n = read(fd, bytes + done, size - done);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        return CUDA_ERROR_OPERATING_SYSTEM;
                done += (size_t)n;
        }
        bytes[size] = '\0';
        return CUDA_SUCCESS;
}

static CUresult read_file(int fd, void **ret_bytes, size_t *ret_size)
{
        struct stat st;
        char *bytes;
        CUresult r;

        if (fstat(fd, &st) < 0 || S_ISDIR(st.st_mode))
                return CUDA_ERROR_OPERATING_SYSTEM;
        if (st.st_size <= 0 || (uint64_t)st.st_size > DCU_IMAGE_MAX)
                return CUDA_ERROR_INVALID_IMAGE;
        bytes = malloc((size_t)st.st_size + 1);
        if (!bytes)
                return CUDA_ERROR_OUT_OF_MEMORY;
        r = read_all(fd, bytes, (size_t)st.st_size);
        if (r != CUDA_SUCCESS) {
                free(bytes);
                return r;
        }
        *ret_bytes = bytes;
        *ret_size = (size_t)st.st_size;
        return CUDA_SUCCESS;
}

CUresult dcu_file_read(const char *path, void **ret_bytes, size_t *ret_size)
{
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        CUresult r;

        if (fd < 0)
                return CUDA_ERROR_FILE_NOT_FOUND;
        r = read_file(fd, ret_bytes, ret_size);
        close(fd);
        return r;
}
