/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rounds of work that is spread over the ranks of MPI, for some seconds.
 *
 * mpi primes|search SECONDS
 *
 * primes: each round counts the primes below a number. Odd numbers are dealt
 * to the ranks in turn and tried with all odd divisors; ranks meet once a
 * round, to add up, so this is about CPUs.
 *
 * search: each round looks for a number in a list that is spread over the
 * ranks. They are told which, and the first collects how often it is there.
 * The parts are small, so much of the time goes into telling and collecting.
 *
 * What comes of each round is known, and checked.
 */

#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

/* So many primes are below that limit. */
#define LIMIT 200000L
#define PRIMES 17984L
/* Each target is in the list so many times. */
#define NUMBERS 200000L
#define TARGETS 100
#define COPIES 3

static int rank, ranks;

static long primes(long round)
{
    (void)round;
    /* The only even one is of the first rank. */
    long found = rank == 0;
    for (long n = 3 + 2L * rank; n < LIMIT; n += 2L * ranks) {
        long divisor = 3;
        while (divisor * divisor <= n && n % divisor != 0)
            divisor += 2;
        found += divisor * divisor > n;
    }
    return found;
}

/* What stands at a place of the list: targets are 1 to TARGETS. */
static unsigned number(long place)
{
    long step = NUMBERS / (COPIES * TARGETS);
    if (place % step == 0 && place / step < COPIES * TARGETS)
        return place / step % TARGETS + 1;
    return TARGETS + 1 + (unsigned)place * 2654435761u % 1000000007u;
}

static long search(long round)
{
    static unsigned *mine;
    long part = (NUMBERS + ranks - 1) / ranks, found = 0;
    if (mine == NULL) {
        mine = malloc(part * sizeof *mine);
        if (mine == NULL)
            MPI_Abort(MPI_COMM_WORLD, 1);
        for (long n = 0; n < part; n++)
            mine[n] = number(rank * part + n);
    }
    unsigned target = round % TARGETS + 1;
    MPI_Bcast(&target, 1, MPI_UNSIGNED, 0, MPI_COMM_WORLD);
    for (long n = 0; n < part; n++)
        found += mine[n] == target;
    return found;
}

int main(int count, char **words)
{
    /* A rank whose mpirun is killed while it starts would wait for ever. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    double duration = count == 3 ? atof(words[2]) : 0;
    int is_search = count == 3 && strcmp(words[1], "search") == 0;
    if (duration <= 0 || (!is_search && strcmp(words[1], "primes") != 0)) {
        if (rank == 0)
            fprintf(stderr, "usage: mpi primes|search SECONDS\n");
        MPI_Finalize();
        return 2;
    }
    long (*work)(long) = is_search ? search : primes;
    long expected = is_search ? COPIES : PRIMES;
    /* A round that does not count makes the list, and lets ranks meet. */
    work(0);
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime(), seconds = 0;
    long rounds = 0, wrong = 0;
    for (int goes_on = 1; goes_on;) {
        long mine = work(rounds++), all = 0;
        MPI_Reduce(&mine, &all, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
        seconds = MPI_Wtime() - start;
        wrong += rank == 0 && all != expected;
        goes_on = seconds < duration;
        MPI_Bcast(&goes_on, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    if (rank == 0 && wrong > 0)
        fprintf(stderr, "mpi: %ld of %ld answers are wrong\n", wrong, rounds);
    else if (rank == 0)
        printf("ranks: %d\nrounds: %ld\nrate: %.3f /s\n", ranks, rounds,
               rounds / seconds);
    MPI_Finalize();
    return wrong > 0;
}
