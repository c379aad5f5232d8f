/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two threads and a mutex, in one of two ways.
 *
 * mutex handover SECONDS PEER PORT CPUS PROCESSORS
 *
 * The threads hand a turn over to each other, each asleep until it has it: the
 * one without the turn sleeps in the kernel (futex), and the one with it wakes
 * the other and goes to sleep. What that takes is a wake-up, and with two
 * processors one that reaches another CPU. "median" is that of the times of
 * TURNS turns of a thread, so that a few that were kept waiting do not count.
 *
 * mutex lock SECONDS PEER PORT CPUS PROCESSORS INSIDE BETWEEN
 *
 * The threads compete for a pthread_mutex: each takes it, counts to INSIDE,
 * gives it back, and counts to BETWEEN, as often as it can.
 *
 * CPUS is a list as the kernel has it, of which the first or the first two are
 * used. The peer, at an IPv4 address, is the clock: its first byte is the
 * start, and its answer to the number of operations is how long it had to wait
 * for that. A few operations say nothing, so that where they are all that was
 * done in SECONDS the threads go on until there are enough.
 */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define CONNECT_SECONDS 10
/* Between two looks at the clock. */
#define TURNS 64
/* Fewer operations than this are no figure, however long they took. */
#define LEAST 1000
/* Times of TURNS turns that are kept: the first. */
#define MOST_TIMES (1 << 20)

struct worker {
    int id;
    int cpu;
    long turns;
    long switches;
    pthread_t thread;
};

static _Atomic int turn = -1;
static _Atomic int is_over;
static double deadline;
static double times[MOST_TIMES];
static long times_count;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t gate;
static long inside_count, between_count;

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static void pin(int cpu)
{
    cpu_set_t *cpus = CPU_ALLOC(cpu + 1);
    size_t size = CPU_ALLOC_SIZE(cpu + 1);
    CPU_ZERO_S(size, cpus);
    CPU_SET_S(cpu, size, cpus);
    if (sched_setaffinity(0, size, cpus) != 0)
        fail("mutex: cannot run on that CPU");
    CPU_FREE(cpus);
}

static void hand_over(int to)
{
    turn = to;
    syscall(SYS_futex, &turn, FUTEX_WAKE_PRIVATE, 2, NULL, NULL, 0);
}

static void finish(struct worker *self)
{
    struct rusage used;
    getrusage(RUSAGE_THREAD, &used);
    self->switches = used.ru_nvcsw + used.ru_nivcsw;
}

static void *take_turns(void *given)
{
    struct worker *self = given;
    pin(self->cpu);
    pthread_barrier_wait(&gate);
    int is_last = 0;
    double then = 0;
    while (!is_last) {
        for (int seen = turn; seen != self->id; seen = turn)
            syscall(SYS_futex, &turn, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
        if (self->id == 0 && self->turns % TURNS == 0) {
            double time = now();
            if (self->turns > 0 && times_count < MOST_TIMES)
                times[times_count++] = time - then;
            then = time;
            if (time >= deadline && 2 * self->turns >= LEAST)
                is_over = 1;
        }
        is_last = is_over;
        self->turns++;
        hand_over(1 - self->id);
    }
    finish(self);
    return NULL;
}

static void count_to(long number)
{
    for (volatile long counted = 0; counted < number; counted++)
        ;
}

static void *compete(void *given)
{
    struct worker *self = given;
    pin(self->cpu);
    pthread_barrier_wait(&gate);
    while (!is_over) {
        pthread_mutex_lock(&mutex);
        count_to(inside_count);
        pthread_mutex_unlock(&mutex);
        count_to(between_count);
        if (++self->turns % TURNS == 0 && self->turns >= LEAST &&
            now() >= deadline)
            is_over = 1;
    }
    finish(self);
    return NULL;
}

static int compare(const void *first, const void *second)
{
    double one = *(const double *)first, other = *(const double *)second;
    return (one > other) - (one < other);
}

/* The first CPUs of a list such as 0-3,8. */
static void choose(const char *list, int wanted, struct worker *workers)
{
    int found = 0;
    char *end;
    while (*list != '\0' && found < wanted) {
        long first = strtol(list, &end, 10), last = first;
        if (end == list)
            break;
        if (*end == '-')
            last = strtol(end + 1, &end, 10);
        for (long cpu = first; cpu <= last && found < wanted; cpu++)
            workers[found++].cpu = (int)cpu;
        list = *end == ',' ? end + 1 : end;
    }
    if (found < wanted) {
        fprintf(stderr, "mutex: there are %d CPUs, not %d\n", found, wanted);
        exit(2);
    }
    if (wanted == 1)
        workers[1].cpu = workers[0].cpu;
}

static FILE *connected(const char *address, int port)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
    if (inet_pton(AF_INET, address, &to.sin_addr) != 1) {
        fprintf(stderr, "mutex: '%s' is not an IPv4 address\n", address);
        exit(2);
    }
    double last = now() + CONNECT_SECONDS;
    for (;;) {
        int wire = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (connect(wire, (struct sockaddr *)&to, sizeof to) == 0)
            return fdopen(wire, "r+");
        if (now() > last)
            fail("mutex: no peer");
        close(wire);
        usleep(100000);
    }
}

int main(int count, char **words)
{
    int is_lock = count > 1 && strcmp(words[1], "lock") == 0;
    int processors = count > 6 ? atoi(words[6]) : 0;
    if (count != (is_lock ? 9 : 7) || processors < 1 || processors > 2 ||
        (!is_lock && strcmp(words[1], "handover") != 0)) {
        fprintf(stderr, "usage: mutex handover SECONDS PEER PORT CPUS 1|2\n"
                "       mutex lock SECONDS PEER PORT CPUS 1|2 "
                "INSIDE BETWEEN\n");
        return 2;
    }
    if (is_lock) {
        inside_count = atol(words[7]);
        between_count = atol(words[8]);
    }
    struct worker workers[2] = {{.id = 0}, {.id = 1}};
    choose(words[5], processors, workers);
    FILE *wire = connected(words[3], atoi(words[4]));
    pthread_barrier_init(&gate, NULL, 3);
    for (int i = 0; i < 2; i++)
        if (pthread_create(&workers[i].thread, NULL,
                           is_lock ? compete : take_turns, &workers[i]) != 0)
            fail("mutex: no thread");
    if (fgetc(wire) == EOF)
        fail("mutex: the peer did not start it");
    double began = now();
    deadline = began + atof(words[2]);
    pthread_barrier_wait(&gate);
    if (!is_lock)
        hand_over(0);
    for (int i = 0; i < 2; i++)
        pthread_join(workers[i].thread, NULL);
    double inside = now() - began;
    long operations = workers[0].turns + workers[1].turns;
    char outside[64];
    /* What comes after what was read is written at the same place. */
    fseek(wire, 0, SEEK_CUR);
    fprintf(wire, "%ld\n", operations);
    fflush(wire);
    if (fgets(outside, sizeof outside, wire) == NULL || atof(outside) <= 0) {
        fprintf(stderr, "mutex: the peer did not say how long it took\n");
        return 1;
    }
    printf("operations: %ld\n", operations);
    if (!is_lock) {
        qsort(times, times_count, sizeof *times, compare);
        printf("median: %.1f ns\n",
               times[times_count / 2] / (2 * TURNS) * 1e9);
    }
    printf("outside: %.1f ns\n", atof(outside) / operations * 1e9);
    printf("inside: %.1f ns\n", inside / operations * 1e9);
    printf("switches: %.3f\n",
           (double)(workers[0].switches + workers[1].switches) / operations);
    return 0;
}
