//! What an earlier version of the schema has left in a database: `install` brings it up to date in place, and the
//! instances in flight go on. One dump of every version that was ever released is kept and tried for ever.
//!
//! The dump of a version is written once, before its release, by running this test with `DURAMEN_WRITE_DUMP=1`, and with
//! `DURAMEN_TEST_PG=15`: older servers cannot read what newer ones write.

use crate::common::{one, refusal, rows, Server, OWNER};
use crate::worker::{ended, eventually, execute, start, TestWorker, SOON};
use duramen_functions::schema::{self, External, SCHEMA_VERSION};
use std::{fs, path::PathBuf, process::Command, time::Duration};
use tokio_postgres::Client;

/// The submitter in every dump.
pub(crate) const ROLE: &str = "df_fixture";
/// Notes that the steps of an instance have been there.
const LEDGER: &str = "CREATE TABLE df_fixture.ledger (entry text)";

fn dump_of(version: i32) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fixtures/schema_{version}.sql"))
}

fn enter(entry: &str) -> String {
    format!("'INSERT INTO df_fixture.ledger VALUES (''{entry}'')'")
}

/// Each way of an instance to be in flight, with the entries that it makes in all its life.
const ENTRIES: &[&str] = &[
    "child",
    "joined",
    "looped",
    "looped",
    "looped",
    "looped",
    "map 1",
    "map 2",
    "parent",
    "paused 1",
    "paused 2",
    "pending",
    "signal 1",
    "signal 2",
    "signalled 1",
    "signalled 2",
    "slow",
    "timer 1",
    "timer 2",
];

/// A server with a database as this version of the schema left it.
pub(crate) async fn left_by(version: i32) -> (Server, String) {
    let dump = fs::read_to_string(dump_of(version)).unwrap();
    let server = Server::start();
    let database = server.empty_database().await;
    let roles = format!("CREATE ROLE somebody_else LOGIN; CREATE ROLE {ROLE} LOGIN");
    let own = format!("ALTER SCHEMA {ROLE} OWNER TO {ROLE}; ALTER TABLE {ROLE}.ledger OWNER TO {ROLE}");
    // The dump empties the search path of its session.
    let owner = server.connect(OWNER, &database).await;
    execute(&owner, &[&roles, &dump, &own]).await;
    (server, database)
}

async fn id_of(client: &Client, label: &str) -> String {
    one(client, &format!("SELECT id FROM df.instances WHERE label = '{label}'"))
        .await
        .unwrap_or_else(|| panic!("{label}"))
}

