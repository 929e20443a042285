/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The front end's verdict on instructions against that of NVIDIA's assembler
 *
 * Both judge variants of every row of opcodes.def (ptx_variants.h). The assembler reads thousands in one text and names
 * the line of each one that it refuses; a last line that is no PTX keeps it from assembling the rest. The two verdicts
 * must agree, except for the exceptions listed here with a reason.
 *
 * Directives are compared by whole modules (modules.txt), with one run of the assembler for each. A short run compares
 * half of them, another half each time.
 *
 * PTX_ORACLE_N: variants per row (default DEFAULT_N, by rounds.h), modules per pattern (default 3). PTX_ORACLE_SEED:
 * another sample. PTX_ORACLE_OUT: a file that receives every disagreement.
 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ptx/ptx.h"
#include "ptx_variants.h"
#include "rounds.h"

#define DEFAULT_N 60
#define AT_ONCE 64   /* statements per text of the assembler; more only if one source makes more */
#define FIRST_LINE 5 /* line of the first statement, behind PTX_VARIANTS_HEAD */
#define MAX_SHOWN 40

extern char **environ;

static size_t from_environment(const char *name, size_t otherwise)
{
        const char *value = getenv(name);

        return value ? strtoul(value, NULL, 10) : otherwise;
}

/* Verdicts of the assembler and the front end on one statement */
struct verdict {
        char *statement;
        bool refused;
        bool unknown; /* 1: unknown, because the assembler crashed */
        char why[200];
};

struct text {
        const char *arch, *version;
        struct verdict *verdicts;
        size_t n;
        size_t accepted, disagreed;
};

/* Writes the first n statements except those that already have a verdict, and a last line that is no statement */
static void write_text(const struct text *text, size_t n, const char *path)
{
        FILE *out = fopen(path, "we");

        cr_assert(out, "cannot write %s", path);
        fprintf(out, ".version %s\n.target %s\n%s", text->version, text->arch, PTX_VARIANTS_HEAD);
        for (size_t i = 0; i < n; i++)
                fprintf(out, "%s\n", text->verdicts[i].refused ? "" : text->verdicts[i].statement);
        fputs(".!\n", out);
        cr_assert_eq(fclose(out), 0);
}

/* Runs the assembler. Returns its status in the form of waitpid() */
static int start_assembler(const char *arch, const char *path, const char *log)
{
        char option[32];
        char *const argv[] = {(char *)PTXAS, option, (char *)path, (char *)"-o", (char *)"/dev/null", NULL};
        posix_spawn_file_actions_t actions;
        int status;
        pid_t pid;

        snprintf(option, sizeof(option), "-arch=%s", arch);
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        cr_assert_eq(posix_spawn(&pid, PTXAS, &actions, NULL, argv, environ), 0, "cannot run " PTXAS);
        posix_spawn_file_actions_destroy(&actions);
        cr_assert_eq(waitpid(pid, &status, 0), pid);
        return status;
}

/* Runs the assembler. Returns false if it crashed. */
static bool run_assembler(const char *arch, const char *path, const char *log)
{
        int status = start_assembler(arch, path, log);

        cr_assert(!WIFEXITED(status) || WEXITSTATUS(status), PTXAS " accepted a text that is no PTX");
        return WIFEXITED(status);
}

/* Marks the statements that the assembler's log refuses. Returns true if the assembler reached the end of the text. */
static bool read_log(struct text *text, const char *log)
{
        FILE *in = fopen(log, "re");
        char line[1024], *at;
        bool end = false;

        cr_assert(in);
        while (fgets(line, sizeof(line), in)) {
                size_t number;
                char *what;

                at = strstr(line, ", line ");
                if (!at || sscanf(at, ", line %zu", &number) != 1 || number < FIRST_LINE)
                        continue;
                what = strchr(at, ';');
                if (!what || (!strstr(what, "error") && !strstr(what, "fatal")))
                        continue;
                if (number - FIRST_LINE >= text->n) {
                        end = true;
                        continue;
                }
                what = strchr(what, ':') + 2;
                what[strcspn(what, "\n")] = '\0';
                if (!text->verdicts[number - FIRST_LINE].refused)
                        snprintf(text->verdicts[number - FIRST_LINE].why, sizeof(text->verdicts->why), "%s", what);
                text->verdicts[number - FIRST_LINE].refused = true;
        }
        fclose(in);
        return end;
}

