//! Statements that refuse transactions, and HTTP.

use super::{common::one, Scene};
use crate::worker::{ended, execute, run, run_step, start_step, TestWorker, SOON};

#[tokio::test(flavor = "multi_thread")]
async fn statements_that_refuse_transactions() {
    let scene = Scene::set().await;
    let alice = &scene.alice;
    execute(&scene.client, &[&format!("CREATE TABLE {alice}.things AS SELECT generate_series(1, 100) AS n")])
        .await;
    for step in [
        format!("VACUUM (ANALYZE) {alice}.things"),
        format!("CREATE INDEX CONCURRENTLY things_n ON {alice}.things (n)"),
        format!("CREATE UNIQUE INDEX CONCURRENTLY things_u ON {alice}.things (n) WHERE n > 10"),
        format!("REINDEX INDEX CONCURRENTLY {alice}.things_n"),
        format!("REINDEX TABLE CONCURRENTLY {alice}.things"),
        format!("DROP INDEX CONCURRENTLY {alice}.things_n"),
        format!("-- with a comment before it\n  vacuum {alice}.things;"),
    ] {
        run_step(&scene.client, &step).await.completed();
    }
    let indexes = format!("SELECT string_agg(indexname, ' ') FROM pg_indexes WHERE schemaname = '{alice}'");
    assert_eq!(one(&scene.owner, &indexes).await.as_deref(), Some("things_u"));
    let vacuumed = format!(
        "SELECT count(*) FROM pg_stat_user_tables WHERE relname = 'things'
        AND vacuum_count >= 2 AND schemaname = '{alice}'"
    );
    crate::worker::eventually(&scene.owner, &vacuumed, "1", SOON).await;
    // They have the submitter's rights.
    execute(&scene.owner, &["CREATE TABLE public.foreign_things (n int)"]).await;
    let said =
        run_step(&scene.client, "CREATE INDEX CONCURRENTLY ON public.foreign_things (n)").await.failed();
    assert!(said.contains("must be owner"), "{said}");
    for denied in ["CREATE DATABASE mine", "DROP DATABASE postgres", "ALTER SYSTEM SET work_mem = 100"] {
        let said = run_step(&scene.client, denied).await.failed();
        assert!(said.contains("denied") || said.contains("must be"), "{denied}: {said}");
    }
    // The failure is a step's like any other.
    let caught = run(&scene.client, "df.catch('VACUUM nowhere', 'SELECT $error.sqlstate AS code')").await;
    assert!(caught.completed().contains("42P01"));
}

#[tokio::test(flavor = "multi_thread")]
async fn http_is_off_until_somebody_switches_it_on() {
    let scene = Scene::set().await;
    let bob = scene.database.stranger("bob").await;
    execute(&scene.owner, &[&format!("SELECT df.grant_usage('{bob}', include_http => true)")]).await;
    let bobs = scene.database.connect(&bob).await;
    let call = "df.http('http://127.0.0.1:9/', 'GET')";
    let said = run(&bobs, call).await.failed();
    assert!(said.contains("disabled"), "{said}");
    // Whoever starts it does not decide.
    execute(
        &bobs,
        &["SET df.http = 'on'", "SET df.http_allowed_hosts = '*'", "SET df.http_allow_private = 'on'"],
    )
    .await;
    let said = run(&bobs, call).await.failed();
    assert!(said.contains("disabled"), "{said}");
    execute(&scene.owner, &[&format!("ALTER ROLE {bob} SET df.http = 'on'")]).await;
    let said = run(&scene.database.connect(&bob).await, call).await.failed();
    assert!(said.contains("disabled"), "{said}");
    // The database's owner does; and then no private address is reached.
    let name = scene.database.name();
    execute(
        &scene.owner,
        &[
            &format!("ALTER DATABASE {name} SET df.http = 'on'"),
            &format!("ALTER DATABASE {name} SET df.http_allowed_hosts = '*'"),
        ],
    )
    .await;
    let database = scene.database;
    scene.worker.kill();
    let _worker = TestWorker::start(&database, 2).await;
    let said = run(&bobs, "df.http('http://127.0.0.1:9/', 'GET')").await.failed();
    assert!(!said.contains("disabled"), "{said}");
    assert!(!said.contains("refused (os error"), "nothing was connected to: {said}");
    // The right may have gone since the start.
    let id = crate::worker::start(&bobs, "df.sleep(1) ~> df.http('http://localhost:9/', 'GET')").await;
    execute(
        &scene.owner,
        &[&format!("REVOKE EXECUTE ON FUNCTION df.http(text, text, text, jsonb, int) FROM {bob}")],
    )
    .await;
    let said = ended(&bobs, &id, SOON).await.failed();
    assert!(said.contains("does not have EXECUTE privilege"), "{said}");
    // An instance that was made by hand needs the right as well.
    let by_hand = r#"INSERT INTO df._ready (graph)
        VALUES ('[{"type":"HTTP","query":"{\"url\":\"http://localhost:9/\",\"method\":\"GET\",\"timeout_seconds\":5}"}]')
        RETURNING df._id(seq)"#;
    let id = one(&scene.client, by_hand).await.unwrap();
    let said = ended(&scene.client, &id, SOON).await.failed();
    assert!(said.contains("does not have EXECUTE privilege"), "{said}");
    let id = start_step(&scene.client, "SELECT 1").await;
    ended(&scene.client, &id, SOON).await.completed();
}
