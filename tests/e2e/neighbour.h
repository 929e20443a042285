/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Another user's session as the target of attacks
 *
 * It lives in its own process. Each round writes 256 words to the device, launches a kernel on them, reads them back
 * and compares every byte. It also compares a second buffer, whose address the attackers know, with its initial
 * contents.
 */
#pragma once

#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/core.h"
#include "tests/e2e/harness.h"

#define NEIGHBOUR_WORDS 256u

static const char neighbour_ptx[] =
        ".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry k(.param .u64 p)\n{\n.reg .b32 %r<4>;\n"
        ".reg .b64 %d<4>;\nld.param.u64 %d0, [p];\nmov.u32 %r0, %tid.x;\nmul.wide.u32 %d1, %r0, 4;\n"
        "add.u64 %d0, %d0, %d1;\nld.global.u32 %r1, [%d0];\nmad.lo.u32 %r1, %r1, 3, 1;\n"
        "st.global.u32 [%d0], %r1;\nret;\n}\n";

/* Runs one round. Returns 0 if every byte is right. address: of the words and of the second buffer */
static inline int neighbour_round(dsc_session *s, uint64_t kernel, const uint64_t address[2], uint32_t seed)
{
        struct dsc_launch launch = {.kernel = kernel,
                .grid = {1, 1, 1},
                .block = {NEIGHBOUR_WORDS, 1, 1},
                .params = address,
                .params_size = sizeof(address[0])};
        uint32_t words[NEIGHBOUR_WORDS], second[NEIGHBOUR_WORDS];
        int wrong;

        for (uint32_t i = 0; i < NEIGHBOUR_WORDS; i++)
                words[i] = i * 77 + seed;
        wrong = dsc_write(s, 0, address[0], 0, words, 0, sizeof(words), 1) || dsc_launch(s, 0, &launch) ||
                dsc_wait_all(s) || dsc_read(s, 0, words, 0, address[0], 0, sizeof(words), 1) ||
                dsc_read(s, 0, second, 0, address[1], 0, sizeof(second), 1);
        for (uint32_t i = 0; !wrong && i < NEIGHBOUR_WORDS; i++)
                wrong = words[i] != (i * 77 + seed) * 3 + 1 || second[i] != 0x5a5a5a5a;
        return wrong;
}

/* Each received byte starts one round; the answer is 0 if every byte is right. */
static inline int neighbour_run(int in, int out)
{
        uint32_t second[NEIGHBOUR_WORDS];
        uint64_t address[2] = {0}, module;
        struct dsc_kernel kernel = {.id = 0};
        char byte, log[1000] = "";
        int error;
        dsc_session *s = dsc_get(&error);

        memset(second, 0x5a, sizeof(second));
        if (!s || dsc_mem_alloc(s, sizeof(second), &address[0]) || dsc_mem_alloc(s, sizeof(second), &address[1]) ||
                dsc_module_load(s, neighbour_ptx, sizeof(neighbour_ptx), log, sizeof(log), &module) ||
                dsc_kernel_get(s, module, "k", &kernel) ||
                dsc_write(s, 0, address[1], 0, second, 0, sizeof(second), 1) ||
                write(out, &address[1], sizeof(address[1])) != sizeof(address[1]))
                return 1;
        while (read(in, &byte, 1) == 1) {
                char wrong = (char)neighbour_round(s, kernel.id, address, (uint8_t)byte);

                if (write(out, &wrong, 1) != 1)
                        return 1;
        }
        return 0;
}

/* Starts the neighbour's process; *ret_address: address of its second buffer */
static inline struct h_child neighbour_start(uint64_t *ret_address)
{
        struct h_child child = h_spawn(neighbour_run, "ring");

        h_check(read(child.from, ret_address, sizeof(*ret_address)) == sizeof(*ret_address), "the neighbour began");
        return child;
}

/* Requests another round. Returns 1 if it gave the right bytes. */
static inline int neighbour_is_right(const struct h_child *child, char round)
{
        char wrong = 1;

        return write(child->to, &round, 1) == 1 && read(child->from, &wrong, 1) == 1 && !wrong;
}

static inline void neighbour_end(const struct h_child *child)
{
        int status = -1;

        close(child->to);
        h_check(waitpid(child->pid, &status, 0) == child->pid && status == 0, "the neighbour ended with %#x", status);
        close(child->from);
}
