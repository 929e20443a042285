/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The same paths without DetShare: what two processes pay for a ring of records, and for a question and its answer over
 * a socket pair. `make bench` shows its figures as multiples of these, so they can be compared between machines.
 */
#pragma once

/* Time of one 64-byte record through a ring of 4,096 slots in shared memory to a process that reads it, us. */
double bench_bare_ring_us(unsigned records);
/* Median time of `rounds` round trips of 64 bytes between two processes that sleep in poll(), us. */
double bench_bare_pair_us(unsigned rounds);
