/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Round trip: the printer's output assembles to the same machine code as the compiler's own PTX
 *
 * Every PTX file of the corpus (build/ptx: nvcc's of tests/programs/kernels, Triton's of tests/programs/triton) is parsed
 * and printed, and NVIDIA's assembler makes a cubin of the printed text. It must be, byte for byte, the cubin of the
 * compiler's own text with the same options: the build's, or one that the test assembles where the build made none.
 * The test counts files and kernels and skips none in silence.
 *
 *   - Cubins of files with line tables leave out the sections that quote the PTX and its line numbers. Those of nvcc -G
 *     and -lineinfo are assembled once more with them, and all other sections are compared.
 *   - With -c the assembler names a kernel's shared variables by their line (x__LINE), so no file of the variant rdc
 *     declares one.
 *   - A short build assembles without optimising (NAME.O0.cubin), where more of a text is left to compare.
 *   - The corpus has every row of opcodes.def, if need be by inline assembly.
 *
 * Under a sanitizer nothing is assembled: the texts are the plain build's, and it compares them.
 */
#include <criterion/criterion.h>
#include <elf.h>
#include <fcntl.h>
#include <glob.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ptx/ir.h"
#include "ptx/ptx.h"
#include "ptx_rows.h"
#include "util/macro.h"

#define MIN_FILES 150
#define MIN_KERNELS 600 /* with different names */
#define MAX_KERNELS 8192
#define MAX_JOBS 16

#ifdef __SANITIZE_ADDRESS__
#define ASSEMBLES 0
#else
#define ASSEMBLES 1
#endif

extern char **environ;

struct blob {
        char *data;
        size_t length;
};

/* Results of the processes, one per file, in shared memory */
struct found {
        uint32_t files, kernels;
        /* hashes of kernel names, to count different kernels: one file may be compiled for several targets */
        uint64_t names[MAX_KERNELS];
        bool seen[_DS_PTX_OP_MAX];
};

/* One file: TARGET/NAME.ptx */
struct subject {
        bool plain; /* 1: assembled without optimising */
        bool built; /* 1: the build has a cubin of this text */
        char path[300], folder[300], name[100], arch[20], options[100];
};

static struct found *shared_found(void)
{
        struct found *found = mmap(NULL, sizeof(*found), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

        cr_assert_neq(found, MAP_FAILED);
        return found;
}

/* Fails in the process of one file: it exits, and the test sees the status */
static void __attribute__((format(printf, 1, 2), noreturn)) fail(const char *format, ...)
{
        va_list args;

        va_start(args, format);
        vfprintf(stderr, format, args);
        va_end(args);
        fputc('\n', stderr);
        fflush(stderr);
        _exit(1);
}

static struct blob read_file(const char *path)
{
        struct blob blob = {NULL, 0};
        FILE *in = fopen(path, "re");
        long size;

