#!/bin/bash
#
# SPDX-License-Identifier: Apache-2.0

# redis-benchmark for a time, which it has no option for: as many runs as go
# into it, and their means.
#
# redis-load HOST PORT SECONDS CLIENTS VALUE_BYTES KEYS

set -eu -o pipefail

requests=20000
end=$((${EPOCHREALTIME/[.,]/} + $3 * 1000000))
trap 'kill 0' TERM
while [ "${EPOCHREALTIME/[.,]/}" -lt "$end" ]; do
    redis-benchmark -h "$1" -p "$2" -c "$4" -d "$5" -r "$6" -n "$requests" \
        -t set,get --csv
done | tr -d '"' | awk -F, '
    $1 == "SET" || $1 == "GET" {
        runs[$1]++; seconds[$1] += 1 / $2; p99[$1] += $7
    }
    END {
        if (!runs["GET"]) exit 1
        for (kind in runs) {
            printf "%s: %.2f\n", kind, runs[kind] / seconds[kind]
            printf "%s p99: %.3f\n", kind, p99[kind] / runs[kind]
        }
    }'
