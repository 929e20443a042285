/* SPDX-License-Identifier: Apache-2.0 */
#include "supervisor/handover.h"

#include <stdio.h>
#include <string.h>

#include "supervisor/client.h"
#include "supervisor/handover_internal.h"
#include "supervisor/notify.h"
#include "supervisor/session.h"
#include "supervisor/supervisor.h"

size_t ds_handover_name(char name[static DS_HANDOVER_NAME_MAX], uint64_t session, uint32_t file)
{
        return (size_t)snprintf(name, DS_HANDOVER_NAME_MAX, "s%llx.%x", (unsigned long long)session, file);
}

int ds_handover_is_name(const char *name)
{
        static const char hex[] = "0123456789abcdef";
        size_t session, file;

        if (!strcmp(name, DS_HANDOVER_STATE))
                return 1;
        if (name[0] != 's')
                return 0;
        session = strspn(name + 1, hex);
        if (!session || session > 16 || name[1 + session] != '.')
                return 0;
        file = strspn(name + 2 + session, hex);
        return file > 0 && file <= 8 && !name[2 + session + file];
}

int ds_handover_begin(struct ds_supervisor *supervisor)
{
        struct ds_session *session;

        /* the store still has the unchanged files of a handover whose sessions have not resumed */
        if (supervisor->handover || supervisor->exit_status || !ds_notify_stores(supervisor->notify))
                return 0;
        if (supervisor->state != DS_DAEMON_SERVING && supervisor->state != DS_DAEMON_RESTARTING)
                return 0;
        supervisor->handing_over = 1;
        TAILQ_FOREACH(session, &supervisor->sessions, link)
        if (session->client && !session->control_only)
                ds_client_pause(session->client);
        return 1;
}
