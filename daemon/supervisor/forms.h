/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forms of kernels in the supervisor: the helper makes them, the ledger keeps them, the worker receives them
 *
 * The worker reports that a BE session has launched kernels of a module whose possible forms are unknown. The helper
 * then makes the module with all forms, at a lower priority than requests of clients, and the worker loads it beside
 * the original module. The result stays in the ledger, charged like any image and file, so a later worker gets the same
 * result.
 *
 * A pending request ends with its module, so the helper's queue never holds more such requests than there are modules;
 * users take turns in it. If making the forms fails, or the user's limits leave no room, it is not tried again for that
 * module. The worker then gets the reason, for diagnosis.
 *
 * A module for a simulated device is PTX, so it is its own source. For a GPU the client's file is kept as long as the
 * module. A client that changes that file meanwhile gets forms of the changed kernels. The file does not survive the
 * daemon: after a planned restart such modules keep the forms that they have.
 */
#pragma once

#include <stdint.h>

#include "supervisor/charge.h"

struct ds_foreign;
struct ds_supervisor;
struct ds_session_call;
struct ds_helper_result;

/* The file of a GPU module that a client sent, kept to make forms from it. */
struct ds_module_source {
        struct ds_foreign *foreign;
        struct ds_charge file;
        int fd;     /* -1: no file is kept */
        int no_ptx; /* 1: no file is kept, because the image has no PTX from which forms could be made */
        uint64_t offset, bytes;
        uint32_t max_registers, optimization;
};

/* Forms of a module in the ledger. */
struct ds_module_forms {
        struct ds_module_source source;
        /* request to make the forms, queued or running in the helper; ends with the module */
        struct ds_session_call *pending;
        int fd;         /* file of the transformed image; -1: there is none */
        uint64_t bytes; /* size of the image without its report, bytes */
        struct ds_charge file, image, variables;
        char *why; /* reason why there is no image and none will be made; NULL: not tried yet */
};

#define DS_MODULE_SOURCE_INIT \
        {                     \
                .fd = -1      \
        }

void ds_module_forms_init(struct ds_module_forms *forms);
void ds_module_forms_deinit(struct ds_module_forms *forms);
/* Moves a kept file. `to` must be empty. */
void ds_module_source_move(struct ds_module_source *to, struct ds_module_source *from);
/* Closes the kept file, if there is one. */
void ds_module_source_drop(struct ds_module_source *source);

/* Prepares a ModuleLoad for the helper: which forms it requests, and whether the file is kept. The caller keeps fd. */
void ds_forms_prepare(struct ds_session_call *call, int fd, uint64_t bytes);
/* Records the helper's result of a ModuleLoad: its forms, or the reason why they could not be made. */
void ds_forms_note(struct ds_session_call *call, const struct ds_helper_result *result);
/* Called when the call is freed: the module has no pending request any more. */
void ds_forms_leave(struct ds_session_call *call);
/* Handles the worker's report that the forms of a module are wanted. */
void ds_forms_wanted(struct ds_supervisor *supervisor, uint64_t session, uint64_t module);
