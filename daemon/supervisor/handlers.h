/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handlers of the requests that the supervisor answers itself; rpc_table.c lists the checks before them
 */
#pragma once

#include "detshare.pb-c.h"

struct ds_client;

/* handlers.c */
void ds_handle_hello(struct ds_client *client, Detshare__Request *request, int *fds);
void ds_handle_window_refused(struct ds_client *client, Detshare__Request *request, int *fds);
void ds_handle_attach(struct ds_client *client, Detshare__Request *request, int *fds);
void ds_handle_set_session(struct ds_client *client, Detshare__Request *request, int *fds);
void ds_handle_output_read(struct ds_client *client, Detshare__Request *request, int *fds);
void ds_handle_address_reserve(struct ds_client *client, Detshare__Request *request, int *fds);
void ds_handle_address_free(struct ds_client *client, Detshare__Request *request, int *fds);
void ds_handle_ping(struct ds_client *client, Detshare__Request *request, int *fds);
void ds_handle_kill(struct ds_client *client, Detshare__Request *request, int *fds);
void ds_handle_get_device(struct ds_client *client, Detshare__Request *request, int *fds);
/* observe.c */
void ds_handle_list_activity(struct ds_client *client, Detshare__Request *request, int *fds);
void ds_handle_explain(struct ds_client *client, Detshare__Request *request, int *fds);
void ds_handle_list_forms(struct ds_client *client, Detshare__Request *request, int *fds);
void ds_handle_trace_start(struct ds_client *client, Detshare__Request *request, int *fds);
void ds_handle_trace_stop(struct ds_client *client, Detshare__Request *request, int *fds);

/* status.c */
void ds_handle_get_status(struct ds_client *client, Detshare__Request *request, int *fds);
void ds_handle_list_clients(struct ds_client *client, Detshare__Request *request, int *fds);
void ds_handle_list_policies(struct ds_client *client, Detshare__Request *request, int *fds);
void ds_handle_set_policy(struct ds_client *client, Detshare__Request *request, int *fds);
