/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Round trip: what the printer writes assembles to the machine code that the compiler's own PTX assembles to
 *
 * Every PTX file that the build made of tests/programs/kernels is parsed and printed, both texts go through NVIDIA's
 * assembler, and the cubins must be the same byte for byte. Files are counted: none is skipped in silence.
 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <glob.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ptx/ir.h"
#include "ptx/ptx.h"
#include "ptx_rows.h"
#include "util/macro.h"

#define MIN_FILES 20 /* per architecture */

extern char **environ;

struct blob {
        char *data;
        size_t length;
};

static struct blob read_file(const char *path)
{
        struct blob blob = {NULL, 0};
        FILE *in = fopen(path, "re");
        long size;

        cr_assert(in, "cannot open %s", path);
        cr_assert_eq(fseek(in, 0, SEEK_END), 0);
        size = ftell(in);
        rewind(in);
        blob.data = malloc((size_t)size + 1);
        cr_assert(blob.data);
        blob.length = fread(blob.data, 1, (size_t)size, in);
        cr_assert_eq(blob.length, (size_t)size);
        fclose(in);
        return blob;
}

static ds_ptx_module *parse(const char *name, const char *text, size_t length)
{
        struct ds_ptx_diags diags;
        ds_ptx_module *module = NULL;
        char errors[8192];
        int r = ds_ptx_parse(text, length, 0, &diags, &module);

        ds_ptx_diags_format(&diags, name, errors, sizeof(errors));
        cr_assert_eq(r, 0, "%s: %d\n%s", name, r, errors);
        return module;
}

static void print_to(const ds_ptx_module *module, const char *path)
{
        FILE *out = fopen(path, "we");

        cr_assert(out, "cannot write %s", path);
        cr_assert_eq(ds_ptx_print(module, out), 0);
        cr_assert_eq(fclose(out), 0);
}

static void assemble(const char *arch, const char *ptx, const char *cubin)
{
        char option[32], log[310];
        struct blob said;
        char *const argv[] = {(char *)PTXAS, option, (char *)ptx, (char *)"-o", (char *)cubin, NULL};
        posix_spawn_file_actions_t actions;
        int status;
        pid_t pid;

        snprintf(option, sizeof(option), "-arch=%s", arch);
        posix_spawn_file_actions_init(&actions);
        snprintf(log, sizeof(log), "%s.log", cubin);
        posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        cr_assert_eq(posix_spawn(&pid, PTXAS, &actions, NULL, argv, environ), 0, "cannot run " PTXAS);
        posix_spawn_file_actions_destroy(&actions);
        cr_assert_eq(waitpid(pid, &status, 0), pid);
        said = read_file(log);
        cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, PTXAS " %s %s failed:\n%.*s", option, ptx,
                (int)said.length, said.data);
        free(said.data);
        unlink(log);
}

/* print(parse(print(x))) == print(x), and every opcode met is marked */
static void check_fixpoint(const char *path, const char *printed, bool seen[_DS_PTX_OP_MAX])
{
        struct blob once = read_file(printed);
        ds_cleanup(ds_ptx_module_freep) ds_ptx_module *module = parse(path, once.data, once.length);
        char *twice = NULL;
        size_t n = 0;
        FILE *stream = open_memstream(&twice, &n);

        cr_assert_eq(ds_ptx_print(module, stream), 0);
        fclose(stream);
        cr_assert(n == once.length && memcmp(twice, once.data, n) == 0, "%s prints differently the second time", path);
        for (uint32_t i = 0; i < module->n_functions; i++)
                for (uint32_t j = 0; j < module->functions[i]->n_instrs; j++)
                        seen[module->functions[i]->instrs[j].op] = true;
        free(twice);
        free(once.data);
}

static uint32_t count_kernels(const ds_ptx_module *module)
{
        uint32_t n = 0;

        for (uint32_t i = 0; i < module->n_functions; i++)
                n += module->functions[i]->is_entry && module->functions[i]->has_body;
        return n;
}

