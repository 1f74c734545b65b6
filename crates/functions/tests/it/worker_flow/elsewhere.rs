//! Steps in another database of the server.

use super::{
    common::{one, OWNER},
    Scene,
};
use crate::worker::{ended, eventually, execute, run, start, SOON};
use duramen_base::clock;
use std::time::Duration;
use tokio_postgres::Client;

/// Another database, in which the submitter has a schema and a ledger.
async fn other_database(scene: &Scene) -> (String, Client) {
    let name = scene.database.server().empty_database().await;
    let there = scene.database.server().connect(OWNER, &name).await;
    let alice = &scene.alice;
    execute(
        &there,
        &[
            &format!("CREATE SCHEMA {alice} AUTHORIZATION {alice}"),
            &format!("CREATE TABLE {alice}.ledger (entry text)"),
            &format!("ALTER TABLE {alice}.ledger OWNER TO {alice}"),
        ],
    )
    .await;
    (name, there)
}

#[tokio::test(flavor = "multi_thread")]
async fn steps_run_where_they_are_told_to() {
    let scene = Scene::set().await;
    let (name, there) = other_database(&scene).await;
    let alice = &scene.alice;
    let expression = format!(
        "('SELECT current_database()::text AS place, current_user::text AS me, 1.50::numeric AS n' |=> 'x')
         ~> '{}' ~> 'SELECT $x.place AS place, $x.me AS me, $x.n AS n', database => '{name}'",
        scene.enter("there")
    );
    let output = run(&scene.client, &expression).await.completed();
    assert_eq!(
        output,
        format!(r#"{{"rows":[{{"place":"{name}","me":"{alice}","n":"1.50"}}],"row_count":1}}"#)
    );
    assert_eq!(scene.ledger().await, "", "nothing here");
    let entries = one(&there, &format!("SELECT string_agg(entry, ' ') FROM {alice}.ledger")).await;
    assert_eq!(entries.as_deref(), Some("there"));
    // Marks that have served go.
    eventually(&there, "SELECT count(*) FROM df_run.marker", "0", SOON).await;
    // Failures, and what a step leaves in its session.
    let said = run(&scene.client, &format!("'SELECT 1 / 0', database => '{name}'")).await.failed();
    assert_eq!(said, "division by zero");
    let said = run(&scene.client, &format!("'RESET ROLE', database => '{name}'")).await.failed();
    assert!(said.contains("security-definer"), "{said}");
    let said = run(&scene.client, &format!("'COMMIT', database => '{name}'")).await.failed();
    assert!(said.contains("transaction"), "{said}");
    let vacuum = format!("'VACUUM {alice}.ledger', database => '{name}'");
    run(&scene.client, &vacuum).await.completed();
    let deferred = format!("CREATE TABLE {alice}.single (n int UNIQUE DEFERRABLE INITIALLY DEFERRED)");
    execute(&there, &[&deferred, &format!("ALTER TABLE {alice}.single OWNER TO {alice}")]).await;
    let twice = format!("'INSERT INTO {alice}.single VALUES (1), (1)', database => '{name}'");
    assert!(run(&scene.client, &twice).await.failed().contains("violates unique constraint"));
}

/// As many at once as there are connections: one that is slow does not hold up the others.
#[tokio::test(flavor = "multi_thread")]
async fn steps_in_another_database_run_side_by_side() {
    let scene = Scene::set().await;
    let (name, there) = other_database(&scene).await;
    run(&scene.client, &format!("'SELECT 1', database => '{name}'")).await.completed();
    let mut slow = Vec::new();
    for _ in 0..3 {
        slow.push(start(&scene.client, &format!("'SELECT pg_sleep(3)', database => '{name}'")).await);
    }
    let active =
        "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%duramen_step%'
        AND wait_event = 'PgSleep' AND datname = current_database()";
    eventually(&there, active, "3", Duration::from_millis(2500)).await;
    let began = clock::now();
    run(&scene.client, &format!("'SELECT 1', database => '{name}'")).await.completed();
    assert!(began.elapsed() < Duration::from_millis(1500), "a short one took {:?}", began.elapsed());
    for id in &slow {
        ended(&scene.client, id, SOON).await.completed();
    }
}

/// What steps need there is made once, also for those that come at the same time, and so is its next version.
#[tokio::test(flavor = "multi_thread")]
async fn steps_that_meet_in_a_database_all_run() {
    let scene = Scene::set().await;
    let (name, there) = other_database(&scene).await;
    for _ in 0..3 {
        let mut ids = Vec::new();
        for _ in 0..4 {
            ids.push(start(&scene.client, &format!("'SELECT 1', database => '{name}'")).await);
        }
        for id in &ids {
            ended(&scene.client, id, SOON).await.completed();
        }
        // As an earlier version left it.
        let older = "DO $$ BEGIN EXECUTE format('COMMENT ON SCHEMA df_run IS %L', regexp_replace(
            obj_description('df_run'::regnamespace, 'pg_namespace'), 'version [0-9]+:', 'version 1:')); END $$";
        execute(&there, &[older]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_goes_away_fails_the_step() {
    let scene = Scene::set().await;
    let (name, there) = other_database(&scene).await;
    drop(there);
    let id = start(&scene.client, &format!("df.sleep(1) ~> 'SELECT 1', database => '{name}'")).await;
    let drop_it = format!("DROP DATABASE {name} WITH (FORCE)");
    execute(&scene.owner, &[&drop_it]).await;
    let said = ended(&scene.client, &id, Duration::from_secs(60)).await.failed();
    assert!(said.contains(&name), "{said}");
    run(&scene.client, "'SELECT 1'").await.completed();
}
