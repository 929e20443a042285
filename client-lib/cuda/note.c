/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An ELF note that distinguishes this library from NVIDIA's
 *
 * By this note the daemon recognises a libcuda.so.1 before it loads it (daemon/device/cuda/driver.c). Owner "DetShare",
 * type 1, no content.
 */
__asm__(".pushsection .note.detshare, \"a\", @note\n"
        ".balign 4\n"
        ".long 9\n" /* length of the owner with its NUL */
        ".long 0\n"
        ".long 1\n"
        ".asciz \"DetShare\"\n"
        ".balign 4\n"
        ".popsection\n");