/* Finds the first statement that crashes the assembler (13.0 crashes at `atom` with a wrong cache policy) and
 * excludes it. */
static void find_crash(struct text *text, const char *ptx, const char *log)
{
        size_t fine = 0, crashes = text->n;

        while (crashes - fine > 1) {
                size_t middle = (fine + crashes) / 2;

                write_text(text, middle, ptx);
                if (run_assembler(text->arch, ptx, log))
                        fine = middle;
                else
                        crashes = middle;
        }
        text->verdicts[crashes - 1].refused = true;
        text->verdicts[crashes - 1].unknown = true;
}

static void ask_assembler(struct text *text)
{
        char dir[] = "/tmp/ptx-oracle-XXXXXX", ptx[64], log[64];
        bool done = false;

        cr_assert_eq(access(PTXAS, X_OK), 0, "no assembler at " PTXAS);
        cr_assert(mkdtemp(dir));
        snprintf(ptx, sizeof(ptx), "%s/text.ptx", dir);
        snprintf(log, sizeof(log), "%s/log", dir);
        for (size_t round = 0; !done; round++) {
                cr_assert_leq(round, text->n, "%s stops too often", PTXAS);
                write_text(text, text->n, ptx);
                if (run_assembler(text->arch, ptx, log))
                        done = read_log(text, log);
                else
                        find_crash(text, ptx, log);
        }
        unlink(ptx);
        unlink(log);
        rmdir(dir);
}

/* --- exceptions -------------------------------------------------------------------------------------------------- */
/* The verdicts on a statement that contains all of `words` may differ. */
struct exception {
        bool we_accept;
        const char *words[3];
        const char *reason;
};

#define TEXTURE "textures are read and printed, and refused when a kernel is loaded; their operands are not checked"

