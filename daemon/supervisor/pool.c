/* SPDX-License-Identifier: Apache-2.0 */
#include "supervisor/pool.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "supervisor/calibration.h"
#include "supervisor/config.h"
#include "supervisor/ledger.h"
#include "supervisor/page.h"
#include "supervisor/session.h"
#include "supervisor/supervisor.h"
#include "supervisor/worker_link.h"
#include "util/error.h"
#include "util/macro.h"

#define PATIENCE_MS 900000u /* constant part of the time in which a worker must have found the channels, ms */
/* part of that time per page of 2 MiB; an H200 takes 80 ms per page if there is no channel table */
#define PATIENCE_PAGE_MS 250u

void ds_pool_init(struct ds_pool *pool)
{
        *pool = (struct ds_pool){.file = -1};
        for (size_t i = 0; i < DS_ARRAY_SIZE(pool->slabs); i++)
                pool->slabs[i] = -1;
}

void ds_pool_deinit(struct ds_pool *pool)
{
        ds_close(pool->file);
        for (size_t i = 0; i < DS_ARRAY_SIZE(pool->slabs); i++)
                ds_close(pool->slabs[i]);
        ds_pool_init(pool);
}

static int pool_read(int fd, uint32_t slabs, struct ds_pool_file *ret)
{
        struct stat st;
        uint64_t sectors;

        if (fstat(fd, &st) < 0 || pread(fd, ret, sizeof(*ret), 0) != (ssize_t)sizeof(*ret))
                return ds_error_origin(-EPROTO);
        if (ret->magic != DS_POOL_MAGIC || ret->version != DS_WIRE_VERSION || ret->n_slabs != slabs ||
                ret->sector_bits > 21 || ret->granule_bits > 21 || ret->n_channels > DS_POOL_CHANNELS_MAX ||
                !(ret->slab_bytes >> ret->sector_bits) ||
                ret->slab_bytes > UINT64_MAX / (2 * (uint64_t)DS_POOL_SLABS_MAX))
                return ds_error_origin(-EPROTO);
        sectors = slabs * (ret->slab_bytes >> ret->sector_bits);
        if ((uint64_t)st.st_size != sizeof(*ret) + sectors)
                return ds_error_origin(-EPROTO);
        ret->provenance[sizeof(ret->provenance) - 1] = 0;
        for (char *p = ret->provenance; *p; p++)
                if (*p < ' ' || *p > '~')
                        *p = '?';
        return 0;
}

int ds_pool_take(struct ds_pool *pool, const Detshare__Internal__PoolPiece *piece, int *fd)
{
        if (pool->complete || *fd < 0 || !piece->slabs || piece->slabs > DS_POOL_SLABS_MAX ||
                piece->index != pool->n_taken || piece->index > piece->slabs)
                return ds_error_origin(-EPROTO);
        pool->n_taken++;
        if (piece->index < piece->slabs) {
                pool->slabs[piece->index] = DS_TAKE_FD(*fd);
                return 0;
        }
        if (pool_read(*fd, piece->slabs, &pool->facts))
                return ds_error_origin(-EPROTO);
        pool->file = DS_TAKE_FD(*fd);
        pool->complete = 1;
        return 0;
}

int ds_pool_take_over(struct ds_pool *pool, const Detshare__Internal__PoolPiece *piece, int simulated, int *fd)
{
        const int is_slab = piece->index < piece->slabs;
        uint64_t bytes = piece->bytes;
        struct stat st;
        int r;

        if (*fd < 0 || fstat(*fd, &st) < 0)
                return ds_error_origin(-EPROTO);
        if (!is_slab)
                bytes = (uint64_t)st.st_size;
        /* clients receive the file of channel labels and must not be able to write to it */
        if (S_ISREG(st.st_mode) || simulated || !is_slab) {
                if (!ds_page_file_has(*fd, bytes, is_slab ? 0 : F_SEAL_WRITE))
                        return ds_error_origin(-EPROTO);
        } else if (S_ISSOCK(st.st_mode) || S_ISDIR(st.st_mode) || S_ISFIFO(st.st_mode)) {
                return ds_error_origin(-EPROTO);
        }
        r = ds_pool_take(pool, piece, fd);
        if (!r && pool->complete && pool->facts.slab_bytes != piece->bytes)
                r = ds_error_origin(-EPROTO);
        return r;
}

