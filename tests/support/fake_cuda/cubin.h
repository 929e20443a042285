/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compiles PTX text to a cubin with the toolkit's ptxas at run time, for a driver to load
 *
 * The real driver gets the cubin unchanged. The fake driver (tests/support/fake_cuda) executes text, so the text is
 * appended to the cubin as the fake ptxas does.
 *
 * One file of a program includes this header; it defines static functions only. TEST_PTXAS, from the makefile, is the
 * ptxas.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef GPU_TEST_ARCH
#define GPU_TEST_ARCH "sm_90"
#endif

static inline void gpu_test_write(const char *path, const void *bytes, size_t size)
{
        FILE *f = fopen(path, "wb");

        if (!f || fwrite(bytes, 1, size, f) != size || fclose(f))
                abort();
}

static inline int gpu_test_ptxas(const char *in, const char *out)
{
        int status = -1;
        pid_t pid = fork();

        if (!pid) {
                /* ptxas's messages about bad text are discarded; the test checks the result */
                if (!freopen("/dev/null", "w", stderr))
                        _exit(126);
                execl(TEST_PTXAS, "ptxas", "-arch=" GPU_TEST_ARCH, "-o", out, in, (char *)NULL);
                _exit(127);
        }
        return pid < 0 || waitpid(pid, &status, 0) != pid ? -1 : status;
}

/*
 * Compiles the text to a cubin, with the text appended if for_fake; the caller frees it. NULL if ptxas refuses the
 * text.
 */
static inline void *gpu_test_cubin(const char *text, bool for_fake, size_t *ret_size)
{
        char folder[] = "/tmp/detshare-cubin.XXXXXX", in[64], out[64];
        uint64_t length = strlen(text);
        uint8_t *image = NULL;
        long size = -1;
        FILE *f;

        if (!mkdtemp(folder))
                abort();
        snprintf(in, sizeof(in), "%s/in.ptx", folder);
        snprintf(out, sizeof(out), "%s/out.cubin", folder);
        gpu_test_write(in, text, length);
        f = gpu_test_ptxas(in, out) ? NULL : fopen(out, "rb");
        if (f && !fseek(f, 0, SEEK_END) && (size = ftell(f)) > 0) {
                image = malloc((size_t)size + length + 16);
                rewind(f);
                if (!image || fread(image, 1, (size_t)size, f) != (size_t)size)
                        abort();
                *ret_size = (size_t)size;
        }
        if (f)
                fclose(f);
        if (image && for_fake) {
                memcpy(image + *ret_size, text, length);
                memcpy(image + *ret_size + length, &length, 8);
                memcpy(image + *ret_size + length + 8, "DSFAKEPX", 8);
                *ret_size += length + 16;
        }
        unlink(in);
        unlink(out);
        rmdir(folder);
        return image;
}
