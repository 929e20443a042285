/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads, checks and lists plug-ins
 */
#include "sched/plugin.h"

#include <assert.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/alloc.h"
#include "util/error.h"
#include "util/macro.h"

#define PLUGIN_SYMBOL "detshare_policy"
#define PLUGIN_SUFFIX ".so"
#define PLUGIN_PATH_MAX 128
#define PLUGINS_MAX 256 /* plug-ins that a listing contains at most */

/* --- plug-in files ------------------------------------------------------------------------------------------------ */

static int name_is_valid(const char *name)
{
        size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-");

        return n && n <= DS_PLUGIN_NAME_MAX && !name[n];
}

/* Returns NULL, or the reason why this file or directory is not trusted. */
static const char *distrust(const struct ds_plugin_place *place, const struct stat *st)
{
        if (place->trust_any_owner)
                return NULL;
        if (st->st_uid != 0 && st->st_uid != geteuid())
                return "is owned by another user";
        if (st->st_mode & (S_IWGRP | S_IWOTH))
                return "is writable by others";
        return NULL;
}

static int place_open(const struct ds_plugin_place *place, char *message, size_t message_size)
{
        struct stat st;
        const char *why;
        int fd;

        fd = place->dir_fd ? openat(place->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)
                           : open(place->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        if (fd < 0 || fstat(fd, &st)) {
                snprintf(message, message_size, "policy directory %s: %s", place->dir, strerror(errno));
                ds_close(fd);
                return -1;
        }
        why = distrust(place, &st);
        if (!why)
                return fd;
        snprintf(message, message_size, "policy directory %s %s", place->dir, why);
        return ds_close(fd);
}

/* Opens and checks the policy's file in one place. Returns its descriptor, or -1 with a message and its contract
 * code in *ret_code. *ret_there: 1 if the file exists in this place. */
static int place_open_file(const struct ds_plugin_place *place, const char *name, char *message, size_t message_size,
        int *ret_code, int *ret_there)
{
        ds_cleanup(ds_closep) int dir = -1;
        ds_cleanup(ds_closep) int fd = -1;
        char file[DS_PLUGIN_NAME_MAX + sizeof(PLUGIN_SUFFIX)];
        struct stat st;
        const char *why;

        *ret_code = DS_SCHED_E_REFUSED;
        *ret_there = 0;
        dir = place_open(place, message, message_size);
        if (dir < 0)
                return -1;
        snprintf(file, sizeof(file), "%s" PLUGIN_SUFFIX, name);
        fd = openat(dir, file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        if (fd < 0) {
                *ret_there = errno != ENOENT;
                if (errno == ENOENT)
                        *ret_code = DS_SCHED_E_NO_POLICY;
                snprintf(message, message_size, "policy %s: %s/%s: %s", name, place->dir, file, strerror(errno));
                return -1;
        }
        *ret_there = 1;
        if (fstat(fd, &st) || !S_ISREG(st.st_mode)) {
                snprintf(message, message_size, "policy %s: %s is not a regular file", name, file);
                return -1;
        }
        why = distrust(place, &st);
        if (why) {
                snprintf(message, message_size, "policy %s: %s/%s %s", name, place->dir, file, why);
                return -1;
        }
        return DS_TAKE_FD(fd);
}

/* Opens the policy's file in the first place that has it. If no place has it, the message and code are those of the
 * first place. */
static int plugin_open_file(
        const struct ds_plugin_place *place, const char *name, char *message, size_t message_size, int *ret_code)
{
        char words[256];
        int there, code, fd = place_open_file(place, name, message, message_size, ret_code, &there);

        for (place = place->next; place && !there; place = place->next) {
                fd = place_open_file(place, name, words, sizeof(words), &code, &there);
                if (!there)
                        continue;
                *ret_code = code;
                snprintf(message, message_size, "%s", words);
        }
        return fd;
}

/* --- checks ------------------------------------------------------------------------------------------------------- */

static const char *check_params(const struct detshare_policy *policy)
{
        if (policy->n_params > DETSHARE_POLICY_PARAMS_MAX)
                return "it has too many parameters";
        if (policy->n_params && !policy->params)
                return "its parameters are missing";
        for (uint32_t i = 0; i < policy->n_params; i++) {
                const struct detshare_policy_param *param = &policy->params[i];

                if (!param->name || !param->help || !param->name[0])
                        return "a parameter has no name or no help";
                if (param->min > param->max || param->def < param->min || param->def > param->max)
                        return "a parameter's default is outside its range";
        }
        return NULL;
}

const char *ds_plugin_check(const struct detshare_policy *policy, const char *name)
{
        if (policy->abi != DETSHARE_POLICY_ABI)
                return "it was built for another version of the policy ABI";
        if (policy->size < sizeof(struct detshare_policy))
                return "its policy table is too short";
        if (!policy->name || strncmp(policy->name, name, DS_PLUGIN_NAME_MAX + 1))
                return "its policy table has another name than its file";
        if (!policy->description || !policy->init || !policy->decide)
                return "its description, init or decide is missing";
        if (policy->state_size > DS_PLUGIN_STATE_MAX)
                return "it requests too much state";
        return check_params(policy);
}

/* --- opening and closing ------------------------------------------------------------------------------------------ */

/*
 * Makes a path to the open file that no earlier load in this process used. The loader recognises a file by every path
 * under which it has loaded it, so a reused descriptor number could bring back another policy. "/" and "./" between the
 * same directories encode a counter.
 */
static void plugin_path(int fd, char path[PLUGIN_PATH_MAX])
{
        static _Atomic uint32_t counter;
        uint32_t n = counter++;
        char *at = path;

        at += sprintf(at, "/proc/self/fd/");
        for (int i = 0; i < 32; i++)
                at += sprintf(at, "%s", n >> i & 1 ? "./" : "/");
        sprintf(at, "%d", fd);
}

static int plugin_dlopen(ds_plugin *plugin, const char *name, char *message, size_t message_size)
{
        char path[PLUGIN_PATH_MAX];
        const char *why;

        plugin_path(plugin->fd, path);
        plugin->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (!plugin->handle) {
                snprintf(message, message_size, "policy %s: %s", name, dlerror());
                return DS_SCHED_E_REFUSED;
        }
        plugin->policy = dlsym(plugin->handle, PLUGIN_SYMBOL);
        if (!plugin->policy) {
                snprintf(message, message_size, "policy %s does not export " PLUGIN_SYMBOL, name);
                return DS_SCHED_E_REFUSED;
        }
        why = ds_plugin_check(plugin->policy, name);
        if (!why)
                return 0;
        snprintf(message, message_size, "policy %s: %s", name, why);
        return DS_SCHED_E_REFUSED;
}

ds_plugin *ds_plugin_close(ds_plugin *plugin)
{
        if (!plugin)
                return NULL;
        ds_free(plugin->state);
        if (plugin->handle)
                dlclose(plugin->handle);
        ds_close(plugin->fd);
        return ds_free(plugin);
}

static void plugin_closep(ds_plugin **plugin)
{
        *plugin = ds_plugin_close(*plugin);
}

int ds_plugin_open(
        const struct ds_plugin_place *place, const char *name, char *message, size_t message_size, ds_plugin **ret)
{
        ds_cleanup(plugin_closep) ds_plugin *plugin = NULL;
        int code;

        if (!name_is_valid(name)) {
                snprintf(message, message_size, "no policy \"%.64s\": a name is 1 to %u of a-z, 0-9 and -", name,
                        DS_PLUGIN_NAME_MAX);
                return DS_SCHED_E_NO_POLICY;
        }
        plugin = ds_alloc0(1, sizeof(*plugin));
        if (!plugin)
                return ds_error_origin(-ENOMEM);
        plugin->fd = -1;
        if (!strcmp(name, DS_PLUGIN_BUILTIN)) {
                plugin->policy = &ds_plugin_fifo;
                *ret = DS_TAKE_PTR(plugin);
                return 0;
        }
        if (!place->dir[0]) {
                snprintf(message, message_size, "no policy %s: there is no policy directory", name);
                return DS_SCHED_E_NO_POLICY;
        }
        plugin->fd = plugin_open_file(place, name, message, message_size, &code);
        if (plugin->fd < 0)
                return code;
        code = plugin_dlopen(plugin, name, message, message_size);
        if (code)
                return code;
        *ret = DS_TAKE_PTR(plugin);
        return 0;
}

/* --- parameters --------------------------------------------------------------------------------------------------- */

static void param_unknown(const struct detshare_policy *policy, const char *text, char *message, size_t message_size)
{
        int n = snprintf(message, message_size, "policy %s has no parameter \"%.64s\"%s", policy->name, text,
                policy->n_params ? "; write KEY=VALUE, where KEY is" : ", nor any other");

        for (uint32_t i = 0; i < policy->n_params && n >= 0 && (size_t)n < message_size; i++)
                n += snprintf(message + n, message_size - (size_t)n, "%s %s", i ? "," : "", policy->params[i].name);
}

static int param_read(ds_plugin *plugin, const char *text, char *message, size_t message_size)
{
        const struct detshare_policy *policy = plugin->policy;
        const char *equals = strchr(text, '=');
        const struct detshare_policy_param *param = NULL;
        char *end;
        long long value;
        uint32_t i;

        for (i = 0; equals && i < policy->n_params; i++) {
                param = &policy->params[i];
                if (strlen(param->name) == (size_t)(equals - text) &&
                        !strncmp(param->name, text, (size_t)(equals - text)))
                        break;
        }
        if (!equals || i == policy->n_params) {
                param_unknown(policy, text, message, message_size);
                return DS_SCHED_E_BAD_PARAM;
        }
        errno = 0;
        value = strtoll(equals + 1, &end, 10);
        if (errno || end == equals + 1 || *end || value < param->min || value > param->max) {
                snprintf(message, message_size, "%s must be a number from %lld to %lld, not \"%.64s\"", param->name,
                        (long long)param->min, (long long)param->max, equals + 1);
                return DS_SCHED_E_BAD_PARAM;
        }
        plugin->params[i] = value;
        return 0;
}

static void plugin_note_get(void *host, struct detshare_note *note)
{
        const ds_plugin *plugin = host;

        ds_notes_get(plugin->notes, plugin->policy->name, note);
}

static void plugin_note_put(void *host, const struct detshare_note *note)
{
        const ds_plugin *plugin = host;

        ds_notes_put(plugin->notes, plugin->policy->name, note);
}

int ds_plugin_begin(ds_plugin *plugin, const struct ds_plugin_world *world, char *message, size_t message_size)
{
        const struct detshare_policy *policy = plugin->policy;
        const struct ds_ladder *ladder = world->ladder;
        struct detshare_policy_config config = {
                .size = sizeof(config),
                .n_sms = ladder->views[0].n_sms,
                .n_tpcs = ladder->views[0].n_tpcs,
                .n_rungs = ladder->n,
                .rungs = ladder->views,
                .n_params = policy->n_params,
                .mask_permille = ladder->mask_permille,
                .params = plugin->params,
                .n_interference = world->n_interference,
                .interference = world->interference,
                .notes = &plugin->functions,
        };
        void *state = ds_alloc0(1, policy->state_size);
        int r;

        if (!state)
                return ds_error_origin(-ENOMEM);
        plugin->notes = world->notes;
        plugin->functions = (struct detshare_notes){
                .size = sizeof(plugin->functions), .host = plugin, .get = plugin_note_get, .put = plugin_note_put};
        r = policy->init(state, &config);
        if (!r) {
                ds_free(plugin->state);
                plugin->state = state;
                return 0;
        }
        ds_free(state);
        snprintf(message, message_size, "policy %s cannot run on this GPU: %s", policy->name,
                r < 0 && r > -4096 ? strerror(-r) : "its init failed");
        return DS_SCHED_E_REFUSED;
}

int ds_plugin_init(ds_plugin *plugin, const struct ds_plugin_world *world, const char *const *params, size_t n_params,
        char *message, size_t message_size)
{
        const struct detshare_policy *policy = plugin->policy;
        int r;

        for (uint32_t i = 0; i < policy->n_params; i++)
                plugin->params[i] = policy->params[i].def;
        for (size_t i = 0; i < n_params; i++) {
                r = param_read(plugin, params[i], message, message_size);
                if (r)
                        return r;
        }
        return ds_error_trace(ds_plugin_begin(plugin, world, message, message_size));
}

/* --- listing ------------------------------------------------------------------------------------------------------ */

static void listing_write(const struct detshare_policy *policy, struct ds_policy_listing *row)
{
        size_t at = 0;

        *row = (struct ds_policy_listing){0};
        snprintf(row->name, sizeof(row->name), "%s", policy->name);
        snprintf(row->description, sizeof(row->description), "%s", policy->description);
        for (uint32_t i = 0; i < policy->n_params && at < sizeof(row->params); i++) {
                const struct detshare_policy_param *param = &policy->params[i];
                int n = snprintf(row->params + at, sizeof(row->params) - at, "%s%s=%lld [%lld..%lld]: %s",
                        i ? "\n" : "", param->name, (long long)param->def, (long long)param->min, (long long)param->max,
                        param->help);

                at += (size_t)DS_MAX(n, 0);
        }
}

/* Turns "static.so" into "static". Returns 0 if a file of this name cannot be a plug-in. */
static int name_of_file(const char *file, char name[DS_PLUGIN_NAME_MAX + 1])
{
        size_t n = strlen(file);

        if (n <= strlen(PLUGIN_SUFFIX) || n > DS_PLUGIN_NAME_MAX + strlen(PLUGIN_SUFFIX))
                return 0;
        n -= strlen(PLUGIN_SUFFIX);
        if (strcmp(file + n, PLUGIN_SUFFIX))
                return 0;
        memcpy(name, file, n);
        name[n] = 0;
        return name_is_valid(name) && strcmp(name, DS_PLUGIN_BUILTIN);
}

typedef char plugin_name[DS_PLUGIN_NAME_MAX + 1];

static int compare_names(const void *a, const void *b)
{
        return strcmp(a, b);
}

static int is_among(const plugin_name *names, size_t n, const char *name)
{
        for (size_t i = 0; i < n; i++)
                if (!strcmp(names[i], name))
                        return 1;
        return 0;
}

/* Adds the names of the directory's files that look like plug-ins to the list, which has `count` names already. */
static size_t list_place(const struct ds_plugin_place *place, plugin_name names[PLUGINS_MAX], size_t count)
{
        char message[256];
        int fd = place->dir[0] ? place_open(place, message, sizeof(message)) : -1;
        DIR *dir = fd < 0 ? NULL : fdopendir(fd);
        struct dirent *entry;

        if (!dir) {
                ds_close(fd);
                return count;
        }
        while (count < PLUGINS_MAX && (entry = readdir(dir)))
                count += name_of_file(entry->d_name, names[count]) && !is_among(names, count, names[count]);
        closedir(dir);
        return count;
}

/* Collects the names of all places, each once, sorted. */
static size_t list_names(const struct ds_plugin_place *place, plugin_name names[PLUGINS_MAX])
{
        size_t count = 0;

        for (; place; place = place->next)
                count = list_place(place, names, count);
        qsort(names, count, sizeof(names[0]), compare_names);
        return count;
}

size_t ds_plugin_list(const struct ds_plugin_place *place, struct ds_policy_listing *list, size_t n)
{
        plugin_name names[PLUGINS_MAX];
        size_t n_names = list_names(place, names), count = 0;
        char message[256];

        if (n)
                listing_write(&ds_plugin_fifo, &list[0]);
        count++;
        for (size_t i = 0; i < n_names; i++) {
                ds_plugin *plugin = NULL;

                if (ds_plugin_open(place, names[i], message, sizeof(message), &plugin))
                        continue;
                if (count < n)
                        listing_write(plugin->policy, &list[count]);
                count++;
                ds_plugin_close(plugin);
        }
        return count;
}
