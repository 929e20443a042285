/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Speed of resident blocks beside each other
 *
 * A block alone has a latency, of which a part is waiting for memory, and a demand for issue slots of its SM and for
 * bytes. The demands of all resident blocks are summed: per SM, for L2, for VRAM, and per channel for launches that do
 * not use all channels alike. Where the sum exceeds the capacity, each block gets a share in proportion to its demand,
 * as from queues served in order. So a block's time is its latency, stretched by two factors:
 *
 *  - the oversubscription of its SM's issue slots, or of the SM's port to L2;
 *  - the longer wait for memory, on that part of its latency which is waiting. A block that waits little is slowed
 *    little; the wait is as long as it must be for all blocks together to get the capacity. It is the longest of: L2,
 *    of all channels or of the fullest of its own; VRAM likewise, for the part of its bytes that L2 does not have; and
 *    the backlog. Backlog: requests that wait for a full channel block requests for others. On an H200, work confined
 *    to a few channels slows other work that uses none of these.
 *
 * These shares hold until the set of resident blocks changes; then the rest of each block continues at its new speed.
 * While nothing is oversubscribed, and while one block replaces an equal one, speeds stay the same and nothing is
 * recomputed. Speeds of memory are rounded to 1/128, so that small changes do not touch every block of the device.
 */
#include <assert.h>

#include "device/sim/internal.h"

#define RATE_MAX (UINT64_C(1) << 38) /* most bytes per us of a group, which keeps every sum and product below 64 bits */
#define STRETCH_MAX (UINT64_C(1) << 30)

/* --- sums --- */

static uint64_t group_port(const ds_device *device, const struct sim_group *group)
{
        return group->n * DS_MIN(group->rate / group->n, device->model->timing.sm_mbps);
}

static void memory_change(ds_device *device, const struct sim_group *group, int64_t sign)
{
        const struct sim_traffic *traffic = &group->job->traffic;
        struct sim_memory *m = &device->memory;

        if (!group->rate)
                return;
        m->changed = true;
        m->stall_rate += (uint64_t)sign * (group->rate * group->stall / SIM_LOAD_ONE);
        m->total_rate += (uint64_t)sign * group->rate;
        if (!traffic->uneven) {
                m->rate += (uint64_t)sign * group->rate;
                m->vram_rate += (uint64_t)sign * group->vram_rate;
                return;
        }
        m->n_uneven += (uint32_t)sign;
        for (uint32_t c = 0; c < device->model->channels.n; c++) {
                m->channel_rate[c] += (uint64_t)sign * (group->rate * traffic->shares[c] / SIM_LOAD_ONE);
                m->channel_vram[c] += (uint64_t)sign * (group->vram_rate * traffic->shares[c] / SIM_LOAD_ONE);
        }
}

void sim_share_add(ds_device *device, struct sim_group *group)
{
        struct sim_sm *sm = &device->sm[group->sm];

        group->rate = DS_MIN(group->rate, RATE_MAX);
        group->vram_rate = DS_MIN(group->vram_rate, RATE_MAX);
        group->port = group_port(device, group);
        sm->load += group->sm_load;
        sm->port += group->port;
        group->sm_prev = NULL;
        group->sm_next = sm->head;
        if (sm->head)
                sm->head->sm_prev = group;
        sm->head = group;
        device->sms_changed[group->sm / 64] |= UINT64_C(1) << group->sm % 64;
        memory_change(device, group, 1);
}

void sim_share_remove(ds_device *device, struct sim_group *group)
{
        struct sim_sm *sm = &device->sm[group->sm];

        sm->load -= group->sm_load;
        sm->port -= group->port;
        *(group->sm_prev ? &group->sm_prev->sm_next : &sm->head) = group->sm_next;
        if (group->sm_next)
                group->sm_next->sm_prev = group->sm_prev;
        device->sms_changed[group->sm / 64] |= UINT64_C(1) << group->sm % 64;
        memory_change(device, group, -1);
}

/* --- slowdown by memory --- */