int ds_pool_show(const struct ds_pool *pool, ds_pool_piece_fn fn, void *user)
{
        int r = 0;

        for (uint32_t i = 0; !r && i <= pool->facts.n_slabs; i++) {
                Detshare__Internal__PoolPiece piece = DETSHARE__INTERNAL__POOL_PIECE__INIT;

                piece.index = i;
                piece.slabs = pool->facts.n_slabs;
                piece.bytes = pool->facts.slab_bytes;
                r = fn(user, &piece, i < pool->facts.n_slabs ? pool->slabs[i] : pool->file);
        }
        return r;
}

static int give_piece(void *user, Detshare__Internal__PoolPiece *piece, int fd)
{
        Detshare__Internal__ToWorker message = DETSHARE__INTERNAL__TO_WORKER__INIT;

        message.body_case = DETSHARE__INTERNAL__TO_WORKER__BODY_POOL;
        message.pool = piece;
        return ds_worker_send(user, &message, &fd, 1, NULL);
}

int ds_pool_give(struct ds_pool *pool, struct ds_worker_link *link)
{
        if (pool->complete)
                return ds_pool_show(pool, give_piece, link);
        ds_pool_deinit(pool);
        return 0;
}

uint32_t ds_pool_lent(const struct ds_supervisor *supervisor)
{
        const struct ds_session *session;
        struct ds_ledger_sums sums;
        uint32_t n = 0;

        TAILQ_FOREACH(session, &supervisor->sessions, link)
        {
                if (!session->ledger)
                        continue;
                ds_ledger_sums(session->ledger, &sums);
                n += sums.lent;
        }
        return n;
}

/* BE's share of the channels as calibrated for that GPU; NULL with *ret_why: no pool. */
static const char *auto_wanted(const struct ds_calibration *calibration, const char *gpu, const char **ret_why)
{
        const struct ds_calibration_gpu *known = gpu ? ds_calibration_find(calibration, gpu) : NULL;

        *ret_why =
                "[channels] be = auto: this GPU's channels were not calibrated; run detsharectl calibrate --channels";
        for (size_t i = 0; !gpu && i < calibration->n; i++)
                if (calibration->gpus[i].be)
                        return "auto";
        if (!known)
                return NULL;
        *ret_why = "[channels] be = auto: the calibration says that partitioning channels does not pay on this GPU";
        if (!known->be)
                return NULL;
        *ret_why = "[channels] be = auto: the channels were calibrated after the daemon's start (restart it), "
                   "or the pool could not be made: the worker's log says why";
        return "auto";
}

const char *ds_pool_wanted(
        const struct ds_config *config, const struct ds_calibration *calibration, const char *gpu, const char **ret_why)
{
        *ret_why = "none is configured: [channels] pool_mib";
        if (!config->pool_bytes)
                return NULL;
        *ret_why = "[channels] be = off";
        if (config->pool_be && !strcmp(config->pool_be, "off"))
                return NULL;
        if (!config->pool_be || !strcmp(config->pool_be, "auto"))
                return auto_wanted(calibration, gpu, ret_why);
        *ret_why = "making it failed, or it was lost with the worker that made it: the worker's log says why";
        return config->pool_be;
}

uint32_t ds_pool_patience_ms(const struct ds_config *config)
{
        const uint64_t pages = config->pool_bytes / DS_MIB(2);

        return (uint32_t)DS_MIN(PATIENCE_MS + pages * PATIENCE_PAGE_MS, (uint64_t)INT32_MAX);
}

void ds_pool_status(const struct ds_pool *pool, const struct ds_config *config,
        const struct ds_calibration *calibration, const char *gpu, uint32_t lent,
        uint32_t list[static DS_POOL_CHANNELS_MAX], Detshare__StatusReply *status)
{
        const struct ds_pool_file *facts = &pool->facts;
        const char *why;

        if (!pool->complete) {
                (void)ds_pool_wanted(config, calibration, gpu, &why);
                status->channels_why = (char *)(uintptr_t)why;
                return;
        }
        status->pool_bytes = facts->n_slabs * facts->slab_bytes;
        status->pool_slabs = facts->n_slabs;
        status->pool_slabs_lent = lent;
        status->pool_sector_bytes = 1u << facts->sector_bits;
        status->pool_granule_bytes = 1u << facts->granule_bits;
        status->channels = facts->n_channels;
        status->channels_be = facts->n_be;
        status->pool_be_permille = facts->be_permille;
        status->pool_ls_permille = facts->ls_permille;
        status->pool_lost_permille = facts->lost_permille;
        status->channels_source = (char *)(uintptr_t)facts->provenance;
        for (uint32_t i = 0; i < facts->n_channels; i++)
                if (facts->be_set[i / 64] >> i % 64 & 1)
                        list[status->n_channels_be_list++] = i;
        status->channels_be_list = list;
}
