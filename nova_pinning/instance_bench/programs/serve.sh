#!/bin/bash
#
# SPDX-License-Identifier: Apache-2.0

# Runs a server where the peer on the host reaches it, has the peer (load.sh)
# put a load on it, and prints what that says.
#
# serve PEER PORT COMMAND [WORD]...
#
# COMMAND finds in ADDRESS and PORT where to listen; there is no password, so
# only the link to the peer leads there. It ends with this script, however
# that ends.

set -eu

fail() {
    echo "serve: $*" >&2
    tail -n 5 serve.log >&2 || :
    exit 1
}

is_answered() {
    (exec 3<>"/dev/tcp/$ADDRESS/$PORT") 2>/dev/null
}

peer=$1 peer_port=$2
shift 2
ADDRESS=$(ip -o route get "$peer" | sed -E 's/.* src ([^ ]+).*/\1/')
export ADDRESS PORT
stop() {
    kill -TERM "$server" 2>/dev/null || :
    wait "$server" || :
}

# Who does not answer on a port may have it all the same.
for ((tries = 1; ; tries++)); do
    PORT=$(shuf -i 20000-30000 -n 1)
    while is_answered; do
        PORT=$((PORT + 1))
    done
    # It is told to end as soon as this script does, however that ends.
    setpriv --pdeathsig TERM "$@" >serve.log 2>&1 </dev/null &
    server=$!
    trap stop EXIT
    trap 'exit 143' INT TERM HUP
    until is_answered || ! kill -0 "$server" 2>/dev/null; do
        sleep 0.05
    done
    kill -0 "$server" 2>/dev/null && break
    [ "$tries" -lt 3 ] || fail 'the server does not start'
done
# The peer may still be on its way.
for ((tries = 0; ; tries++)); do
    if { exec 3<>"/dev/tcp/$peer/$peer_port"; } 2>/dev/null; then
        break
    fi
    [ "$tries" -lt 50 ] || fail "no peer listens at $peer:$peer_port"
    sleep 0.2
done
echo "$PORT" >&3
# In the background, since a signal would wait for the end of a command.
cat <&3 &
wait $!
kill -0 "$server" 2>/dev/null || fail 'the server has ended'
