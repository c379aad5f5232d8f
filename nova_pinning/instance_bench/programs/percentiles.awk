# SPDX-License-Identifier: Apache-2.0
# Percentiles of a histogram of microseconds, as cyclictest and oslat print it:
# a line for each value, with a count for each CPU, and the largest values.

/^ *[0-9]+ / {
    for (i = 2; i <= NF; i++) {
        total += $i
        # oslat counts in its last line what is longer, too.
        if (!/including overflows/)
            count[$1 + 0] += $i
    }
}
/^# Histogram Overflows:/ {
    for (i = 4; i <= NF; i++)
        total += $i
}
/^ *Maximum:|^# Max Latencies:/ {
    for (i = 2; i <= NF; i++)
        if ($i + 0 > max)
            max = $i + 0
}
END {
    if (!total)
        exit 1
    split("50 99 99.9 99.99 99.999", wanted, " ")
    for (i = 1; i <= 5; i++) {
        # Less a little, since 99.9 / 100 is not exact.
        enough = wanted[i] / 100 * total - 0.000001
        while (seen < enough && us <= 10000)
            seen += count[us++]
        # What is beyond the histogram is no longer than the longest.
        printf "p%s: %d\n", wanted[i], seen < enough ? max : us - 1
    }
    printf "max: %d\n", max
    printf "samples: %.0f\n", total
}
