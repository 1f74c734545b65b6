//! Statements that would change the role, end the transaction, or lay hands on the executor.

use super::{common::rows, execute, run_step, Scene};
use crate::worker::{ended, run, start_step, SOON};

/// F-5: each of these statements is refused, by words beside it (servers differ), as the failure of its own instance.
#[tokio::test(flavor = "multi_thread")]
async fn a_step_changes_neither_role_nor_transaction() {
    let scene = Scene::set().await;
    let alice = scene.alice.clone();
    let oid = common_oid(&scene).await;
    execute(
        &scene.client,
        &[&format!("CREATE PROCEDURE {alice}.commits() LANGUAGE plpgsql AS $$ BEGIN COMMIT; END $$")],
    )
    .await;
    let definer = "within security-definer function";
    let executor = format!("df_run.r{oid}(text[], double precision, bigint, boolean)");
    let attempts: &[(&str, &str)] = &[
        ("RESET ROLE", definer),
        ("SET ROLE postgres", definer),
        ("SET ROLE NONE", definer),
        ("SET LOCAL ROLE postgres", definer),
        ("SELECT set_config('role', 'postgres', false)", definer),
        ("SELECT set_config('role', 'none', true)", definer),
        ("SET SESSION AUTHORIZATION postgres", definer),
        ("SET SESSION AUTHORIZATION DEFAULT", definer),
        ("RESET SESSION AUTHORIZATION", definer),
        ("SELECT set_config('session_authorization', 'postgres', false)", definer),
        ("DO $$ BEGIN EXECUTE 'RESET ROLE'; END $$", definer),
        ("DO $$ BEGIN RESET SESSION AUTHORIZATION; END $$", definer),
        ("COMMIT", "transaction commands"),
        ("ROLLBACK", "transaction commands"),
        ("BEGIN", "transaction commands"),
        ("END", "transaction commands"),
        ("SAVEPOINT mine", "transaction commands"),
        ("RELEASE describe", "transaction commands"),
        ("ROLLBACK TO SAVEPOINT describe", "transaction commands"),
        ("PREPARE TRANSACTION 'mine'", "transaction commands"),
        ("DO $$ BEGIN COMMIT; END $$", "invalid transaction termination"),
        ("DO $$ BEGIN ROLLBACK; END $$", "invalid transaction termination"),
        (&format!("CALL {alice}.commits()"), "invalid transaction termination"),
        ("DISCARD ALL", "cannot run inside a transaction block"),
        ("SELECT 1; SELECT 2", "one statement"),
        ("INSERT INTO public.secret VALUES ('x'); COMMIT", "one statement"),
        ("SELECT 1; RESET ROLE", "one statement"),
        ("COPY public.secret TO PROGRAM 'cat'", "permission denied|must be superuser"),
        ("COPY public.secret FROM PROGRAM 'echo stolen'", "permission denied|must be superuser"),
        ("SELECT * FROM public.secret", "permission denied"),
        ("SELECT pg_read_file('PG_VERSION')", "permission denied"),
        ("SELECT pg_terminate_backend(pg_backend_pid())", "permission denied|must be"),
        ("SELECT pg_cancel_backend(pg_backend_pid())", "permission denied|must be"),
        ("SET session_replication_role = replica", "permission denied"),
        (&format!("ALTER ROLE {alice} CREATEROLE"), "denied|must be|must have"),
        ("GRANT pg_read_all_data TO CURRENT_USER", "denied|must be|must have"),
        ("ALTER SYSTEM SET work_mem = '5MB'", "permission denied"),
        ("LOAD 'plpgsql'", "is not allowed"),
        (&format!("ALTER FUNCTION {executor} SECURITY INVOKER"), "permission denied for schema df_run"),
        (&format!("ALTER FUNCTION {executor} OWNER TO postgres"), "permission denied for schema df_run"),
        (&format!("DROP FUNCTION {executor}"), "permission denied for schema df_run"),
        (&format!("GRANT EXECUTE ON FUNCTION {executor} TO PUBLIC"), "permission denied for schema df_run"),
        (
            &format!("SELECT * FROM df_run.r{oid}(ARRAY['SELECT 1'], 1, 1, true)"),
            "permission denied for schema df_run",
        ),
        ("CREATE TABLE df_run.mine (x int)", "permission denied for schema df_run"),
        ("DELETE FROM df._worker_epoch", "permission denied"),
        ("UPDATE df._work SET paused = true", "permission denied"),
        ("DELETE FROM df._done", "permission denied"),
        ("SELECT df._claim(5, 0, 0, 1, 1, true)", "permission denied"),
        ("SELECT df._bury(epoch_id) FROM df._worker_epoch", "permission denied"),
        ("SELECT df._set_asleep(true)", "permission denied"),
        ("SELECT setval('df._asleep', 1)", "permission denied"),
        ("LOCK TABLE df._ready IN ACCESS EXCLUSIVE MODE", "permission denied"),
        ("SELECT * FROM df._work FOR UPDATE", "permission denied"),
    ];
    for (attempt, expected) in attempts {
        let said = run_step(&scene.client, attempt).await.failed();
        let refused = expected.split('|').any(|words| said.contains(words));
        assert!(refused, "{attempt}: expected {expected:?} in {said:?}");
    }
    scene.nothing_stolen("all of them").await;
}

