/* SPDX-License-Identifier: Apache-2.0 */
#include "policies/detshare/kept.h"

#include <stdio.h>
#include <string.h>

#include "policies/detshare/mean.h"

#define KEPT_VERSION 1u
#define KEPT_LENGTH_PART 2u /* requests longer or shorter by more than this part are other requests */
/* measured requests from the first choice to the first writing of the note, and from one writing to the next. Until the
 * first writing a note may still come: the kernels of BE are known only after a whole step of it. */
#define KEPT_EVERY 16u
#define KEPT_TIME_MAX (3600ull * 1000 * MS)

/* Positions of a note's values. */
enum kept_value {
        KEPT_AT_VERSION,
        KEPT_AT_ALONE,
        KEPT_AT_WITHOUT,
        KEPT_AT_WITHOUT_N,
        KEPT_AT_BEST, /* SMs of the best way */
        KEPT_AT_WAYS, /* SHARING_WAYS times the values of a way */
};

enum kept_way {
        KEPT_WAY_SMS, /* 0: the way is not measured */
        KEPT_WAY_LS,
        KEPT_WAY_DEVIATION,
        KEPT_WAY_BE,
        KEPT_WAY_WITH,
        KEPT_WAY_LONGER,
        _KEPT_WAY_VALUES,
};

#define KEPT_VALUES (KEPT_AT_WAYS + SHARING_WAYS * _KEPT_WAY_VALUES)

_Static_assert(KEPT_VALUES <= DETSHARE_NOTE_VALUES, "a note has room for all ways");

/* Whether the BE session counts to the pair: it has run since the last new one. */
static int kept_counts(const struct detshare *d, const struct be *be)
{
        return be->seen && be->seen >= d->be_since;
}

/* Sets group and key of the pair's note. Returns 0, or -1: the kernels of one of both are not known yet. */
static int kept_name(const struct detshare *d, const struct ls *ls, struct detshare_note *note)
{
        const uint64_t service = sketch_value(&ls->kernels);
        uint64_t jobs = 0, users = 0;

        for (uint32_t i = 0; i < BE_MAX; i++) {
                if (!kept_counts(d, &d->be[i]))
                        continue;
                if (!sketch_value(&d->be[i].kernels))
                        return -1;
                jobs += sketch_mix(sketch_value(&d->be[i].kernels));
                users += sketch_mix(d->be[i].uid);
        }
        *note = (struct detshare_note){.size = sizeof(*note)};
        note->group = sketch_mix(ls->uid) ^ sketch_mix(users + 1);
        note->key = sketch_mix(service) ^ sketch_mix(jobs + 1);
        return service && jobs ? 0 : -1;
}

/* Reads the values of one way. Returns 0, or -1: they cannot be. */
static int kept_read_way(const struct detshare *d, const uint64_t *values, struct sharing *ret)
{
        uint32_t i = 0;

        if (!values[KEPT_WAY_SMS])
                return 0;
        while (i < d->n_ways && d->way_sms[i] != values[KEPT_WAY_SMS])
                i++;
        if (i == d->n_ways || !values[KEPT_WAY_LS] || values[KEPT_WAY_LS] > SHARING_ONE ||
                values[KEPT_WAY_DEVIATION] > SHARING_ONE || values[KEPT_WAY_BE] > 2 * SHARING_ONE ||
                values[KEPT_WAY_WITH] > KEPT_TIME_MAX || values[KEPT_WAY_LONGER] > KEPT_TIME_MAX)
                return -1;
        ret->way[i] = (struct sharing_way){.n = 1,
                .ls = values[KEPT_WAY_LS],
                .deviation = values[KEPT_WAY_DEVIATION],
                .be = values[KEPT_WAY_BE],
                .with_ns = values[KEPT_WAY_WITH],
                .longer_ns = values[KEPT_WAY_LONGER]};
        return 0;
}

