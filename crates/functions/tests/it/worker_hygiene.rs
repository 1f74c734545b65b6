//! F-6: what a step does to its session is gone before the next step, of the same instance, of the next one, and of one
//! that shares its batch. In turns, and in the sessions of slow steps.

use crate::common;
use crate::common::{one, Database};
use crate::worker;
use crate::worker::{ended, execute, literal, run, run_step, start, start_step, TestWorker, SOON};
use tokio_postgres::Client;

struct Scene {
    _worker: TestWorker,
    alice: String,
    client: Client,
    owner: Client,
    _database: Database<'static>,
}

impl Scene {
    async fn set() -> Scene {
        let database = common::database().await;
        let (alice, client, owner) = worker::submitter(&database).await;
        // One connection for slow steps: the second one gets the session of the first.
        let worker = TestWorker::start(&database, 1).await;
        Scene { _worker: worker, alice, client, owner, _database: database }
    }

    /// Steps that leave something behind; after each the probe gives what it gives in a fresh session.
    async fn leaves_nothing(&self, leaves: &[&str], probe: &str) {
        let alice = &self.alice;
        for slow in [false, true] {
            let probe = probe.replace("{alice}", alice);
            let probe = if slow {
                probe.replacen("SELECT ", "SELECT pg_sleep(0.06)::text AS nap, ", 1)
            } else {
                probe
            };
            let fresh = run_step(&self.client, &probe).await;
            for leave in leaves {
                let leave = leave.replace("{alice}", alice);
                let leave = if slow {
                    // Statements that are not queries cannot sleep: a block does it for them.
                    format!("DO $do$ BEGIN PERFORM pg_sleep(0.06); EXECUTE {}; END $do$", literal(&leave))
                } else {
                    leave
                };
                // In the same instance: a step behind it.
                let both = format!("{} ~> {}", literal(&leave), literal(&probe));
                let behind = run(&self.client, &both).await;
                assert_eq!(behind, fresh, "the step behind `{leave}`");
                // In the next instances, of which some get the same session.
                let id = start_step(&self.client, &leave).await;
                ended(&self.client, &id, SOON).await.completed();
                for _ in 0..3 {
                    assert_eq!(run_step(&self.client, &probe).await, fresh, "the instance behind `{leave}`");
                }
            }
            // In one batch: every second instance leaves something, the others look.
            self.client.batch_execute("BEGIN").await.unwrap();
            let mut probes = Vec::new();
            for leave in leaves {
                let leave = leave.replace("{alice}", alice);
                start_step(&self.client, &leave).await;
                probes.push(start_step(&self.client, &probe).await);
            }
            self.client.batch_execute("COMMIT").await.unwrap();
            for id in probes {
                assert_eq!(ended(&self.client, &id, SOON).await, fresh, "beside {leaves:?}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn settings() {
    let scene = Scene::set().await;
    let probe = "SELECT current_setting('work_mem') AS a, current_setting('search_path') AS b,
        current_setting('statement_timeout') IN ('0', '50ms') AS c,
            current_setting('lock_timeout') IN ('0', '10ms') AS d,
        current_setting('client_encoding') AS e, current_setting('standard_conforming_strings') AS f,
        current_setting('TimeZone') AS g, current_setting('DateStyle') AS h, current_setting('df.in_workflow') AS i,
        current_setting('transaction_read_only') AS j, current_setting('transaction_isolation') AS k,
        current_setting('default_transaction_read_only') AS l, coalesce(current_setting('my.own', true), '') AS m,
        current_setting('bytea_output') AS n, current_setting('extra_float_digits') AS o,
        current_setting('application_name') AS p, current_setting('row_security') AS q,
        current_setting('idle_in_transaction_session_timeout') AS r, current_setting('check_function_bodies') AS s";
    scene
        .leaves_nothing(
            &[
                "SET work_mem = '77MB'",
                "SET LOCAL work_mem = '78MB'",
                "SELECT set_config('search_path', 'nowhere', false)",
                "SELECT set_config('search_path', 'nowhere', true)",
                "SET statement_timeout = 1234567",
                "SET lock_timeout = 1234567",
                "SET client_encoding = 'LATIN1'",
                "SET standard_conforming_strings = off",
                "SET TIME ZONE 'Asia/Kathmandu'",
                "SET DateStyle = 'SQL, DMY'",
                "SET df.in_workflow = 'false'",
                "SET TRANSACTION READ ONLY",
                "SELECT set_config('transaction_read_only', 'on', false)",
                "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY",
                "SET default_transaction_read_only = on",
                "SET default_transaction_isolation = 'serializable'",
                "SET my.own = 'mine'",
                "SET bytea_output = 'escape'",
                "SET extra_float_digits = -10",
                "SET application_name = 'me'",
                "SET row_security = off",
                "SET idle_in_transaction_session_timeout = 1",
                "SET check_function_bodies = off",
                "SET constraint_exclusion = on",
            ],
            probe,
        )
        .await;
    // A session that had become read-only would not write any more.
    execute(&scene.client, &[&format!("CREATE TABLE {}.written (n int)", scene.alice)]).await;
    let write = format!("INSERT INTO {}.written VALUES (1)", scene.alice);
    run_step(&scene.client, "SET TRANSACTION READ ONLY").await.completed();
    run_step(&scene.client, &write).await.completed();
    run_step(&scene.client, "SELECT set_config('transaction_read_only', 'on', true), pg_sleep(0.1)")
        .await
        .completed();
    run_step(&scene.client, &format!("{write} RETURNING n, pg_sleep(0.1)")).await.completed();
    let written = one(&scene.owner, &format!("SELECT count(*) FROM {}.written", scene.alice)).await;
    assert_eq!(written.as_deref(), Some("2"));
}

#[tokio::test(flavor = "multi_thread")]
async fn temporary_objects() {
    let scene = Scene::set().await;
    scene
        .leaves_nothing(
            &[
                "CREATE TEMP TABLE IF NOT EXISTS mine (n int)",
                "CREATE TEMP TABLE IF NOT EXISTS mine AS SELECT 1 AS n",
                "CREATE OR REPLACE TEMP VIEW mine AS SELECT 1 AS n",
                "CREATE TEMP SEQUENCE IF NOT EXISTS mine",
                "CREATE OR REPLACE FUNCTION pg_temp.mine() RETURNS int LANGUAGE sql AS 'SELECT 1'",
                "CREATE TEMP TABLE mine (n int) ON COMMIT DROP",
                "CREATE TEMP TABLE mine (n int) ON COMMIT DELETE ROWS",
            ],
            "SELECT to_regclass('pg_temp.mine')::text AS a, to_regclass('mine')::text AS b,
                to_regproc('pg_temp.mine')::text AS c, pg_my_temp_schema() = 0 AS d",
        )
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn advisory_locks() {
    let scene = Scene::set().await;
    scene
        .leaves_nothing(
            &[
                "SELECT pg_advisory_lock(4242)",
                "SELECT pg_advisory_lock_shared(4242)",
                "SELECT pg_advisory_lock(4242) FROM generate_series(1, 5)",
                "SELECT pg_try_advisory_lock(42, 42)",
            ],
            "SELECT count(*) AS n FROM pg_locks
             WHERE locktype = 'advisory' AND (objid = 4242 OR (classid = 42 AND objid = 42)) AND NOT classid = 6579571",
        )
        .await;
    let free = "SELECT pg_try_advisory_lock(4242) AND pg_try_advisory_lock(42, 42)";
    assert_eq!(one(&scene.owner, free).await.as_deref(), Some("t"), "no session of the worker holds them");
}

#[tokio::test(flavor = "multi_thread")]
async fn prepared_statements() {
    let scene = Scene::set().await;
    scene
        .leaves_nothing(
            &[
                "PREPARE mine AS SELECT 1",
                r#"PREPARE "Mine with ""quotes""" (int) AS SELECT $1"#,
                "DO $$ BEGIN EXECUTE 'PREPARE mine AS SELECT 2';
                    EXECUTE 'DEALLOCATE ALL'; EXECUTE 'PREPARE other AS SELECT 3'; END $$",
                "DEALLOCATE ALL",
            ],
            "SELECT string_agg(name, ',') AS names FROM pg_prepared_statements
                WHERE from_sql AND name NOT LIKE 'duramen%'",
        )
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cursors() {
    let scene = Scene::set().await;
    scene
        .leaves_nothing(
            &[
                "DECLARE mine CURSOR WITH HOLD FOR SELECT generate_series(1, 100)",
                "DECLARE mine CURSOR FOR SELECT generate_series(1, 100)",
                "DECLARE mine SCROLL CURSOR WITH HOLD FOR SELECT 1 / (n - n) FROM generate_series(1, 2) n",
                "DO $$ DECLARE c refcursor := 'mine'; BEGIN OPEN c FOR SELECT 1; END $$",
            ],
            "SELECT count(*) AS n FROM pg_cursors WHERE name = 'mine'",
        )
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn listening() {
    let scene = Scene::set().await;
    scene
        .leaves_nothing(
            &["LISTEN mine", "LISTEN df_wake", "DO $$ BEGIN EXECUTE 'LISTEN mine'; END $$", "UNLISTEN *"],
            "SELECT string_agg(c, ',') AS channels FROM pg_listening_channels() c",
        )
        .await;
    // The worker itself still hears: a sleeping one starts what comes at once.
    for _ in 0..3 {
        tokio::time::sleep(std::time::Duration::from_millis(700)).await;
        let began = duramen_base::clock::now();
        run_step(&scene.client, "SELECT 1").await.completed();
        assert!(began.elapsed().as_secs() < 3, "noticed only after {:?}", began.elapsed());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sequences() {
    let scene = Scene::set().await;
    execute(&scene.client, &[&format!("CREATE SEQUENCE {}.numbers", scene.alice)]).await;
    // A session in which nobody has drawn a number has none; the worker's own numbers are not for submitters.
    let none =
        |said: &str| said.contains("not yet defined in this session") || said.contains("permission denied");
    let alice = &scene.alice;
    for slow in ["", ", pg_sleep(0.06)"] {
        for last in ["lastval()".to_owned(), format!("currval('{alice}.numbers')")] {
            let draw = format!("SELECT nextval('{alice}.numbers'){slow}");
            let probe = format!("SELECT {last}{slow}");
            let said =
                run(&scene.client, &format!("{} ~> {}", literal(&draw), literal(&probe))).await.failed();
            assert!(none(&said), "{said}");
            run_step(&scene.client, &draw).await.completed();
            for _ in 0..3 {
                let said = run_step(&scene.client, &probe).await.failed();
                assert!(none(&said), "{said}");
            }
        }
    }
}

/// A step that fails leaves nothing behind either.
#[tokio::test(flavor = "multi_thread")]
async fn a_failed_step_leaves_nothing() {
    let scene = Scene::set().await;
    let probe =
        "SELECT current_setting('work_mem') AS a, (SELECT count(*) FROM pg_cursors WHERE name = 'mine') AS b,
        (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 4343) AS c,
        (SELECT count(*) FROM pg_prepared_statements
            WHERE from_sql AND name = 'mine') AS d, pg_my_temp_schema() = 0 AS e";
    let fresh = run_step(&scene.client, probe).await;
    for nap in ["0", "0.06"] {
        let leave = format!(
            "DO $do$
             BEGIN
                 SET work_mem = '79MB';
                 PERFORM pg_sleep({nap}), pg_advisory_lock(4343);
                 EXECUTE 'PREPARE mine AS SELECT 1';
                 EXECUTE 'DECLARE mine CURSOR WITH HOLD FOR SELECT 1';
                 EXECUTE 'CREATE TEMP TABLE mine (n int)';
                 RAISE EXCEPTION 'no more';
             END $do$"
        );
        let caught = format!("df.catch({}, {})", literal(&leave), literal(probe));
        assert_eq!(run(&scene.client, &caught).await, fresh, "the handler of the failed step");
        assert_eq!(run_step(&scene.client, &leave).await.failed(), "no more");
        for _ in 0..3 {
            assert_eq!(run_step(&scene.client, probe).await, fresh);
        }
    }
}

/// Sessions are made clean, not new: a thousand short steps open a handful of them.
#[tokio::test(flavor = "multi_thread")]
async fn sessions_are_used_again() {
    let scene = Scene::set().await;
    let mut ids = Vec::new();
    for _ in 0..200 {
        ids.push(
            start(&scene.client, "'SELECT pg_backend_pid() AS pid' ~> 'SELECT pg_backend_pid() AS pid'")
                .await,
        );
    }
    let mut sessions = std::collections::BTreeSet::new();
    for id in &ids {
        sessions.insert(ended(&scene.client, id, SOON).await.completed());
    }
    assert!(sessions.len() <= 8, "{} sessions for 400 steps", sessions.len());
}
