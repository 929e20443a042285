/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that more than one session may have
 *
 * A piece of device memory is a file, and whoever has a reference keeps it: its maker's ledger, the ledgers of those
 * who imported it, requests under way. Its maker's user pays for it until the last reference is gone, so what is given
 * back by its maker and kept by others is not forgotten.
 *
 * What lets a session import it is a token: 64 bytes with a number and a secret of 32 bytes from the kernel, which
 * nobody can guess and whose comparison takes equally long wherever it fails. It is good for sessions of the same user,
 * as long as the memory is there, also in the next life of the daemon. Offset and size in it only say where in the
 * memory somebody's allocation lies: who has a token may map all of it.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "supervisor/charge.h"

/* Contract codes */
#define DS_SHARE_E_UNKNOWN 1 /* no memory, or not this user's */

#define DS_SHARE_TOKEN_BYTES 64
#define DS_SHARE_SECRET_BYTES 32

typedef struct ds_share ds_share;   /* one piece */
typedef struct ds_shares ds_shares; /* those that there are tokens for */

int ds_shares_new(ds_shares **ret);
/* Nothing may be in it. NULL is fine; returns NULL. */
ds_shares *ds_shares_free(ds_shares *shares);

/* With one reference; takes the fd over and charges its user: as memory of that many bytes, or (a slab that is charged
 * already) for the file only. 0 or -ENOMEM. */
int ds_share_new(int *fd, uint64_t bytes, int charge_bytes, ds_user *user, ds_share **ret);
ds_share *ds_share_ref(ds_share *share);
/* NULL is fine; returns NULL. */
ds_share *ds_share_unref(ds_share *share);
int ds_share_fd(const ds_share *share); /* its own */
uint64_t ds_share_bytes(const ds_share *share);
/* Its maker has given it back. Charge the bytes if others still have it. */
void ds_share_left(ds_share *share);

/* From now on there may be tokens for it. 0, or a negative errno. */
int ds_share_publish(ds_shares *shares, ds_share *share);
/* As it was published in an earlier life of the daemon. 0, UNKNOWN (the number is taken), or -ENOMEM. */
int ds_share_republish(ds_shares *shares, ds_share *share, uint64_t id, const uint8_t secret[DS_SHARE_SECRET_BYTES]);
uint64_t ds_share_id(const ds_share *share); /* 0 = not published */
const uint8_t *ds_share_secret(const ds_share *share);
void ds_share_token(const ds_share *share, uint64_t offset, uint64_t size, uint8_t ret[DS_SHARE_TOKEN_BYTES]);

struct ds_share_found {
        ds_share *share; /* a new reference */
        uint64_t offset, size;
};
/* 0 or UNKNOWN. */
int ds_shares_find(
        const ds_shares *shares, const uint8_t *token, size_t size, const ds_user *user, struct ds_share_found *ret);
/* By number, with a new reference; NULL: none. */
ds_share *ds_shares_at(const ds_shares *shares, uint64_t id);
