/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device code in host objects and their archives
 *
 * nvcc -dc puts relocatable device code into the section __nv_relfatbin of a host object (ELF): fatbin containers, back
 * to back. A static library is an archive (ar) of such objects. The bytes may come from a client: every offset is
 * checked before use, and nothing is decompressed here.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define DS_OBJECT_E_INVALID 1 /* damaged, or neither a host object nor an archive; see the message */

/* Whether the bytes begin like an archive, or like an ELF file that is no cubin. */
int ds_object_is_archive(const void *bytes, size_t size);
int ds_object_is_host(const void *bytes, size_t size);

/* Called for each fatbin container. member: name of the archive's member, "" for an object. A result other than 0 ends
 * the walk, which returns it. */
typedef int (*ds_object_fn)(void *user, const char *member, const uint8_t *container, size_t size);

/* Walks the containers of an object or an archive. Members of an archive that are no ELF files are skipped. Returns 0,
 * DS_OBJECT_E_INVALID, or the result of fn. */
int ds_object_walk(const void *bytes, size_t size, ds_object_fn fn, void *user, char *message, size_t message_size);
