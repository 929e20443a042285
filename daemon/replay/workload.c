/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening workloads
 */
#include "replay/workload.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "util/alloc.h"
#include "util/error.h"
#include "util/macro.h"

int ds_replay_read_file(const char *path, char *message, size_t message_size, char **ret, size_t *ret_size)
{
        ds_cleanup(ds_freep) char *text = NULL;
        size_t n = 0, capacity = 0;
        FILE *f = fopen(path, "re");
        char *grown;

        errno = f ? 0 : errno;
        while (f && !feof(f) && !ferror(f) && n <= SIM_PROFILE_TEXT_MAX) {
                if (n + 1 >= capacity) {
                        capacity = capacity ? capacity * 2 : 65536;
                        grown = ds_realloc(text, capacity, 1);
                        if (!grown) {
                                (void)fclose(f);
                                return ds_error_origin(-ENOMEM);
                        }
                        text = grown;
                }
                n += fread(text + n, 1, capacity - n - 1, f);
        }
        if (!f || ferror(f) || n > SIM_PROFILE_TEXT_MAX) {
                snprintf(
                        message, message_size, "%s: %s", path, n > SIM_PROFILE_TEXT_MAX ? "too long" : strerror(errno));
                if (f)
                        (void)fclose(f);
                return DS_REPLAY_E_BAD_FILE;
        }
        (void)fclose(f);
        text[n] = 0;
        *ret = DS_TAKE_PTR(text);
        *ret_size = n;
        return 0;
}

static int ends_with(const char *text, const char *end)
{
        size_t n = strlen(text), m = strlen(end);

        return n >= m && !strcmp(text + n - m, end);
}

/* Parse the text of a file: a profile or a table. */
static int file_text(const char *path, uint32_t sms, char *message, size_t message_size, char **ret, size_t *ret_size)
{
        ds_cleanup(ds_freep) char *text = NULL;
        int r;

        r = ds_replay_read_file(path, message, message_size, &text, ret_size);
        if (r)
                return ds_error_trace(r);
        if (!ends_with(path, ".csv")) {
                *ret = DS_TAKE_PTR(text);
                return 0;
        }
        r = ds_replay_convert(path, text, *ret_size, sms, message, message_size, ret);
        if (!r)
                *ret_size = strlen(*ret);
        return ds_error_trace(r);
}

static void workload_freep(struct ds_replay_workload **workload)
{
        *workload = ds_replay_workload_free(*workload);
}

int ds_replay_workload_open(
        const char *name, uint32_t sms, char *message, size_t message_size, struct ds_replay_workload **ret)
{
        ds_cleanup(workload_freep) struct ds_replay_workload *workload = NULL;
        char error[256] = "";
        int known, r;

        workload = ds_alloc0(1, sizeof(*workload));
        if (!workload)
                return ds_error_origin(-ENOMEM);
        workload->text = ds_replay_synthesise(name, &known);
        if (known && !workload->text)
                return ds_error_origin(-ENOMEM);
        if (known) {
                workload->size = strlen(workload->text);
        } else if (!strchr(name, '/') && !strchr(name, '.')) {
                snprintf(message, message_size, "%s: no such workload (see --list), and no path of a profile", name);
                return DS_REPLAY_E_NO_WORKLOAD;
        } else {
                r = file_text(name, sms, message, message_size, &workload->text, &workload->size);
                if (r)
                        return ds_error_trace(r);
        }
        r = sim_profile_parse(workload->text, workload->size, error, sizeof(error), &workload->profile);
        if (r < 0)
                return ds_error_trace(r);
        if (r) {
                snprintf(message, message_size, "%s: %s", name, error);
                return DS_REPLAY_E_BAD_FILE;
        }
        *ret = DS_TAKE_PTR(workload);
        return 0;
}

struct ds_replay_workload *ds_replay_workload_free(struct ds_replay_workload *workload)
{
        if (!workload)
                return NULL;
        sim_profile_free(workload->profile);
        ds_free(workload->text);
        return ds_free(workload);
}
