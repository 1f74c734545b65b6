use super::refuses_transactions;

#[test]
fn statements_that_refuse_a_transaction() {
    for text in [
        "VACUUM",
        "vacuum;",
        "  \n\tVacuum FULL t",
        "-- a comment\nVACUUM t",
        "/* one /* in */ another */ VACUUM",
        "/* a */--b\n/* c */vacuum(analyze) t",
        "CREATE DATABASE x",
        "create/**/database x",
        "DROP DATABASE IF EXISTS x",
        "CREATE TABLESPACE s LOCATION '/x'",
        "DROP TABLESPACE s",
        "CREATE SUBSCRIPTION s CONNECTION '' PUBLICATION p",
        "DROP SUBSCRIPTION s",
        "ALTER SYSTEM SET work_mem = '1MB'",
        "ALTER DATABASE d SET TABLESPACE s",
        "ALTER DATABASE \"set \"\" it\" SET TABLESPACE s",
        "CREATE INDEX CONCURRENTLY ON t (a)",
        "CREATE UNIQUE INDEX concurrently IF NOT EXISTS i ON t (a)",
        "DROP INDEX CONCURRENTLY i",
        "REINDEX TABLE CONCURRENTLY t",
        "REINDEX INDEX -- quietly\n CONCURRENTLY i",
        "REINDEX (VERBOSE, CONCURRENTLY) TABLE t",
        "REINDEX (CONCURRENTLY true, VERBOSE) TABLE t",
        "REINDEX DATABASE d",
        "REINDEX (VERBOSE) SCHEMA s",
        "REINDEX SYSTEM d",
        "CLUSTER",
        "CLUSTER;",
        "CLUSTER VERBOSE",
        "CLUSTER (VERBOSE) -- all",
    ] {
        assert!(refuses_transactions(text), "{text}");
    }
}

#[test]
fn statements_that_run_in_one() {
    for text in [
        "",
        " ",
        "-- VACUUM",
        "/* VACUUM",
        "SELECT 'VACUUM'",
        "SELECT 1 -- VACUUM",
        "\"vacuum\"",
        "vacuumed",
        "ANALYZE t",
        "CREATE INDEX ON t (a)",
        "CREATE INDEX \"concurrently\" ON t (a)",
        "CREATE UNIQUE INDEX i ON t (a)",
        "CREATE TABLE database (a int)",
        "CREATE TEMP TABLE tablespace (a int)",
        "CREATE unique",
        "DROP INDEX i",
        "DROP TABLE database",
        "ALTER DATABASE d SET work_mem = '1MB'",
        "ALTER DATABASE d OWNER TO o",
        "ALTER TABLE t SET TABLESPACE s",
        "ALTER TABLE t DETACH PARTITION p",
        "ALTER TABLE t DETACH PARTITION p CONCURRENTLY",
        "ALTER TABLE IF EXISTS s.t DETACH PARTITION \"p q\" CONCURRENTLY;",
        "ALTER TABLE t RENAME detach TO concurrently",
        "ALTER TABLE t ADD COLUMN concurrently int",
        "REINDEX TABLE t",
        "REINDEX (VERBOSE) TABLE t",
        "REINDEX (CONCURRENTLY false) TABLE t",
        "REINDEX (",
        "REFRESH MATERIALIZED VIEW CONCURRENTLY v",
        "CLUSTER t",
        "CLUSTER t USING i",
        "CLUSTER VERBOSE t",
        "CLUSTER (VERBOSE) t",
        "ALTER",
        "\u{e9}\u{e9}",
        "'unclosed",
        "\"unclosed",
    ] {
        assert!(!refuses_transactions(text), "{text}");
    }
}