static const struct exception exceptions[] = {
        {true, {"tex."}, TEXTURE},
        {true, {"tld4."}, TEXTURE},
        {true, {"txq."}, TEXTURE},
        {true, {"suld."}, TEXTURE},
        {true, {"sust."}, TEXTURE},
        {true, {"sured."}, TEXTURE},
        {true, {"suq."}, TEXTURE},
        {true, {"%hx"}, "a register of .f16x2 is bits to some of the assembler's instructions, here to all"},
        {false, {"%hx"}, "and even a predicate to some"},
        {true, {"cvta.to."}, "a variable's address in place of a generic one: taken or not without a rule"},
        {true, {"[pa]"}, "the address of a parameter as a generic address: the interpreter finds it in no range"},
        {true, {"%d6", "mbarrier."}, "barriers are bits here, unsigned integers to the assembler"},
        {true, {"redux.sync.", "0f"}, "a float constant as bits"},
        {true, {"mbarrier.pending_count"}, "barriers are bits here, unsigned integers to the assembler"},
        {true, {"bmsk.", "%f5"}, "a register of .f32 for bits"},
        {true, {".volatile", "L2::cache_hint"}, "a hint that an access of this order has no use for"},
        {true, {"createpolicy.range"}, "the primary size greater than the total"},
        {true, {"mbarrier.arrive", "shared::cluster"}, "remote arrival without its result '_'"},
        {true, {"f64", "0f"}, "a constant of 32 bits for a double: taken or not without a rule"},
        {false, {"movmatrix.sync"}, "any register at all"},
        {false, {"m16n8k16", "e4m3"}, "not documented: two registers of which one is used"},
        {false, {"m16n8k16", "e5m2"}, "not documented: two registers of which one is used"},
        {true, {"1e400"}, "decimal numbers too large become infinity"},
        {true, {"prefetchu.L1", "[larr]"}, "a local address as a generic one"},
        {true, {"st.volatile.cs"}, "documented: .volatile takes no cache operation"},
        {true, {"{_,_}"}, "a load of nothing"},
        {true, {"[%rd1-4]"}, "the assembler wants [%rd1+-4]"},
        {true, {"cvt.", ".bf16", "%rd"}, "a register wider than .bf16"},
        {true, {"setp.", "x2 ", ", 16"}, "an integer for a pair of floats"},
        {false, {"mov.b128"}, "a constant of 128 bits"},
        {false, {".b128", ", 1"}, "a constant of 128 bits"},
        {false, {"atom.cas.b128"}, "a constant of 128 bits"},
        {false, {"mov.v"}, "not documented; no compiler writes it"},
        {false, {"st.", ".f64", "{1,2}"}, "integers for floats, in some stores only"},
        {false, {"cp.async.bulk.shared::cta.global", "bytes"}, "not documented: no barrier for the completion"},
        {false, {"cp.reduce.async.bulk.shared::cluster"}, "not documented: no barrier for the completion"},
        {false, {"st.async"}, "not documented: a vector for a scalar, an order without its instruction"},
        {false, {"wgmma.mma_async.", "satfinite"}, "not documented: .satfinite elsewhere than behind the types"},
        {false, {"mma.sync.sp."}, "not documented: .sp behind .sync"},
        {false, {"wmma.load."}, "shapes that no wmma.mma has"},
        {false, {"wmma.store."}, "shapes that no wmma.mma has"},
        {false, {"v", ", -%r"}, "not documented: the negation of both sources of a video instruction"},
        {false, {"fma.r", "bf16"}, "not documented: other roundings of .bf16 than .rn"},
        {false, {"cvt.pack.sat."}, "sources wider than their type"},
        {false, {"atom.", "exch"}, "not documented: a cache policy that is not used"},
};

static bool is_exception(const char *statement, bool we_accept)
{
        for (size_t i = 0; i < DS_ARRAY_SIZE(exceptions); i++) {
                bool all = exceptions[i].we_accept == we_accept;

                for (size_t j = 0; all && j < 3 && exceptions[i].words[j]; j++)
                        all = strstr(statement, exceptions[i].words[j]);
                if (all)
                        return true;
        }
        return false;
}

/* --- comparing --------------------------------------------------------------------------------------------------- */
static bool we_accept(const struct text *text, const char *statement, char *why, size_t size)
{
        ds_cleanup(ds_ptx_module_freep) ds_ptx_module *module = NULL;
        struct ds_ptx_diags diags;
        char all[8192];

        snprintf(all, sizeof(all), ".version %s\n.target %s\n%s%s\n}\n", text->version, text->arch, PTX_VARIANTS_HEAD,
                statement);
        snprintf(why, size, "accepted");
        if (ds_ptx_parse(all, strlen(all), 0, &diags, &module) == 0)
                return true;
        snprintf(why, size, "%s", diags.n ? diags.diag[0].message : "no memory");
        return false;
}

static void compare(struct text *text, FILE *out)
{
        char why[200];

        ask_assembler(text);
        for (size_t i = 0; i < text->n; i++) {
                const struct verdict *v = &text->verdicts[i];
                bool ours = we_accept(text, v->statement, why, sizeof(why));

                text->accepted += !v->refused;
                if (v->unknown || ours != v->refused || is_exception(v->statement, ours))
                        continue;
                if (out)
                        fprintf(out, "%s|%s|%s|%s|%s|%s\n", ours ? "LAX" : "STRICT", text->arch, text->version,
                                v->statement, v->refused ? v->why : "accepted", why);
                if (text->disagreed++ < MAX_SHOWN)
                        cr_expect(false, "%s %s: %s\n  assembler: %s\n  front end: %s", text->arch, text->version,
                                v->statement, v->refused ? v->why : "accepted", why);
        }
}

static bool has_variants(const struct ds_ptx_op_info *info)
{
        return !strpbrk(info->operands, "ltc");
}

