#!/bin/bash
#
# SPDX-License-Identifier: Apache-2.0

# The peer of mutex: says start, and then how long it waited for an answer.
#
# stopwatch PEER PORT
#
# Runs on the host, and for as many at a time as connect. Each connection is
# this script again, with the socket for input and output.

set -eu

if [ $# = 2 ]; then
    export STOPWATCH=$0
    exec socat "TCP-LISTEN:$2,bind=$1,reuseaddr,fork,nodelay" \
        'SYSTEM:exec bash \"$STOPWATCH\",nofork'
fi
echo
# Microseconds since the epoch, without a process that would take its time.
start=${EPOCHREALTIME/[.,]/}
read -r answer
end=${EPOCHREALTIME/[.,]/}
[ "$answer" -gt 0 ]
printf '%d.%06d\n' $(((end - start) / 1000000)) $(((end - start) % 1000000))
