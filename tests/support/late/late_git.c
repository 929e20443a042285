/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The library that Criterion draws the differences of two texts with, loaded when there is one to be drawn
 *
 * Each test is a process of its own, and that library brings ten others along, two of cryptography among them, that
 * take longer to start than most tests to run: above all under a sanitizer, where it is two thirds of the start. Test
 * programs are linked with this in its place, under its name; LATE_GIT is where the real one lies.
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

/* The real one's function; it has been initialised. NULL: there is none. */
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
