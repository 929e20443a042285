/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda/fallback.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "core/core.h"
#include "cuda/genuine.h"
#include "cuda/proc.h"

/* Jump targets in the order of dcu_procs. One thread writes them under cuInit's lock; others see the old or new
 * function. */
extern void *dcu_jumps[];

static void turn_jumps(void)
{
        for (size_t i = 0; i < dcu_n_procs; i++) {
                void *genuine = dcu_genuine_symbol(dcu_procs[i].symbol);

                /* if the genuine driver lacks the function, calls go to this library, which returns "not
                 * initialised" */
                if (genuine)
                        __atomic_store_n(&dcu_jumps[i], genuine, __ATOMIC_RELEASE);
        }
}

CUresult dcu_fallback_init(unsigned int flags, CUresult why)
{
        void *symbol = dcu_genuine_symbol("cuInit");
        CUresult (*init)(unsigned int);
        static int complained;

        if (!symbol) {
                if (!complained)
                        fprintf(stderr,
                                "detshare: %s; DETSHARE_FALLBACK=native finds no NVIDIA driver on this machine "
                                "(DETSHARE_LIBCUDA "
                                "names one)\n",
                                dsc_message());
                complained = 1;
                return why;
        }
        fprintf(stderr, "detshare: %s; the program runs on the machine's own driver (DETSHARE_FALLBACK=native)\n",
                dsc_message());
        turn_jumps();
        memcpy(&init, &symbol, sizeof(init));
        return init(flags);
}