        if (!in)
                fail("cannot open %s: make corpus", path);
        fseek(in, 0, SEEK_END);
        size = ftell(in);
        rewind(in);
        blob.data = malloc((size_t)size + 1);
        blob.length = blob.data ? fread(blob.data, 1, (size_t)size, in) : 0;
        if (blob.length != (size_t)size)
                fail("cannot read %s", path);
        fclose(in);
        return blob;
}

static ds_ptx_module *parse(const char *name, const struct blob *text)
{
        struct ds_ptx_diags diags;
        ds_ptx_module *module = NULL;
        char errors[8192];
        int r = ds_ptx_parse(text->data, text->length, 0, &diags, &module);

        ds_ptx_diags_format(&diags, name, errors, sizeof(errors));
        if (r)
                fail("%s: %d\n%s", name, r, errors);
        return module;
}

static void print_to(const ds_ptx_module *module, const char *path)
{
        FILE *out = fopen(path, "we");

        if (!out || ds_ptx_print(module, out) || fclose(out))
                fail("cannot print to %s", path);
}

/* ptxas -arch=... [option ...] -o NAME.cubin NAME.ptx in the current directory, as the build does */
static void assemble(const struct subject *s, const char *options)
{
        char arch[32], words[100], cubin[110], ptx[110], *argv[12] = {(char *)PTXAS, arch}, *save = NULL;
        posix_spawn_file_actions_t actions;
        struct blob said;
        int status, n = 2;
        pid_t pid;

        snprintf(arch, sizeof(arch), "-arch=%s", s->arch);
        snprintf(words, sizeof(words), "%s", options);
        snprintf(cubin, sizeof(cubin), "%s.cubin", s->name);
        snprintf(ptx, sizeof(ptx), "%s.ptx", s->name);
        for (char *word = strtok_r(words, " ", &save); word && n < 6; word = strtok_r(NULL, " ", &save))
                argv[n++] = word;
        if (s->plain)
                argv[n++] = (char *)"-O0";
        argv[n++] = (char *)"-o";
        argv[n++] = cubin;
        argv[n++] = ptx;
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "log", O_WRONLY | O_CREAT | O_TRUNC, 0600);
        if (posix_spawn(&pid, PTXAS, &actions, NULL, argv, environ) || waitpid(pid, &status, 0) != pid)
                fail("cannot run " PTXAS);
        posix_spawn_file_actions_destroy(&actions);
        said = read_file("log");
        if (!WIFEXITED(status) || WEXITSTATUS(status))
                fail(PTXAS " of what is printed of %s failed:\n%.*s", s->path, (int)DS_MIN(said.length, 3000u),
                        said.data);
        free(said.data);
        unlink("log");
}

static void note_names(struct found *found, const ds_ptx_module *module)
{
        for (uint32_t i = 0; i < module->n_functions; i++) {
                const struct ds_ptx_function *f = module->functions[i];
                uint64_t hash = 14695981039346656037u; /* start value of the FNV-1a hash */
                uint32_t at;

                for (uint32_t j = 0; j < f->n_instrs; j++)
                        found->seen[f->instrs[j].op] = true;
                if (!f->is_entry || !f->has_body)
                        continue;
                for (const char *c = f->name; *c; c++)
                        hash = (hash ^ (uint8_t)*c) * 1099511628211u;
                at = __atomic_fetch_add(&found->kernels, 1, __ATOMIC_RELAXED);
                if (at >= MAX_KERNELS)
                        fail("more than %u kernels: MAX_KERNELS", MAX_KERNELS);
                found->names[at] = hash;
        }
}

/* Asserts that the printed text, parsed and printed again, is the same text */
static void check_fixpoint(const struct subject *s, const char *printed)
{
        struct blob once = read_file(printed);
        ds_cleanup(ds_ptx_module_freep) ds_ptx_module *module = parse(s->path, &once);
        char *twice = NULL;
        size_t n = 0;
        FILE *stream = open_memstream(&twice, &n);

        if (!stream || ds_ptx_print(module, stream) || fclose(stream))
                fail("%s: cannot print it again", s->path);
        if (n != once.length || memcmp(twice, once.data, n) != 0)
                fail("%s prints differently the second time", s->path);
        free(twice);
        free(once.data);
}

static const Elf64_Shdr *section(const struct blob *cubin, uint32_t i, const char **ret_name)
{
        const Elf64_Ehdr *head = (const Elf64_Ehdr *)cubin->data;
        const Elf64_Shdr *table = (const Elf64_Shdr *)(cubin->data + head->e_shoff);

        if (i >= head->e_shnum)
                return NULL;
        *ret_name = cubin->data + table[head->e_shstrndx].sh_offset + table[i].sh_name;
        return &table[i];
}

