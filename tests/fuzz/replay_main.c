/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a fuzz target without a fuzzer: each file named on the command line, or in a directory named there, is one input
 *
 * Prints the current input if it ends the process. Exits with 1 if there was no input, since an empty replay proves
 * nothing.
 */
#include <dirent.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"

#define INPUT_MAX ((size_t)1 << 20)

static char current[4096];
static size_t n_runs;

static void say_current(void)
{
        static const char text[] = "\nreplay: while running ";

        if (!current[0])
                return;
        (void)!write(2, text, sizeof(text) - 1);
        (void)!write(2, current, strlen(current));
        (void)!write(2, "\n", 1);
}

static void on_abort(int signum)
{
        say_current();
        signal(signum, SIG_DFL);
        raise(signum);
}

static void run_file(const char *path)
{
        FILE *file = fopen(path, "re");
        uint8_t *data = malloc(INPUT_MAX);
        size_t size;

        FUZZ_CHECK(file && data);
        size = fread(data, 1, INPUT_MAX, file);
        fclose(file);
        snprintf(current, sizeof(current), "%s", path);
        /* an exact copy, so that a sanitizer finds reads past its end */
        data = realloc(data, size ? size : 1);
        FUZZ_CHECK(data);
        LLVMFuzzerTestOneInput(data, size);
        free(data);
        current[0] = 0;
        n_runs++;
}

static void run_directory(const char *path)
{
        struct dirent **names;
        int n = scandir(path, &names, NULL, alphasort);

        FUZZ_CHECK(n >= 0);
        for (int i = 0; i < n; i++) {
                char name[4096];

                snprintf(name, sizeof(name), "%s/%s", path, names[i]->d_name);
                if (names[i]->d_name[0] != '.')
                        run_file(name);
                free(names[i]);
        }
        free(names);
}

int main(int argc, char **argv)
{
        signal(SIGABRT, on_abort);
        atexit(say_current);
        for (int i = 1; i < argc; i++) {
                struct stat st;

                FUZZ_CHECK(stat(argv[i], &st) == 0);
                if (S_ISDIR(st.st_mode))
                        run_directory(argv[i]);
                else
                        run_file(argv[i]);
        }
        printf("%zu inputs\n", n_runs);
        return n_runs ? 0 : 1;
}