/// Writes the dump of this version: instances in every state, left by a worker that was killed.
async fn write_the_dump() {
    let server = Server::start();
    let database = server.empty_database().await;
    let url = server.url(OWNER, &database);
    schema::install(&url).await.unwrap();
    let owner = server.connect(OWNER, &database).await;
    execute(
        &owner,
        &[
            &format!("CREATE ROLE {ROLE} LOGIN"),
            &format!("CREATE SCHEMA {ROLE} AUTHORIZATION {ROLE}"),
            &format!("SELECT df.grant_usage('{ROLE}')"),
        ],
    )
    .await;
    let client = server.connect(ROLE, &database).await;
    execute(&client, &[LEDGER, "SELECT df.setvar('limit', '7')"]).await;
    let worker = TestWorker::start_at(&url, 4).await;
    for (label, expression) in [
        ("done", "'SELECT 7 AS n'".to_owned()),
        ("failed", "'SELECT 1/0'".to_owned()),
        ("cancelled", "df.wait_for_signal('never')".to_owned()),
        ("signal", format!("{} ~> df.wait_for_signal('go') ~> {}", enter("signal 1"), enter("signal 2"))),
        ("signalled", format!("{} ~> df.wait_for_signal('go') ~> {}", enter("signalled 1"), enter("signalled 2"))),
        ("timer", format!("{} ~> df.sleep(3) ~> {}", enter("timer 1"), enter("timer 2"))),
        ("slow", "'WITH nap AS MATERIALIZED (SELECT pg_sleep(5)) INSERT INTO df_fixture.ledger SELECT ''slow'' FROM nap'".to_owned()),
        ("looped", format!("df.loop({} ~> df.sleep(1), 'SELECT count(*) < 4 FROM df_fixture.ledger WHERE entry = ''looped''')", enter("looped"))),
        ("paused", format!("{} ~> df.sleep(6) ~> {}", enter("paused 1"), enter("paused 2"))),
        ("parent", format!("df.call(df.wait_for_signal('go') ~> {}) ~> {}", enter("child"), enter("parent"))),
        ("joined", format!("df.join({}, df.wait_for_signal('go'))", enter("joined"))),
        ("mapped", "df.map('SELECT generate_series(1, 2) AS n', df.sleep(1) ~> 'INSERT INTO df_fixture.ledger SELECT ''map '' || $item.n')".to_owned()),
        ("variable", "df.wait_for_signal('go') ~> 'SELECT {limit} AS n'".to_owned()),
    ] {
        start(&client, &format!("{expression}, '{label}'")).await;
    }
    for (label, status) in [("done", "completed"), ("failed", "failed"), ("slow", "running")] {
        let id = id_of(&client, label).await;
        eventually(&client, &format!("SELECT df.status('{id}')"), status, SOON).await;
    }
    eventually(&owner, "SELECT count(*) FROM df._activity WHERE owner IS NOT NULL", "1", SOON).await;
    eventually(&owner, "SELECT count(*) > 1 FROM df_fixture.ledger WHERE entry = 'looped'", "t", SOON).await;
    let (cancelled, paused) = (id_of(&client, "cancelled").await, id_of(&client, "paused").await);
    execute(&client, &[&format!("SELECT df.cancel('{cancelled}')"), &format!("SELECT df.pause('{paused}')")])
        .await;
    let ended = format!("SELECT count(*) FROM df._done WHERE seq = df._seq('{cancelled}')");
    eventually(&owner, &ended, "1", SOON).await;
    eventually(&owner, "SELECT count(*) FROM df._work WHERE paused", "1", SOON).await;
    worker.kill();
    start(&client, &format!("{}, 'pending', idempotency_key => 'once'", enter("pending"))).await;
    let signalled = id_of(&client, "signalled").await;
    execute(&client, &[&format!("SELECT df.signal('{signalled}', 'go')")]).await;
    let dump = Command::new("pg_dump")
        .args(["--no-owner", "--inserts", "--schema", "df", "--schema", "df_run", "--schema", ROLE])
        .args(["--host", &server.socket_dir().display().to_string(), "--username", OWNER, &database])
        .args(["--port", &duramen_postgres::SOCKET_PORT.to_string()])
        .output()
        .unwrap();
    assert!(dump.status.success(), "{}", String::from_utf8_lossy(&dump.stderr));
    let text = String::from_utf8(dump.stdout).unwrap();
    // What only psql understands.
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('\\')).collect();
    fs::write(dump_of(SCHEMA_VERSION), lines.join("\n") + "\n").unwrap();
}

