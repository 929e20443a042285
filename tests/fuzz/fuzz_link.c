/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Linking: host objects and archives, and PTX texts
 *
 * An input that begins like an ELF file or an archive is walked. Any other input is a list of texts, separated by lines
 * "//-", whose first byte says which of them are members of a library. An error causes a message. The linked text
 * parses, and linking it alone changes nothing.
 */
#include <errno.h>
#include <stdbool.h>

#include "image/image.h"
#include "image/object.h"
#include "ptx/link.h"
#include "ptx/ptx.h"
#include "tests/fuzz/fuzz.h"
#include "util/alloc.h"

#define LIMIT DS_MIB(64)
#define TEXTS_MAX 8

static char message[8192];

struct bounds {
        const uint8_t *from, *to;
};

static int on_container(void *user, const char *member, const uint8_t *container, size_t size)
{
        ds_cleanup(ds_image_freep) ds_image *image = NULL;
        const struct bounds *bounds = user;
        char words[256] = "";

        FUZZ_CHECK(container >= bounds->from && container <= bounds->to && size <= (size_t)(bounds->to - container));
        FUZZ_CHECK(strlen(member) < 256);
        (void)ds_image_open(container, size, words, sizeof(words), &image);
        return 0;
}

static void walk(const uint8_t *bytes, size_t size)
{
        struct bounds bounds = {bytes, bytes + size};
        int r;

        message[0] = 0;
        r = ds_object_walk(bytes, size, on_container, &bounds, message, sizeof(message));
        FUZZ_CHECK(r == 0 || (r == DS_OBJECT_E_INVALID && message[0]));
}

static bool builtin(const char *name)
{
        return strcmp(name, "vprintf") == 0;
}

static void link_again(const char *text, size_t length)
{
        const struct ds_ptx_link_input input = {.name = "linked", .text = text, .length = length};
        char *again = NULL;
        size_t again_length = 0;

        FUZZ_CHECK(ds_ptx_link(&input, 1, 4 * LIMIT, builtin, message, sizeof(message), &again, &again_length) == 0);
        FUZZ_CHECK(again_length == length && memcmp(again, text, length) == 0);
        ds_free(again);
}

static void link_texts(const char *bytes, size_t size)
{
        static const char separator[] = "\n//-";
        struct ds_ptx_link_input inputs[TEXTS_MAX];
        const unsigned members = (unsigned char)bytes[0];
        const char *at = bytes + 1, *end = bytes + size, *next;
        size_t n = 0, length = 0;
        char *text = NULL;
        int r;

        for (; n < TEXTS_MAX && at; at = next ? next + strlen(separator) : NULL, n++) {
                next = memmem(at, (size_t)(end - at), separator, strlen(separator));
                inputs[n] = (struct ds_ptx_link_input){.name = "text",
                        .text = at,
                        .length = (size_t)((next ? next : end) - at),
                        .on_demand = members >> n & 1};
        }
        r = ds_ptx_link(inputs, n, LIMIT, builtin, message, sizeof(message), &text, &length);
        FUZZ_CHECK((r == 0) == (text != NULL));
        FUZZ_CHECK(r <= 0 || message[0]);
        FUZZ_CHECK(r >= 0 || r == -ENOMEM);
        if (text && length)
                link_again(text, length);
        ds_free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        uint8_t *bytes = fuzz_copy(data, size);

        if (ds_object_is_archive(bytes, size) || ds_object_is_host(bytes, size))
                walk(bytes, size);
        else if (size)
                link_texts((const char *)bytes, size);
        free(bytes);
        return 0;
}
