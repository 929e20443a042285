/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bad programs: kernels of the corpus with lines swapped, and registers, numbers and labels exchanged
 *
 * Most still parse and then do anything: jump anywhere, read anywhere, wait for an event that never comes. Each must
 * end in a result, a fault or a refusal, within the budget, and touch nothing outside the launch's memory (the test
 * checks guards around it, and a sanitized build the rest). INTERP_FUZZ_ROUNDS is the number of mutants per file.
 */
#include "tests/support/interp_harness.h"

#define ROUNDS 25
#define MEMORY (64u << 10)
#define GUARD (64u << 10)
#define LINES 4096

static const char *const files[] = {"saxpy", "gemm", "reduce", "histogram", "scan", "atomics", "conv", "softmax",
        "layernorm", "math", "intops", "diverge", "calls", "memory", "half", "votes", "templates", "assertion",
        "params", "grid3d", "mma_gemm", "wmma_gemm", "async_pipeline", "async_heap"};

static uint32_t state = 2463534242u;

static uint32_t dice(uint32_t n)
{
        return rig_random(&state) % n;
}

struct text {
        char *line[LINES];
        size_t n;
};

static void split(struct text *t, char *from)
{
        t->n = 0;
        for (char *line = strtok(from, "\n"); line && t->n < LINES; line = strtok(NULL, "\n"))
                t->line[t->n++] = line;
}

/* Picks a line inside a function: an instruction, a label or a declaration */
static size_t some_line(const struct text *t)
{
        for (int tries = 0; tries < 50; tries++) {
                size_t k = dice((uint32_t)t->n);

                if (t->line[k][0] == '\t' || t->line[k][0] == '$')
                        return k;
        }
        return t->n / 2;
}

/* Replaces the number at p (after a register's letters, after a label's name, or alone) by another one. */
static void change_number(char *out, size_t size, const char *line, const char *p)
{
        static const char *const numbers[] = {"0", "1", "2", "3", "31", "32", "64", "255", "4095", "65536",
                "2147483647", "4294967295", "-1", "-8", "9223372036854775807"};
        size_t skip = strspn(p, "0123456789");
        const char *by = numbers[dice(sizeof(numbers) / sizeof(numbers[0]))];
        char small[16];

        if (p > line &&
                (p[-1] == 'r' || p[-1] == 'd' || p[-1] == 'p' || p[-1] == 's' || p[-1] == 'f' || p[-1] == '_')) {
                (void)snprintf(small, sizeof(small), "%u", dice(12) + 1);
                by = small;
        }
        (void)snprintf(out, size, "%.*s%s%s", (int)(p - line), line, by, p + skip);
}

static char *mutate_line(const char *line)
{
        static char pool[16][512];
        static unsigned next;
        char *out = pool[next++ % 16];
        const char *places[64];
        size_t n = 0;

        for (const char *p = line; *p && n < 64; p++) {
                if (*p >= '0' && *p <= '9' && (p == line || p[-1] < '0' || p[-1] > '9'))
                        places[n++] = p;
        }
        if (n == 0 || strlen(line) > 400)
                return (char *)line;
        change_number(out, 512, line, places[dice((uint32_t)n)]);
        return out;
}

static void mutate(struct text *t)
{
        uint32_t n = 1 + dice(4);

        for (uint32_t i = 0; i < n; i++) {
                size_t a = some_line(t), b = some_line(t);
                char *line;

                switch (dice(5)) {
                case 0:
                        line = t->line[a];
                        t->line[a] = t->line[b];
                        t->line[b] = line;
                        break;
                case 1:
                        t->line[a] = t->line[b];
                        break;
                case 2:
                        t->line[a] = (char *)"";
                        break;
                default:
                        t->line[a] = mutate_line(t->line[a]);
                }
        }
}

static size_t join(const struct text *t, char *to, size_t size)
{
        size_t n = 0;

        for (size_t i = 0; i < t->n; i++)
                n += (size_t)snprintf(to + n, size - n, "%s\n", t->line[i]);
        return n;
}

