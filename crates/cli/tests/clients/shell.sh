#!/usr/bin/env bash
# The programs of PostgreSQL itself do real work with nothing but a URL, through the router.
#
# Usage: shell.sh CLIENT postgresql://TOKEN:SECRET@HOST:PORT SOURCE CERTIFICATE
# PG_BIN: where the server's own pg_dump is, which may not be older than the server.
set -euo pipefail
client=$1 base=$2 source=$3 certificate=$4
branch=sh-$client
create="$base/$source@$branch"
secure="$base/$branch?sslmode=verify-full&channel_binding=require&sslrootcert=$certificate"
plain="$base/$branch?sslmode=disable"
export PGCONNECT_TIMEOUT=20
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

check() {
    [ "$2" = "$3" ] || { echo "$client: $1: '$2' instead of '$3'" >&2; exit 1; }
}
ask() { psql -XAtq -v ON_ERROR_STOP=1 "$@"; }

psql_works() {
    check "the source's data" "$(ask "$create" -c 'select sum(x) from t')" 5050
    ask "$plain" -1 -v x=-1 -v y="it's mine" -f - <<<"insert into t values (:x, :'y');"
    check "over TLS" "$(ask "$secure" -c 'select y from t where x = -1')" "it's mine"
    if ask "$base/$branch?sslmode=verify-full&sslrootcert=/dev/null" -c 'select 1' 2>"$folder/said"; then
        check "a certificate that nobody vouches for" accepted refused
    fi
    # What fails leaves nothing of its transaction.
    ask "$secure" -1 -v VERBOSITY=sqlstate -c 'delete from t' -c 'insert into t values (1, null), (1, null)' 2>"$folder/said" || true
    check SQLSTATE "$(cat "$folder/said")" 'ERROR:  23505'
    # Ctrl-C ends the statement, and not the session.
    timeout --foreground --signal=INT 1 psql -XAtq "$secure" -c 'select pg_sleep(50)' 2>"$folder/said" || true
    check Ctrl-C "$(tail -n 1 "$folder/said")" 'ERROR:  canceling statement due to user request'
    printf -- '-2,two\n-3,\n' >"$folder/rows.csv"
    ask "$secure" -c "\\copy t from '$folder/rows.csv' csv"
    check "rows copied out" "$(ask "$plain" -c '\copy (select * from t where x < -1 order by x desc) to stdout csv')" \
        "$(cat "$folder/rows.csv")"
    # Sessions after one another, the second to the same place.
    check "reconnected" "$(ask "$secure" -c 'create temp table mine ()' -c '\c' -c "select to_regclass('mine') is null")" t
}

pg_dump_works() {
    ask "$create" -c "insert into t values (-1, 'dumped')"
    # That one is built without TLS.
    "$PG_BIN/pg_dump" -Fc --no-owner --no-privileges -t t -f "$folder/dump" "$plain"
    # Into another branch, where it stands beside what the source has.
    other="$base/$source@$branch-2?options=-c%20duramen.policy%3Dddl"
    ask "$other" -c 'drop table t'
    "$PG_BIN/pg_restore" --no-owner --exit-on-error -d "$other" "$folder/dump"
    check "rows" "$(ask "$other" -c 'select count(*), min(y) from t where x < 0')" '1|dumped'
    check "all of them" "$(ask "$other" -c 'select count(*) from t')" 101
}

pgbench_works() {
    ddl="$base/$source@$branch?options=-c%20duramen.policy%3Dddl"
    pgbench -i -q -s 1 "$ddl" 2>"$folder/said" || { cat "$folder/said" >&2; exit 1; }
    for protocol in simple extended prepared; do
        pgbench -n -c 4 -j 2 -t 50 -M "$protocol" "$secure" >"$folder/said"
        check "$protocol" "$(grep -c 'processed: 200/200' "$folder/said")" 1
    done
    # A connection for each transaction.
    pgbench -n -C -S -c 2 -t 20 "$secure" >"$folder/said"
    check "connections" "$(grep -c 'processed: 40/40' "$folder/said")" 1
    check "the books" "$(ask "$secure" -c 'select (select sum(abalance) from pgbench_accounts) = (select sum(delta) from pgbench_history),
        count(*) from pgbench_history')" 't|600'
}

"${client}_works"
echo "$client: ok"
