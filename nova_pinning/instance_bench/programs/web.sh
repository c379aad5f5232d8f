#!/bin/sh
#
# SPDX-License-Identifier: Apache-2.0

# A web site: nginx, PHP-FPM and MariaDB, with wrk for its users.
#
# web prepare WORK auto|wordpress|page
# web run WORK USERS SECONDS VCPUS MEMORY_MIB
#
# "prepare" makes the site and its database in WORK: WordPress with some posts
# where Debian's package is there, otherwise a page of our own. "run" starts
# the servers, lets users ask for pages, and prints what they got. The site is
# on loopback, its database on a socket in WORK, which nobody else may enter:
# there is no password, and as root all servers are root. All of them end with
# this script, however that ends.

set -eu

wordpress=/usr/share/wordpress
posts=20
start_seconds=60
log_size=16M

fail() {
    echo "web: $*" >&2
    exit 1
}

action=$1 work=$2
socket=$work/db.sock
if [ "${#socket}" -gt 100 ]; then
    fail "$work is too long a name: it leaves no room for a socket's"
fi
chmod 700 "$work"
is_root=''
if [ "$(id -u)" = 0 ]; then
    is_root=yes
fi

# Servers, in the order in which they were started.
servers=''

# How a server is called, then its command. It gets SIGTERM if this script
# goes away without a chance to send it.
start() {
    name=$1
    shift
    setpriv --pdeathsig TERM "$@" >"$work/$name.log" 2>&1 </dev/null &
    server=$!
    servers="$server $servers"
}

# Until the command after a server's name succeeds.
await() {
    name=$1
    shift
    deadline=$(($(date +%s) + start_seconds))
    until "$@" >/dev/null 2>&1; do
        if ! kill -0 "$server" 2>/dev/null ||
            [ "$(date +%s)" -gt "$deadline" ]; then
            tail -n 5 "$work/$name.log" >&2
            return 1
        fi
        sleep 0.1
    done
}

stop() {
    status=$?
    trap '' INT TERM HUP
    for one in $servers; do
        kill -TERM "$one" 2>/dev/null || :
    done
    tries=0
    for one in $servers; do
        while kill -0 "$one" 2>/dev/null && [ "$tries" -lt 100 ]; do
            tries=$((tries + 1))
            sleep 0.1
        done
        kill -KILL "$one" 2>/dev/null || :
        wait "$one" 2>/dev/null || :
    done
    exit "$status"
}
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# MEMORY_MIB of the instance, of which the database gets a quarter.
start_database() {
    start database mariadbd --no-defaults ${is_root:+--user=root} \
        --datadir="$work/data" --socket="$socket" --skip-networking \
        --pid-file="$work/data/mariadb.pid" --skip-log-bin \
        --innodb-buffer-pool-size=$(($1 / 4))M --max-connections=2000 \
        --innodb-log-file-size="$log_size" --innodb-flush-log-at-trx-commit=2
    await database query 'SELECT 1' || fail 'MariaDB does not start'
}

query() {
    mariadb --no-defaults --socket="$socket" --user=root --execute="$1"
}