/* A sample in progress: texts of statements of one row or pattern, for one target */
struct sample {
        struct text text;
        size_t n, seed; /* statements per source */
        size_t statements;
        FILE *out;
};

static void begin(struct sample *sample, const char *arch, const char *version, size_t n_per_source)
{
        const char *path = getenv("PTX_ORACLE_OUT");

        *sample = (struct sample){.text = {.arch = arch, .version = version},
                .n = from_environment("PTX_ORACLE_N", rounds_of(n_per_source)),
                .seed = from_environment("PTX_ORACLE_SEED", 1)};
        sample->out = path ? fopen(path, "ae") : NULL;
        sample->text.verdicts = calloc(sample->n + AT_ONCE, sizeof(*sample->text.verdicts));
        cr_assert(sample->text.verdicts);
}

static void add(struct sample *sample, const char *statement)
{
        for (size_t i = sample->text.n; i-- > 0;)
                if (strcmp(sample->text.verdicts[i].statement, statement) == 0)
                        return;
        sample->text.verdicts[sample->text.n] = (struct verdict){.statement = strdup(statement)};
        cr_assert(sample->text.verdicts[sample->text.n++].statement);
}

static void flush(struct sample *sample)
{
        compare(&sample->text, sample->out);
        sample->statements += sample->text.n;
        for (; sample->text.n; sample->text.n--)
                free(sample->text.verdicts[sample->text.n - 1].statement);
}

/* Ends the statements of one source. Few statements share one text, because the assembler starts slowly, and
 * restarts after a crash. */
static void flush_many(struct sample *sample)
{
        if (sample->text.n >= AT_ONCE)
                flush(sample);
}

static void end(struct sample *sample, const char *what)
{
        if (sample->text.n)
                flush(sample);
        fprintf(stderr, "%s, PTX %s: %zu %s, the assembler accepts %zu, %zu disagreements\n", sample->text.arch,
                sample->text.version, sample->statements, what, sample->text.accepted, sample->text.disagreed);
        cr_expect_eq(sample->text.disagreed, 0);
        cr_expect_gt(sample->text.accepted, 0);
        free(sample->text.verdicts);
        if (sample->out)
                fclose(sample->out);
}

static void compare_variants(const char *arch, const char *version, size_t n_per_row)
{
        struct ptx_variant *v = malloc(sizeof(*v));
        struct sample sample;

        cr_assert(v);
        begin(&sample, arch, version, n_per_row);
        for (uint32_t op = 0; op < _DS_PTX_OP_MAX; op++) {
                if (!has_variants(ds_ptx_op_info((enum ds_ptx_op)op)))
                        continue;
                for (size_t i = 0; i < sample.n; i++) {
                        ptx_variant_make(v, (enum ds_ptx_op)op, sample.seed * 1000000 + i);
                        add(&sample, v->text);
                }
                flush_many(&sample);
        }
        end(&sample, "variants");
        free(v);
}

/* --- patterns ---------------------------------------------------------------------------------------------------- */
/* Expands one text of the pattern: <a/b/c> becomes one of a, b, c. */
static void expand(const char *pattern, struct ptx_variant *v)
{
        v->length = 0;
        while (*pattern && *pattern != '\n') {
                const char *close = strchr(pattern, '>'), *at = pattern + 1;
                uint32_t n = 1;

                if (*pattern != '<' || pattern[1] == '<' || !close) {
                        ptx_put(v, "%c", *pattern++);
                        continue;
                }
                for (const char *p = at; p < close; p++)
                        n += *p == '/';
                for (n = ptx_below(v, n); n--; at++)
                        at = strchr(at, '/');
                ptx_put(v, "%.*s", (int)strcspn(at, "/>"), at);
                pattern = close + 1;
        }
}

