/* SPDX-License-Identifier: Apache-2.0 */
#include "supervisor/share.h"

#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/random.h>

#include "proto/wire.h"
#include "supervisor/hash.h"
#include "util/error.h"
#include "util/macro.h"

#define TOKEN_MAGIC UINT64_C(0x31544d4552414853) /* "SHAREMT1" */

struct ds_share {
        uint64_t id;
        uint32_t refs;
        int fd;
        uint64_t bytes;
        ds_user *user;
        ds_shares *shares; /* the set of published shares that contains it; NULL: not published */
        struct ds_charge file_charge, bytes_charge;
        uint8_t secret[DS_SHARE_SECRET_BYTES];
        UT_hash_handle hh;
};

struct ds_shares {
        ds_share *by_id;
        uint64_t last_id;
};

struct token {
        uint64_t magic, id, offset, size;
        uint8_t secret[DS_SHARE_SECRET_BYTES];
};
_Static_assert(sizeof(struct token) == DS_SHARE_TOKEN_BYTES, "a token is 64 bytes");
_Static_assert(offsetof(struct token, offset) == DS_TOKEN_OFFSET && offsetof(struct token, size) == DS_TOKEN_OFFSET + 8,
        "clients change offset and size");

int ds_shares_new(ds_shares **ret)
{
        *ret = ds_alloc0(1, sizeof(**ret));
        return *ret ? 0 : ds_error_origin(-ENOMEM);
}

ds_shares *ds_shares_free(ds_shares *shares)
{
        assert(!shares || !shares->by_id);
        return ds_free(shares);
}

int ds_share_new(int *fd, uint64_t bytes, int charge_bytes, ds_user *user, ds_share **ret)
{
        ds_share *share = ds_alloc0(1, sizeof(*share));

        if (!share)
                return ds_error_origin(-ENOMEM);
        share->refs = 1;
        share->bytes = bytes;
        share->user = ds_user_ref(user);
        share->fd = DS_TAKE_FD(*fd);
        ds_charge_force(&share->file_charge, user, DS_CHARGE_SLABS, 1);
        if (charge_bytes)
                ds_charge_force(&share->bytes_charge, user, DS_CHARGE_DEVICE_BYTES, bytes);
        *ret = share;
        return 0;
}

ds_share *ds_share_ref(ds_share *share)
{
        share->refs++;
        return share;
}

ds_share *ds_share_unref(ds_share *share)
{
        if (!share || --share->refs)
                return NULL;
        if (share->shares)
                HASH_DELETE(hh, share->shares->by_id, share);
        ds_charge_release(&share->file_charge);
        ds_charge_release(&share->bytes_charge);
        ds_close(share->fd);
        ds_user_unref(share->user);
        explicit_bzero(share->secret, sizeof(share->secret));
        return ds_free(share);
}

int ds_share_fd(const ds_share *share)
{
        return share->fd;
}

uint64_t ds_share_bytes(const ds_share *share)
{
        return share->bytes;
}

void ds_share_left(ds_share *share)
{
        if (share->refs > 1 && !share->bytes_charge.amount)
                ds_charge_force(&share->bytes_charge, share->user, DS_CHARGE_DEVICE_BYTES, share->bytes);
}

static int share_enlist(ds_shares *shares, ds_share *share, uint64_t id)
{
        share->id = id;
        HASH_ADD(hh, shares->by_id, id, sizeof(share->id), share);
        if (!ds_hash_added(share)) {
                share->id = 0;
                return ds_error_origin(-ENOMEM);
        }
        share->shares = shares;
        shares->last_id = DS_MAX(shares->last_id, id);
        return 0;
}

int ds_share_publish(ds_shares *shares, ds_share *share)
{
        if (share->shares)
                return 0;
        if (getrandom(share->secret, sizeof(share->secret), 0) != (ssize_t)sizeof(share->secret))
                return ds_error_origin(-EIO);
        return share_enlist(shares, share, shares->last_id + 1);
}

static ds_share *share_find(const ds_shares *shares, uint64_t id)
{
        ds_share *share = NULL;

        HASH_FIND(hh, shares->by_id, &id, sizeof(id), share);
        return share;
}

int ds_share_republish(ds_shares *shares, ds_share *share, uint64_t id, const uint8_t secret[DS_SHARE_SECRET_BYTES])
{
        if (!id || id > UINT64_MAX / 2 || share_find(shares, id))
                return DS_SHARE_E_UNKNOWN;
        memcpy(share->secret, secret, sizeof(share->secret));
        return share_enlist(shares, share, id);
}

uint64_t ds_share_id(const ds_share *share)
{
        return share->id;
}

const uint8_t *ds_share_secret(const ds_share *share)
{
        return share->secret;
}

void ds_share_token(const ds_share *share, uint64_t offset, uint64_t size, uint8_t ret[DS_SHARE_TOKEN_BYTES])
{
        struct token token = {.magic = TOKEN_MAGIC, .id = share->id, .offset = offset, .size = size};

        memcpy(token.secret, share->secret, sizeof(token.secret));
        memcpy(ret, &token, sizeof(token));
}

/* Constant-time comparison: the time does not reveal where the secrets differ. */
static int same_secret(const uint8_t *a, const uint8_t *b)
{
        unsigned different = 0;

        for (size_t i = 0; i < DS_SHARE_SECRET_BYTES; i++)
                different |= a[i] ^ b[i];
        return different == 0;
}

int ds_shares_find(
        const ds_shares *shares, const uint8_t *bytes, size_t size, const ds_user *user, struct ds_share_found *ret)
{
        struct token token;
        ds_share *share;

        if (size != sizeof(token))
                return DS_SHARE_E_UNKNOWN;
        memcpy(&token, bytes, sizeof(token));
        share = token.magic == TOKEN_MAGIC ? share_find(shares, token.id) : NULL;
        if (!share || !same_secret(share->secret, token.secret) || share->user != user)
                return DS_SHARE_E_UNKNOWN;
        if (token.offset > share->bytes || token.size > share->bytes - token.offset)
                return DS_SHARE_E_UNKNOWN;
        *ret = (struct ds_share_found){.share = ds_share_ref(share), .offset = token.offset, .size = token.size};
        return 0;
}

ds_share *ds_shares_at(const ds_shares *shares, uint64_t id)
{
        ds_share *share = id ? share_find(shares, id) : NULL;

        return share ? ds_share_ref(share) : NULL;
}
