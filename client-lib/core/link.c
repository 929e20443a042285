/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Linking several images into one
 *
 * The daemon's helper links. The inputs travel in one sealed memory file (struct ds_link_file of wire.h); the linked
 * image comes back in a file of the daemon's, from which it is copied.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/internal.h"

#define ALIGNMENT 16u /* alignment of inputs in the file, bytes */
#define FILE_MAX ((uint64_t)DS_LINK_BYTES_MAX)

static uint64_t aligned(uint64_t n)
{
        return (n + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* Describes the inputs and sets their places. Returns the bytes of the file; 0: it would be too large. */
static uint64_t describe(const struct dsc_link *link, struct ds_link_input *rows)
{
        uint64_t at = aligned(sizeof(struct ds_link_file) + link->n_inputs * sizeof(*rows));
        for (size_t i = 0; i < link->n_inputs; i++) {
                const struct dsc_link_input *input = &link->inputs[i];
                if (input->size > FILE_MAX || at > FILE_MAX)
                        return 0;
                rows[i] = (struct ds_link_input){.offset = at, .size = input->size, .kind = input->kind};
                snprintf(rows[i].name, sizeof(rows[i].name), "%s", input->name ? input->name : "");
                at += aligned(input->size);
        }
        return at > FILE_MAX ? 0 : at;
}

static int write_inputs(int fd, const struct dsc_link *link, const struct ds_link_input *rows, uint64_t bytes)
{
        static const uint8_t zero[ALIGNMENT];
        const struct ds_link_file head = {
                .magic = DS_LINK_MAGIC,
                .version = DS_WIRE_VERSION,
                .bytes = bytes,
                .n_inputs = (uint32_t)link->n_inputs,
                .flags = link->flags,
                .max_registers = link->max_registers,
                .optimization = link->optimization,
        };
        const size_t table = sizeof(head) + link->n_inputs * sizeof(*rows);
        int r = dsc__write_all(fd, &head, sizeof(head)) || dsc__write_all(fd, rows, link->n_inputs * sizeof(*rows)) ||
                dsc__write_all(fd, zero, (size_t)(aligned(table) - table));
        for (size_t i = 0; i < link->n_inputs && !r; i++) {
                const size_t size = link->inputs[i].size;
                r = dsc__write_all(fd, link->inputs[i].bytes, size) ||
                    dsc__write_all(fd, zero, (size_t)(aligned(size) - size));
        }
        return r;
}

/* Makes the file of the inputs. Returns 0 or an error. */
static int make_file(const struct dsc_link *link, int *ret_fd, uint64_t *ret_bytes)
{
        if (link->n_inputs == 0 || link->n_inputs > DS_LINK_INPUTS_MAX) {
                dsc__message("%zu inputs cannot be linked: 1 to %u are accepted", link->n_inputs, DS_LINK_INPUTS_MAX);
                return DSC__INVALID_VALUE;
        }
        struct ds_link_input *rows = calloc(link->n_inputs, sizeof(*rows));
        const uint64_t bytes = rows ? describe(link, rows) : 0;
        if (rows && !bytes)
                dsc__message("the inputs to link have more than %llu bytes together", (unsigned long long)FILE_MAX);
        const int fd = bytes ? memfd_create("detshare-link", MFD_CLOEXEC | MFD_ALLOW_SEALING) : -1;
        int r = fd < 0 || write_inputs(fd, link, rows, bytes) ||
                fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0;
        free(rows);
        if (r) {
                if (fd >= 0)
                        close(fd);
                return DSC__OUT_OF_MEMORY;
        }
        *ret_fd = fd;
        *ret_bytes = bytes;
        return 0;
}

/* Copies the linked image out of the daemon's file. */
static int take_image(const struct dsc__answer *answer, void **ret, size_t *ret_size)
{
        const uint64_t bytes = answer->reply->module_link->bytes;
        if (answer->n_fds == 1 && answer->fds[0] < 0) {
                dsc__message("the process has no file descriptor left for the linked image");
                return DSC__OUT_OF_MEMORY;
        }
        if (answer->n_fds != 1 || bytes == 0 || bytes > FILE_MAX || !dsc__keeps_bytes(answer->fds[0], bytes)) {
                dsc__message("the daemon's linked image is invalid");
                return DETSHARE__STATUS__INTERNAL;
        }
        char *image = malloc((size_t)bytes + 1);
        size_t done = 0;
        while (image && done < bytes) {
                ssize_t n = pread(answer->fds[0], image + done, (size_t)bytes - done, (off_t)done);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        break;
                done += (size_t)n;
        }
        if (!image || done < bytes) {
                free(image);
                return DSC__OUT_OF_MEMORY;
        }
        image[bytes] = '\0';
        *ret = image;
        *ret_size = (size_t)bytes;
        return 0;
}

static int ask(dsc_session *s, const struct dsc_link *link, bool check, struct dsc__answer *answer)
{
        Detshare__ModuleLink message = DETSHARE__MODULE_LINK__INIT;
        int fd = -1;
        if (link->log && link->log_size)
                link->log[0] = '\0';
        dsc__message_clear();
        int r = dsc__usable(s);
        if (!r)
                r = make_file(link, &fd, &message.bytes);
        if (!r) {
                message.check = check;
                Detshare__Request request = DSC__REQUEST(MODULE_LINK, module_link, &message);
                r = dsc__call(s, &request, fd, DETSHARE__REPLY__RESULT_MODULE_LINK, answer);
                close(fd);
        }
        if (link->log && link->log_size)
                snprintf(link->log, link->log_size, "%s", r ? dsc_message() : answer->reply->module_link->log);
        return r;
}

int dsc_link(dsc_session *s, const struct dsc_link *link, void **ret, size_t *ret_size)
{
        struct dsc__answer answer = DSC__ANSWER_NULL;
        int r = ask(s, link, false, &answer);
        if (r)
                return r;
        r = take_image(&answer, ret, ret_size);
        dsc__answer_clear(&answer);
        return r;
}

int dsc_link_check(dsc_session *s, const struct dsc_link *link)
{
        struct dsc__answer answer = DSC__ANSWER_NULL;
        int r = ask(s, link, true, &answer);
        if (!r)
                dsc__answer_clear(&answer);
        return r;
}
