//! What it costs to look at one instance among many, and that no session of ours compiles what it asks.

use crate::common::{self, one, rows, take};
use crate::worker::{execute, run_step, submitter, TestWorker};
use duramen_functions::client::Client;
use duramen_functions::schema::SCHEMA_VERSION;

/// The plan of a query, as text.
async fn plan(client: &tokio_postgres::Client, query: &str) -> String {
    let lines = rows(client, &format!("EXPLAIN ANALYZE {query}")).await;
    lines.into_iter().map(|line| format!("{}\n", line[0].as_deref().unwrap_or_default())).collect()
}

/// Who follows one instance would pay for all that there are.
#[tokio::test(flavor = "multi_thread")]
async fn an_instance_is_found_by_its_id_without_scanning_the_others() {
    let database = common::database().await;
    let (alice, client, owner) = submitter(&database).await;
    let started = "SELECT count(df.start('SELECT ' || n)) FROM generate_series(1, 10000) n";
    assert_eq!(one(&client, started).await.as_deref(), Some("10000"));
    execute(
        &owner,
        &[
            &take("seq > 0"),
            "INSERT INTO df._done (seq, submitted_by, status, started_at, output)
             SELECT seq, submitted_by, 'c', now(), '{}' FROM df._instance WHERE seq % 2 = 0",
            "INSERT INTO df._work (seq, submitted_by, started_at, updated_at, state)
             SELECT seq, submitted_by, now(), now(), '{\"cells\":{}}' FROM df._instance WHERE seq % 2 = 1",
            "ANALYZE df._ready, df._instance, df._done, df._work",
            &format!("ALTER DATABASE {} SET jit = on", database.name()),
        ],
    )
    .await;
    let id = one(&owner, "SELECT max(id) FROM df._instance").await.expect("an instance");
    let (submitter, owner) = (database.connect(&alice).await, database.owner().await);
    for client in [&submitter, &owner] {
        for query in [
            format!("SELECT * FROM df.instances WHERE id = '{id}'"),
            format!("SELECT * FROM df.nodes WHERE instance_id = '{id}'"),
        ] {
            let plan = plan(client, &query).await;
            // What waits for a worker has the one index that claims need, and is looked through: here it is empty.
            for large in ["_instance_0", "_done_0", "_work"] {
                assert!(!plan.contains(&format!("Seq Scan on {large} ")), "{query} scans {large}:\n{plan}");
            }
            assert!(!plan.contains("JIT:"), "{query} is compiled:\n{plan}");
            assert_eq!(rows(client, &query).await.len(), 1, "{query}");
        }
    }
}

/// Where the server compiles what looks expensive, as packages deliver it, that took seconds.
#[tokio::test(flavor = "multi_thread")]
async fn no_session_of_ours_compiles_queries() {
    let database = common::database().await;
    let (_, client, owner) = submitter(&database).await;
    execute(&owner, &[&format!("ALTER DATABASE {} SET jit = on", database.name())]).await;
    let ours = Client::connect(&database.url()).await.expect("a client");
    assert_eq!(one(ours.raw(), "SHOW jit").await.as_deref(), Some("off"), "the client library");
    let _worker = TestWorker::start(&database, 2).await;
    for step in ["SELECT current_setting('jit')", "SELECT current_setting('jit') FROM pg_sleep(0.2)"] {
        let result = run_step(&client, step).await.completed();
        assert!(result.contains(r#""current_setting":"off""#), "the worker, {step}: {result}");
    }
}

/// How many pages a statement has read.
async fn pages(client: &tokio_postgres::Client, query: &str) -> u64 {
    let explain = format!("EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF) {query}");
    let lines = rows(client, &explain).await;
    let of = |word: &str| {
        let line =
            lines.iter().filter_map(|line| line[0].as_deref()).find(|line| line.contains("Buffers: shared"));
        let mut words = line.into_iter().flat_map(|line| line.split_whitespace());
        words.find_map(|found| found.strip_prefix(word)?.parse::<u64>().ok()).unwrap_or(0)
    };
    of("hit=") + of("read=")
}

/// With a snapshot held open somewhere, what has run stays in the tables: looks would take longer and longer.
#[tokio::test(flavor = "multi_thread")]
async fn a_look_does_not_go_over_the_dead_rows_of_what_has_run() {
    let database = common::database().await;
    let (alice, _, owner) = submitter(&database).await;
    let holder = database.owner().await;
    execute(&holder, &["BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class"]).await;
    execute(
        &owner,
        &[
            &format!(
                "INSERT INTO df._work (seq, submitted_by, started_at, updated_at, due_at, state)
                 SELECT n, '{alice}'::regrole, now(), now(), now() + interval '1 hour', '{{}}' FROM generate_series(1, 5000) n"
            ),
            "DELETE FROM df._work",
            // Somebody has written to an instance that is over.
            &format!("INSERT INTO df._inbox (seq, submitted_by, kind) VALUES (7000, '{alice}'::regrole, 'signal')"),
        ],
    )
    .await;
    let role = format!("'{alice}'::regrole::oid");
    let claim = format!("df._claim({SCHEMA_VERSION}, {role}, 1, 100, 1000000, true)");
    let waiting = format!("df._waiting(ARRAY[{role}], '{{1}}')");
    let heartbeat = "df._heartbeat(gen_random_uuid(), '1 hour', '{}', '{}')".to_owned();
    for look in [waiting, claim, heartbeat] {
        // The first time the catalogs are read as well.
        pages(&owner, &format!("SELECT * FROM {look}")).await;
        let read = pages(&owner, &format!("SELECT * FROM {look}")).await;
        assert!((1..1000).contains(&read), "{look} reads {read} pages");
    }
}
