#!/bin/sh
# Runs the files of migrations/ that the database does not have yet, in the order of their numbers. One that ends in .concurrent.sql
# runs outside of a transaction, as CREATE INDEX CONCURRENTLY has to.
set -eu
cd "$(dirname "$0")"
run() { psql --no-psqlrc --quiet --set=ON_ERROR_STOP=1 "$@"; }
run --command 'create table if not exists schema_migrations (version text primary key)'
for file in migrations/*.sql; do
    version=$(basename "$file" | cut -d_ -f1)
    done=$(run --tuples-only --no-align --command "select count(*) from schema_migrations where version = '$version'")
    [ "$done" = 0 ] || continue
    echo "$file"
    case $file in
    *.concurrent.sql) run --file "$file" && run --command "insert into schema_migrations values ('$version')" ;;
    *) run --single-transaction --file "$file" --command "insert into schema_migrations values ('$version')" ;;
    esac
done