static uint32_t ratio(uint64_t asked, uint64_t there)
{
        uint64_t r = (uint64_t)((unsigned __int128)asked * SIM_LOAD_ONE / there);

        return (uint32_t)DS_MIN(r, STRETCH_MAX);
}

/* Rounds to eight significant bits, with an error of 1/128 at most. */
static uint32_t rounded(uint32_t stretch)
{
        uint32_t step;

        if (stretch <= SIM_LOAD_ONE)
                return SIM_LOAD_ONE;
        step = 1u << (31 - __builtin_clz(stretch) - 7);
        return (stretch + step / 2) & ~(step - 1);
}

/* Slowdown of L2 and VRAM by the fullest channel among those that shares[] uses (NULL: all channels). */
static void fullest(const ds_device *device, const uint16_t *shares, uint32_t *ret_l2, uint32_t *ret_vram)
{
        const struct sim_timing *t = &device->model->timing;
        const struct sim_memory *m = &device->memory;
        uint64_t n = device->model->channels.n, l2 = 0, vram = 0;

        for (uint32_t c = 0; c < n; c++) {
                if (shares && !shares[c])
                        continue;
                l2 = DS_MAX(l2, m->channel_rate[c]);
                vram = DS_MAX(vram, m->channel_vram[c]);
        }
        *ret_l2 = ratio(m->rate + l2 * n, t->l2_mbps);
        *ret_vram = ratio(m->vram_rate + vram * n, t->kernel_mbps);
}

/* Sum of the demand on each channel beyond the channel's capacity, bytes per us. */
static uint64_t waiting_rate(const ds_device *device)
{
        const struct sim_memory *m = &device->memory;
        uint64_t n = device->model->channels.n, there = device->model->timing.kernel_mbps, waiting = 0, asked;

        if (!m->n_uneven)
                return m->vram_rate - DS_MIN(m->vram_rate, there);
        for (uint32_t c = 0; c < n; c++) {
                asked = m->vram_rate / n + m->channel_vram[c];
                waiting += asked - DS_MIN(asked, there / n);
        }
        return waiting;
}

/* Recomputes the memory's speed; true when it has changed. */
static bool memory_settle(ds_device *device)
{
        const struct sim_timing *t = &device->model->timing;
        struct sim_memory *m = &device->memory;
        uint32_t l2, vram, backlog, old_l2 = m->l2, old_vram = m->vram, old_backlog = m->backlog, old_stall = m->stall;
        uint64_t waiting;

        if (!m->changed)
                return false;
        m->changed = false;
        if (m->n_uneven) {
                fullest(device, NULL, &l2, &vram);
        } else {
                l2 = ratio(m->rate, t->l2_mbps);
                vram = ratio(m->vram_rate, t->kernel_mbps);
        }
        waiting = waiting_rate(device);
        backlog = ratio(m->total_rate + waiting * t->backlog_cost / SIM_LOAD_ONE, t->l2_mbps);
        m->l2 = rounded(l2);
        m->vram = rounded(vram);
        m->backlog = waiting && !device->channels_apart ? rounded(DS_MIN(backlog, vram)) : SIM_LOAD_ONE;
        m->stall = m->total_rate ? (uint32_t)(m->stall_rate * SIM_LOAD_ONE / m->total_rate) : SIM_LOAD_ONE;
        m->stall = DS_MAX(m->stall & ~7u, 8u);
        if (m->l2 == SIM_LOAD_ONE && m->vram == SIM_LOAD_ONE && old_l2 == SIM_LOAD_ONE && old_vram == SIM_LOAD_ONE)
                return false;
        return m->n_uneven || m->l2 != old_l2 || m->vram != old_vram || m->backlog != old_backlog ||
               m->stall != old_stall;
}

