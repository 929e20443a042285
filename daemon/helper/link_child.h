/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The work of the child that links (link.h): reads the inputs, chooses the way, links
 */
#pragma once

#include "helper/check.h"
#include "helper/nvjitlink.h"

struct ds_link_work {
        const void *bytes; /* a checked struct ds_link_file */
        uint32_t cc;
        int simulated, only_read;
        const struct ds_nvjitlink *library;
        int words_fd; /* file of standard output and error */
};

/* Links. Returns the image and *ret_size; NULL: *result holds the error. Frees no memory, because the process ends
 * afterwards. */
const void *ds_link_work_do(const struct ds_link_work *work, struct ds_check_result *result, size_t *ret_size);