/// Numbers go on behind those that were given, and past 2^32, from where on ids have sixteen digits (F-17).
async fn numbers_go_on(owner: &Client, client: &Client, url: &str, worker: TestWorker) {
    let clash = "SELECT count(*) FROM df._instance i JOIN df._instance j ON i.id = j.id AND i.seq <> j.seq";
    let next = start(client, "'SELECT 1'").await;
    assert_eq!(next.len(), 8);
    ended(client, &next, SOON).await.completed();
    worker.kill();
    execute(owner, &["SELECT setval('df._instance_seq', 4294967294)"]).await;
    // The housekeeping that a worker begins with makes the partitions.
    let _worker = TestWorker::start_at(url, 4).await;
    let mut ids = Vec::new();
    for _ in 0..4 {
        let short = one(client, "SELECT df.start('SELECT 7 AS n')").await.unwrap();
        let long =
            one(client, "SELECT df.start(df.seq('SELECT 1', df.wait_for_signal('go')))").await.unwrap();
        let call = one(client, "SELECT df.start(df.call('SELECT 2'), 'long')").await.unwrap();
        execute(client, &[&format!("SELECT df.signal('{long}', 'go')")]).await;
        let output = ended(client, &short, SOON).await.completed();
        assert_eq!(output, r#"{"rows":[{"n":7}],"row_count":1}"#);
        for id in [&long, &call] {
            ended(client, id, SOON).await.completed();
        }
        ids.extend([short, long, call]);
    }
    assert_eq!(ids.iter().filter(|id| id.len() == 8).count(), 1, "{ids:?}");
    for id in &ids {
        let shown = format!("SELECT count(*) FROM df.instance_nodes('{id}') WHERE status = 'completed'");
        assert_ne!(one(client, &shown).await.as_deref(), Some("0"), "{id}");
        let same = format!("SELECT df._id(df._seq('{id}'))");
        assert_eq!(one(client, &same).await.as_deref(), Some(id.as_str()));
        let drawn = one(client, &format!("SELECT df.explain('{id}')")).await.unwrap();
        assert!(drawn.contains(id.as_str()), "{drawn}");
    }
    let page = "SELECT next_cursor FROM df.list_instances(NULL, 3, NULL, NULL) LIMIT 1";
    let cursor = one(client, page).await.unwrap();
    let rest = format!("SELECT count(*) FROM df.list_instances(NULL, 1000, NULL, '{cursor}')");
    let all = "SELECT count(*) - 3 FROM df.instances";
    assert_eq!(one(client, &rest).await, one(client, all).await);
    assert_eq!(one(owner, clash).await.as_deref(), Some("0"));
}

/// Upgrades migrate in place, and neither lose nor double anything (F-1, F-2, F-10).
#[tokio::test(flavor = "multi_thread")]
async fn instances_in_flight_go_on_after_an_upgrade() {
    if std::env::var_os("DURAMEN_WRITE_DUMP").is_some() {
        write_the_dump().await;
    }
    for version in 1..=SCHEMA_VERSION {
        let (server, database) = left_by(version).await;
        let url = server.url(OWNER, &database);
        let installed = schema::install(&url).await.unwrap();
        assert_eq!((installed.from, installed.to), (Some(version), SCHEMA_VERSION));
        let again = schema::install(&url).await.unwrap();
        assert_eq!(
            (again.from, again.to),
            (Some(SCHEMA_VERSION), SCHEMA_VERSION),
            "a second time changes nothing"
        );
        let owner = server.connect(OWNER, &database).await;
        let client = server.connect(ROLE, &database).await;
        let status = |label: &str| format!("SELECT status FROM df.instances WHERE label = '{label}'");
        for (label, expected) in [
            ("done", "completed"),
            ("failed", "failed"),
            ("cancelled", "cancelled"),
            ("pending", "pending"),
            ("paused", "running"),
        ] {
            assert_eq!(
                one(&client, &status(label)).await.as_deref(),
                Some(expected),
                "version {version}: {label}"
            );
        }
        let done = id_of(&client, "done").await;
        let result = one(&client, &format!("SELECT df.result('{done}')")).await;
        assert_eq!(result.as_deref(), Some(r#"{"rows":[{"n":7}],"row_count":1}"#));

        // Version 1 did not know which copy it was, and takes what it finds itself in for its own; later ones see that they
        // were restored (F-16).
        let adopted = schema::adopt(&url, External::Run).await.unwrap();
        assert_eq!(adopted.instances.is_some(), version > 1);
        // Nobody can use up numbers any more, whoever could (F-17).
        let said = refusal(&client, "SELECT nextval('df._instance_seq')").await;
        assert!(said.contains("permission denied"), "{said}");
        let worker = TestWorker::start_at(&url, 4).await;
        for label in ["signal", "joined", "variable"] {
            let id = id_of(&client, label).await;
            execute(&client, &[&format!("SELECT df.signal('{id}', 'go')")]).await;
        }
        let child = "SELECT df.signal(id, 'go') FROM df.instances WHERE label IS NULL";
        assert_eq!(one(&client, child).await.as_deref(), Some("OK"));
        let paused = id_of(&client, "paused").await;
        execute(&client, &[&format!("SELECT df.resume('{paused}')")]).await;
        for label in [
            "signal",
            "signalled",
            "timer",
            "slow",
            "looped",
            "paused",
            "parent",
            "joined",
            "mapped",
            "pending",
        ] {
            ended(&client, &id_of(&client, label).await, Duration::from_secs(60)).await.completed();
        }
        let output = ended(&client, &id_of(&client, "variable").await, SOON).await.completed();
        assert_eq!(output, r#"{"rows":[{"n":7}],"row_count":1}"#);
        let found = rows(&client, "SELECT entry FROM df_fixture.ledger ORDER BY entry COLLATE \"C\"").await;
        let found: Vec<&str> = found.iter().map(|row| row[0].as_deref().unwrap()).collect();
        assert_eq!(found, ENTRIES, "version {version}: every effect once");
        let once = one(&client, "SELECT df.start('SELECT 1', idempotency_key => 'once')").await;
        assert_eq!(once, Some(id_of(&client, "pending").await), "keys are kept");
        numbers_go_on(&owner, &client, &url, worker).await;
    }
}
