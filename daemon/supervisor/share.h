/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory that more than one session may use
 *
 * A piece of memory is a file with a reference count. References are held by the creator's ledger, the ledgers of
 * importing sessions, and pending requests. The creator's user is charged until the last reference is released, so
 * memory that others still use stays charged when the creator frees it.
 *
 * A session imports memory with a token: 64 bytes with a number and a secret of 32 random bytes from the kernel. The
 * secret cannot be guessed, and is compared in constant time. A token is valid for sessions of the same user while the
 * memory exists, also after a restart of the daemon. Its offset and size only say where in the memory the exported
 * allocation lies: the owner of a token may map all of the memory.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "supervisor/charge.h"

/* Positive return codes of the functions below */
#define DS_SHARE_E_UNKNOWN 1 /* the memory does not exist, or belongs to another user */

#define DS_SHARE_TOKEN_BYTES 64
#define DS_SHARE_SECRET_BYTES 32

typedef struct ds_share ds_share;   /* one piece of memory */
typedef struct ds_shares ds_shares; /* all published pieces */

int ds_shares_new(ds_shares **ret);
/* Frees the set, which must be empty. NULL is allowed; returns NULL. */
ds_shares *ds_shares_free(ds_shares *shares);

/* Creates a share with one reference. Consumes the fd. Charges the user for bytes and file, or only for the file (a
 * slab whose bytes are charged already). Returns 0 or -ENOMEM. */
int ds_share_new(int *fd, uint64_t bytes, int charge_bytes, ds_user *user, ds_share **ret);
ds_share *ds_share_ref(ds_share *share);
/* Drops a reference. NULL is allowed; returns NULL. */
ds_share *ds_share_unref(ds_share *share);
int ds_share_fd(const ds_share *share); /* descriptor that the share owns */
uint64_t ds_share_bytes(const ds_share *share);
/* Called when the creator has freed the memory: charges its bytes to the creator's user if references are left. */
void ds_share_left(ds_share *share);

/* Gives the share a number and a secret, so that sessions can import it by a token. Returns 0 or a negative errno. */
int ds_share_publish(ds_shares *shares, ds_share *share);
/* Publishes the share with the number and secret from an earlier daemon. Returns 0, DS_SHARE_E_UNKNOWN (the number
 * is in use) or -ENOMEM. */
int ds_share_republish(ds_shares *shares, ds_share *share, uint64_t id, const uint8_t secret[DS_SHARE_SECRET_BYTES]);
uint64_t ds_share_id(const ds_share *share); /* number of the share; 0: not published */
const uint8_t *ds_share_secret(const ds_share *share);
void ds_share_token(const ds_share *share, uint64_t offset, uint64_t size, uint8_t ret[DS_SHARE_TOKEN_BYTES]);

struct ds_share_found {
        ds_share *share; /* holds a new reference */
        uint64_t offset, size;
};
/* Finds the memory of a token. Returns 0 or DS_SHARE_E_UNKNOWN. */
int ds_shares_find(
        const ds_shares *shares, const uint8_t *token, size_t size, const ds_user *user, struct ds_share_found *ret);
/* The share with this number, with a new reference; NULL: there is none. */
ds_share *ds_shares_at(const ds_shares *shares, uint64_t id);
