/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two threads hand a turn over to each other, each asleep until it has it.
 *
 * mutex SECONDS PEER PORT CPU [CPU]
 *
 * What a mutex does when it is taken: the thread without the turn sleeps in
 * the kernel (futex), and the one with it wakes the other and goes to sleep.
 * With one CPU both threads run there; with two, each has its own.
 *
 * The peer, at an IPv4 address, is the clock: its first byte is the start, and
 * its answer to the number of handovers is how long it had to wait for that.
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

static void *work(void *given)
{
    struct worker *self = given;
    pin(self->cpu);
    int is_last = 0;
    while (!is_last) {
        for (int seen = turn; seen != self->id; seen = turn)
            syscall(SYS_futex, &turn, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
        if (self->id == 0 && self->turns % TURNS == 0 && now() >= deadline)
            is_over = 1;
        is_last = is_over;
        self->turns++;
        hand_over(1 - self->id);
    }
    struct rusage used;
    getrusage(RUSAGE_THREAD, &used);
    self->switches = used.ru_nvcsw + used.ru_nivcsw;
    return NULL;
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
    if (count != 5 && count != 6) {
        fprintf(stderr, "usage: mutex SECONDS PEER PORT CPU [CPU]\n");
        return 2;
    }
    FILE *wire = connected(words[2], atoi(words[3]));
    struct worker workers[2] = {{.id = 0}, {.id = 1}};
    for (int i = 0; i < 2; i++) {
        workers[i].cpu = atoi(words[i == 1 && count == 6 ? 5 : 4]);
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
            fail("mutex: no thread");
    }
    if (fgetc(wire) == EOF)
        fail("mutex: the peer did not start it");
    double began = now();
    deadline = began + atof(words[1]);
    hand_over(0);
    for (int i = 0; i < 2; i++)
        pthread_join(workers[i].thread, NULL);
    double inside = now() - began;
    long handovers = workers[0].turns + workers[1].turns;
    char outside[64];
    /* What comes after what was read is written at the same place. */
    fseek(wire, 0, SEEK_CUR);
    fprintf(wire, "%ld\n", handovers);
    fflush(wire);
    if (fgets(outside, sizeof outside, wire) == NULL || atof(outside) <= 0) {
        fprintf(stderr, "mutex: the peer did not say how long it took\n");
        return 1;
    }
    printf("handovers: %ld\n", handovers);
    printf("outside: %.1f ns\n", atof(outside) / handovers * 1e9);
    printf("inside: %.1f ns\n", inside / handovers * 1e9);
    printf("switches: %.3f\n",
           (double)(workers[0].switches + workers[1].switches) / handovers);
    return 0;
}
