/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVIDIA's driver library, and how it is told from ours
 *
 * Both are called libcuda.so.1. Ours, the drop-in, has an ELF note of DetShare's, which is looked for in the file or in
 * what is loaded: who wants the driver must not take the drop-in for it, which would lead back to the daemon, and who
 * wants the drop-in must not take the driver. Notes are of whoever made the file: nothing of them is believed beyond
 * the bytes that are there.
 */
#pragma once

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "util/macro.h"

#define DS_LIBCUDA "libcuda.so.1"
#define DS_DROPIN_NOTE "DetShare" /* its owner */

/* Where distributions, NVIDIA's installer, its container tools and WSL put the driver's, in the order to look. */
static const char *const ds_libcuda_folders[] = {
        "/usr/lib/x86_64-linux-gnu",
        "/usr/lib64",
        "/usr/lib",
        "/usr/lib/aarch64-linux-gnu",
        "/usr/local/nvidia/lib64",
        "/usr/local/nvidia/lib",
        "/usr/lib/wsl/lib",
        "/usr/local/cuda/compat",
};

/* Whether the notes of a segment, `size` bytes, hold the drop-in's. */
static inline bool ds_notes_are_dropin(const char *notes, size_t size)
{
        Elf64_Nhdr note;
        size_t at = 0, name, content;

        while (size - at >= sizeof(note)) {
                memcpy(&note, notes + at, sizeof(note));
                at += sizeof(note);
                name = DS_ALIGN_UP((size_t)note.n_namesz, 4);
                content = DS_ALIGN_UP((size_t)note.n_descsz, 4);
                if (name > size - at || content > size - at - name)
                        return false;
                if (note.n_namesz == sizeof(DS_DROPIN_NOTE) &&
                        !memcmp(notes + at, DS_DROPIN_NOTE, sizeof(DS_DROPIN_NOTE)))
                        return true;
                at += name + content;
        }
        return false;
}
