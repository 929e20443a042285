/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/arrivals.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/alloc.h"
#include "util/macro.h"

#define FILE_MAX ((size_t)256 << 20)
#define SECONDS_MAX 1e7 /* largest time of an arrival, s: 115 days */
#define SPACES " \t\r\n"

static int add(struct sv_arrivals *arrivals, double seconds, const char *name, struct sv_why *why)
{
        if (arrivals->n == SV_ARRIVALS_MAX)
                return sv_fail(why, "%s: there are more than %zu arrivals", name, SV_ARRIVALS_MAX);
        /* at a power of two the memory is full */
        if (!(arrivals->n & (arrivals->n - 1)) && (arrivals->n == 0 || arrivals->n >= 1024)) {
                uint64_t *ns = ds_realloc(arrivals->ns, arrivals->n ? 2 * arrivals->n : 1024, sizeof(*ns));

                if (!ns)
                        return sv_fail(why, "%s: out of memory", name);
                arrivals->ns = ns;
        }
        arrivals->ns[arrivals->n++] = (uint64_t)(seconds * 1e9 + 0.5);
        return 0;
}

/* Parses a number of at least 0; NULL: there is none. */
static const char *read_number(const char *text, double *ret)
{
        char *end;

        *ret = strtod(text, &end);
        return end != text && *ret >= 0 && *ret <= SECONDS_MAX ? end : NULL;
}

static int wrong(const char *name, const struct sv_arrivals *arrivals, const char *what, struct sv_why *why)
{
        return sv_fail(why, "%s, number %zu: %s", name, arrivals->n + 1, what);
}

/* Parses gaps in the form [1.5, 0.1, ...] */
static int parse_list(
        struct sv_arrivals *arrivals, const char *text, const char *name, double speed, struct sv_why *why)
{
        double at = 0, gap;

        for (text++;; text++) {
                text = read_number(text + strspn(text, SPACES), &gap);
                at += text ? gap / speed : 0;
                if (!text || at > SECONDS_MAX)
                        return wrong(name, arrivals, "this is no list of times in seconds", why);
                if (add(arrivals, at, name, why))
                        return -1;
                text += strspn(text, SPACES);
                if (*text == ']')
                        break;
                if (*text != ',')
                        return wrong(name, arrivals, "neither , nor ] follows", why);
        }
        text += 1 + strspn(text + 1, SPACES);
        return *text ? sv_fail(why, "%s: something follows the list", name) : 0;
}

static int parse_lines(
        struct sv_arrivals *arrivals, const char *text, const char *name, double speed, struct sv_why *why)
{
        double at, last = 0;

        for (text += strspn(text, SPACES); *text; text += strspn(text, SPACES)) {
                text = read_number(text, &at);
                if (!text || (*text && !strchr(SPACES, *text)))
                        return wrong(name, arrivals, "this is no time in seconds", why);
                if (at < last)
                        return wrong(name, arrivals, "it is before the one before", why);
                last = at;
                if (add(arrivals, at / speed, name, why))
                        return -1;
        }
        return 0;
}

int sv_arrivals_parse(
        struct sv_arrivals *arrivals, const char *text, const char *name, double speed, struct sv_why *why)
{
        const char *begin = text + strspn(text, SPACES);
        int r;

        *arrivals = (struct sv_arrivals){.n = 0};
        r = *begin == '[' ? parse_list(arrivals, begin, name, speed, why)
                          : parse_lines(arrivals, begin, name, speed, why);
        if (r)
                sv_arrivals_clear(arrivals);
        return r;
}

int sv_arrivals_read(struct sv_arrivals *arrivals, const char *path, double speed, struct sv_why *why)
{
        ds_cleanup(ds_freep) char *text = NULL;
        FILE *file = fopen(path, "re");
        size_t n = 0, room = 0;

        *arrivals = (struct sv_arrivals){.n = 0};
        if (!file)
                return sv_fail(why, "%s: %s", path, strerror(errno));
        do {
                char *more = room < FILE_MAX ? ds_realloc(text, room ? 2 * room : 65536, 1) : NULL;

                if (!more) {
                        (void)fclose(file);
                        return sv_fail(why, "%s: %s", path, room < FILE_MAX ? "out of memory" : "it is too long");
                }
                text = more;
                room = room ? 2 * room : 65536;
                n += fread(text + n, 1, room - n - 1, file);
        } while (n == room - 1);
        text[n] = 0;
        if (ferror(file)) {
                (void)fclose(file);
                return sv_fail(why, "%s: %s", path, strerror(errno));
        }
        (void)fclose(file);
        return sv_arrivals_parse(arrivals, text, path, speed, why);
}

/* splitmix64 */
static uint64_t random_bits(uint64_t *state)
{
        uint64_t z = *state += 0x9e3779b97f4a7c15u;

        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
        z = (z ^ z >> 27) * 0x94d049bb133111ebu;
        return z ^ z >> 31;
}

int sv_arrivals_random(struct sv_arrivals *arrivals, double rate, double seconds, uint64_t seed, struct sv_why *why)
{
        double at = 0;

        *arrivals = (struct sv_arrivals){.n = 0};
        for (;;) {
                const double u = (double)((random_bits(&seed) >> 11) + 1) / 9007199254740992.0; /* 0 < u <= 1 */

                at -= log(u) / rate;
                if (at > seconds && arrivals->n)
                        return 0;
                if (at > seconds)
                        return sv_fail(why, "at %g requests/s none arrives in %g s", rate, seconds);
                if (add(arrivals, at, "--rate", why)) {
                        sv_arrivals_clear(arrivals);
                        return -1;
                }
        }
}

void sv_arrivals_clear(struct sv_arrivals *arrivals)
{
        ds_free(arrivals->ns);
        *arrivals = (struct sv_arrivals){.n = 0};
}