/* Compares all sections except those that quote the PTX or say from which PTX line an instruction comes */
static void compare_sections(const struct subject *s, const struct blob *a, const struct blob *b)
{
        const Elf64_Shdr *x, *y;
        const char *name, *other;
        uint32_t compared = 0;

        for (uint32_t i = 0; (x = section(a, i, &name)); i++) {
                y = section(b, i, &other);
                if (!y || strcmp(name, other) != 0)
                        fail("%s: the cubins have other sections: %s", s->path, name);
                if (strstr(name, "nv_debug_line_sass") || strstr(name, "nv_debug_ptx_txt") || x->sh_type == SHT_NOBITS)
                        continue;
                if (x->sh_size != y->sh_size || memcmp(a->data + x->sh_offset, b->data + y->sh_offset, x->sh_size) != 0)
                        fail("%s: the cubins' sections %s differ", s->path, name);
                compared += strncmp(name, ".debug_", 7) == 0 && x->sh_size;
        }
        if (compared < 2)
                fail("%s: only %u sections of debug information", s->path, compared);
}

/* The build's cubin of a text; false if there is none, or if it is older than the text. */
static bool cubin_path(const char *folder, const char *name, bool plain, char path[420])
{
        struct stat cubin, text;

        snprintf(path, 420, "%s/%s.ptx", folder, name);
        if (stat(path, &text))
                return false;
        snprintf(path, 420, "%s/%s%s.cubin", folder, name, plain ? ".O0" : "");
        return stat(path, &cubin) == 0 &&
               (cubin.st_mtim.tv_sec > text.st_mtim.tv_sec ||
                       (cubin.st_mtim.tv_sec == text.st_mtim.tv_sec && cubin.st_mtim.tv_nsec >= text.st_mtim.tv_nsec));
}

/* Assembles the compiler's own text; `ptx` in the current directory is the printed text, before and after */
static struct blob assemble_original(const struct subject *s, const char *options, const char *ptx, const char *cubin)
{
        struct blob blob;

        if (rename(ptx, "printed") || symlink(s->path, ptx))
                fail("cannot link %s", ptx);
        assemble(s, options);
        blob = read_file(cubin);
        if (unlink(ptx) || rename("printed", ptx))
                fail("cannot put %s back", ptx);
        return blob;
}

static void compare_cubins(const struct subject *s, const char *printed)
{
        char path[420], cubin[110];
        struct blob a, b;

        snprintf(cubin, sizeof(cubin), "%s.cubin", s->name);
        b = read_file(cubin);
        if (s->built && cubin_path(s->folder, s->name, s->plain, path))
                a = read_file(path);
        else
                a = assemble_original(s, s->options, printed, cubin);
        if (a.length != b.length || memcmp(a.data, b.data, a.length) != 0)
                fail("%s: the cubins differ", s->path);
        unlink(cubin);
        free(a.data);
        free(b.data);
}

/* Assembles both texts once more with the output for debuggers and compares the cubins */
static void check_debug_information(const struct subject *s, const char *printed)
{
        char options[100], cubin[110];
        struct blob a, b;

        snprintf(options, sizeof(options), "%s", s->options);
        *strstr(options, " -suppress") = '\0';
        snprintf(cubin, sizeof(cubin), "%s.cubin", s->name);
        assemble(s, options);
        b = read_file(cubin);
        a = assemble_original(s, options, printed, cubin);
        compare_sections(s, &a, &b);
        free(a.data);
        free(b.data);
}

/*
 * A short build (tests/tests.mk) assembles only one of two texts that differ in their .target line only. Returns
 * whether this text is the other one, and the first has a cubin.
 */
