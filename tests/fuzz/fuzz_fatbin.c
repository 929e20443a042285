/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Images as clients send them: containers, text, machine code. Every entry is listed, unpacked and parsed.
 */
#include <errno.h>

#include "image/cubin.h"
#include "image/image.h"
#include "tests/fuzz/fuzz.h"
#include "util/alloc.h"

static void unpack_entry(const ds_image *image, size_t i)
{
        char message[256] = "", *text = NULL;
        struct ds_cubin cubin;
        void *code = NULL;
        size_t size = 0;
        int r;

        r = ds_image_ptx(image, i, message, sizeof(message), &text, &size);
        FUZZ_CHECK(r <= 0 || message[0]);
        if (r == 0)
                FUZZ_CHECK(size <= DS_IMAGE_PTX_MAX && strlen(text) == size);
        ds_free(text);
        r = ds_image_elf(image, i, message, sizeof(message), &code, &size);
        FUZZ_CHECK(r <= 0 || message[0]);
        if (r == 0) {
                FUZZ_CHECK(size <= DS_IMAGE_ELF_MAX);
                (void)ds_cubin_read(code, size, &cubin);
        }
        ds_free(code);
}

static void choose(const ds_image *image, uint32_t cc)
{
        size_t i;

        if (ds_image_choose_ptx(image, cc, 1, &i) == 0)
                FUZZ_CHECK(ds_image_entry(image, i)->kind == DS_IMAGE_PTX);
        if (ds_image_choose_ptx(image, cc, 0, &i) == 0)
                FUZZ_CHECK(ds_image_entry(image, i)->sm <= cc);
        if (ds_image_choose_elf(image, cc, &i) == 0)
                FUZZ_CHECK(ds_image_entry(image, i)->kind == DS_IMAGE_ELF && ds_image_entry(image, i)->sm <= cc);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        ds_cleanup(ds_image_freep) ds_image *image = NULL;
        char message[256] = "", description[160];
        void *bytes = fuzz_copy(data, size);
        int r = ds_image_open(bytes, size, message, sizeof(message), &image);

        FUZZ_CHECK(r <= 0 || message[0]);
        if (r == 0) {
                FUZZ_CHECK(ds_image_count(image) <= DS_IMAGE_ENTRIES_MAX);
                for (size_t i = 0; i < ds_image_count(image); i++)
                        unpack_entry(image, i);
                choose(image, 75);
                choose(image, 90);
                ds_image_describe(image, description, sizeof(description));
                FUZZ_CHECK(strlen(description) < sizeof(description));
        }
        free(bytes);
        return 0;
}
