/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rates of copies between the device and pageable memory for many ways of cutting and copying them
 *
 * A client of the daemon at DETSHARE_SOCKET. Prints one line per way: direction, size of a part, parts in flight, method,
 * then GB/s of 1 MiB, 16 MiB and 256 MiB, medians. Below the lines of a direction it prints the best line again. The
 * defaults of client-lib/core/copy.c come from such a table.
 *
 * usage: copy_sweep
 *        COPY_ROUNDS=N   copies per figure (default 9)
 *        COPY_PIECES=... sizes of parts in KiB (default "64 128 256 512 1024")
 *        COPY_AHEAD=...  parts of a read in flight (default "2 3 4 8")
 *        COPY_PAUSE_US=N pause before each copy, as of a program that works between two copies (default 0)
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/core.h"

#define SIZES 3
#define ROUNDS_MAX 100u
#define LARGEST ((size_t)256 << 20)

static const size_t sizes[SIZES] = {(size_t)1 << 20, (size_t)16 << 20, LARGEST};
static const char *const methods[] = {"cached", "uncached", "prefetched"};
static dsc_session *session;
static char *host;
static uint64_t device;
static unsigned rounds = 9, pause_us;

static double now_us(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int by_value(const void *a, const void *b)
{
        double x = *(const double *)a, y = *(const double *)b;

        return (x > y) - (x < y);
}

static void check(int error, const char *call)
{
        if (!error)
                return;
        fprintf(stderr, "copy_sweep: %s: error %d %s\n", call, error, dsc_message());
        exit(1);
}

static double copy_us(int write, size_t size)
{
        double begin;

        if (pause_us)
                usleep(pause_us);
        begin = now_us();
        check(write ? dsc_write(session, 0, device, size, host, size, size, 1)
                    : dsc_read(session, 0, host, size, device, size, size, 1),
                "copy");
        check(dsc_wait_all(session), "wait");
        return now_us() - begin;
}

/* GB/s, median */
static double rate(int write, size_t size)
{
        static double us[ROUNDS_MAX];

        copy_us(write, size);
        for (unsigned i = 0; i < rounds; i++)
                us[i] = copy_us(write, size);
        qsort(us, rounds, sizeof(us[0]), by_value);
        return (double)size / us[rounds / 2] / 1e3;
}

/* Measures one way and prints its line. Returns the mean of the rates of the two larger sizes, GB/s. */
static double way(int write, const struct dsc_copy_tuning *tuning, char line[160])
{
        double gbps[SIZES];

        check(dsc_copy_tune(tuning), "dsc_copy_tune");
        for (int i = 0; i < SIZES; i++)
                gbps[i] = rate(write, sizes[i]);
        snprintf(line, 160, "%s piece %4u KiB ahead %2u %-10s 1 MiB %6.2f 16 MiB %6.2f 256 MiB %6.2f GB/s",
                write ? "to-device" : "to-host  ", tuning->piece_bytes >> 10, tuning->read_ahead,
                methods[write ? tuning->write_method : tuning->read_method], gbps[0], gbps[1], gbps[2]);
        puts(line);
        fflush(stdout);
        return (gbps[1] + gbps[2]) / 2;
}

static void direction(int write, const unsigned *pieces, unsigned n_pieces, const unsigned *ahead, unsigned n_ahead)
{
        char line[160], best_line[160] = "";
        double best = 0;

        for (unsigned i = 0; i < n_pieces; i++)
                for (unsigned j = 0; j < (write ? 1 : n_ahead); j++)
                        for (uint32_t method = DSC_COPY_CACHED; method <= DSC_COPY_PREFETCHED; method++) {
                                const struct dsc_copy_tuning tuning = {pieces[i] << 10, ahead[j], method, method};
                                double mean = way(write, &tuning, line);

                                if (mean <= best)
                                        continue;
                                best = mean;
                                memcpy(best_line, line, sizeof(line));
                        }
        printf("best: %s\n", best_line);
}

/* The numbers of an environment variable, at most 16. Returns how many there are. */
static unsigned numbers(const char *name, const char *usual, unsigned ret[16])
{
        const char *text = getenv(name);
        unsigned n = 0;
        char *end;

        for (text = text && *text ? text : usual; n < 16; text = end) {
                unsigned long value = strtoul(text, &end, 10);

                if (end == text)
                        break;
                ret[n++] = (unsigned)value;
        }
        return n;
}

int main(void)
{
        unsigned pieces[16], ahead[16], n_pieces, n_ahead, one[16];
        int error = 0;

        n_pieces = numbers("COPY_PIECES", "64 128 256 512 1024", pieces);
        n_ahead = numbers("COPY_AHEAD", "2 3 4 8", ahead);
        if (numbers("COPY_ROUNDS", "9", one) && one[0] > 0 && one[0] <= ROUNDS_MAX)
                rounds = one[0];
        if (numbers("COPY_PAUSE_US", "0", one))
                pause_us = one[0];
        session = dsc_get(&error);
        host = malloc(LARGEST);
        if (!session || !host || !n_pieces || !n_ahead) {
                fprintf(stderr, "copy_sweep: no session (error %d), no memory, or an empty list of numbers\n", error);
                return 1;
        }
        check(dsc_mem_alloc(session, LARGEST, &device), "dsc_mem_alloc");
        memset(host, 1, LARGEST);
        direction(0, pieces, n_pieces, ahead, n_ahead);
        direction(1, pieces, n_pieces, ahead, n_ahead);
        check(dsc_mem_free(session, device), "dsc_mem_free");
        return 0;
}
