# The guardian of a host: makes a directory, does the steps that it is told, line by line, and removes everything when its
# input ends. A watcher beside it does so if it is killed. $1 is the library.
eval "$1"
set -f
cd /
die() {
    say "error $*"
    exit 1
}
[ "$(id -u)" -ne 0 ] || die "it was logged in as root, as whom PostgreSQL does not run: name another user"
[ -r /proc/self/stat ] || die "it has no /proc: only Linux is supported"
dir=$(mktemp -d "${TMPDIR:-/tmp}/duramen-lab.XXXXXXXXXX" 2>&1) || die "no directory can be made: $dir"
dir=$(cd "$dir" && pwd -P) || die "the directory cannot be entered"
is_ours "$dir" || {
    rmdir "$dir"
    die "the name of the directory for temporary files has characters that are not supported: set TMPDIR"
}
printf 0 >"$dir/beat" || {
    rm -rf -- "$dir"
    die "nothing can be written into $dir: is the disk full?"
}
self=$(began $$)
aside=
command -v setsid >/dev/null 2>&1 && aside=setsid
$aside sh -c 'set -f; eval "$1"; set +f; watch "$2" "$3" "$4"' sh "$1" "$dir" $$ "$self" </dev/null >/dev/null 2>&1 &
watcher=$!
watcher_began=$(began "$watcher")

# Runs a step beside this, so that the end of the input is heard whatever it does.
step() {
    number=$1
    shift
    (
        cd "$dir" || exit 1
        ("$@") >"$dir/said.$number" 2>&1 </dev/null
        code=$?
        # On a full disk what it said could not be kept, and that is the reason.
        [ "$code" -ne 0 ] && [ ! -s "$dir/said.$number" ] &&
            say "said $number it left no word; free space for temporary files, in KiB: $(df -Pk "$dir" | sed -n '2s/^.* \([0-9][0-9]*\)  *[0-9]*% .*$/\1/p')"
        tail -n 12 "$dir/said.$number" | tail -c 3000 | tr -cd '\11\12\40-\176' | sed "s/^/said $number /"
        rm -f "$dir/said.$number"
        say "done $number $code"
    ) &
}

# Servers that are there, the newest of each place first found.
find_servers() {
    set +f
    for bin in "$(dirname "$(command -v postgres 2>/dev/null || echo /nowhere/postgres)")" \
        /usr/lib/postgresql/*/bin /usr/pgsql-*/bin /usr/local/pgsql/bin /usr/local/bin /opt/postgresql*/bin; do
        set -f
        case $bin in *[!A-Za-z0-9/_.+@%=:,~-]*) continue ;; esac
        for program in postgres initdb pg_basebackup pg_ctl; do
            [ -x "$bin/$program" ] || continue 2
        done
        version=$("$bin/postgres" --version | sed -n 's/^postgres (PostgreSQL) \([0-9][0-9.]*\).*/\1/p')
        [ -n "$version" ] && say "server $version $bin"
    done
    return 0
}

init() {
    "$1/initdb" -D "$dir/data" -U "$2" --pwfile="$dir/file.admin" --auth=scram-sha-256 -k -E UTF8 --locale=C &&
        cat "$dir/file.conf" >>"$dir/data/postgresql.conf" &&
        cat "$dir/file.hba" >"$dir/data/pg_hba.conf" &&
        rm -f "$dir/file.admin"
}

copy() {
    PGPASSFILE=$dir/file.pass PGCONNECT_TIMEOUT=10 "$1/pg_basebackup" -D "$dir/data" -h "$2" -p "$3" -U "$4" \
        -X stream -c fast --no-password &&
        cat "$dir/file.conf" >>"$dir/data/postgresql.conf" &&
        printf "primary_conninfo = 'host=%s port=%s user=%s application_name=%s passfile=%s connect_timeout=10'\n" \
            "$2" "$3" "$4" "$5" "$dir/file.pass" >>"$dir/data/postgresql.conf" &&
        cat "$dir/file.hba" >"$dir/data/pg_hba.conf" &&
        : >"$dir/data/standby.signal"
}

start() {
    "$1/pg_ctl" -D "$dir/data" -w -t 60 -l "$dir/log" -o "-p $2" start || {
        tail -n 8 "$dir/log"
        return 1
    }
}

say "ready $dir"
say "kernel $(uname -sr)"
say "free $(df -Pk "$dir" 2>/dev/null | sed -n '2s/^.* \([0-9][0-9]*\)  *[0-9]*% .*$/\1/p')"
say "connection ${SSH_CONNECTION:-}"
while IFS= read -r line; do
    set -- $line
    case $1 in
    beat)
        printf '%s' "$2" >"$dir/beat" || say "error nothing can be written into $dir: is the disk full?"
        [ "$(began "$watcher")" = "$watcher_began" ] || {
            say "error its watcher was ended"
            break
        }
        say "beat $2"
        ;;
    put)
        case $2 in admin | conf | hba | pass) ;; *) die "unknown file name" ;; esac
        while IFS= read -r text && [ "$text" != . ]; do printf '%s\n' "$text"; done >"$dir/file.$2"
        ;;
    find) step "$2" find_servers ;;
    init) step "$2" init "$3" "$4" ;;
    copy) step "$2" copy "$3" "$4" "$5" "$6" "$7" ;;
    start) step "$2" start "$3" "$4" ;;
    stop) step "$2" "$3/pg_ctl" -D "$dir/data" -w -t 60 -m fast stop ;;
    end) break ;;
    *) die "a line was not understood" ;;
    esac
done
set +f
clean "$dir"
# Nothing is left that would have to be watched.
[ "$(began "$watcher")" = "$watcher_began" ] && kill -KILL "$watcher" 2>/dev/null
say gone
