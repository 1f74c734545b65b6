//! Results of every type: no type makes a step fail, in a turn or alone.

use super::{common::rows, Scene};
use crate::worker::{execute, run_step};

#[tokio::test(flavor = "multi_thread")]
async fn values_of_every_type() {
    let scene = Scene::set().await;
    let alice = &scene.alice;
    execute(
        &scene.client,
        &[
            &format!("CREATE TYPE {alice}.mood AS ENUM ('well', 'ill')"),
            &format!("CREATE TYPE {alice}.pair AS (name text, amount numeric)"),
            &format!("CREATE DOMAIN {alice}.price AS numeric(10, 2) CHECK (value >= 0)"),
        ],
    )
    .await;
    let cases = [
        ("1::smallint, 2::int, 3::bigint".to_owned(), "1|2|3"),
        ("true, NULL::boolean".to_owned(), "true|null"),
        ("1.50::numeric, 'NaN'::numeric".to_owned(), r#""1.50"|"NaN""#),
        ("0.5::real, 'NaN'::float8, 'Infinity'::float8".to_owned(), "0.5|null|null"),
        ("'it''s \"q\"'::text, 'ab'::char(3), 'n'::name".to_owned(), r#""it's \"q\""|"ab "|"n""#),
        ("'\\x00ff'::bytea".to_owned(), r#""\\x00ff""#),
        ("ARRAY[1, NULL, 3], ARRAY[1.5::numeric], '{}'::text[]".to_owned(), r#"[1,null,3]|["1.5"]|[]"#),
        ("ARRAY[['a', 'b'], ['c', 'd']]".to_owned(), r#"[["a","b"],["c","d"]]"#),
        ("'2 days 3 hours'::interval, '12:34:56'::time".to_owned(), r#""2 days 03:00:00"|"12:34:56""#),
        ("'10.0.0.1/8'::inet, '[1,5)'::int4range".to_owned(), r#""10.0.0.1/8"|"[1,5)""#),
        ("'well'::{alice}.mood, 1.5::{alice}.price".to_owned(), r#""well"|"1.50""#),
        (
            "ARRAY['well', 'ill']::{alice}.mood[], ARRAY[2]::{alice}.price[]".to_owned(),
            r#"["well","ill"]|["2.00"]"#,
        ),
        ("ROW('x', 1.10)::{alice}.pair".to_owned(), r#"{"name":"x","amount":"1.10"}"#),
        (
            "'{\"b\": 1, \"a\": 1.10}'::json, '{\"b\": 1, \"a\": 2}'::jsonb".to_owned(),
            r#"{"b": 1, "a": 1.10}|{"a": 2, "b": 1}"#,
        ),
        (
            "'2024-02-03'::date, '2024-02-03 04:05:06+00'::timestamptz".to_owned(),
            r#""2024-02-03"|"2024-02-03T04:05:06"#,
        ),
        ("(SELECT relacl FROM pg_class WHERE relname = 'pg_class')".to_owned(), "["),
        (
            "'1/2'::pg_lsn, '(1,2)'::point, '1'::xid, 'pg_class'::regclass".to_owned(),
            r##""1/2"|"(1,2)"|"1"|"pg_class""##,
        ),
        ("pg_sleep(0)".to_owned(), ""),
    ];
    for (values, expected) in cases {
        for slow in ["", ", pg_sleep(0.06)"] {
            // VALUES gives each column a name of its own.
            let step = format!("SELECT v.* FROM (VALUES ({})) v{slow}", values.replace("{alice}", alice));
            let ended = run_step(&scene.client, &step).await;
            assert_eq!(ended.status, "completed", "{step}: {}", ended.output);
            let output = ended.output;
            let at = |part: &str, from: usize| output[from..].find(part).map(|at| from + at);
            let mut from = 0;
            for part in expected.split('|') {
                let Some(found) = at(part, from) else { panic!("{step}: no {part} in {output}") };
                from = found + part.len();
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn shapes_of_results() {
    let scene = Scene::set().await;
    let alice = &scene.alice;
    let cases = [
        ("SELECT 1 AS a WHERE false".to_owned(), r#"{"rows":[],"row_count":0}"#.to_owned()),
        ("SELECT".to_owned(), r#"{"rows":[{}],"row_count":1}"#.to_owned()),
        (
            "SELECT n FROM generate_series(1, 3) n".to_owned(),
            r#"{"rows":[{"n":1},{"n":2},{"n":3}],"row_count":3}"#.to_owned(),
        ),
        ("VALUES (1, 'x')".to_owned(), r#"{"rows":[{"column1":1,"column2":"x"}],"row_count":1}"#.to_owned()),
        (
            format!("INSERT INTO {alice}.ledger VALUES ('a'), ('b')"),
            r#"{"rows":[],"row_count":2}"#.to_owned(),
        ),
        (
            format!("INSERT INTO {alice}.ledger VALUES ('c') RETURNING entry"),
            r#"{"rows":[{"entry":"c"}],"row_count":1}"#.to_owned(),
        ),
        (
            format!(
                "WITH gone AS (DELETE FROM {alice}.ledger RETURNING entry) SELECT count(*) AS n FROM gone"
            ),
            r#"{"rows":[{"n":3}],"row_count":1}"#.to_owned(),
        ),
        ("SHOW bytea_output".to_owned(), r#"{"rows":[{"bytea_output":"hex"}],"row_count":1}"#.to_owned()),
        (
            " /* a comment; */ SELECT 1 AS a; -- the end".to_owned(),
            r#"{"rows":[{"a":1}],"row_count":1}"#.to_owned(),
        ),
        ("SELECT ';' AS a".to_owned(), r#"{"rows":[{"a":";"}],"row_count":1}"#.to_owned()),
        ("DO $$ BEGIN PERFORM 1; END $$".to_owned(), r#"{"rows":[],"row_count":0}"#.to_owned()),
        (format!("CREATE TABLE {alice}.made AS SELECT 1 AS n"), r#"{"rows":[],"row_count":1}"#.to_owned()),
    ];
    for (step, expected) in cases {
        assert_eq!(run_step(&scene.client, &step).await.completed(), expected, "{step}");
    }
    let explained = run_step(&scene.client, "EXPLAIN SELECT 1").await.completed();
    assert!(explained.contains("QUERY PLAN"), "{explained}");
    // Too large a result fails its step, and says so.
    let said = run_step(&scene.client, "SELECT repeat('x', 20000000) AS a").await.failed();
    assert!(said.contains("larger than"), "{said}");
    let left = rows(&scene.owner, "SELECT count(*)::text FROM df._activity").await;
    assert_eq!(left[0][0].as_deref(), Some("0"));
}
