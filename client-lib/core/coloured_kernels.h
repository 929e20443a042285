/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PTX of the kernels that copy bytes between coloured tensors and memory; loaded like a program's own module
 *
 * One kernel copies 16 bytes at a time, another single bytes. dst and src are each a tensor or memory, so each kernel
 * has a form per mask: bit 0 dst, bit 1 src.
 */
#pragma once

#define DSC__COLOURED_LOOP(bits)             \
        "\tld.param.u64 %rd1, [dst];\n"      \
        "\tcvta.to.global.u64 %rd1, %rd1;\n" \
        "\tld.param.u64 %rd3, [n];\n"        \
        "\tmov.u32 %r1, %ctaid.x;\n"         \
        "\tmov.u32 %r2, %ntid.x;\n"          \
        "\tmov.u32 %r3, %tid.x;\n"           \
        "\tmov.u32 %r4, %nctaid.x;\n"        \
        "\tmul.wide.u32 %rd4, %r1, %r2;\n"   \
        "\tcvt.u64.u32 %rd5, %r3;\n"         \
        "\tadd.s64 %rd4, %rd4, %rd5;\n"      \
        "\tmul.wide.u32 %rd6, %r4, %r2;\n"   \
        "$loop:\n"                           \
        "\tsetp.ge.u64 %p1, %rd4, %rd3;\n"   \
        "\t@%p1 bra $done;\n"                \
        "\tshl.b64 %rd7, %rd4, " bits ";\n"  \
        "\tadd.s64 %rd8, %rd1, %rd7;\n"

#define DSC__COLOURED_END               \
        "\tadd.s64 %rd4, %rd4, %rd6;\n" \
        "\tbra $loop;\n"                \
        "$done:\n"                      \
        "\tret;\n"                      \
        "}\n"

#define DSC__COLOURED_REGISTERS \
        "{\n"                   \
        "\t.reg .pred %p<2>;\n" \
        "\t.reg .b16 %h<2>;\n"  \
        "\t.reg .b32 %r<12>;\n" \
        "\t.reg .b64 %rd<12>;\n"

#define DSC__COLOURED_COPY(name)                                                                              \
        ".visible .entry " name "(.param .u64 dst, .param .u64 src, .param .u64 n)\n" DSC__COLOURED_REGISTERS \
        "\tld.param.u64 %rd2, [src];\n"                                                                       \
        "\tcvta.to.global.u64 %rd2, %rd2;\n"

#define DSC__COLOURED_FILL(name)                                                                                \
        ".visible .entry " name "(.param .u64 dst, .param .u32 value, .param .u64 n)\n" DSC__COLOURED_REGISTERS \
        "\tld.param.u32 %r5, [value];\n"

static const char dsc__coloured_ptx[] = ".version 6.0\n"
                                        ".target sm_52\n"
                                        ".address_size 64\n"
        /* clang-format off */
        DSC__COLOURED_COPY("detshare_copy16") DSC__COLOURED_LOOP("4")
        "\tadd.s64 %rd9, %rd2, %rd7;\n"
        "\tld.global.v4.u32 {%r5, %r6, %r7, %r8}, [%rd9];\n"
        "\tst.global.v4.u32 [%rd8], {%r5, %r6, %r7, %r8};\n"
        DSC__COLOURED_END
        DSC__COLOURED_COPY("detshare_copy1") DSC__COLOURED_LOOP("0")
        "\tadd.s64 %rd9, %rd2, %rd7;\n"
        "\tld.global.u8 %h1, [%rd9];\n"
        "\tst.global.u8 [%rd8], %h1;\n"
        DSC__COLOURED_END
        DSC__COLOURED_FILL("detshare_fill16") DSC__COLOURED_LOOP("4")
        "\tst.global.v4.u32 [%rd8], {%r5, %r5, %r5, %r5};\n"
        DSC__COLOURED_END
        DSC__COLOURED_FILL("detshare_fill1") DSC__COLOURED_LOOP("0")
        "\tcvt.u16.u32 %h1, %r5;\n"
        "\tst.global.u8 [%rd8], %h1;\n"
        DSC__COLOURED_END;
/* clang-format on */