make_wordpress() {
    # Its files find each other by where they really are, so links would lead
    # back to the package's configuration. Some of its links lead nowhere.
    cp -rL "$wordpress" "$work/site" 2>/dev/null || :
    cat >"$work/site/wp-config.php" <<EOF
<?php
define('DB_NAME', 'site');
define('DB_USER', 'root');
define('DB_PASSWORD', '');
define('DB_HOST', 'localhost:$socket');
define('DB_CHARSET', 'utf8mb4');
define('WP_HTTP_BLOCK_EXTERNAL', true);
define('DISABLE_WP_CRON', true);
define('AUTOMATIC_UPDATER_DISABLED', true);
define('DISALLOW_FILE_MODS', true);
if (isset(\$_SERVER['HTTP_HOST'])) {
    define('WP_HOME', 'http://' . \$_SERVER['HTTP_HOST']);
    define('WP_SITEURL', 'http://' . \$_SERVER['HTTP_HOST']);
}
\$table_prefix = 'wp_';
defined('ABSPATH') || define('ABSPATH', __DIR__ . '/');
require_once ABSPATH . 'wp-settings.php';
EOF
    # Debian's package comes without a theme. With one of our own the site is
    # the same everywhere.
    theme=$work/site/wp-content/themes/bench
    mkdir -p "$theme"
    echo '/* Theme Name: Bench */' >"$theme/style.css"
    cat >"$theme/index.php" <<'EOF'
<!DOCTYPE html>
<html <?php language_attributes(); ?>>
<head><?php wp_head(); ?></head>
<body <?php body_class(); ?>>
<?php wp_nav_menu(); wp_list_categories(); get_calendar(); ?>
<?php while (have_posts()): the_post(); ?>
<h2><a href="<?php the_permalink(); ?>"><?php the_title(); ?></a></h2>
<p><?php the_author_posts_link(); ?>, <?php the_date(); ?>,
<?php comments_number(); ?></p>
<?php the_content(); endwhile; ?>
<?php the_posts_pagination(); wp_footer(); ?>
</body>
</html>
EOF
    cat >"$work/install.php" <<'EOF'
<?php
define('WP_INSTALLING', true);
$_SERVER['HTTP_HOST'] = '127.0.0.1';
function wp_mail() { return true; }
require $argv[1] . '/site/wp-load.php';
require ABSPATH . 'wp-admin/includes/upgrade.php';
wp_install('Site', 'admin', 'admin@example.org', true, '',
           bin2hex(random_bytes(16)));
switch_theme('bench');
$words = str_repeat('Some words that stand for what people write. ', 60);
for ($n = 1; $n <= (int) $argv[2]; $n++) {
    wp_insert_post([
        'post_title' => "Post $n", 'post_content' => "<p>$n $words</p>",
        'post_status' => 'publish', 'post_author' => 1]);
}
EOF
    php -d memory_limit=256M "$work/install.php" "$work" "$posts" \
        >"$work/install.log" 2>&1 ||
        { tail -n 5 "$work/install.log" >&2
          fail 'WordPress cannot be set up'; }
}

make_page() {
    mkdir "$work/site"
    query "USE site;
        CREATE TABLE post (id INT PRIMARY KEY, author INT, title VARCHAR(99),
            body TEXT, INDEX (author));
        INSERT INTO post SELECT seq, seq % 97, CONCAT('Post ', seq),
            REPEAT('Some words that stand for what people write. ', 60)
            FROM seq_1_to_5000;
        CREATE TABLE comment (id INT PRIMARY KEY, post INT, body VARCHAR(999),
            INDEX (post));
        INSERT INTO comment SELECT seq, seq % 5000, REPEAT('I agree. ', 20)
            FROM seq_1_to_50000;"
    cat >"$work/site/index.php" <<EOF
<?php
\$db = new mysqli('localhost', 'root', '', 'site', 0, '$socket');
EOF
    cat >>"$work/site/index.php" <<'EOF'
$first = random_int(1, 4900);
$posts = $db->query(
    "SELECT id, author, title, body FROM post WHERE id >= $first
     ORDER BY id LIMIT 10");
echo "<!DOCTYPE html>\n<title>Site</title>\n";
foreach ($posts as $post) {
    $id = (int) $post['id'];
    $author = (int) $post['author'];
    $others = $db->query(
        "SELECT COUNT(*) FROM post WHERE author = $author")->fetch_row()[0];
    echo '<h2>', htmlspecialchars($post['title']), "</h2>\n<p>$author, who ",
        "wrote $others</p>\n";
    foreach (explode('. ', $post['body']) as $sentence) {
        echo '<p>', htmlspecialchars($sentence), "</p>\n";
    }
    $comments = $db->query("SELECT body FROM comment WHERE post = $id");
    foreach ($comments as $comment) {
        echo '<li>', htmlspecialchars($comment['body']), "</li>\n";
    }
}
EOF
}

prepare() {
    site=$1
    if [ "$site" = auto ]; then
        site=page
        if [ -e "$wordpress/wp-load.php" ]; then
            site=wordpress
        fi
    fi
    mariadb-install-db --no-defaults ${is_root:+--user=root} \
        --auth-root-authentication-method=normal --datadir="$work/data" \
        --skip-test-db --innodb-log-file-size="$log_size" \
        >"$work/install-db.log" 2>&1 ||
        { tail -n 5 "$work/install-db.log" >&2
          fail 'the database cannot be made'; }
    start_database 512
    query 'CREATE DATABASE site CHARACTER SET utf8mb4'
    case $site in
        wordpress) make_wordpress ;;
        page) make_page ;;
        *) fail "there is no site $site; there are auto, wordpress and page" ;;
    esac
    echo "site: $site"
}

