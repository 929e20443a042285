/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads the library with which Criterion draws the differences of two texts only when there is a difference to draw
 *
 * Each test is its own process. That library loads ten others, two of them for cryptography, and takes longer to start
 * than most tests run; under a sanitizer this is two thirds of the start. Test programs are linked with this file
 * instead, under the library's name. LATE_GIT is the path of the real library.
 */
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>

typedef int diff_buffers_fn(const void *, size_t, const char *, const void *, size_t, const char *, const void *,
        void *, void *, void *, void *, void *);

int git_libgit2_init(void);
int git_libgit2_shutdown(void);
diff_buffers_fn git_diff_buffers;

int git_libgit2_init(void)
{
        return 1;
}

int git_libgit2_shutdown(void)
{
        return 0;
}

/* Finds the function in the real library, after that library's initialisation. NULL: there is no such library. */
static diff_buffers_fn *late_diff_buffers(void)
{
        static diff_buffers_fn *found;
        void *library;
        int (*init)(void);

        if (found)
                return found;
        library = dlopen(LATE_GIT, RTLD_NOW | RTLD_LOCAL);
        init = library ? (int (*)(void))dlsym(library, "git_libgit2_init") : NULL;
        if (init && init() > 0)
                found = (diff_buffers_fn *)dlsym(library, "git_diff_buffers");
        if (!found)
                (void)fprintf(stderr, "%s cannot be loaded: differences are not drawn\n", LATE_GIT);
        return found;
}

int git_diff_buffers(const void *old, size_t old_size, const char *old_path, const void *new, size_t new_size,
        const char *new_path, const void *options, void *file, void *binary, void *hunk, void *line, void *user)
{
        diff_buffers_fn *real = late_diff_buffers();

        return real ? real(old, old_size, old_path, new, new_size, new_path, options, file, binary, hunk, line, user)
                    : -1;
}
