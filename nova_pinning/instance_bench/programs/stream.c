/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory bandwidth: copy, scale, add and triad over arrays far larger than
 * the caches, with the threads OpenMP starts.
 *
 * stream ARRAY_MIB REPETITIONS LIMIT_MIB
 *
 * ARRAY_MIB is the size of each of the three arrays; 0 makes each four times
 * the last-level caches of the CPUs this process may run on. LIMIT_MIB is how
 * much memory there is, of which at most three quarters are taken; 0 for no
 * limit. The best of the repetitions counts, the first one left out. What a
 * kernel moves is reckoned as its reads and writes, without the line fill of a
 * write. Rates are in 10^6 bytes a second.
 */

#define _GNU_SOURCE
#include <dirent.h>
#include <math.h>
#include <omp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB (1024.0 * 1024.0)
#define CPUS 4096
#define SCALAR 0.42
/* Where neither /sys nor the C library knows of a cache. */
#define GUESSED_CACHE_MIB 32.0

enum { COPY, SCALE, ADD, TRIAD, KERNELS };

static const char *const NAMES[KERNELS] = {"copy", "scale", "add", "triad"};
/* Arrays that a kernel reads or writes. */
static const int ARRAYS[KERNELS] = {2, 2, 3, 3};

static int read_text(const char *path, char *text, int size)
{
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return 0;
    char *line = fgets(text, size, file);
    fclose(file);
    if (line == NULL)
        return 0;
    text[strcspn(text, "\n")] = '\0';
    return 1;
}

/* The last-level cache of a CPU in KiB, and the CPUs that share it. */
static double last_cache(int cpu, char *shared, int shared_size)
{
    double kib = 0;
    int top = 0;
    for (int index = 0; index < 16; index++) {
        char path[128], text[256];
        int n = snprintf(path, sizeof path,
                         "/sys/devices/system/cpu/cpu%d/cache/index%d/",
                         cpu, index);
        strcpy(path + n, "level");
        if (!read_text(path, text, sizeof text))
            break;
        int level = atoi(text);
        if (level < top)
            continue;
        strcpy(path + n, "size");
        if (!read_text(path, text, sizeof text))
            continue;
        char *unit;
        double size = strtod(text, &unit);
        if (*unit == 'M')
            size *= 1024;
        strcpy(path + n, "shared_cpu_list");
        if (!read_text(path, shared, shared_size))
            continue;
        kib = size;
        top = level;
    }
    return kib;
}

/* The last-level caches of all CPUs that may be used, each counted once. */
static double caches_mib(void)
{
    static char seen[CPUS][256];
    int caches = 0;
    double kib = 0;
    cpu_set_t *cpus = CPU_ALLOC(CPUS);
    size_t size = CPU_ALLOC_SIZE(CPUS);
    if (cpus == NULL || sched_getaffinity(0, size, cpus) != 0)
        return 0;
    for (int cpu = 0; cpu < CPUS; cpu++) {
        if (!CPU_ISSET_S(cpu, size, cpus))
            continue;
        char shared[256];
        double one = last_cache(cpu, shared, sizeof shared);
        int known = one == 0;
        for (int i = 0; i < caches && !known; i++)
            known = strcmp(seen[i], shared) == 0;
        if (!known) {
            strcpy(seen[caches++], shared);
            kib += one;
        }
    }
    CPU_FREE(cpus);
    return kib / 1024;
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

/* The largest relative error of an array whose elements are all alike. */
static double error_of(const double *values, double expected, long n)
{
    double worst = 0;
#pragma omp parallel for schedule(static) reduction(max : worst)
    for (long i = 0; i < n; i++) {
        double error = fabs(values[i] - expected) / fabs(expected);
        /* As it is written, one that is no number counts too. */
        if (!(error <= worst))
            worst = error;
    }
    return worst;
}

static int is_valid(const double *a, const double *b, const double *c, long n,
                    int repetitions)
{
    double x = 1, y = 2, z = 0;
    for (int i = 0; i < repetitions; i++) {
        z = x;
        y = SCALAR * z;
        z = x + y;
        x = y + SCALAR * z;
    }
    double worst = fmax(error_of(a, x, n),
                        fmax(error_of(b, y, n), error_of(c, z, n)));
    if (worst <= 1e-12)
        return 1;
    fprintf(stderr, "stream: results are wrong by %g\n", worst);
    return 0;
}

int main(int count, char **words)
{
    if (count != 4) {
        fprintf(stderr, "usage: stream ARRAY_MIB REPETITIONS LIMIT_MIB\n");
        return 2;
    }
    double array_mib = atof(words[1]);
    int repetitions = atoi(words[2]);
    double limit_mib = atof(words[3]);
    double cache_mib = caches_mib();
    const char *from = "as /sys has it";
    if (cache_mib <= 0) {
        cache_mib = GUESSED_CACHE_MIB;
        from = "guessed, since /sys has none";
    }
    if (array_mib == 0)
        array_mib = ceil(4 * cache_mib);
    if (array_mib < 1 || repetitions < 2) {
        fprintf(stderr, "stream: an array has 1 MiB or more, and there are "
                        "2 repetitions or more\n");
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
    double best[KERNELS] = {INFINITY, INFINITY, INFINITY, INFINITY};
    for (int i = 0; i < repetitions; i++)
        for (int kernel = 0; kernel < KERNELS; kernel++) {
            double seconds = run(kernel, a, b, c, n);
            if (i > 0 && seconds < best[kernel])
                best[kernel] = seconds;
        }
    if (!is_valid(a, b, c, n, repetitions))
        return 1;
    printf("threads: %d\n", omp_get_max_threads());
    printf("last-level caches: %.1f MiB, %s\n", cache_mib, from);
    printf("array: %.1f MiB, %s four times the caches\n", array_mib,
           array_mib >= 4 * cache_mib ? "at least" : "LESS than");
    for (int kernel = 0; kernel < KERNELS; kernel++)
        printf("%s: %.1f MB/s\n", NAMES[kernel],
               ARRAYS[kernel] * (n * sizeof(double)) / best[kernel] / 1e6);
    printf("results are right\n");
    return 0;
}