static uint32_t check_file(const char *arch, const char *path, const char *dir, bool seen[_DS_PTX_OP_MAX])
{
        char printed[300], want[300], have[300];
        struct blob text = read_file(path), a, b;
        ds_cleanup(ds_ptx_module_freep) ds_ptx_module *module = parse(path, text.data, text.length);
        uint32_t kernels = count_kernels(module);

        snprintf(printed, sizeof(printed), "%s/printed.ptx", dir);
        snprintf(want, sizeof(want), "%s/want.cubin", dir);
        snprintf(have, sizeof(have), "%s/have.cubin", dir);
        print_to(module, printed);
        check_fixpoint(path, printed, seen);
        assemble(arch, path, want);
        assemble(arch, printed, have);
        a = read_file(want);
        b = read_file(have);
        cr_expect(a.length == b.length && memcmp(a.data, b.data, a.length) == 0, "%s: the cubins differ", path);
        unlink(printed);
        unlink(want);
        unlink(have);
        free(text.data);
        free(a.data);
        free(b.data);
        return kernels;
}

static void check_arch(const char *arch)
{
        char pattern[300], dir[] = "/tmp/ptx-roundtrip-XXXXXX";
        bool seen[_DS_PTX_OP_MAX] = {false};
        uint32_t kernels = 0, rows = 0;
        glob_t found;

        cr_assert_eq(access(PTXAS, X_OK), 0, "no assembler at " PTXAS);
        cr_assert(mkdtemp(dir));
        snprintf(pattern, sizeof(pattern), TEST_PTX_DIR "/%s/*.ptx", arch);
        cr_assert_eq(glob(pattern, 0, NULL, &found), 0, "nothing matches %s: make kernels", pattern);
        cr_assert_geq(found.gl_pathc, MIN_FILES, "only %zu files match %s", found.gl_pathc, pattern);
        for (size_t i = 0; i < found.gl_pathc; i++)
                kernels += check_file(arch, found.gl_pathv[i], dir, seen);
        for (uint32_t op = 0; op < _DS_PTX_OP_MAX; op++)
                rows += seen[op];
        fprintf(stderr, "%s: %zu files, %u kernels, %u of %u opcode rows\n", arch, found.gl_pathc, kernels, rows,
                (uint32_t)_DS_PTX_OP_MAX);
        cr_expect_geq(kernels, 60);
        cr_expect_geq(rows, 90);
        globfree(&found);
        rmdir(dir);
}

Test(ptx_roundtrip, sm_75)
{
        check_arch("sm_75");
}

Test(ptx_roundtrip, sm_90)
{
        check_arch("sm_90");
}

/* Every row of the opcode table in a kernel of its own, whatever compilers emit */
Test(ptx_roundtrip, rows)
{
        char dir[] = "/tmp/ptx-roundtrip-XXXXXX", path[300];
        bool seen[_DS_PTX_OP_MAX] = {false};
        FILE *out;

        cr_assert(mkdtemp(dir));
        snprintf(path, sizeof(path), "%s/rows.ptx", dir);
        out = fopen(path, "we");
        cr_assert(out);
        fputs(PTX_ROWS_HEAD, out);
        for (uint32_t op = 0; op < _DS_PTX_OP_MAX; op++) {
                fprintf(out, ".visible .entry row_%u(.param .u64 p0)\n{\n%s%s\nret;\n}\n", op, PTX_ROWS_BODY,
                        ptx_rows[op]);
        }
        cr_assert_eq(fclose(out), 0);
        cr_expect_eq(check_file("sm_90a", path, dir, seen), _DS_PTX_OP_MAX);
        for (uint32_t op = 0; op < _DS_PTX_OP_MAX; op++)
                cr_expect(seen[op], "no statement is %s", ds_ptx_op_info((enum ds_ptx_op)op)->key);
        unlink(path);
        rmdir(dir);
}
