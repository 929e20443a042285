/* SPDX-License-Identifier: Apache-2.0 */
#include "helper/coloured.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ptx/ir.h"
#include "ptx/pass/colour.h"
#include "ptx/ptx.h"
#include "util/alloc.h"
#include "util/macro.h"

static struct ds_ptx_colour_layout layout_of(const struct ds_coloured_image *header)
{
        return (struct ds_ptx_colour_layout){
                .kind = header->kind, .sector_bits = header->sector_bits, .shift = header->shift};
}

static int header_is_good(const struct ds_coloured_image *header, size_t size)
{
        const struct ds_ptx_colour_layout layout = layout_of(header);

        return header->version == DS_WIRE_VERSION && header->bytes == size && header->n_wants &&
               header->n_wants <= DS_COLOURED_WANTS_MAX && ds_ptx_colour_layout_is_good(&layout) &&
               header->image_offset >= sizeof(*header) + header->n_wants * sizeof(struct ds_coloured_want) &&
               header->image_offset < size;
}

int ds_coloured_open(const uint8_t *bytes, size_t size, struct ds_coloured *ret, struct ds_check_result *result)
{
        const struct ds_coloured_image *header = (const void *)bytes;
        uint32_t magic = 0;

        if (size >= sizeof(*header))
                memcpy(&magic, bytes, sizeof(magic));
        *ret = (struct ds_coloured){.image = bytes, .size = size};
        if (magic != DS_COLOURED_MAGIC)
                return 0;
        if (!header_is_good(header, size)) {
                ds_check_fail(result, DS_CHECK_INVALID_IMAGE, "the image with coloured kernels is invalid");
                return -1;
        }
        *ret = (struct ds_coloured){.header = header,
                .wants = (const void *)(header + 1),
                .image = bytes + header->image_offset,
                .size = size - header->image_offset};
        for (uint32_t i = 0; i < header->n_wants; i++) {
                if (memchr(ret->wants[i].name, 0, sizeof(ret->wants[i].name)) && ret->wants[i].mask)
                        continue;
                ds_check_fail(result, DS_CHECK_INVALID_VALUE, "coloured kernel %u has no name or no parameters", i);
                return -1;
        }
        return 0;
}

/* Writes to the message why kernels cannot be coloured, one reason per line. Returns the number of these kernels. */
static uint32_t say_refused(const struct ds_coloured *coloured, const struct ds_ptx_colour_verdict *verdicts,
        struct ds_check_result *result)
{
        uint32_t n = 0;
        size_t at = 0;

        for (uint32_t i = 0; i < coloured->header->n_wants; i++) {
                if (verdicts[i].made)
                        continue;
                n++;
                at += (size_t)snprintf(result->message + at, sizeof(result->message) - at,
                        "%sline %u: %.200s cannot be coloured: %s", at ? "\n" : "", verdicts[i].line,
                        coloured->wants[i].name, verdicts[i].reason);
                at = DS_MIN(at, sizeof(result->message) - 1);
        }
        result->status = n ? DS_CHECK_INVALID_PTX : 0;
        return n;
}

static int print_module(const struct ds_ptx_module *module, char **ret, size_t *ret_length)
{
        char *printed = NULL;
        size_t size = 0;
        FILE *out = open_memstream(&printed, &size);
        int r = out ? ds_ptx_print(module, out) : -ENOMEM;

        if (out && fclose(out))
                r = -ENOMEM;
        *ret = r ? NULL : ds_strndup(printed, size);
        *ret_length = size;
        free(printed); /* allocated by open_memstream() */
        return *ret ? 0 : -ENOMEM;
}

static void say_failed(int r, struct ds_ptx_diags *diags, struct ds_check_result *result)
{
        if (r < 0) {
                ds_check_fail(result, DS_CHECK_OUT_OF_MEMORY, "no memory to colour kernels of the module");
                return;
        }
        result->status = DS_CHECK_INVALID_PTX;
        ds_ptx_diags_format(diags, "ptx", result->message, sizeof(result->message));
}

int ds_coloured_make(const struct ds_coloured *coloured, char **text, size_t *length, struct ds_check_result *result)
{
        const struct ds_ptx_colour_layout layout = layout_of(coloured->header);
        const uint32_t n = coloured->header->n_wants;
        ds_cleanup(ds_freep) struct ds_ptx_diags *diags = ds_alloc0(1, sizeof(*diags));
        ds_cleanup(ds_freep) struct ds_ptx_colour_verdict *verdicts = ds_alloc0(n, sizeof(*verdicts));
        ds_cleanup(ds_ptx_module_freep) ds_ptx_module *module = NULL, *made = NULL;
        struct ds_ptx_colour_want wants[DS_COLOURED_WANTS_MAX];
        char *printed;
        int r = diags && verdicts ? 0 : -ENOMEM;

        if (*length > DS_COLOURED_TEXT_MAX) {
                ds_check_fail(result, DS_CHECK_INVALID_PTX, "the module is too large to have coloured kernels");
                return -1;
        }
        for (uint32_t i = 0; i < n; i++)
                wants[i] = (struct ds_ptx_colour_want){coloured->wants[i].name, coloured->wants[i].mask};
        if (!r)
                r = ds_ptx_parse(*text, *length, 0, diags, &module);
        if (!r)
                r = ds_ptx_colour_make(module, wants, n, &layout, 0, diags, &made, verdicts);
        if (!r && say_refused(coloured, verdicts, result))
                return -1;
        if (!r)
                r = print_module(made, &printed, length);
        if (r) {
                say_failed(r, diags, result);
                return -1;
        }
        ds_free(*text);
        *text = printed;
        return 0;
}