static bool assembled_elsewhere(const struct subject *s, const struct blob *text)
{
        static const char mine[] = "\n.target sm_90", other[] = "\n.target sm_75";
        const size_t n = sizeof(mine) - 1;
        char path[420];
        struct blob twin;
        const char *a, *b;
        bool same;

        if (s->built || strcmp(s->arch, "sm_90") != 0 || strstr(s->folder, "/corpus/") ||
                (!cubin_path(TEST_PTX_DIR "/sm_75", s->name, true, path) &&
                        !cubin_path(TEST_PTX_DIR "/sm_75", s->name, false, path)))
                return false;
        snprintf(path, sizeof(path), TEST_PTX_DIR "/sm_75/%s.ptx", s->name);
        twin = read_file(path);
        a = memmem(text->data, text->length, mine, n);
        b = memmem(twin.data, twin.length, other, n);
        same = a && b && text->length == twin.length && a - text->data == b - twin.data &&
               memcmp(text->data, twin.data, (size_t)(a - text->data)) == 0 &&
               memcmp(a + n, b + n, text->length - n - (size_t)(a - text->data)) == 0;
        free(twin.data);
        return same;
}

/* Runs the whole test of one file, in a process and a directory of its own */
static void check_file(const struct subject *s, struct found *found)
{
        char printed[110], dir[] = "/tmp/ptx-roundtrip-XXXXXX";
        struct blob text = read_file(s->path);
        ds_cleanup(ds_ptx_module_freep) ds_ptx_module *module = parse(s->path, &text);

        if (!mkdtemp(dir) || chdir(dir))
                fail("cannot make %s", dir);
        snprintf(printed, sizeof(printed), "%s.ptx", s->name);
        print_to(module, printed);
        check_fixpoint(s, printed);
        if (ASSEMBLES && !assembled_elsewhere(s, &text)) {
                assemble(s, s->options);
                compare_cubins(s, printed);
                if (strstr(s->options, "-suppress") && !strstr(s->folder, "+triton"))
                        check_debug_information(s, printed);
                snprintf(printed, sizeof(printed), "%s.cubin", s->name);
                unlink(printed);
                snprintf(printed, sizeof(printed), "%s.ptx", s->name);
        }
        note_names(found, module);
        __atomic_fetch_add(&found->files, 1, __ATOMIC_RELAXED);
        unlink(printed);
        rmdir(dir);
        free(text.data);
}

/* Parses .../ARCH[+VARIANT]/NAME.ptx; PTXAS_VARIANTS is "VARIANT=OPTIONS;..." */
static struct subject subject_of(const char *path)
{
        struct subject s;
        const char *folder, *variant, *options;
        char key[40], cubin[420];

        snprintf(s.path, sizeof(s.path), "%s", path);
        snprintf(s.folder, sizeof(s.folder), "%.*s", (int)(strrchr(path, '/') - path), path);
        snprintf(s.name, sizeof(s.name), "%.*s", (int)strlen(strrchr(path, '/') + 1) - 4, strrchr(path, '/') + 1);
        folder = strrchr(s.folder, '/') + 1;
        snprintf(s.arch, sizeof(s.arch), "%.*s", (int)strcspn(folder, "+"), folder);
        s.options[0] = '\0';
        variant = strchr(folder, '+');
        if (variant) {
                snprintf(key, sizeof(key), ";%s=", variant + 1);
                options = strstr(";" PTXAS_VARIANTS, key);
                cr_assert(options, "no variant %s", variant);
                options += strlen(key);
                snprintf(s.options, sizeof(s.options), "%.*s", (int)strcspn(options, ";"), options);
        }
        /* after two kinds of builds both cubins may exist: this run's kind is used; without one the test assembles
         * both texts */
        s.plain = !getenv("DETSHARE_TEST_WHOLE");
        s.built = cubin_path(s.folder, s.name, s.plain, cubin);
        if (!s.built && cubin_path(s.folder, s.name, !s.plain, cubin)) {
                s.plain = !s.plain;
                s.built = true;
        }
        return s;
}

