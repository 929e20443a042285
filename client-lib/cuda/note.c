/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What tells this library from NVIDIA's
 *
 * An ELF note, so that the daemon can see what a libcuda.so.1 is before it loads it (daemon/device/cuda/driver.c):
 * owner "DetShare", type 1, no content.
 */
__asm__(".pushsection .note.detshare, \"a\", @note\n"
        ".balign 4\n"
        ".long 9\n" /* with its NUL */
        ".long 0\n"
        ".long 1\n"
        ".asciz \"DetShare\"\n"
        ".balign 4\n"
        ".popsection\n");
