/* SPDX-License-Identifier: Apache-2.0 */
#include "util/thread.h"

#include <signal.h>

int ds_thread_start(pthread_t *ret, void *(*run)(void *), void *arg)
{
        sigset_t all, before;
        int r;

        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        r = pthread_create(ret, NULL, run, arg);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        return -r;
}
