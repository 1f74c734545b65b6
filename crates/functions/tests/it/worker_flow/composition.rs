//! Names, branches, loops, children, maps, retries, handlers and time limits.

use super::{common::one, Scene};
use crate::worker::{ended, execute, run, start, SOON};
use duramen_base::clock;
use std::time::Duration;

#[tokio::test(flavor = "multi_thread")]
async fn steps_use_the_results_of_others() {
    let scene = Scene::set().await;
    let output =
        run(&scene.client, "('SELECT 6 AS b, 7 AS a' |=> 'x') ~> 'SELECT $x * $x.a AS product'").await;
    assert_eq!(output.completed(), r#"{"rows":[{"product":42}],"row_count":1}"#);
    let output = run(
        &scene.client,
        r#"'SELECT $input.name AS name, $input.n + 1 AS n', input => '{"name": "it''s", "n": 41}'"#,
    )
    .await;
    assert_eq!(output.completed(), r#"{"rows":[{"name":"it's","n":42}],"row_count":1}"#);
}

#[tokio::test(flavor = "multi_thread")]
async fn joins_races_and_choices() {
    let scene = Scene::set().await;
    let joined = run(
        &scene.client,
        "df.join_all(ARRAY['SELECT 1 AS n', 'SELECT 2 AS n', 'SELECT pg_sleep(0.1)::text AS n'])",
    );
    let joined = joined.await.completed();
    assert!(
        joined.starts_with('[') && joined.contains(r#""n":1"#) && joined.contains(r#""n":2"#),
        "{joined}"
    );
    let began = clock::now();
    let winner =
        run(&scene.client, "df.race_all(ARRAY['SELECT pg_sleep(60)', 'SELECT 2 AS n', df.sleep(60)])").await;
    assert_eq!(winner.completed(), r#"{"rows":[{"n":2}],"row_count":1}"#);
    assert!(began.elapsed() < Duration::from_secs(10), "the losers are not waited for");
    let chosen = run(
        &scene.client,
        "df.if('SELECT count(*) > 0 FROM pg_class', 'SELECT ''yes'' AS a', 'SELECT ''no'' AS a')",
    );
    assert!(chosen.await.completed().contains("yes"));
    let broken = run(&scene.client, "'SELECT 1 / 0' & 'SELECT 1'").await;
    assert_eq!(broken.failed(), "division by zero");
    // What the losers of a race were doing on the server ends.
    let active =
        "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%duramen_step%'
        AND datname = current_database() AND pid <> pg_backend_pid()";
    crate::worker::eventually(&scene.owner, active, "0", Duration::from_secs(10)).await;
}

/// A child is an instance of its own. It has its parent's results, and its result is its parent's, columns in their
/// order.
#[tokio::test(flavor = "multi_thread")]
async fn children() {
    let scene = Scene::set().await;
    let child =
        "df.call('SELECT 1 AS zebra, 2 AS apple, 12345678901234567890.10::numeric AS exact', 'the child')";
    let output = run(&scene.client, child).await.completed();
    let expected = r#"{"rows":[{"zebra":1,"apple":2,"exact":"12345678901234567890.10"}],"row_count":1}"#;
    assert_eq!(output, expected, "columns keep their order, and numbers their digits");
    let output =
        run(&scene.client, &format!("({child} |=> 'x') ~> 'SELECT $x AS first, $x.apple AS second'")).await;
    assert_eq!(output.completed(), r#"{"rows":[{"first":1,"second":2}],"row_count":1}"#);
    let inherited = "('SELECT 5 AS five' |=> 'x') ~> df.call('SELECT $x + 1 AS six')";
    assert_eq!(run(&scene.client, inherited).await.completed(), r#"{"rows":[{"six":6}],"row_count":1}"#);
    assert_eq!(run(&scene.client, "df.call('SELECT 1 / 0')").await.failed(), "division by zero");
    let caught =
        run(&scene.client, "df.catch(df.call('SELECT 1 / 0'), 'SELECT $error.sqlstate AS code')").await;
    assert_eq!(caught.completed(), r#"{"rows":[{"code":"22012"}],"row_count":1}"#);
    let children = "SELECT count(*) FROM df._instance WHERE parent IS NOT NULL AND label = 'the child'";
    assert_eq!(one(&scene.owner, children).await.as_deref(), Some("2"));
    // One that is not awaited: the parent ends with its id, and it runs on.
    let slow = scene.enter("slow child");
    let output =
        run(&scene.client, &format!("df.call('SELECT pg_sleep(1)' ~> '{slow}', await => false)")).await;
    let id: String = output.completed().chars().filter(char::is_ascii_hexdigit).collect();
    let id = &id[id.len() - 8..];
    assert_eq!(scene.ledger().await, "", "the parent has not waited");
    ended(&scene.client, id, SOON).await.completed();
    assert_eq!(scene.ledger().await, "slow child");
}

/// A map runs its body for each row, so many at once and no more, and gives the results in the order of the rows.
#[tokio::test(flavor = "multi_thread")]
async fn maps() {
    let scene = Scene::set().await;
    let alice = &scene.alice;
    let body = format!(
        "WITH nap AS MATERIALIZED (SELECT pg_sleep(0.06))
         INSERT INTO {alice}.ledger SELECT 'item ' || $item FROM nap RETURNING entry"
    );
    let map = format!("df.map('SELECT n FROM generate_series(1, 12) n', $${body}$$, 'item', 3)");
    let output = run(&scene.client, &map).await.completed();
    let places: Vec<usize> = (1..=12).map(|n| output.find(&format!("\"item {n}\"")).unwrap()).collect();
    assert!(places.is_sorted(), "{output}");
    assert_eq!(scene.ledger().await.matches("item").count(), 12, "each once");
    let calls = "df.map('SELECT n AS number, n * n AS square FROM generate_series(1, 3) n',
        df.call('SELECT $item.square AS s'))";
    let output = run(&scene.client, calls).await.completed();
    let places: Vec<usize> = [1, 4, 9].iter().map(|n| output.find(&format!("\"s\":{n}")).unwrap()).collect();
    assert!(places.is_sorted(), "{output}");
    assert_eq!(run(&scene.client, "df.map('SELECT 1 WHERE false', 'SELECT 1 / 0')").await.completed(), "[]");
    let failed =
        run(&scene.client, "df.map('SELECT n FROM generate_series(1, 5) n', 'SELECT 1 / ($item - 3)')").await;
    assert_eq!(failed.failed(), "division by zero");
}

/// A retry tries again with growing pauses, and the effects of failed attempts are undone.
#[tokio::test(flavor = "multi_thread")]
async fn retries() {
    let scene = Scene::set().await;
    let alice = &scene.alice;
    execute(&scene.client, &[&format!("CREATE SEQUENCE {alice}.attempts")]).await;
    let step = format!(
        "WITH attempt AS (SELECT nextval('{alice}.attempts') AS n),
              entry AS (INSERT INTO {alice}.ledger SELECT 'attempt ' || n FROM attempt RETURNING 1)
         SELECT n / (CASE WHEN n < 3 THEN 0 ELSE 1 END) AS n FROM attempt, entry"
    );
    let began = clock::now();
    let retry = format!("df.retry($${step}$$, max_attempts => 5, initial_backoff_s => 0.4, jitter => 0)");
    let output = run(&scene.client, &retry).await.completed();
    assert_eq!(output, r#"{"rows":[{"n":3}],"row_count":1}"#);
    assert_eq!(scene.ledger().await, "attempt 3", "failed attempts have no effect");
    let took = began.elapsed();
    assert!(took >= Duration::from_millis(1200), "0.4 s and 0.8 s of pauses took {took:?}");
    assert!(took < Duration::from_secs(4), "0.4 s and 0.8 s of pauses took {took:?}");
    let failed =
        run(&scene.client, "df.retry('SELECT 1 / 0', max_attempts => 2, initial_backoff_s => 0.1)").await;
    assert!(failed.failed().contains("division by zero"));
}

#[tokio::test(flavor = "multi_thread")]
async fn handlers() {
    let scene = Scene::set().await;
    let handler = "'SELECT $error.message AS message, $error.sqlstate AS code'";
    let caught = run(&scene.client, &format!("df.catch('SELECT 1 / 0', {handler})")).await.completed();
    assert_eq!(caught, r#"{"rows":[{"message":"division by zero","code":"22012"}],"row_count":1}"#);
    // Slow ones and those that the server refuses to parse are no different.
    for (step, code) in [
        ("SELECT 1 / 0 FROM pg_sleep(0.1)", "22012"),
        ("SELEC 1", "42601"),
        ("SELECT * FROM nowhere", "42P01"),
    ] {
        let caught = run(&scene.client, &format!("df.catch('{step}', {handler})")).await.completed();
        assert!(caught.contains(code), "{step}: {caught}");
    }
    let undone =
        format!("df.catch('{}' ~> 'SELECT 1 / 0', '{}')", scene.enter("kept"), scene.enter("handler"));
    run(&scene.client, &undone).await.completed();
    assert_eq!(scene.ledger().await, "handler kept", "steps that completed stay");
}

/// A time limit fails its step, and ends what runs on the server.
#[tokio::test(flavor = "multi_thread")]
async fn time_limits() {
    let scene = Scene::set().await;
    let alice = &scene.alice;
    let slow = format!(
        "WITH nap AS MATERIALIZED (SELECT pg_sleep(20)) INSERT INTO {alice}.ledger SELECT 'late' FROM nap"
    );
    let began = clock::now();
    let said = run(&scene.client, &format!("df.timeout($${slow}$$, 0.8)")).await.failed();
    assert!(began.elapsed() < Duration::from_secs(6), "it took {:?}", began.elapsed());
    assert!(!said.contains("user request"), "it says that the time was over: {said}");
    let active =
        "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%duramen_step%'
        AND datname = current_database() AND pid <> pg_backend_pid()";
    crate::worker::eventually(&scene.owner, active, "0", Duration::from_secs(6)).await;
    assert_eq!(scene.ledger().await, "");
    assert_eq!(
        run(&scene.client, "df.timeout('SELECT 1 AS n', 30)").await.completed(),
        r#"{"rows":[{"n":1}],"row_count":1}"#
    );
    let caught =
        run(&scene.client, "df.catch(df.timeout(df.wait_for_signal('never'), 0.5), 'SELECT ''over'' AS a')")
            .await;
    assert!(caught.completed().contains("over"));
}

/// Loops: an iteration a second at the most, with its own history; and a break through what lies between.
#[tokio::test(flavor = "multi_thread")]
async fn loops() {
    let scene = Scene::set().await;
    let body = format!(
        "'{}' ~> df.if('SELECT count(*) >= 3 FROM {}.ledger', df.break('done'), 'SELECT 1')",
        scene.enter("turn"),
        scene.alice
    );
    let id = start(&scene.client, &format!("df.loop({body})")).await;
    assert_eq!(ended(&scene.client, &id, SOON).await.completed(), r#""done""#);
    assert_eq!(scene.ledger().await, "turn turn turn");
    let executions =
        one(&scene.client, &format!("SELECT count(*) FROM df.instance_executions('{id}', 100)")).await;
    assert_eq!(executions.as_deref(), Some("3"));
}
