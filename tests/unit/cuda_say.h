/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A kernel that prints, for tests of the cuda device
 *
 * The cuda device holds a launch that prints while a launch of another session prints (device/cuda/hold.c).
 */
#pragma once

#include <stdint.h>

/* PTX of kernel say(n, p): it prints "say N\n" and then stores *p = n. */
#define PTX_SAY                                                                                                       \
        ".extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);\n"                                      \
        ".global .align 1 .b8 $str[8] = {115, 97, 121, 32, 37, 100, 10, 0};\n"                                        \
        ".visible .entry say(.param .u32 n, .param .u64 p)\n"                                                         \
        "{\n .local .align 8 .b8 depot[8]; .reg .b64 %SP, %SPL, %rd<4>; .reg .b32 %r<4>;\n mov.u64 %SPL, depot;\n"    \
        " cvta.local.u64 %SP, %SPL;\n ld.param.u32 %r1, [n];\n ld.param.u64 %rd3, [p];\n st.local.u32 [%SPL], %r1;\n" \
        " mov.u64 %rd1, $str;\n cvta.global.u64 %rd2, %rd1;\n"                                                        \
        " { .param .b64 a; .param .b64 b; .param .b32 r; st.param.b64 [a], %rd2; st.param.b64 [b], %SP;\n"            \
        " call.uni (r), vprintf, (a, b); ld.param.b32 %r2, [r]; }\n st.u32 [%rd3], %r1;\n ret;\n}\n"

struct say_params {
        uint32_t n, pad;
        uint64_t p;
};
