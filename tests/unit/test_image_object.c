/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device code in host objects and archives: real ones of nvcc and ar, and every truncation and change of one byte
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "image/image.h"
#include "image/object.h"

struct found {
        const uint8_t *from, *to;
        unsigned n;
        char members[256];
};

static char message[256];

static uint8_t *load(const char *name, size_t *ret_size)
{
        char path[1024];
        uint8_t *bytes;
        long size;
        FILE *f;

        snprintf(path, sizeof(path), "%s/%s", TEST_DIR, name);
        f = fopen(path, "rb");
        cr_assert_not_null(f, "%s is missing: build it with make", path);
        fseek(f, 0, SEEK_END);
        size = ftell(f);
        rewind(f);
        bytes = malloc((size_t)size);
        cr_assert_eq(fread(bytes, 1, (size_t)size, f), (size_t)size);
        fclose(f);
        *ret_size = (size_t)size;
        return bytes;
}

static int on_container(void *user, const char *member, const uint8_t *container, size_t size)
{
        struct found *found = user;
        ds_image *image = NULL;
        char words[256];

        cr_assert(container >= found->from && size <= (size_t)(found->to - container));
        found->n++;
        if (strlen(found->members) + strlen(member) + 2 < sizeof(found->members))
                sprintf(found->members + strlen(found->members), "%s ", member);
        if (!ds_image_open(container, size, words, sizeof(words), &image))
                ds_image_free(image);
        return 0;
}

static int walk(const uint8_t *bytes, size_t size, struct found *ret)
{
        *ret = (struct found){.from = bytes, .to = bytes + size};
        message[0] = 0;
        return ds_object_walk(bytes, size, on_container, ret, message, sizeof(message));
}

Test(image_object, an_object_and_an_archive)
{
        struct found found;
        size_t size;
        uint8_t *bytes = load("callee.o", &size);

        cr_assert(ds_object_is_host(bytes, size) && !ds_object_is_archive(bytes, size));
        cr_assert_eq(walk(bytes, size, &found), 0, "%s", message);
        cr_assert_eq(found.n, 1);
        free(bytes);
        bytes = load("libcallee.a", &size);
        cr_assert(!ds_object_is_host(bytes, size) && ds_object_is_archive(bytes, size));
        cr_assert_eq(walk(bytes, size, &found), 0, "%s", message);
        cr_assert_str_eq(found.members, "unused.o callee.o ");
        free(bytes);
}

/* Names of more than 15 characters are in a table of the archive. */
Test(image_object, long_names_of_members)
{
        struct found found;
        size_t size;
        uint8_t *bytes = load("liblong.a", &size);

        cr_assert_eq(walk(bytes, size, &found), 0, "%s", message);
        cr_assert_str_eq(found.members, "a_member_with_a_long_name.o ");
        free(bytes);
}

Test(image_object, other_bytes_are_refused)
{
        struct found found;
        size_t size;
        uint8_t *bytes = load("callee.cubin", &size);

        cr_assert(!ds_object_is_host(bytes, size));
        cr_assert_eq(walk(bytes, size, &found), DS_OBJECT_E_INVALID);
        cr_assert_eq(walk(bytes, 0, &found), DS_OBJECT_E_INVALID);
        cr_assert(message[0]);
        free(bytes);
}

/* The walk stays inside of its bytes, and every failure has a message. */
static void damage(const char *name)
{
        struct found found;
        size_t size;
        uint8_t *bytes = load(name, &size), *copy;
        int r;

        for (size_t n = 0; n < size; n += n < 1024 ? 1 : 61) {
                copy = malloc(n ? n : 1);
                memcpy(copy, bytes, n);
                r = walk(copy, n, &found);
                cr_assert(r == 0 || message[0]);
                free(copy);
        }
        for (size_t i = 0; i < size; i++)
                for (unsigned bit = 0; bit < 8; bit += 7) {
                        bytes[i] ^= (uint8_t)(1u << bit);
                        r = walk(bytes, size, &found);
                        cr_assert(r == 0 || message[0]);
                        bytes[i] ^= (uint8_t)(1u << bit);
                }
        free(bytes);
}

Test(image_object, damaged_objects)
{
        damage("callee.o");
        damage("libcallee.a");
        damage("liblong.a");
}