/* Returns the number of files that failed; each has a process, a few run at a time */
static uint32_t check_files(char *const *paths, size_t n, struct found *found)
{
        long jobs = DS_MIN(sysconf(_SC_NPROCESSORS_ONLN), MAX_JOBS);
        uint32_t failed = 0;
        size_t running = 0;
        int status;

        for (size_t i = 0; i < n || running;) {
                if (i < n && running < (size_t)jobs) {
                        struct subject s = subject_of(paths[i++]);
                        pid_t pid = fork();

                        cr_assert_geq(pid, 0);
                        if (pid == 0) {
                                check_file(&s, found);
                                _exit(0);
                        }
                        running++;
                } else {
                        cr_assert_gt(wait(&status), 0);
                        failed += !WIFEXITED(status) || WEXITSTATUS(status);
                        running--;
                }
        }
        return failed;
}

static int by_value(const void *a, const void *b)
{
        uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

        return x < y ? -1 : x > y;
}

static uint32_t count_different(struct found *found)
{
        uint32_t n = 0;

        qsort(found->names, found->kernels, sizeof(found->names[0]), by_value);
        for (uint32_t i = 0; i < found->kernels; i++)
                n += i == 0 || found->names[i] != found->names[i - 1];
        return n;
}

Test(ptx_roundtrip, corpus, .timeout = 280)
{
        struct found *found = shared_found();
        uint32_t kernels, rows = 0;
        glob_t files;

        cr_assert_eq(access(PTXAS, X_OK), 0, "no assembler at " PTXAS);
        cr_assert_eq(glob(TEST_PTX_DIR "/sm_*/*.ptx", 0, NULL, &files), 0, "no files: make corpus");
        cr_assert_eq(glob(TEST_PTX_DIR "/corpus/*/*.ptx", GLOB_APPEND, NULL, &files), 0, "no files: make corpus");
        cr_expect_eq(check_files(files.gl_pathv, files.gl_pathc, found), 0);
        kernels = count_different(found);
        for (uint32_t op = 0; op < _DS_PTX_OP_MAX; op++) {
                rows += found->seen[op];
                cr_expect(found->seen[op], "no kernel of the corpus has %s", ds_ptx_op_info((enum ds_ptx_op)op)->key);
        }
        fprintf(stderr, "%u of %zu files, %u kernels, %u of them different, %u of %u opcode rows\n", found->files,
                files.gl_pathc, found->kernels, kernels, rows, (uint32_t)_DS_PTX_OP_MAX);
        cr_expect_geq(found->files, MIN_FILES);
        cr_expect_geq(kernels, MIN_KERNELS);
        globfree(&files);
        munmap(found, sizeof(*found));
}

/* Every row of the opcode table in a kernel of its own, whether or not compilers emit it */
Test(ptx_roundtrip, rows)
{
        char dir[] = "/tmp/ptx-roundtrip-XXXXXX", path[300], *paths[] = {path};
        struct found *found = shared_found();
        FILE *out;

        cr_assert(mkdtemp(dir));
        snprintf(path, sizeof(path), "%s/sm_90a", dir);
        cr_assert_eq(mkdir(path, 0700), 0);
        snprintf(path, sizeof(path), "%s/sm_90a/rows.ptx", dir);
        out = fopen(path, "we");
        cr_assert(out);
        fputs(PTX_ROWS_HEAD, out);
        for (uint32_t op = 0; op < _DS_PTX_OP_MAX; op++) {
                fprintf(out, ".visible .entry row_%u(.param .u64 p0)\n{\n%s%s\nret;\n}\n", op, PTX_ROWS_BODY,
                        ptx_rows[op]);
        }
        cr_assert_eq(fclose(out), 0);
        cr_assert_eq(check_files(paths, 1, found), 0);
        cr_expect_eq(found->kernels, _DS_PTX_OP_MAX);
        for (uint32_t op = 0; op < _DS_PTX_OP_MAX; op++)
                cr_expect(found->seen[op], "no statement is %s", ds_ptx_op_info((enum ds_ptx_op)op)->key);
        unlink(path);
        *strrchr(path, '/') = '\0';
        rmdir(path);
        rmdir(dir);
        munmap(found, sizeof(*found));
}
