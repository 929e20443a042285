/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forms of kernels, as the supervisor sees them: made by the helper, kept with the module, given to the worker
 *
 * The worker says that a best-effort session has launched kernels of a module of which it is not known which forms they
 * could have. Then the helper makes the module with all forms, behind the requests of clients, and the worker
 * is given it beside the one that it has. What was made lies in the ledger with its charges, which are those of any
 * image and of a file, so a later worker is given the same when it asks the same. What is asked for ends with its
 * module, so that never more waits for the helper than there are modules, and users take turns there. One that failed,
 * or found no room in what its user may have, is not tried again for that module: the worker gets the reason instead,
 * for who asks.
 *
 * A simulated device's module is PTX, so it is its own source. For a GPU the client's file is kept for that, as long as
 * the module; a client that changes it meanwhile gets forms of other kernels, as if it had brought those. The file does
 * not outlive the daemon: after a planned restart such modules stay as they are.
 */
#pragma once

#include <stdint.h>

#include "supervisor/charge.h"

struct ds_foreign;
struct ds_supervisor;
struct ds_session_call;
struct ds_helper_result;

/* What a client brought for a GPU. */
struct ds_module_source {
        struct ds_foreign *foreign;
        struct ds_charge file;
        int fd; /* -1: none */
        uint64_t offset, bytes;
        uint32_t max_registers, optimization;
};

/* Of a module in the ledger. */
struct ds_module_forms {
        struct ds_module_source source;
        struct ds_session_call *pending; /* the helper has it, or will; ends with the module */
        int fd;                          /* the transformed image; -1: none */
        uint64_t bytes;                  /* of it, without its report */
        struct ds_charge file, image, variables;
        char *why; /* why there is none, and none is tried; NULL: nothing is known */
};

#define DS_MODULE_SOURCE_INIT \
        {                     \
                .fd = -1      \
        }

void ds_module_forms_init(struct ds_module_forms *forms);
void ds_module_forms_deinit(struct ds_module_forms *forms);
/* to has none. */
void ds_module_source_move(struct ds_module_source *to, struct ds_module_source *from);
/* Gives its file back, if it has one. */
void ds_module_source_drop(struct ds_module_source *source);

/* A ModuleLoad on its way to the helper: what of forms it asks for, and whether its file is kept. fd stays whose it is.
 */
void ds_forms_prepare(struct ds_session_call *call, int fd, uint64_t bytes);
/* What the helper made of it: words about forms that could not be made. */
void ds_forms_note(struct ds_session_call *call, const struct ds_helper_result *result);
/* The call goes: nothing is pending by it any more. */
void ds_forms_leave(struct ds_session_call *call);
/* The worker's word that forms of a module are wanted. */
void ds_forms_wanted(struct ds_supervisor *supervisor, uint64_t session, uint64_t module);
