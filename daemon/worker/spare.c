/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files for staging arenas, filled beforehand
 *
 * Every client begins with a pinned arena of DS_ARENA_BYTES. Registering it with a GPU belongs into a quiesce, and most
 * of what it costs there is the kernel's finding and clearing the pages. So a few files of that size are kept whose
 * pages exist already, and refilled a little at a time while LS is quiet. A file is given out once and never comes
 * back: whoever had it may still have it mapped. Only where the device can be stopped; elsewhere nobody waits for it.
 */
#include <fcntl.h>
#include <unistd.h>

#include "util/error.h"
#include "worker/internal.h"

#define SPARE_PIECE DS_KIB(256)           /* filled at a time: well below a tenth of a millisecond */
#define SPARE_QUIET_NS (2 * DS_NS_PER_MS) /* real time since the last sign of life of LS */

static int spare_may_fill(const ds_worker *worker)
{
        if (!worker->info->stops || worker->stopping || worker->ls_live || worker->spares.broken)
                return 0;
        return !worker->ls_active_wall_ns || worker->wall_ns() - worker->ls_active_wall_ns >= SPARE_QUIET_NS;
}

/* Memory that is short now will be short for the arena too: no more of this. */
static void spare_give_up(struct dsw_spares *spares)
{
        spares->filling = ds_close(spares->filling);
        spares->filled = 0;
        spares->broken = 1;
}

static void spare_fill(struct dsw_spares *spares)
{
        if (fallocate(spares->filling, 0, (off_t)spares->filled, (off_t)SPARE_PIECE) < 0) {
                spare_give_up(spares);
                return;
        }
        spares->filled += SPARE_PIECE;
        if (spares->filled < DS_ARENA_BYTES)
                return;
        spares->fds[spares->n++] = spares->filling;
        spares->filling = -1;
        spares->filled = 0;
}

int dsw_spare_step(ds_worker *worker)
{
        struct dsw_spares *spares = &worker->spares;

        if (spares->n == DSW_SPARES || !spare_may_fill(worker))
                return 0;
        if (spares->filling < 0 && dsw_memory_host_file(DS_ARENA_BYTES, &spares->filling)) {
                spare_give_up(spares);
                return 0;
        }
        spare_fill(spares);
        return 1;
}

uint64_t dsw_spare_wait_ns(const ds_worker *worker)
{
        if (!worker->info->stops || worker->spares.n == DSW_SPARES || worker->spares.broken || worker->stopping)
                return UINT64_MAX;
        return SPARE_QUIET_NS;
}

int dsw_spare_take(ds_worker *worker)
{
        struct dsw_spares *spares = &worker->spares;

        return spares->n ? spares->fds[--spares->n] : -1;
}

void dsw_spare_free(ds_worker *worker)
{
        struct dsw_spares *spares = &worker->spares;

        while (spares->n)
                ds_close(spares->fds[--spares->n]);
        spares->filling = ds_close(spares->filling);
}
