/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory bandwidth: copy, scale, add and triad as McCalpin defines them, over
 * and over for a time, with the threads OpenMP starts.
 *
 * stream SECONDS ARRAY_MIB LIMIT_MIB
 *
 * ARRAY_MIB is the size of each of the three arrays; 0 makes each four times
 * the last-level caches of the CPUs this process may run on. LIMIT_MIB is how
 * much memory there is, of which at most three quarters are taken; 0 for no
 * limit. Rates are means over all rounds but the first. What a kernel moves is
 * reckoned as its reads and writes, without the line fill of a write. Rates
 * are in 10^6 bytes a second.
 */

#define _GNU_SOURCE
#include <math.h>
#include <omp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#define MIB (1024.0 * 1024.0)
#define CPUS 4096
/* The square root of 2, less 1: with it a round leaves a as it was. */
#define SCALAR 0.41421356237309505
/* Where /sys knows of no cache. */
#define GUESSED_CACHE_MIB 32.0

enum { COPY, SCALE, ADD, TRIAD, KERNELS };

static const char *const NAMES[KERNELS] = {"copy", "scale", "add", "triad"};
/* Arrays that a kernel reads or writes. */
static const int ARRAYS[KERNELS] = {2, 2, 3, 3};

static int read_text(int cpu, int index, const char *name, char *text)
{
    char path[128];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/cache/index%d/"
             "%s", cpu, index, name);
    FILE *file = fopen(path, "r");
    int is_read = file != NULL && fgets(text, 256, file) != NULL;
    if (file != NULL)
        fclose(file);
    return is_read;
}

/* The first CPU of a list such as 0-3,8 that is in a set. */
static int first_of(char *list, const cpu_set_t *cpus, size_t size)
{
    while (*list >= '0' && *list <= '9') {
        long from = strtol(list, &list, 10);
        long to = *list == '-' ? strtol(list + 1, &list, 10) : from;
        for (; from <= to; from++)
            if (CPU_ISSET_S(from, size, cpus))
                return from;
        list += *list == ',';
    }
    return -1;
}

/* The last-level caches of all CPUs that may be used, each counted once. */
static double caches_mib(void)
{
    cpu_set_t *cpus = CPU_ALLOC(CPUS);
    size_t size = CPU_ALLOC_SIZE(CPUS);
    double mib = 0;
    if (cpus == NULL || sched_getaffinity(0, size, cpus) != 0)
        return 0;
    for (int cpu = 0; cpu < CPUS; cpu++) {
        char text[256], shared[256], *unit;
        int index = 9;
        if (!CPU_ISSET_S(cpu, size, cpus))
            continue;
        /* The last level has the highest index. */
        while (index >= 0 && !read_text(cpu, index, "size", text))
            index--;
        if (index < 0 || !read_text(cpu, index, "shared_cpu_list", shared)
            || first_of(shared, cpus, size) != cpu)
            continue;
        double one = strtod(text, &unit);
        mib += *unit == 'M' ? one : one / 1024;
    }
    CPU_FREE(cpus);
    return mib;
}

static double *array(long n)
{
    void *found;
    /* Aligned to huge pages, which the kernel may then give. */
    if (posix_memalign(&found, 2 << 20, n * sizeof(double)) != 0) {
        fprintf(stderr, "stream: there is no memory for an array of %ld MiB\n",
                (long)(n * sizeof(double) / MIB));
        exit(1);
    }
    return found;
}

static double run(int kernel, double *a, double *b, double *c, long n)
{
    double start = omp_get_wtime();
    switch (kernel) {
    case COPY:
#pragma omp parallel for schedule(static)
        for (long i = 0; i < n; i++)
            c[i] = a[i];
        break;
    case SCALE:
#pragma omp parallel for schedule(static)
        for (long i = 0; i < n; i++)
            b[i] = SCALAR * c[i];
        break;
    case ADD:
#pragma omp parallel for schedule(static)
        for (long i = 0; i < n; i++)
            c[i] = a[i] + b[i];
        break;
    case TRIAD:
#pragma omp parallel for schedule(static)
        for (long i = 0; i < n; i++)
            a[i] = b[i] + SCALAR * c[i];
        break;
    }
    return omp_get_wtime() - start;
}

/* Values go round: a is 1 again and again, b SCALAR, c their sum. */
static int is_valid(const double *a, const double *b, const double *c, long n)
{
    long wrong = 0;
#pragma omp parallel for schedule(static) reduction(+ : wrong)
    for (long i = 0; i < n; i++)
        /* As it is written, what is no number counts too. */
        wrong += !(fabs(a[i] - 1) < 1e-6 && fabs(b[i] - SCALAR) < 1e-6
                   && fabs(c[i] - 1 - SCALAR) < 1e-6);
    if (wrong)
        fprintf(stderr, "stream: %ld results are wrong\n", wrong);
    return !wrong;
}

int main(int count, char **words)
{
    if (count != 4) {
        fprintf(stderr, "usage: stream SECONDS ARRAY_MIB LIMIT_MIB\n");
        return 2;
    }
    double duration = atof(words[1]);
    double array_mib = atof(words[2]);
    double limit_mib = atof(words[3]);
    double cache_mib = caches_mib();
    if (cache_mib <= 0)
        cache_mib = GUESSED_CACHE_MIB;
    if (array_mib == 0)
        array_mib = ceil(4 * cache_mib);
    if (array_mib < 1 || duration <= 0) {
        fprintf(stderr, "stream: an array has 1 MiB or more, and there is "
                        "some time\n");
        return 2;
    }
    if (limit_mib > 0 && 3 * array_mib > 0.75 * limit_mib) {
        fprintf(stderr, "stream: three arrays of %.0f MiB do not fit into "
                        "three quarters of %.0f MiB; give it more memory, or "
                        "smaller arrays, which caches then help with\n",
                array_mib, limit_mib);
        return 1;
    }
    long n = (long)(array_mib * MIB / sizeof(double));
    double *a = array(n), *b = array(n), *c = array(n);
    /* A page lies on the node of the CPU that touches it first. */
#pragma omp parallel for schedule(static)
    for (long i = 0; i < n; i++) {
        a[i] = 1;
        b[i] = 2;
        c[i] = 0;
    }
    double seconds[KERNELS] = {0}, end = 0;
    long rounds = -1;
    /* The first round, which starts the threads, does not count. */
    while (rounds < 1 || omp_get_wtime() < end) {
        if (++rounds == 0)
            end = omp_get_wtime() + duration;
        for (int kernel = 0; kernel < KERNELS; kernel++) {
            double took = run(kernel, a, b, c, n);
            if (rounds > 0)
                seconds[kernel] += took;
        }
    }
    if (!is_valid(a, b, c, n))
        return 1;
    printf("threads: %d\nrounds: %ld\n", omp_get_max_threads(), rounds);
    printf("array: %.1f MiB, %.1f times the last-level caches\n", array_mib,
           array_mib / cache_mib);
    for (int kernel = 0; kernel < KERNELS; kernel++)
        printf("%s: %.1f MB/s\n", NAMES[kernel], ARRAYS[kernel] *
               (n * sizeof(double)) * rounds / seconds[kernel] / 1e6);
    return 0;
}
