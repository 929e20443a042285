/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hello: a client of libdetshare-client in one page: class, objective, device clock, statistics
 *
 * cc $(pkg-config --cflags detshare) hello.c $(pkg-config --libs detshare) && ./a.out
 */
#include <inttypes.h>
#include <stdio.h>

#include <detshare/detshare.h>

static int check(int r, const char *what)
{
        if (r < 0)
                fprintf(stderr, "hello: %s: %s (%s)\n", what, detshare_strerror(r), detshare_last_error());
        return r < 0;
}

int main(void)
{
        struct detshare_stats stats = {.size = sizeof(stats)};
        uint64_t start, end;

        /* Any call of the library would connect to the daemon. An explicit connection shows why it failed. */
        if (check(detshare_connect(NULL), "connect"))
                return 1;

        /* The daemon refuses a class that this user may not have; the session then keeps the class it had. */
        if (check(detshare_set_name("hello"), "name"))
                return 1;
        if (detshare_set_class(DETSHARE_LS) == DETSHARE_E_DENIED)
                printf("class ls was refused, the session stays best effort: %s\n", detshare_last_error());
        check(detshare_set_slo_ns(5 * 1000 * 1000), "slo");

        /* A simulated device has a virtual clock, which moves only while all its clients wait. */
        if (check(detshare_now(&start), "now") || check(detshare_sleep_until(start + 1000 * 1000), "sleep") ||
                check(detshare_now(&end), "now"))
                return 1;
        printf("%s device, slept %" PRIu64 " ns\n", detshare_simulated() ? "simulated" : "real", end - start);
        detshare_clock_leave();

        if (check(detshare_get_stats(&stats), "stats"))
                return 1;
        printf("session %" PRIu64 ", class %s, %" PRIu64 " launches\n", stats.session,
                stats.class_ == DETSHARE_LS ? "ls" : "be", stats.launches);
        return 0;
}
