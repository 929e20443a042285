/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVIDIA's driver library, and how to distinguish it from DetShare's
 *
 * Both are named libcuda.so.1. The library of DetShare, the drop-in, has an ELF note of its own. These functions search
 * for that note in a file or in a loaded library. A process that needs the driver must not load the drop-in, which
 * would lead back to the daemon, and a process that needs the drop-in must not load the driver. The notes are
 * untrusted: reads are bounded by the bytes present.
 */
#pragma once

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "util/macro.h"

#define DS_LIBCUDA "libcuda.so.1"
#define DS_DROPIN_NOTE "DetShare" /* owner of the drop-in's ELF note */

/* Folders where distributions, NVIDIA's installer, its container tools and WSL install the driver, in search order. */
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

/* Whether the ELF notes of a segment (`size` bytes) include the drop-in's. */
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