static void compare_patterns(const char *arch, const char *version, size_t n_per_pattern)
{
        struct ptx_variant *v = calloc(1, sizeof(*v));
        FILE *in = fopen(TEST_GOLDEN_DIR "/patterns.txt", "re");
        struct sample sample;
        char line[2048];

        cr_assert(v && in);
        begin(&sample, arch, version, n_per_pattern);
        while (fgets(line, sizeof(line), in)) {
                if (*line == '#')
                        continue;
                v->seed = sample.seed;
                for (size_t i = 0; i < sample.n; i++) {
                        expand(line, v);
                        add(&sample, v->text);
                }
                flush_many(&sample);
        }
        end(&sample, "patterns");
        fclose(in);
        free(v);
}

Test(ptx_oracle, variants_sm_90a)
{
        compare_variants("sm_90a", "9.0", DEFAULT_N);
}

Test(ptx_oracle, variants_sm_75)
{
        compare_variants("sm_75", "9.0", DEFAULT_N / 4);
}

Test(ptx_oracle, patterns_sm_90a)
{
        compare_patterns("sm_90a", "9.0", DEFAULT_N);
}

Test(ptx_oracle, patterns_sm_75)
{
        compare_patterns("sm_75", "9.0", DEFAULT_N / 4);
}

/* --- modules ----------------------------------------------------------------------------------------------------- */
#define MODULE_HEAD ".version 9.0\n.target sm_90a\n.address_size 64\n"
#define UNDOCUMENTED "not documented; no compiler writes it"
#define KEPT "debug information is kept as it stands, for the assembler to judge"
#define DEVICE "what a device has room for is known when a module is loaded"

/* Exceptions for modules: the two verdicts may differ on a module that contains the listed words. */
static const struct exception module_exceptions[] = {
        {true, {".attribute(.managed)"}, "refused when a module is loaded, as managed variables of all spaces are"},
        {true, {".entry _ "}, "an entry of this name"},
        {true, {"1e-400"}, "decimal numbers too small become 0"},
        {true, {".u32 r<10>; .reg .u32 r1"}, "a register of a range declared again: it hides the range's"},
        {true, {"r<10>; .reg .u64 r1"}, "a register of a range declared again: it hides the range's"},
        {true, {"// */"}, "what stands behind a comment's end in the last line"},
        {true, {".u64 .align 8 .ptr"}, "the alignment before .ptr"},
        {true, {", h, (q), P"}, "a prototype beside the function's name is not looked at"},
        {true, {" .noreturn { trap; }"}, "twice, or behind .abi_preserve"},
        {true, {"st.param.u32 [a]"}, "a function that writes its parameter"},
        {true, {".reg .b128 q; ret"}, "the version is looked at where an instruction has the type"},
        {true, {".global .b128 a"}, "the version is looked at where an instruction has the type"},
        {false, {".b8 a = -1.5"}, UNDOCUMENTED},
        {false, {"0xFF(b+4)", NULL}, UNDOCUMENTED},
        {true, {".u64 a = a"}, "its own address: the assembler wants an .extern declaration first"},
        {true, {".target sm_1 "}, "targets that the assembler does not know are not looked up"},
        {true, {".version 9.1"}, "versions up to 9.9 are read"},
        {false, {"sm_90b"}, UNDOCUMENTED},
        {false, {"compute_90"}, UNDOCUMENTED},
        {false, {", sm_90"}, UNDOCUMENTED},
        {false, {", sm_75"}, UNDOCUMENTED},
        {false, {".target sm_90 .target"}, UNDOCUMENTED},
        {true, {", debug"}, KEPT},
        {true, {"@@DWARF"}, KEPT},
        {true, {".file "}, KEPT},
        {true, {".section"}, KEPT},
        {true, {".pragma"}, "the words of a pragma are kept as they stand"},
        {true, {".samplerref"}, TEXTURE},
        {false, {".samplerref"}, TEXTURE},
        {true, {".texref"}, TEXTURE},
        {false, {".texref"}, TEXTURE},
        {true, {".surfref"}, TEXTURE},
        {false, {".surfref"}, TEXTURE},
        {true, {".extern", " a"}, "the linker says what is not defined"},
        {true, {".func k", ";\n"}, "the linker says what is not defined"},
        {true, {".entry k", " ;\n"}, "the linker says what is not defined"},
        {true, {".func f();", "= f;"}, "the linker says what is not defined"},
        {true, {".u16x2 a"}, "the assembler crashes"},
        {true, {"(4)"}, "constant expressions where the assembler takes numbers only"},
        {true, {"2+2"}, "constant expressions where the assembler takes numbers only"},
        {true, {"4+4"}, "constant expressions where the assembler takes numbers only"},
        {true, {"r<", "r01"}, "a range has no r01 here: it is another name"},
        {false, {"r<", "r01"}, "a range has no r01 here: it is another name"},
        {true, {".u32 r1; .reg"}, "a register before a range that has it too: it hides the range's"},
        {false, {".b128 a ="}, UNDOCUMENTED},
        {false, {"0x", "(b)"}, UNDOCUMENTED},
        {false, {"255(b)"}, UNDOCUMENTED},
        {false, {"0xFF", "(k)"}, UNDOCUMENTED},
        {false, {"= {{1},{3}}"}, UNDOCUMENTED},
        {false, {".reg .u32;"}, UNDOCUMENTED},
        {false, {"18446744073709551616"}, UNDOCUMENTED},
        {false, {" .5;"}, UNDOCUMENTED},
        {false, {"1.e5"}, UNDOCUMENTED},
        {false, {"a<0>"}, UNDOCUMENTED},
        {false, {".v2 .u32 a<4>"}, UNDOCUMENTED},
        {false, {".v4 .u32 a<"}, UNDOCUMENTED},
        {false, {"mov.v"}, UNDOCUMENTED},
        {true, {"ld.u32 %r1, [a]"},
                "the address of a parameter as a generic address: the interpreter finds it in no range"},
        {true, {"// \303\251"}, "bytes of comments are not looked at"},
        {true, {"1.0 ? "}, "a float as a condition"},
        {true, {".const .u32 a["}, DEVICE},
        {true, {".shared .b8 a["}, DEVICE},
        {true, {".align", "_[16]"}, "an argument less aligned than its parameter: nothing here depends on it"},
};