# VCPUS: PHP mostly waits for a CPU or the database, so four times as many.
start_php() {
    fpm=$(for one in /usr/sbin/php-fpm*; do echo "$one"; done | tail -n 1)
    [ -x "$fpm" ] || fail 'there is no PHP-FPM; its Debian package is php-fpm'
    cat >"$work/fpm.conf" <<EOF
[global]
error_log = $work/fpm-errors.log
[site]
${is_root:+user = root}
${is_root:+group = root}
listen = $work/fpm.sock
listen.backlog = 4096
pm = static
pm.max_children = $((4 * $1))
EOF
    start php "$fpm" --nodaemonize ${is_root:+--allow-to-run-as-root} \
        --fpm-config "$work/fpm.conf"
    await php test -S "$work/fpm.sock" || fail 'PHP-FPM does not start'
}

# VCPUS PORT
start_nginx() {
    rm -f "$work/nginx.pid"
    cat >"$work/nginx.conf" <<EOF
${is_root:+user root;}
worker_processes $1;
daemon off;
pid $work/nginx.pid;
error_log $work/nginx-errors.log;
events { worker_connections 4096; }
http {
    access_log off;
    client_body_temp_path $work/tmp-body;
    proxy_temp_path $work/tmp-proxy;
    fastcgi_temp_path $work/tmp-fastcgi;
    uwsgi_temp_path $work/tmp-uwsgi;
    scgi_temp_path $work/tmp-scgi;
    server {
        listen 127.0.0.1:$2 backlog=4096;
        root $work/site;
        index index.php;
        location ~ \.php\$ {
            include /etc/nginx/fastcgi_params;
            fastcgi_param SCRIPT_FILENAME \$document_root\$fastcgi_script_name;
            fastcgi_pass unix:$work/fpm.sock;
            fastcgi_read_timeout 300;
        }
    }
}
EOF
    # It writes its number once it has the port.
    start nginx nginx -e "$work/nginx-errors.log" -c "$work/nginx.conf"
    await nginx test -s "$work/nginx.pid"
}

run() {
    users=$1 seconds=$2 vcpus=$3 memory_mib=$4
    [ -d "$work/site" ] || fail "there is no site in $work; prepare it first"
    rm -f "$work/fpm.sock"
    start_database "$memory_mib"
    start_php "$vcpus"
    port=$((20000 + $$ % 20000))
    last=$((port + 50))
    until start_nginx "$vcpus" "$port" 2>"$work/why"; do
        port=$((port + 1))
        [ "$port" -le "$last" ] ||
            fail "nginx does not start: $(cat "$work/why")"
    done
    cat >"$work/report.lua" <<'EOF'
done = function(summary, latency, requests)
    local errors = summary.errors
    local good = summary.requests - errors.status
    io.write(string.format("requests: %.2f\n",
                           good / (summary.duration / 1e6)))
    io.write(string.format("latency mean: %.3f\n", latency.mean / 1e3))
    io.write(string.format("latency 99%%: %.3f\n",
                           latency:percentile(99) / 1e3))
    io.write(string.format("failures: %d\n", errors.status + errors.connect
                           + errors.read + errors.write + errors.timeout))
    io.write(string.format("answers: %d\n", good))
end
EOF
    threads=$vcpus
    if [ "$threads" -gt "$users" ]; then
        threads=$users
    fi
    # A first page, so that PHP has compiled what it needs. It has to be the
    # right one: to tell people where to go would be quicker.
    cat >"$work/first.php" <<'EOF'
<?php
$first = file_get_contents($argv[1], false, stream_context_create(
    ['http' => ['follow_location' => 0, 'timeout' => 60]]));
if ($first === false || !strpos($first, 'Some words')) {
    echo implode("\n", $http_response_header ?? []), "\n",
        substr($first, 0, 999), "\n";
    exit(1);
}
EOF
    php "$work/first.php" "http://127.0.0.1:$port/" >"$work/first" 2>&1 ||
        { tail -n 20 "$work/first" >&2
          fail 'the site does not answer as it should'; }
    # In the background, since a signal would wait for the end of a command.
    wrk --connections "$users" --threads "$threads" --duration "${seconds}s" \
        --timeout 60s --script "$work/report.lua" \
        "http://127.0.0.1:$port/" >"$work/report" &
    wait $! || fail 'wrk does not run'
    cat "$work/report"
    if grep -q '^answers: 0$' "$work/report"; then
        tail -n 5 "$work"/*errors.log >&2
        fail 'no page was answered'
    fi
}

shift 2
case $action in
    prepare | run) "$action" "$@" ;;
    *) fail "there is no $action; there are prepare and run" ;;
esac