/* Fills in parameters: pointers into the memory, small numbers, or random bits */
static void make_params(const struct ds_interp_kernel_info *info, uint8_t *params, uint8_t *memory)
{
        memset(params, 0, 4096);
        for (uint32_t k = 0; k < info->n_params; k++) {
                uint64_t v = info->params[k].size == 8 ? (uintptr_t)memory + dice(16) * 1024
                             : dice(3)                 ? dice(200)
                                                       : rig_random(&state);

                memcpy(params + info->params[k].offset, &v, info->params[k].size < 8 ? info->params[k].size : 8);
        }
}

static int run_kernels(const ds_interp *interp, ds_interp_block *work, uint8_t *memory)
{
        static uint8_t params[65536];
        struct ds_interp_range range = {.va = (uintptr_t)memory, .size = MEMORY};
        int n = 0;

        for (size_t k = 0; k < 40; k++) {
                struct ds_interp_launch l = {.kernel = ds_interp_kernel_at(interp, k),
                        .grid = {2, 1, 1},
                        .block = {1 + dice(80), 1, 1},
                        .dynamic_shared = dice(3) * 512,
                        .params = params,
                        .ranges = &range,
                        .n_ranges = 1,
                        .max_instructions = 30000};
                struct ds_interp_result result;

                if (!l.kernel)
                        break;
                l.params_size = ds_interp_kernel_info(l.kernel)->params_size;
                make_params(ds_interp_kernel_info(l.kernel), params, memory);
                cr_assert(ds_interp_run_block(work, &l, 1, 0, 0, &result) == 0);
                cr_assert(
                        result.fault >= 0 && result.fault < _DS_INTERP_FAULT_MAX && result.cost.instructions < 1000000);
                cr_assert(!result.fault || result.message[0]);
                n++;
        }
        return n;
}

static int try_text(const char *text, size_t length, ds_interp_block *work, uint8_t *memory)
{
        static struct ds_ptx_diags diags;
        ds_ptx_module *module = NULL;
        ds_interp *interp = NULL;
        int n = 0;

        memset(&diags, 0, sizeof(diags));
        if (ds_ptx_parse(text, length, 0, &diags, &module))
                return 0;
        if (ds_interp_new(module, &diags, &interp) == 0)
                n = run_kernels(interp, work, memory);
        else
                cr_assert(diags.n > 0, "refused without a reason");
        ds_interp_free(interp);
        ds_ptx_module_free(module);
        return n;
}

static int fuzz_file(const char *name, int rounds, ds_interp_block *work, uint8_t *memory)
{
        static char mutant[1 << 20];
        static struct text t;
        size_t length;
        char *original = rig_read("sm_90", name, &length), *copy = malloc(length + 1);
        int n = 0;

        for (int i = 0; i < rounds; i++) {
                memcpy(copy, original, length + 1);
                split(&t, copy);
                mutate(&t);
                n += try_text(mutant, join(&t, mutant, sizeof(mutant)), work, memory);
        }
        free(original);
        free(copy);
        return n;
}

Test(interp_fuzz, mutants_of_the_corpus, .timeout = 600)
{
        const char *wish = getenv("INTERP_FUZZ_ROUNDS");
        int rounds = wish ? atoi(wish) : ROUNDS, n = 0;
        ds_interp_block *work = ds_interp_block_new();
        uint8_t *memory = aligned_alloc(4096, MEMORY + 2 * GUARD);

        if (getenv("INTERP_FUZZ_SEED"))
                state = (uint32_t)atoi(getenv("INTERP_FUZZ_SEED")) * 2654435761u | 1;
        memset(memory, 0x5a, MEMORY + 2 * GUARD);
        for (size_t i = 0; i < MEMORY; i++)
                memory[GUARD + i] = (uint8_t)(i * 37);
        for (size_t k = 0; k < sizeof(files) / sizeof(files[0]); k++)
                n += fuzz_file(files[k], rounds, work, memory + GUARD);
        for (size_t i = 0; i < GUARD; i++)
                cr_assert(memory[i] == 0x5a && memory[GUARD + MEMORY + i] == 0x5a, "guard byte %zu", i);
        cr_assert(n > rounds * 10, "only %d kernels ran", n);
        ds_interp_block_free(work);
        free(memory);
}
