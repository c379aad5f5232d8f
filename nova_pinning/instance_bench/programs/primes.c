/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts the primes below a limit, by MPI.
 *
 * primes LIMIT
 *
 * Odd numbers are dealt to the ranks in turn and tried with all odd divisors;
 * ranks only meet to add up, so this is about CPUs. The count is checked with
 * a sieve where the limit is small enough for one.
 */

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define SIEVE_LIMIT 100000000L

static int is_prime(long n)
{
    for (long divisor = 3; divisor * divisor <= n; divisor += 2)
        if (n % divisor == 0)
            return 0;
    return 1;
}

/* The primes below a limit by the sieve of Eratosthenes, -1 without memory. */
static long sieved(long limit)
{
    char *crossed = calloc(limit, 1);
    if (crossed == NULL)
        return -1;
    long count = 0;
    for (long n = 2; n < limit; n++) {
        if (crossed[n])
            continue;
        count++;
        for (long other = n * n; other < limit; other += n)
            crossed[other] = 1;
    }
    free(crossed);
    return count;
}

int main(int count, char **words)
{
    MPI_Init(&count, &words);
    int rank, ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    long limit = count == 2 ? atol(words[1]) : 0;
    if (limit < 3) {
        if (rank == 0)
            fprintf(stderr, "usage: primes LIMIT, which is 3 or more\n");
        MPI_Finalize();
        return 2;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    long mine = 0, all = 0;
    for (long n = 3 + 2L * rank; n < limit; n += 2L * ranks)
        mine += is_prime(n);
    MPI_Reduce(&mine, &all, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    double seconds = MPI_Wtime() - start;
    int status = 0;
    if (rank == 0) {
        /* The only even one. */
        all++;
        long expected = limit <= SIEVE_LIMIT ? sieved(limit) : -1;
        if (expected >= 0 && expected != all) {
            fprintf(stderr, "primes: %ld were found, and there are %ld\n",
                    all, expected);
            status = 1;
        } else {
            printf("ranks: %d\nprimes: %ld\nseconds: %.6f\n", ranks, all,
                   seconds);
        }
    }
    MPI_Finalize();
    return status;
}