static uint64_t memory_stretch(const ds_device *device, const struct sim_group *group)
{
        const struct sim_traffic *traffic = &group->job->traffic;
        const struct sim_memory *m = &device->memory;
        uint32_t l2 = m->l2, vram = m->vram;
        uint64_t stretch;

        if (traffic->uneven)
                fullest(device, traffic->shares, &l2, &vram);
        stretch = DS_MAX(DS_MAX(l2, m->backlog), SIM_LOAD_ONE);
        if (vram > stretch)
                stretch += (vram - stretch) * DS_MIN(traffic->fill, SIM_LOAD_ONE) / SIM_LOAD_ONE;
        /* the group's waits are stretched so much that the average over all groups reaches `stretch` */
        return SIM_LOAD_ONE + (stretch - SIM_LOAD_ONE) * group->stall / m->stall;
}

/* --- ends of groups --- */

static uint32_t group_stretch(const ds_device *device, const struct sim_group *group)
{
        const struct sim_sm *sm = &device->sm[group->sm];
        uint64_t stretch = DS_MAX(sm->load, SIM_LOAD_ONE);

        if (group->stall) {
                stretch = DS_MAX(stretch, ratio(sm->port, device->model->timing.sm_mbps));
                stretch = DS_MAX(stretch, memory_stretch(device, group));
        }
        return (uint32_t)DS_MIN(stretch, STRETCH_MAX);
}

void sim_share_unlink(ds_device *device, struct sim_group *group)
{
        struct sim_group *next = group->next;

        if (group->prev) {
                group->prev->next = next;
                if (next)
                        next->prev = group->prev;
        } else if (!next) {
                sim_event_remove(device, &group->event);
        } else {
                /* the next group takes the event's place in the heap, for the rest of the list */
                next->prev = NULL;
                next->event = group->event;
                device->heap[next->event.index] = &next->event;
                group->event.index = 0;
        }
        group->next = group->prev = NULL;
}

/* Schedules the group's end. Groups that end at one time share one event; *bucket: first group of the event
 * scheduled last. */
static void group_schedule(ds_device *device, struct sim_group *group, uint64_t end, struct sim_group **bucket)
{
        if (*bucket && (*bucket)->event.time == end) {
                group->prev = *bucket;
                group->next = (*bucket)->next;
                if (group->next)
                        group->next->prev = group;
                (*bucket)->next = group;
                return;
        }
        *bucket = group;
        sim_event_push(device, &group->event, SIM_EVENT_GROUPS, end);
}

static void group_settle(ds_device *device, struct sim_group *group, struct sim_group **bucket)
{
        uint32_t stretch = group_stretch(device, group);
        uint64_t passed;

        if (group->stretch == stretch)
                return;
        if (group->stretch) {
                passed = device->now - group->since_ns;
                passed = (uint64_t)((unsigned __int128)passed * SIM_LOAD_ONE / group->stretch);
                group->left_ns -= DS_MIN(passed, group->left_ns);
                if (*bucket == group)
                        *bucket = NULL;
                sim_share_unlink(device, group);
        }
        group->since_ns = device->now;
        group->stretch = stretch;
        group_schedule(device, group,
                device->now + (uint64_t)((unsigned __int128)group->left_ns * stretch / SIM_LOAD_ONE), bucket);
}

/* Recomputes when the groups of one SM end: all of them, or only new ones. */
static void sm_settle(ds_device *device, struct sim_sm *sm, bool all, struct sim_group **bucket)
{
        uint64_t stretch = DS_MAX(DS_MAX(sm->load, ratio(sm->port, device->model->timing.sm_mbps)), SIM_LOAD_ONE);

        all = all || stretch != sm->stretch;
        sm->stretch = (uint32_t)stretch;
        for (struct sim_group *group = sm->head; group && (all || !group->stretch); group = group->sm_next)
                group_settle(device, group, bucket);
}

void sim_share_settle(ds_device *device)
{
        bool memory = memory_settle(device);
        struct sim_group *bucket = NULL;
        uint64_t word;

        for (uint32_t i = 0; i < SIM_SM_WORDS; i++) {
                word = memory ? UINT64_MAX : device->sms_changed[i];
                device->sms_changed[i] = 0;
                for (; word; word &= word - 1)
                        sm_settle(device, &device->sm[i * 64 + (uint32_t)__builtin_ctzll(word)], memory, &bucket);
        }
}
