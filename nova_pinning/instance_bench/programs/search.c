/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Searches a list of numbers that is spread over the ranks of MPI.
 *
 * search NUMBERS ROUNDS
 *
 * The first rank makes the numbers and scatters them, once. In each round it
 * tells all which number to look for, each looks through its part, and the
 * first collects how often it is there and where it comes first. The parts
 * are small, so much of the time goes into telling and collecting. Every
 * number that is looked for was put in a known number of times, at a known
 * place first, and that is checked.
 */

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

/* How many numbers are looked for, in turn, and how often each is there. */
#define TARGETS 100
#define COPIES 3

/* xorshift by Marsaglia: the same numbers on every machine. */
static unsigned next(unsigned *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state;
}

/*
 * Place n of the list holds a target if n is a multiple of the step; the
 * targets have the top bit, the other numbers do not.
 */
static unsigned *make(long size, long step)
{
    unsigned *list = malloc(size * sizeof *list);
    if (list == NULL) {
        fprintf(stderr, "search: there is no memory for the list\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
        return NULL;
    }
    unsigned state = 2463534242u;
    for (long n = 0; n < size; n++)
        list[n] = next(&state) & 0x7fffffffu;
    for (long copy = 0; copy < COPIES; copy++)
        for (long target = 0; target < TARGETS; target++)
            list[(copy * TARGETS + target) * step] = 0x80000000u | target;
    return list;
}

int main(int count, char **words)
{
    MPI_Init(&count, &words);
    int rank, ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    long numbers = count == 3 ? atol(words[1]) : 0;
    long rounds = count == 3 ? atol(words[2]) : 0;
    /* All parts have one size; the list is rounded up to it. */
    long part = (numbers + ranks - 1) / ranks;
    long size = part * ranks;
    long step = size / (COPIES * TARGETS);
    if (step < 1 || part > 0x7fffffffL || rounds < 1) {
        if (rank == 0)
            fprintf(stderr, "usage: search NUMBERS ROUNDS, where NUMBERS is "
                            "%d or more and ROUNDS 1 or more\n",
                    COPIES * TARGETS);
        MPI_Finalize();
        return 2;
    }
    unsigned *list = rank == 0 ? make(size, step) : NULL;
    unsigned *mine = malloc(part * sizeof *mine);
    if (mine == NULL)
        MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    MPI_Scatter(list, (int)part, MPI_UNSIGNED, mine, (int)part, MPI_UNSIGNED,
                0, MPI_COMM_WORLD);
    long wrong = 0;
    for (long round = 0; round < rounds; round++) {
        long place = round % TARGETS;
        unsigned target = 0x80000000u | (unsigned)place;
        MPI_Bcast(&target, 1, MPI_UNSIGNED, 0, MPI_COMM_WORLD);
        long hits = 0, first = size, all_hits, all_first;
        for (long n = 0; n < part; n++)
            if (mine[n] == target) {
                if (hits++ == 0)
                    first = rank * part + n;
            }
        MPI_Reduce(&hits, &all_hits, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
        MPI_Reduce(&first, &all_first, 1, MPI_LONG, MPI_MIN, 0,
                   MPI_COMM_WORLD);
        if (rank == 0 && (all_hits != COPIES || all_first != place * step))
            wrong++;
    }
    double seconds = MPI_Wtime() - start;
    if (rank == 0 && wrong > 0)
        fprintf(stderr, "search: %ld of %ld answers were wrong\n", wrong,
                rounds);
    else if (rank == 0)
        printf("ranks: %d\nrounds: %ld\nseconds: %.6f\n", ranks, rounds,
               seconds);
    free(mine);
    free(list);
    MPI_Finalize();
    return rank == 0 && wrong > 0;
}