/* Handles \n and the like, and \x3c for a character with a meaning in patterns. Returns the place behind the
 * sequence. */
static const char *unescape(const char *p, struct ptx_variant *v)
{
        static const char names[] = "nrtfv", values[] = "\n\r\t\f\v";
        const char *name = p[1] ? strchr(names, p[1]) : NULL;
        unsigned int code = 0;

        if (name) {
                ptx_put(v, "%c", values[name - names]);
                return p + 2;
        }
        cr_assert_eq(sscanf(p, "\\x%2x", &code), 1, "what is %.10s?", p);
        ptx_put(v, "%c", (char)code);
        return p + 4;
}

/* Returns the end of the alternative at p: its '/' or the '>' that closes the list */
static const char *alternative_end(const char *p)
{
        for (int depth = 0; *p && (depth || (*p != '/' && *p != '>')); p++)
                depth += (*p == '<') - (*p == '>');
        return p;
}

/* Like expand(), but lists may be nested, and %r<4> is kept as text */
static void expand_module(const char *p, const char *end, struct ptx_variant *v)
{
        while (p < end) {
                const char *close, *from;
                uint32_t n = 1;

                if (*p == '\\') {
                        p = unescape(p, v);
                        continue;
                }
                if (*p != '<' || p[1 + strspn(p + 1, "0123456789")] == '>') {
                        ptx_put(v, "%c", *p++);
                        continue;
                }
                for (close = alternative_end(p + 1); *close == '/'; n++)
                        close = alternative_end(close + 1);
                for (from = p + 1, n = ptx_below(v, n); n--;)
                        from = alternative_end(from) + 1;
                expand_module(from, alternative_end(from), v);
                p = close + 1;
        }
}

