/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading and making arrivals
 *
 * The formats belong to other projects. Of JSON only the needed array is read; the rest of the file is not checked.
 */
#include "replay/arrivals.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "replay/random.h"
#include "replay/workload.h"
#include "util/alloc.h"
#include "util/error.h"
#include "util/macro.h"

#define SECONDS_MAX 1e9 /* times in a file must be below this many seconds */
#define ROW_MAX 128u    /* most bytes of a row of Azure's tables */

enum kind {
        CLOSED,
        POISSON,
        UNIFORM,
        LIST,
};

struct ds_replay_arrivals {
        enum kind kind;
        double rate, speed;
        uint64_t seed, random, n;       /* n: number of arrivals returned so far */
        double clock;                   /* time of the last arrival made by a rule, s */
        struct ds_replay_arrival *list; /* LIST: arrivals of the file, with times from the first one on at speed 1 */
        size_t n_list, capacity;
        double period; /* time after which the list begins again, s */
};

/* --- reading files ---------------- */

static int list_add(ds_replay_arrivals *a, double seconds, uint32_t context, uint32_t generated)
{
        size_t more = a->capacity ? a->capacity * 2 : 1024;
        struct ds_replay_arrival *grown;

        if (!(seconds >= 0 && seconds < SECONDS_MAX))
                return DS_REPLAY_E_BAD_FILE;
        if (a->n_list == a->capacity) {
                grown = ds_realloc(a->list, more, sizeof(*grown));
                if (!grown)
                        return ds_error_origin(-ENOMEM);
                a->list = grown;
                a->capacity = more;
        }
        a->list[a->n_list++] = (struct ds_replay_arrival){
                .ns = (uint64_t)llround(seconds * 1e9), .context_tokens = context, .generated_tokens = generated};
        return 0;
}

/* Read the numbers of the array whose '[' is at `at`. They are times, or gaps that add up to times, in units of
 * `unit` seconds. */
static int read_array(ds_replay_arrivals *a, const char *at, int gaps, double unit)
{
        double value, sum = 0;
        char *end;
        int r = 0;

        for (at++; !r; at = end + strspn(end, " \t\r\n,")) {
                at += strspn(at, " \t\r\n");
                if (*at == ']')
                        return 0;
                value = strtod(at, &end);
                if (end == at)
                        return DS_REPLAY_E_BAD_FILE;
                sum = gaps ? sum + value : value;
                r = list_add(a, sum * unit, 0, 0);
        }
        return r;
}

/* Read a DISB workload: {"time": SECONDS, "tasks": [{"id": ID, "load": {"type": "trace", "trace": [MS...]}}, ...]} */
static int read_disb(ds_replay_arrivals *a, const char *text, const char *id, char *why, size_t why_size)
{
        const char *time = strstr(text, "\"time\":"), *at, *next, *trace;
        char quoted[80];
        int r;

        snprintf(quoted, sizeof(quoted), "\"%.70s\"", id ? id : "");
        at = strstr(text, quoted);
        if (!id || !at) {
                snprintf(why, why_size, "%s%.40s%s", id ? "no task '" : "name one of its tasks with id=", id ? id : "",
                        id ? "' in it" : "");
                return DS_REPLAY_E_BAD_FILE;
        }
        next = strstr(at, "\"id\"");
        trace = strstr(at, "\"trace\":");
        if (!trace || (next && next < trace)) {
                snprintf(why, why_size, "task '%.40s' has no trace: it is a closed loop", id);
                return DS_REPLAY_E_BAD_FILE;
        }
        trace += strcspn(trace, "[");
        r = *trace ? read_array(a, trace, 0, 1e-3) : DS_REPLAY_E_BAD_FILE;
        if (time)
                a->period = strtod(time + strlen("\"time\":"), NULL);
        if (r || (a->period >= 0 && a->period < SECONDS_MAX))
                return r;
        snprintf(why, why_size, "its \"time\" is not from 0 to 10^9 seconds");
        return DS_REPLAY_E_BAD_FILE;
}

/* Read Azure's table, with rows like "2023-11-16 18:15:46.6805900,374,44". Of the date only the day is used. */
static int read_azure(ds_replay_arrivals *a, const char *text)
{
        int year, month, day, hour, minute, r = 0;
        double second, first = -1, at;
        unsigned context, generated;
        const char *line = strchr(text, '\n');
        char row[ROW_MAX];

        for (; !r && line && line[1]; line = strchr(line + 1, '\n')) {
                /* sscanf() measures its whole text first, which would be the rest of the file: give it a copy of the
                 * row */
                snprintf(row, sizeof(row), "%.*s", (int)DS_MIN(strcspn(line + 1, "\n"), sizeof(row) - 1), line + 1);
                if (sscanf(row, "%d-%d-%d %d:%d:%lf,%u,%u", &year, &month, &day, &hour, &minute, &second, &context,
                            &generated) != 8)
                        return DS_REPLAY_E_BAD_FILE;
                at = ((month * 31.0 + day) * 24 + hour) * 3600 + minute * 60 + second;
                first = first < 0 ? at : first;
                r = list_add(a, at - first, context, generated);
        }
        return r;
}

