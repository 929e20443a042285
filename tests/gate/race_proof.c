/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Proof of the race programs: two threads count without a lock, which ThreadSanitizer must report (exit status 66)
 *
 * With an argument they take the lock, and there must be no report.
 */
#include <pthread.h>
#include <stdio.h>

#define ROUNDS 1000

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int with_lock;
static int count;

static void *add(void *user)
{
        (void)user;
        for (int i = 0; i < ROUNDS; i++) {
                if (with_lock)
                        pthread_mutex_lock(&lock);
                count++;
                if (with_lock)
                        pthread_mutex_unlock(&lock);
        }
        return NULL;
}

int main(int argc, char **argv)
{
        pthread_t threads[2];

        (void)argv;
        with_lock = argc > 1;
        for (int i = 0; i < 2; i++)
                if (pthread_create(&threads[i], NULL, add, NULL))
                        return 1;
        for (int i = 0; i < 2; i++)
                pthread_join(threads[i], NULL);
        printf("%d\n", count);
        return 0;
}
