/* SPDX-License-Identifier: Apache-2.0 */
#include "supervisor/defaults.h"

#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "util/log.h"
#include "util/macro.h"

#define FDS_BESIDE 64u /* open files of the daemon that belong to no client */
#define SLABS_PER_UID 16384u
#define MODULES_PER_UID 65536u
/* allocations of a user: enough for four sessions; each allocation costs the daemon's processes about 400 bytes */
#define ALLOCS_PER_UID 262144u
#define ALLOCS_MAX 1048576u
#define REPLIES_PER_UID DS_MIB(32)
#define REPLIES_MAX DS_MIB(128)
#define FOREIGN_PER_UID 16u /* files that wait to be closed; each has a thread of its own */
/* requests of a user: enough for 64 programs with the most that a session may have; each costs up to 1 KB in two
 * processes */
#define CALLS_PER_UID 4096u
#define CALLS_MAX 65536u

static uint64_t host_memory(void)
{
        long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);

        return pages > 0 && size > 0 ? (uint64_t)pages * (uint64_t)size : DS_GIB(1);
}

/*
 * One sixth of the number of files that the process may open. Connections get two sixths, since a session holds its
 * connection and its page. Slabs and modules get one sixth each. The last two sixths are for the copies that exist
 * while all of them are sent to a new worker. If the supervisor ran out of files it would lose messages of the worker,
 * and then the worker.
 */
static uint64_t files_share(void)
{
        struct rlimit files;

        if (getrlimit(RLIMIT_NOFILE, &files) < 0 || files.rlim_cur == RLIM_INFINITY)
                return UINT64_MAX / 8;
        return files.rlim_cur > 2 * FDS_BESIDE ? (files.rlim_cur - FDS_BESIDE) / 6 : FDS_BESIDE;
}

/* Most slabs of all users. The worker maps each slab, its number of mappings is limited, and it needs some of them
 * for other memory. */
static uint64_t slabs_limit(void)
{
        unsigned long long maps = 65530;
        FILE *file = fopen("/proc/sys/vm/max_map_count", "re");

        if (file && fscanf(file, "%llu", &maps) != 1)
                maps = 65530;
        if (file)
                fclose(file);
        return DS_MIN(files_share(), (uint64_t)maps / 2);
}

static uint64_t connections_limit(const struct ds_config *config)
{
        uint64_t wanted = config->connections ? config->connections : DS_CONNECTIONS_MAX, fits = files_share();

        if (fits < wanted)
                ds_log(config->connections ? DS_LOG_WARNING : DS_LOG_DEBUG,
                        "[limits] connections = %llu is too large: the limit of open files (LimitNOFILE=) allows %llu",
                        (unsigned long long)wanted, (unsigned long long)fits);
        return DS_MIN(wanted, fits);
}

static void set_limit(
        struct ds_charge_limits *limits, enum ds_charge_slot slot, uint64_t user, uint64_t root, uint64_t total)
{
        limits->user[slot] = DS_MIN(user, total);
        limits->root[slot] = DS_MIN(root, total);
        limits->total[slot] = total;
}

static struct ds_charge_limits charge_limits(const struct ds_config *config)
{
        uint64_t connections = connections_limit(config), ram = host_memory();
        uint64_t given = config->connections_per_uid, sessions = config->sessions_per_uid;
        uint64_t per_uid = given ? given : DS_CONNECTIONS_PER_UID, root = given ? given : connections;
        uint64_t pinned = config->pinned_per_uid ? config->pinned_per_uid : ram / 4;
        uint64_t device = config->memory_per_uid ? config->memory_per_uid : UINT64_MAX;
        uint64_t slabs = slabs_limit(), modules = files_share();
        struct ds_charge_limits limits;

        set_limit(&limits, DS_CHARGE_CONNECTIONS, per_uid, root, connections);
        set_limit(&limits, DS_CHARGE_WINDOWS, sessions ? sessions : per_uid, sessions ? sessions : root, connections);
        /* a user other than root gets at most half of the slabs, so that as many stay for others; the same holds for
         * modules */
        set_limit(&limits, DS_CHARGE_SLABS, DS_MIN(SLABS_PER_UID, slabs / 2), slabs, slabs);
        set_limit(&limits, DS_CHARGE_MODULES, DS_MIN(MODULES_PER_UID, modules / 2), modules, modules);
        set_limit(&limits, DS_CHARGE_HOST_BYTES, pinned, pinned, DS_MAX(pinned, ram / 2));
        set_limit(&limits, DS_CHARGE_DEVICE_BYTES, device, device, UINT64_MAX);
        set_limit(&limits, DS_CHARGE_ALLOCS, ALLOCS_PER_UID, ALLOCS_MAX / 2, ALLOCS_MAX);
        set_limit(&limits, DS_CHARGE_REPLIES, REPLIES_PER_UID, REPLIES_PER_UID, REPLIES_MAX);
        set_limit(&limits, DS_CHARGE_FOREIGN, FOREIGN_PER_UID, FOREIGN_PER_UID, UINT64_MAX);
        set_limit(&limits, DS_CHARGE_CALLS, CALLS_PER_UID, CALLS_MAX / 4, CALLS_MAX);
        return limits;
}

static struct ds_granted right(uint64_t given, uint64_t otherwise)
{
        return (struct ds_granted){
                .value = given ? given : otherwise, .from = given ? DS_FROM_LIMITS : DS_FROM_BUILTIN};
}

static void set_rights(
        struct ds_rights *rights, const struct ds_config *config, const uint64_t limits[static _DS_CHARGE_MAX])
{
        *rights = (struct ds_rights){
                .of = {
                        [DS_RULE_CLASSES] = {.value = DS_CLASS_BIT_BE},
                        [DS_RULE_SM_PERCENT] = right(config->sm_percent, 100),
                        [DS_RULE_GPU_REQUEST] = right(config->gpu_request_percent * 10, 1000),
                        [DS_RULE_GPU_LIMIT] = right(config->gpu_limit_percent * 10, 1000),
                        [DS_RULE_SLO] = right(config->slo, 0),
                        [DS_RULE_TTFT] = right(config->ttft, 0),
                        [DS_RULE_TPOT] = right(config->tpot, 0),
                        [DS_RULE_MEMORY] = right(config->memory_per_uid, limits[DS_CHARGE_DEVICE_BYTES]),
                        [DS_RULE_PINNED] = right(config->pinned_per_uid, limits[DS_CHARGE_HOST_BYTES]),
                        [DS_RULE_SESSIONS] = right(config->sessions_per_uid, limits[DS_CHARGE_WINDOWS]),
                        [DS_RULE_CONNECTIONS] = right(config->connections_per_uid, limits[DS_CHARGE_CONNECTIONS]),
                        [DS_RULE_CALLS] = right(config->calls_per_second, DS_RIGHT_NONE),
                        [DS_RULE_BURST] = right(config->calls_burst, 0),
                }};
}

void ds_defaults_init(struct ds_defaults *defaults, const struct ds_config *config)
{
        defaults->limits = charge_limits(config);
        set_rights(&defaults->everybody, config, defaults->limits.user);
        set_rights(&defaults->root, config, defaults->limits.root);
}
