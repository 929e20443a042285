/* SPDX-License-Identifier: Apache-2.0 */
#include "supervisor/journal.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "util/log.h"
#include "util/macro.h"

#define SOCKET "/run/systemd/journal/socket"
#define ENTRY_MAX 2048 /* most bytes of a line with its fields */

/* Ids of the events in the journal. The manual page detshared(8) lists them. */
static const char *const message_ids[_DS_EVENT_MAX] = {
        [DS_EVENT_CLIENT_CLOSED] = "fe222966ebd640aea376e154d28dcd0d",
        [DS_EVENT_WORKER_LOST] = "043c12875c1a4b85b66559ebf79de796",
        [DS_EVENT_DEVICE_LOST] = "c80d5a5935d14b0f80c5d85ad4dff93b",
        [DS_EVENT_CONFIG_REFUSED] = "78c1b7ddad3042a8ac3d7016d4635b47",
        [DS_EVENT_CONFIG_READ] = "5c968feefb3346a9a9e5c917f269456a",
        [DS_EVENT_POLICY_REPLACED] = "9f14a1f9db11421ebad0121c7331a4f6",
};

static struct {
        int fd;
        struct sockaddr_un address;
        char identifier[32], gpu[64];
        unsigned lost;
} journal = {.fd = -1};

static void add(char *entry, size_t *at, const char *name, const char *value)
{
        size_t room = ENTRY_MAX - *at;
        int n = snprintf(entry + *at, room, "%s=%s\n", name, value);

        if (n > 0 && (size_t)n < room)
                *at += (size_t)n;
}

static void add_number(char *entry, size_t *at, const char *name, unsigned long long value)
{
        char text[24];

        snprintf(text, sizeof(text), "%llu", value);
        add(entry, at, name, text);
}

/* Sends one line with its fields. Returns 0 if the journal accepted it. */
static int send_entry(const struct ds_log_about *about, enum ds_log_level level, const char *line)
{
        char entry[ENTRY_MAX];
        size_t at = 0;

        add_number(entry, &at, "PRIORITY", level);
        add(entry, &at, "SYSLOG_IDENTIFIER", journal.identifier);
        if (journal.gpu[0])
                add(entry, &at, "DETSHARE_GPU", journal.gpu);
        if (about->session)
                add_number(entry, &at, "DETSHARE_CLIENT", about->session);
        if (about->pid) {
                add_number(entry, &at, "DETSHARE_CLIENT_PID", (unsigned long long)about->pid);
                add_number(entry, &at, "DETSHARE_CLIENT_UID", about->uid);
        }
        if (message_ids[about->event])
                add(entry, &at, "MESSAGE_ID", message_ids[about->event]);
        add(entry, &at, "MESSAGE", line);
        return sendto(journal.fd, entry, at, MSG_DONTWAIT | MSG_NOSIGNAL, (struct sockaddr *)&journal.address,
                       sizeof(journal.address)) < 0;
}

static void sink(const struct ds_log_about *about, enum ds_log_level level, const char *line)
{
        static const struct ds_log_about nobody;
        char one[ENTRY_MAX / 2], words[64];
        size_t n = 0;

        /* replaces line breaks, because a line break would start a new field */
        for (; n < sizeof(one) - 1 && line[n]; n++)
                one[n] = line[n] == '\n' ? ' ' : line[n];
        one[n] = 0;
        snprintf(words, sizeof(words), "%u lines were lost: the journal's queue was full", journal.lost);
        if (journal.lost && send_entry(&nobody, DS_LOG_WARNING, words) == 0)
                journal.lost = 0;
        if (send_entry(about, level, one))
                journal.lost++;
}

void ds_journal_start(const char *identifier, const char *socket_path)
{
        if (journal.fd >= 0 || (!socket_path && !ds_log_in_journal()))
                return;
        journal.address.sun_family = AF_UNIX;
        snprintf(journal.address.sun_path, sizeof(journal.address.sun_path), "%s", socket_path ? socket_path : SOCKET);
        snprintf(journal.identifier, sizeof(journal.identifier), "%s", identifier);
        journal.fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        /* if the journal's socket cannot be reached, lines go to standard error, which the journal reads */
        if (journal.fd < 0 || connect(journal.fd, (struct sockaddr *)&journal.address, sizeof(journal.address)) < 0) {
                journal.fd = ds_close(journal.fd);
                return;
        }
        ds_log_set_sink(sink);
}

void ds_journal_set_gpu(const char *gpu)
{
        snprintf(journal.gpu, sizeof(journal.gpu), "%s", gpu);
}

void ds_journal_stop(void)
{
        if (journal.fd < 0)
                return;
        ds_log_set_sink(NULL);
        journal.fd = ds_close(journal.fd);
        journal.gpu[0] = 0;
}
