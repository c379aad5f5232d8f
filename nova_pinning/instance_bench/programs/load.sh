#!/bin/bash
#
# SPDX-License-Identifier: Apache-2.0

# The peer of serve.sh: puts a load on the server of whoever connects and says
# on which port that listens, and answers with what came of it.
#
# load PEER PORT COMMAND [WORD]...
#
# Runs on the host, and for as many at a time as connect. Each connection is
# this script again, with the socket for input and output. In COMMAND,
# @address and @port stand for the server's.

set -eu

if [ -z "${SOCAT_PEERADDR-}" ]; then
    listen=TCP-LISTEN:$2,bind=$1,reuseaddr,fork
    shift 2
    export LOAD=$0
    LOAD_COMMAND=$(printf '%q ' "$@")
    export LOAD_COMMAND
    exec socat "$listen" 'SYSTEM:exec bash \"$LOAD\",nofork'
fi
read -r port
[ "$port" -gt 0 ]
eval "set -- $LOAD_COMMAND"
set -- "${@//@address/$SOCAT_PEERADDR}"
exec 3<&0 </dev/null
"${@//@port/$port}" 2>&1 &
load=$!
# Who has gone away needs no more of it.
{ read -r _ || kill "$load"; } <&3 3<&- >/dev/null 2>&1 &
watch=$!
wait "$load" || echo "the load on the host has failed, status $?"
kill "$watch" 2>/dev/null || :
