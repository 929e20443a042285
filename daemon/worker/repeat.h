/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches that repeat: launched as a graph
 *
 * A program's loop submits the same launches again and again: the same kernels with the same grids in the same order,
 * often with other arguments. A launch costs the worker and the driver several microseconds. A graph of many launches
 * costs hardly more than one of them, and new arguments for one of its nodes a tenth. So if a client is ahead of the
 * worker, the worker looks for such a repetition in the records that are waiting, keeps a copy of one or several
 * repetitions (a *repeat*), makes a graph of them, and from then on takes records that are like the copy all at once,
 * as one operation with their arguments.
 *
 * Guarantees: the GPU executes exactly the launches of the records, in their order, because all fields of a record but
 * its arguments must equal the copy's, the operation has all arguments, and each node of the graph depends on the node
 * before it. No record waits here for another one: if fewer records are waiting than the repeat has, or others, they are
 * handled one by one. Each launch keeps its sequence number, and the operation has that of its last launch. Not
 * guaranteed: a thread that waits for a launch, while another one goes on launching in the same stream, may wait for
 * later launches of the same repeat, too. So such a kernel must not wait for that thread.
 *
 * Only sessions without the other class beside them are treated like this, so a policy that divides the GPU still sees
 * every launch. A repeat takes at most DSW_REPEAT_NS on the GPU: for longer kernels, launching is not the limit. Building
 * the graph needs a stop. So a repetition must have been seen several times before, and more often after repeats that
 * were hardly used.
 */
#pragma once

#include <stdint.h>

struct dsw_session;
struct dsw_stream;

#define DSW_REPEAT_LAUNCHES 64u /* most launches of a repeat */
#define DSW_REPEAT_RING 16u     /* slots in the ring with fewer of which there is nothing to take */
#define DSW_REPEAT_NS 500000u   /* longest expected time of a repeat on the GPU, ns */

/*
 * Takes the records of a whole repeat from the ring's head, before `limit` (a position in the ring). The head is a
 * LAUNCH record of the stream. Returns their ring slots and the number of launches; 0: the head is to be handled as any
 * record.
 */
uint64_t dsw_repeat_take(struct dsw_stream *stream, uint64_t limit, uint32_t *ret_launches);
/* Builds the graphs that the session's repeats wait for, or requests a stop for that. */
void dsw_repeat_serve(struct dsw_session *session);
/* Forgets the session's repeats, for example because a module is to be unloaded. Launches in flight end as usual. */
void dsw_repeat_forget_all(struct dsw_session *session);