/* Reads a note. Returns 0, or -1: it says nothing about these requests on this GPU. */
static int kept_read(
        const struct detshare *d, const struct detshare_note *note, uint64_t length_ns, struct sharing *ret)
{
        const uint64_t *values = note->values;

        *ret = (struct sharing){0};
        if (note->n != KEPT_VALUES || values[KEPT_AT_VERSION] != KEPT_VERSION ||
                values[KEPT_AT_ALONE] > KEPT_TIME_MAX || values[KEPT_AT_WITHOUT] > KEPT_TIME_MAX ||
                difference_u64(values[KEPT_AT_ALONE], length_ns) > length_ns / KEPT_LENGTH_PART)
                return -1;
        ret->alone_ns = values[KEPT_AT_ALONE];
        ret->without_ns = values[KEPT_AT_WITHOUT];
        ret->without_n = values[KEPT_AT_WITHOUT_N] != 0;
        for (uint32_t i = 0; i < SHARING_WAYS; i++)
                if (kept_read_way(d, &values[KEPT_AT_WAYS + i * _KEPT_WAY_VALUES], ret))
                        return -1;
        for (uint32_t i = 0; i < d->n_ways; i++)
                if (ret->way[i].n && d->way_sms[i] == values[KEPT_AT_BEST])
                        ret->best = i;
        return ret->way[ret->best].n ? 0 : -1;
}

void kept_recall(const struct detshare *d, struct ls *ls)
{
        struct detshare_note note;
        struct sharing kept;

        if (!d->notes || ls->sharing.learned >= KEPT_EVERY || ls->sharing.origin != SHARING_MEASURED ||
                kept_name(d, ls, &note))
                return;
        d->notes->get(d->notes->host, &note);
        if (!kept_read(d, &note, ls->budget.mean_ns, &kept))
                sharing_adopt(&ls->sharing, &kept);
}

static void kept_write_way(uint32_t n_sms, const struct sharing_way *way, uint64_t *values)
{
        values[KEPT_WAY_SMS] = n_sms;
        values[KEPT_WAY_LS] = way->ls;
        values[KEPT_WAY_DEVIATION] = way->deviation;
        values[KEPT_WAY_BE] = way->be;
        values[KEPT_WAY_WITH] = way->with_ns;
        values[KEPT_WAY_LONGER] = way->longer_ns;
}

/* Replaces a note that did not hold by one without figures, so that the next run does not begin with them. */
static void kept_drop(const struct detshare *d, struct ls *ls)
{
        struct detshare_note note;

        if (kept_name(d, ls, &note))
                return;
        ls->sharing.dropped = 1;
        note.n = 1; /* version 0 */
        snprintf(note.text, sizeof(note.text), "figures of an earlier run did not hold; measured again");
        d->notes->put(d->notes->host, &note);
}

void kept_write(const struct detshare *d, struct ls *ls)
{
        struct sharing *sharing = &ls->sharing;
        const struct sharing_way *best = &sharing->way[sharing->best];
        struct detshare_note note;

        if (d->notes && sharing->origin == SHARING_REFUTED && !sharing->dropped)
                kept_drop(d, ls);
        if (!d->notes || sharing->origin == SHARING_KEPT || sharing->learned < sharing->written + KEPT_EVERY ||
                kept_name(d, ls, &note))
                return;
        sharing->written = sharing->learned;
        note.n = KEPT_VALUES;
        note.values[KEPT_AT_VERSION] = KEPT_VERSION;
        note.values[KEPT_AT_ALONE] = sharing->alone_ns;
        note.values[KEPT_AT_WITHOUT] = sharing->without_ns;
        note.values[KEPT_AT_WITHOUT_N] = sharing->without_n;
        note.values[KEPT_AT_BEST] = d->way_sms[sharing->best];
        for (uint32_t i = 0; i < d->n_ways; i++)
                if (sharing_is_known(&sharing->way[i]))
                        kept_write_way(
                                d->way_sms[i], &sharing->way[i], &note.values[KEPT_AT_WAYS + i * _KEPT_WAY_VALUES]);
        snprintf(note.text, sizeof(note.text),
                "best effort on %u of %u SMs: requests of %.2f ms run at %.2f of their speed alone, best effort at "
                "%.2f",
                d->way_sms[sharing->best], d->n_sms, (double)sharing->alone_ns / 1e6, (double)best->ls / SHARING_ONE,
                (double)best->be / SHARING_ONE);
        d->notes->put(d->notes->host, &note);
}
