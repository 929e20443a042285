/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Step of a language model's server: prefill or decode
 *
 * A server computes a prompt (prefill), then one token after the other (decode). A step is what it launches between two
 * synchronisations. The client's hint decides the kind of a step. Without a hint the kernels do: a step with about the
 * kernels of the step before it is a decode step, and its kernels are remembered. Another step is prefill if more than
 * a quarter of its kernels are not among the remembered ones. While a step runs it counts as a decode step until a
 * kernel that is not remembered fills the GPU; a session's first step counts as prefill.
 *
 * Without hints the kind is a guess: of a server whose prompts are all alike and whose answers have one token, prefill
 * looks like decode. Kernels are remembered as bits of a hash, so the state has a fixed size.
 */
#pragma once

#include <stdint.h>

#define DS_STEP_WORDS 8u

/* Set of the kernels in a step, as bits of a hash. */
struct ds_step_kernels {
        uint64_t word[DS_STEP_WORDS];
        uint32_t n; /* kernels launched */
};

struct ds_step {
        struct ds_step_kernels now, last; /* kernels of the running step, and of the step before */
        struct ds_step_kernels decode;    /* kernels of the last decode step */
        uint32_t hint;                    /* enum detshare_phase that the client stated for the running step */
        uint32_t n_other;                 /* kernels of the running step that are not among those of `decode` */
        uint32_t fills;                   /* 1: one of these fills the GPU */
        uint32_t before;                  /* enum detshare_phase of the step before */
};

/* Records a kernel of the running step that has ended. hint: enum detshare_phase; fills: 1 if its blocks need all SMs. */
void ds_step_kernel(struct ds_step *step, uint64_t kernel, uint32_t hint, int fills);
/* Kind of the running step, or of the next one between two steps: DETSHARE_PHASE_PREFILL or DETSHARE_PHASE_DECODE. */
uint32_t ds_step_phase(const struct ds_step *step);
/* Whether the running step has so few kernels that it is only a part of one: a server may synchronise several times in a
 * step, for example to copy its inputs. */
int ds_step_is_part(const struct ds_step *step);
/* Ends the running step and returns its kind. */
uint32_t ds_step_end(struct ds_step *step);