/// F-5, F-6: the same, alone: a slow step runs in a session of its own with other rules.
#[tokio::test(flavor = "multi_thread")]
async fn a_slow_step_changes_neither_role_nor_transaction() {
    let scene = Scene::set().await;
    for attempt in ["RESET ROLE", "RESET SESSION AUTHORIZATION", "COMMIT", "ROLLBACK"] {
        let step = format!("DO $$ BEGIN PERFORM pg_sleep(0.2); EXECUTE '{attempt}'; END $$");
        let said = run_step(&scene.client, &step).await.failed();
        let refused = ["within security-definer function", "invalid transaction", "transaction commands"];
        assert!(refused.iter().any(|words| said.contains(words)), "{attempt}: {said}");
    }
    assert!(scene.worker.metric("activities_total") >= 4, "the steps ran outside of turns");
    scene.nothing_stolen("slow steps").await;
}

/// F-5: what a step does after it has caught a refusal, it does as its submitter.
#[tokio::test(flavor = "multi_thread")]
async fn a_caught_refusal_leads_nowhere() {
    let scene = Scene::set().await;
    scene.make_thief().await;
    let alice = &scene.alice;
    let step = format!("SELECT {alice}.steal()");
    run_step(&scene.client, &step).await.completed();
    run_step(&scene.client, &format!("SELECT {alice}.steal(), pg_sleep(0.2)")).await.completed();
    scene.ran_as_herself("in a turn and alone").await;
    scene.nothing_stolen("a caught refusal").await;
}

/// F-5: DROP OWNED and REASSIGN OWNED reach the executor, which belongs to the submitter. It comes back.
#[tokio::test(flavor = "multi_thread")]
async fn an_executor_that_was_dropped_comes_back() {
    let scene = Scene::set().await;
    let oid = common_oid(&scene).await;
    let exists = format!("SELECT count(*) FROM pg_proc WHERE proname = 'r{oid}'");
    run_step(&scene.client, "SELECT 1").await.completed();
    // This one is slow, and runs alone from now on: beside turns, in which an executor is looked for again.
    const SLOW: &str = "SELECT 1, pg_sleep(0.1)";
    run_step(&scene.client, SLOW).await.completed();
    assert_eq!(rows(&scene.owner, &exists).await[0][0].as_deref(), Some("1"), "there is an executor to drop");
    // As a step it may be refused, for the rights that others have given.
    run_step(&scene.client, "DROP OWNED BY CURRENT_USER").await;
    execute(&scene.owner, &[&format!("DROP OWNED BY {} CASCADE", scene.alice)]).await;
    assert_eq!(rows(&scene.owner, &exists).await[0][0].as_deref(), Some("0"), "it is gone");
    // It took the rights on df with it.
    execute(&scene.owner, &[&format!("SELECT df.grant_usage('{}')", scene.alice)]).await;
    run_step(&scene.client, SLOW).await.completed();
    run_step(&scene.client, "SELECT 1").await.completed();
    let heir = scene.database.stranger("heir").await;
    execute(&scene.owner, &[&format!("GRANT {heir} TO {}", scene.alice)]).await;
    run_step(&scene.client, &format!("REASSIGN OWNED BY CURRENT_USER TO {heir}")).await;
    execute(&scene.owner, &[&format!("REASSIGN OWNED BY {} TO {heir}", scene.alice)]).await;
    run_step(&scene.client, SLOW).await.completed();
    run_step(&scene.client, "SELECT 1").await.completed();
    execute(&scene.owner, &[&format!("REVOKE {heir} FROM {}", scene.alice)]).await;
    scene.nothing_stolen("DROP and REASSIGN OWNED").await;
}

/// F-7: instances of one batch of which every second is refused; the others end well, each with its own result.
#[tokio::test(flavor = "multi_thread")]
async fn refusals_do_not_touch_their_neighbours() {
    let scene = Scene::set().await;
    let mut ids = Vec::new();
    scene.client.batch_execute("BEGIN").await.unwrap();
    for number in 0..60 {
        let step = match number % 4 {
            1 => "RESET ROLE".to_owned(),
            3 => "SELECT 1 / 0".to_owned(),
            _ => format!("SELECT {number} AS number"),
        };
        ids.push(start_step(&scene.client, &step).await);
    }
    scene.client.batch_execute("COMMIT").await.unwrap();
    for (number, id) in ids.iter().enumerate() {
        let ended = ended(&scene.client, id, SOON).await;
        match number % 4 {
            1 => assert!(ended.failed().contains("security-definer")),
            3 => assert_eq!(ended.failed(), "division by zero"),
            _ => assert!(ended.completed().contains(&format!(r#""number":{number}"#))),
        }
    }
    let output = run(&scene.client, "'SELECT 1 AS a' ~> 'SELECT 2 AS b'").await.completed();
    assert!(output.contains(r#""b":2"#), "{output}");
}

async fn common_oid(scene: &Scene) -> String {
    let found = rows(&scene.owner, &format!("SELECT '{}'::regrole::oid", scene.alice)).await;
    found[0][0].clone().unwrap()
}
