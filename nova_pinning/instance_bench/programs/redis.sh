#!/bin/sh
#
# SPDX-License-Identifier: Apache-2.0

# Redis under redis-benchmark, on a loopback port that is free.
#
# redis WORK CLIENTS REQUESTS VALUE_BYTES KEYS
#
# Prints redis-benchmark's CSV for SET and GET. The server keeps nothing and
# ends with this script, however that ends. Others on this machine reach it
# meanwhile, so it has no commands that write files, load code or connect.

set -eu

work=$1 clients=$2 requests=$3 value_bytes=$4 keys=$5
server=''
socket=$work/redis.sock

ask() {
    redis-cli -s "$socket" "$@" 2>/dev/null
}

stop() {
    status=$?
    trap '' INT TERM HUP
    if [ -n "$server" ]; then
        # Nothing is to be saved, so it need not be nice.
        kill -KILL "$server" 2>/dev/null || :
        wait "$server" 2>/dev/null || :
    fi
    rm -f "$socket"
    exit "$status"
}
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# It answers on its socket only if the port was free, and nobody else does.
start() {
    rm -f "$socket"
    setpriv --pdeathsig KILL redis-server --bind 127.0.0.1 --port "$1" \
        --unixsocket "$socket" --save '' --appendonly no --dir "$work" \
        --rename-command CONFIG '' --rename-command MODULE '' \
        --rename-command REPLICAOF '' --rename-command SLAVEOF '' \
        --rename-command MIGRATE '' --rename-command DEBUG '' \
        --rename-command SAVE '' --rename-command BGSAVE '' \
        --daemonize no >"$work/redis.log" 2>&1 </dev/null &
    server=$!
    while kill -0 "$server" 2>/dev/null; do
        if ask ping >/dev/null; then
            return 0
        fi
        sleep 0.05
    done
    wait "$server" || :
    server=''
    return 1
}

port=$((20000 + $$ % 20000))
last=$((port + 50))
until start "$port"; do
    port=$((port + 1))
    if [ "$port" -gt "$last" ]; then
        echo 'redis: the server does not start:' >&2
        tail -n 5 "$work/redis.log" >&2
        exit 1
    fi
done

# In the background, since a signal would wait for the end of a command.
redis-benchmark -h 127.0.0.1 -p "$port" -c "$clients" -n "$requests" \
    -d "$value_bytes" -r "$keys" -t set,get --csv &
wait $!
