# What the guardian of a host, its watcher and whoever clears up after both have in common. POSIX sh; needs /proc.
PATH=$PATH:/usr/bin:/bin
LC_ALL=C
export PATH LC_ALL
umask 077

say() { printf '%s\n' "$*"; }

# When a process began, which tells it from a later one of the same number.
began() {
    [ -r "/proc/$1/stat" ] || return 1
    stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 1
    # After the name, which may hold anything: the state is the 3rd field, the beginning the 22nd.
    set -- ${stat##*)}
    [ $# -ge 20 ] || return 1
    shift 19
    printf '%s' "$1"
}

# The processes that work in a directory (its name has no character that means anything here).
below() {
    ls -ld /proc/[0-9]*/cwd 2>/dev/null |
        sed -n "s|^.* /proc/\([0-9]*\)/cwd -> $1\(/.*\)\{0,1\}\( (deleted)\)\{0,1\}\$|\1|p"
}

each() {
    signal=$1
    shift
    for pid in "$@"; do kill "-$signal" "$pid" 2>/dev/null; done
}

# Whether it is a directory that a guardian has made.
is_ours() {
    case $1 in
    *[!A-Za-z0-9/_.+@%=:,~-]* | */../* | */..) return 1 ;;
    /*/duramen-lab.??????????) [ -d "$1" ] && [ ! -L "$1" ] && [ -O "$1" ] ;;
    *) return 1 ;;
    esac
}

# Ends what works in a directory, and removes it. A server is asked first: one that is killed leaves shared memory.
clean() {
    cd /
    is_ours "$1" || return 0
    servers=
    for file in "$1"/*/postmaster.pid; do
        [ -f "$file" ] || continue
        pid=$(sed -n 1p "$file" 2>/dev/null)
        case $pid in '' | *[!0-9]*) continue ;; esac
        [ "$(readlink "/proc/$pid/cwd")" = "${file%/*}" ] && servers="$servers $pid"
    done
    # What works in the directory itself is a step that was not waited for.
    for pid in $(below "$1"); do
        [ "$(readlink "/proc/$pid/cwd")" = "$1" ] && kill -KILL "$pid" 2>/dev/null
    done
    each CONT $servers
    each INT $servers
    turn=0
    while left=$(below "$1") && [ -n "$left" ] && [ "$turn" -lt 150 ]; do
        turn=$((turn + 1))
        each CONT $left
        [ "$turn" -eq 25 ] && each QUIT $servers
        [ "$turn" -ge 50 ] && each KILL $left
        sleep 0.2 2>/dev/null || sleep 1
    done
    rm -rf -- "$1"
}

# Waits until a guardian is no more, or nobody has spoken to it for long, and clears up after it.
watch() {
    trap '' HUP INT TERM PIPE
    cd /
    last= idle=0
    while sleep 1; do
        [ "$(began "$2")" = "$3" ] || break
        # Removed by its guardian, which has some time to say so, or by somebody else because that hangs.
        [ -d "$1" ] || {
            sleep 5
            break
        }
        beat=$(cat "$1/beat" 2>/dev/null)
        if [ "$beat" = "$last" ]; then
            idle=$((idle + 1))
            [ "$idle" -ge 45 ] && break
        else
            idle=0 last=$beat
        fi
    done
    clean "$1"
    [ "$(began "$2")" = "$3" ] && kill -KILL "$2" 2>/dev/null
    exit 0
}
