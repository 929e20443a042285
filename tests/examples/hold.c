/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hold: stay a client of the daemon until standard input ends
 *
 * Prints one line when connected: session, class, SLO and memory limit as the daemon reports them. Exits with 0, or
 * with 3 if the session was lost by the end.
 */
#include <inttypes.h>
#include <stdio.h>

#include <detshare/detshare.h>

int main(void)
{
        struct detshare_stats stats = {.size = sizeof(stats)};
        if (detshare_connect(NULL) || detshare_get_stats(&stats)) {
                fprintf(stderr, "hold: %s\n", detshare_last_error());
                return 1;
        }
        printf("%" PRIu64 " %s %" PRIu64 " %" PRIu64 "\n", stats.session, stats.class_ == DETSHARE_LS ? "ls" : "be",
                stats.slo_ns, stats.memory_limit);
        fflush(stdout);
        while (getchar() != EOF)
                ;
        return detshare_get_stats(&stats) ? 3 : 0;
}