static bool assembler_accepts(const char *text, size_t length, char *why, size_t size)
{
        char dir[] = "/tmp/ptx-oracle-XXXXXX", ptx[64], log[64], arch[16] = "sm_90a", line[1024];
        const char *target = strstr(text, ".target sm_");
        FILE *file;
        int status;

        if (target)
                sscanf(target, ".target %15[a-z0-9_]", arch);
        cr_assert(mkdtemp(dir));
        snprintf(ptx, sizeof(ptx), "%s/text.ptx", dir);
        snprintf(log, sizeof(log), "%s/log", dir);
        file = fopen(ptx, "we");
        cr_assert(file && fwrite(text, 1, length, file) == length && fclose(file) == 0);
        status = start_assembler(arch, ptx, log);
        file = fopen(log, "re");
        cr_assert(file);
        snprintf(why, size, "status %d", status);
        while (fgets(line, sizeof(line), file))
                if (strncmp(why, "status", 6) == 0 && (strstr(line, "error") || strstr(line, "fatal")))
                        snprintf(why, size, "%.*s", (int)strcspn(line, "\n"), line);
        fclose(file);
        unlink(ptx);
        unlink(log);
        rmdir(dir);
        return status == 0;
}

static bool is_module_exception(const char *text, bool accepted)
{
        for (size_t i = 0; i < DS_ARRAY_SIZE(module_exceptions); i++) {
                const struct exception *e = &module_exceptions[i];

                if (e->we_accept == accepted && strstr(text, e->words[0]) &&
                        (!e->words[1] || strstr(text, e->words[1])))
                        return true;
        }
        return false;
}

/* Whether both the front end and the assembler accepted the module; counts a disagreement without a listed reason. */
static bool compare_module(const struct ptx_variant *v, FILE *out, size_t *disagreed)
{
        ds_cleanup(ds_ptx_module_freep) ds_ptx_module *module = NULL;
        struct ds_ptx_diags diags;
        char why[300];
        bool theirs = assembler_accepts(v->text, v->length, why, sizeof(why));
        bool ours = ds_ptx_parse(v->text, v->length, 0, &diags, &module) == 0;

        if (ours == theirs || is_module_exception(v->text, ours))
                return ours && theirs;
        if (out)
                fprintf(out, "%s|%s|%s|%s\n", ours ? "LAX" : "STRICT", v->text, theirs ? "accepted" : why,
                        ours ? "accepted" : diags.diag[0].message);
        *disagreed += 1;
        cr_expect(false, "%s\n  assembler: %s\n  front end: %s", v->text, theirs ? "accepted" : why,
                ours ? "accepted" : diags.diag[0].message);
        return false;
}

Test(ptx_oracle, modules)
{
        struct ptx_variant *v = calloc(1, sizeof(*v));
        FILE *in = fopen(TEST_GOLDEN_DIR "/modules.txt", "re");
        const char *path = getenv("PTX_ORACLE_OUT");
        FILE *out = path ? fopen(path, "ae") : NULL;
        size_t n = from_environment("PTX_ORACLE_N", rounds_of(3)), compared = 0, accepted = 0, disagreed = 0;
        const size_t step = rounds_of(ROUNDS_ALL) < ROUNDS_ALL ? 2 : 1, mine = (size_t)getpid() % step;
        size_t at = 0;
        char line[2048];

        cr_assert(v && in);
        while (fgets(line, sizeof(line), in)) {
                if (*line == '#' || at++ % step != mine)
                        continue;
                v->seed = from_environment("PTX_ORACLE_SEED", 1);
                for (size_t i = 0; i < n; i++, compared++) {
                        v->length = 0;
                        if (strncmp(line, ".version", 8) != 0)
                                ptx_put(v, "%s", MODULE_HEAD);
                        expand_module(line, line + strcspn(line, "\n"), v);
                        ptx_put(v, "\n");
                        accepted += compare_module(v, out, &disagreed);
                }
        }
        fprintf(stderr, "%zu modules, both accept %zu, %zu disagreements\n", compared, accepted, disagreed);
        cr_expect_gt(accepted, 0);
        fclose(in);
        if (out)
                fclose(out);
        free(v);
}
