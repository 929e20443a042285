/* SPDX-License-Identifier: Apache-2.0 */
#include "util/cpus.h"

#include <sched.h>
#include <stdlib.h>

unsigned ds_cpus(void)
{
        const char *given = getenv("DETSHARE_CPUS");
        cpu_set_t set;

        if (given)
                return (unsigned)strtoul(given, NULL, 10);
        return sched_getaffinity(0, sizeof(set), &set) < 0 ? 1 : (unsigned)CPU_COUNT(&set);
}
