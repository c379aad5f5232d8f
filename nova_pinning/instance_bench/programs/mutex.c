/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two threads take turns at one mutex.
 *
 * mutex ROUNDS CPU [CPU]
 *
 * Each thread takes the mutex ROUNDS times and adds one to a number. With one
 * CPU both threads run there, as on a machine of one processor; with two, each
 * has its own, and the mutex goes back and forth between their caches.
 */

#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define THREADS 2

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t start;
static long rounds;
/* Of what the mutex guards: who had it last, and how often that changed. */
static long total, handovers;
static int last = -1;

struct worker {
    int id;
    int cpu;
    pthread_t thread;
};

static void pin(int cpu)
{
    cpu_set_t *cpus = CPU_ALLOC(cpu + 1);
    size_t size = CPU_ALLOC_SIZE(cpu + 1);
    if (cpus == NULL)
        abort();
    CPU_ZERO_S(size, cpus);
    CPU_SET_S(cpu, size, cpus);
    int error = pthread_setaffinity_np(pthread_self(), size, cpus);
    if (error != 0) {
        fprintf(stderr, "mutex: cannot run on CPU %d: %s\n", cpu,
                strerror(error));
        exit(1);
    }
    CPU_FREE(cpus);
}

static void *work(void *given)
{
    struct worker *self = given;
    pin(self->cpu);
    pthread_barrier_wait(&start);
    for (long i = 0; i < rounds; i++) {
        pthread_mutex_lock(&mutex);
        total++;
        if (last != self->id) {
            last = self->id;
            handovers++;
        }
        pthread_mutex_unlock(&mutex);
    }
    return NULL;
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static long number(const char *text)
{
    char *end;
    errno = 0;
    long found = strtol(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || found < 0) {
        fprintf(stderr, "mutex: '%s' is not a whole number\n", text);
        exit(2);
    }
    return found;
}

int main(int count, char **words)
{
    if (count != 3 && count != 4) {
        fprintf(stderr, "usage: mutex ROUNDS CPU [CPU]\n");
        return 2;
    }
    rounds = number(words[1]);
    struct worker workers[THREADS];
    pthread_barrier_init(&start, NULL, THREADS + 1);
    for (int i = 0; i < THREADS; i++) {
        workers[i].id = i;
        workers[i].cpu = (int)number(words[i == 1 && count == 4 ? 3 : 2]);
        int error = pthread_create(&workers[i].thread, NULL, work,
                                   &workers[i]);
        if (error != 0) {
            fprintf(stderr, "mutex: no thread: %s\n", strerror(error));
            return 1;
        }
    }
    pthread_barrier_wait(&start);
    double began = now();
    for (int i = 0; i < THREADS; i++)
        pthread_join(workers[i].thread, NULL);
    double seconds = now() - began;
    if (total != THREADS * rounds) {
        fprintf(stderr, "mutex: %ld rounds were counted, not %ld\n", total,
                THREADS * rounds);
        return 1;
    }
    printf("seconds: %.6f\n", seconds);
    printf("rounds: %ld\n", total);
    printf("handovers: %ld\n", handovers);
    return 0;
}
