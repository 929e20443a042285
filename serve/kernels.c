/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/kernels.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/alloc.h"
#include "util/macro.h"

/* One launch of a run; sorting these groups launches into rows. */
struct time {
        const struct sv_launch *launch;
        uint64_t ns;
};

struct times {
        CUevent *events; /* one before each launch, and one after the last */
        struct time *list;
        size_t n;
};

static int open_times(struct times *times, const struct sv_instance *instance, unsigned runs, struct sv_why *why)
{
        const struct sv_pack *pack = instance->model->pack;

        times->events = ds_alloc0(pack->n_launches + 1, sizeof(CUevent));
        times->list = ds_alloc0((size_t)pack->n_launches * runs, sizeof(*times->list));
        if (!times->events || !times->list)
                return sv_fail(why, "%s: out of memory", pack->path);
        for (uint32_t i = 0; i <= pack->n_launches; i++)
                if (SV_CU(instance->model->driver, why, cuEventCreate, &times->events[i], CU_EVENT_DEFAULT))
                        return -1;
        return 0;
}

static void close_times(struct times *times, const struct sv_instance *instance)
{
        for (uint32_t i = 0; times->events && i <= instance->model->pack->n_launches; i++)
                if (times->events[i])
                        (void)instance->model->driver->cuEventDestroy_fn(times->events[i]);
        ds_free(times->events);
        ds_free(times->list);
}

static int take_times(struct times *times, const struct sv_instance *instance, struct sv_why *why)
{
        const struct sv_pack *pack = instance->model->pack;

        for (uint32_t i = 0; i < pack->n_launches; i++) {
                float ms = 0;

                if (SV_CU(instance->model->driver, why, cuEventElapsedTime, &ms, times->events[i],
                            times->events[i + 1]))
                        return -1;
                times->list[times->n++] = (struct time){&pack->launches[i], (uint64_t)((double)ms * 1e6 + 0.5)};
        }
        return 0;
}

static int by_kernel(const struct sv_launch *a, const struct sv_launch *b)
{
        return a->kernel != b->kernel ? (a->kernel < b->kernel ? -1 : 1) : memcmp(a->grid, b->grid, sizeof(a->grid));
}

static int by_row_and_time(const void *a, const void *b)
{
        const struct time *x = a, *y = b;
        const int r = by_kernel(x->launch, y->launch);

        return r ? r : x->ns != y->ns ? (x->ns < y->ns ? -1 : 1) : 0;
}

/* Largest number of bytes that one of n launches touches. */
static uint64_t most_bytes(const struct time *list, size_t n)
{
        uint64_t most = 0;

        for (size_t i = 0; i < n; i++)
                most = DS_MAX(most, list[i].launch->bytes);
        return most;
}

static int write_rows(struct times *times, const struct sv_pack *pack, unsigned runs, FILE *file)
{
        qsort(times->list, times->n, sizeof(*times->list), by_row_and_time);
        for (size_t i = 0, n; i < times->n; i += n) {
                const struct sv_launch *launch = times->list[i].launch;
                const struct sv_kernel *kernel = &pack->kernels[launch->kernel];

                for (n = 1; i + n < times->n && !by_kernel(times->list[i + n].launch, launch); n++)
                        ;
                fprintf(file, "%s %u %u %u %u %u %zu %" PRIu64 " %" PRIu64 "\n", kernel->name, launch->grid[0],
                        launch->grid[1], launch->grid[2], kernel->threads, kernel->shared, n / runs,
                        times->list[i + n / 2].ns, most_bytes(&times->list[i], n));
        }
        return ferror(file);
}

static int measure(struct times *times, struct sv_instance *instance, const struct sv_cases *cases,
        const struct sv_clock *clock, unsigned runs, struct sv_why *why)
{
        if (open_times(times, instance, runs, why))
                return -1;
        for (unsigned i = 0; i <= runs; i++) {
                sv_cases_place(cases, i % cases->n, instance);
                /* holds a simulated clock, so that other clients do not advance it meanwhile */
                (void)sv_now(clock);
                if (sv_instance_run_timed(instance, times->events, why) || take_times(times, instance, why))
                        return -1;
                times->n = i ? times->n : 0;
        }
        return 0;
}

int sv_kernels_write(struct sv_instance *instance, const struct sv_cases *cases, const struct sv_clock *clock,
        unsigned runs, const char *path, struct sv_why *why)
{
        struct times times = {.n = 0};
        int r = measure(&times, instance, cases, clock, runs, why);
        FILE *file = r ? NULL : fopen(path, "we");

        if (!r && !file)
                r = sv_fail(why, "%s: %s", path, strerror(errno));
        if (file) {
                const int bad = write_rows(&times, instance->model->pack, runs, file);

                if (fclose(file) || bad)
                        r = sv_fail(why, "%s cannot be written", path);
        }
        sv_clock_leave(clock);
        close_times(&times, instance);
        return r;
}
