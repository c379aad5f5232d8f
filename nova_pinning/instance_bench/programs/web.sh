#!/bin/sh
#
# SPDX-License-Identifier: Apache-2.0

# nginx, and PHP-FPM that makes its pages: four processes to a vCPU.
#
# web VCPUS
#
# Listens at ADDRESS:PORT, has its files in the current directory, and ends
# when it is told to.

set -eu

vcpus=$1
root=''
if [ "$(id -u)" = 0 ]; then
    root=root
fi
fpm=$(for one in /usr/sbin/php-fpm*; do echo "$one"; done | tail -n 1)

cat >index.php <<'EOP'
<!DOCTYPE html>
<title>Site</title>
<?php
$first = random_int(1, 4900);
for ($post = $first; $post < $first + 10; $post++) {
    $words = str_repeat("Some words that stand for post $post. ", 60);
    echo '<h2>', md5($words), "</h2>\n";
    foreach (explode('. ', $words) as $sentence) {
        echo '<p>', htmlspecialchars(ucwords($sentence)), "</p>\n";
    }
}
EOP
cat >fpm.conf <<EOF2
[global]
error_log = $PWD/fpm-errors.log
[site]
${root:+user = root}
${root:+group = root}
listen = $PWD/fpm.sock
listen.backlog = 4096
pm = static
pm.max_children = $((4 * vcpus))
EOF2
cat >nginx.conf <<EOF2
${root:+user root;}
worker_processes $vcpus;
daemon off;
pid $PWD/nginx.pid;
error_log $PWD/nginx-errors.log;
events { worker_connections 4096; }
http {
    access_log off;
    client_body_temp_path $PWD/tmp-body;
    proxy_temp_path $PWD/tmp-proxy;
    fastcgi_temp_path $PWD/tmp-fastcgi;
    uwsgi_temp_path $PWD/tmp-uwsgi;
    scgi_temp_path $PWD/tmp-scgi;
    server {
        listen $ADDRESS:$PORT backlog=4096;
        root $PWD;
        location / {
            include /etc/nginx/fastcgi_params;
            fastcgi_param SCRIPT_FILENAME $PWD/index.php;
            fastcgi_pass unix:$PWD/fpm.sock;
        }
    }
}
EOF2
rm -f fpm.sock
setpriv --pdeathsig TERM "$fpm" --nodaemonize ${root:+--allow-to-run-as-root} \
    --fpm-config fpm.conf &
until [ -S fpm.sock ]; do
    kill -0 $!
    sleep 0.02
done
# The shell becomes nginx, and PHP ends with it.
exec nginx -e nginx-errors.log -c "$PWD/nginx.conf"