static int read_lines(ds_replay_arrivals *a, const char *text)
{
        double value;
        char *end;
        int r = 0;

        for (; !r && *text; text = end + strcspn(end, "\n"), text += *text == '\n') {
                text += strspn(text, " \t\r\n");
                if (!*text)
                        break;
                value = strtod(text, &end);
                if (end == text)
                        return DS_REPLAY_E_BAD_FILE;
                r = list_add(a, value, 0, 0);
        }
        return r;
}

/* Make the times relative to the first one, sort them, and choose the period. */
static int list_finish(ds_replay_arrivals *a)
{
        uint64_t first = a->n_list ? a->list[0].ns : 0, last;

        if (!a->n_list)
                return DS_REPLAY_E_BAD_FILE;
        for (size_t i = 1; i < a->n_list; i++)
                if (a->list[i].ns < a->list[i - 1].ns)
                        return DS_REPLAY_E_BAD_FILE;
        for (size_t i = 0; i < a->n_list; i++)
                a->list[i].ns -= first;
        last = a->list[a->n_list - 1].ns;
        /* if the file has no period, the gap between two rounds is the mean gap */
        if (a->period * 1e9 <= (double)last)
                a->period = a->n_list > 1 ? (double)last / 1e9 * (double)a->n_list / (double)(a->n_list - 1) : 1;
        if (a->period < 1e-6)
                return DS_REPLAY_E_BAD_FILE;
        a->kind = LIST;
        return 0;
}

static int read_list(ds_replay_arrivals *a, const char *path, const char *id, char *message, size_t message_size)
{
        ds_cleanup(ds_freep) char *text = NULL;
        char why[128] = "not a trace of arrivals";
        const char *at;
        size_t size;
        int r;

        r = ds_replay_read_file(path, message, message_size, &text, &size);
        if (r)
                return ds_error_trace(r);
        at = text + strspn(text, " \t\r\n");
        if (*at == '{')
                r = read_disb(a, at, id, why, sizeof(why));
        else if (*at == '[')
                r = read_array(a, at, 1, 1);
        else if (!strncmp(at, "TIMESTAMP", 9))
                r = read_azure(a, at);
        else
                r = read_lines(a, at);
        if (!r)
                r = list_finish(a);
        if (r > 0)
                snprintf(message, message_size, "%s: %s", path, why);
        return ds_error_trace(r);
}

/* --- opening --- */

static void arrivals_freep(ds_replay_arrivals **arrivals)
{
        *arrivals = ds_replay_arrivals_free(*arrivals);
}

static int read_rate(ds_replay_arrivals *a, const char *rule, char *message, size_t message_size)
{
        char *end;

        a->kind = *rule == 'p' ? POISSON : UNIFORM;
        rule += strcspn(rule, ":") + 1;
        a->rate = strtod(rule, &end);
        if (end != rule && !*end && a->rate > 1e-6 && a->rate <= 1e6)
                return 0;
        snprintf(message, message_size, "'%.40s': not a rate per second", rule);
        return DS_REPLAY_E_BAD_RULE;
}

int ds_replay_arrivals_open(const char *rule, const char *id, double speed, uint64_t seed, char *message,
        size_t message_size, ds_replay_arrivals **ret)
{
        ds_cleanup(arrivals_freep) ds_replay_arrivals *a = NULL;
        int r = 0;

        a = ds_alloc0(1, sizeof(*a));
        if (!a)
                return ds_error_origin(-ENOMEM);
        a->speed = speed;
        a->seed = seed;
        if (!strncmp(rule, "poisson:", 8) || !strncmp(rule, "uniform:", 8))
                r = read_rate(a, rule, message, message_size);
        else if (strcmp(rule, "closed") != 0)
                r = read_list(a, rule, id, message, message_size);
        if (r)
                return ds_error_trace(r);
        ds_replay_arrivals_rewind(a);
        *ret = DS_TAKE_PTR(a);
        return 0;
}

ds_replay_arrivals *ds_replay_arrivals_free(ds_replay_arrivals *a)
{
        if (a)
                ds_free(a->list);
        return ds_free(a);
}

int ds_replay_arrivals_closed(const ds_replay_arrivals *a)
{
        return a->kind == CLOSED;
}

void ds_replay_arrivals_rewind(ds_replay_arrivals *a)
{
        a->random = a->seed;
        a->n = 0;
        a->clock = 0;
}

struct ds_replay_arrival ds_replay_arrivals_next(ds_replay_arrivals *a)
{
        struct ds_replay_arrival next = {};
        double u;

        if (a->kind == LIST) {
                next = a->list[a->n % a->n_list];
                next.ns =
                        (uint64_t)llround(((double)next.ns + (double)(a->n / a->n_list) * a->period * 1e9) / a->speed);
        } else {
                /* u: a random number from 2^-53 to 1 */
                u = (double)((ds_replay_random(&a->random) >> 11) + 1) * 0x1p-53;
                a->clock += (a->kind == POISSON ? -log(u) : 1) / a->rate / a->speed;
                next.ns = (uint64_t)llround(a->clock * 1e9);
        }
        a->n++;
        return next;
}
