//! What is started later, or when there is room: queues, schedules; and what is taken up again.

use super::{
    common::{self, one},
    shell::{until, Shell},
};

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_is_made_filled_shown_and_dropped() {
    let database = common::database().await;
    let alice = database.role("alice").await;
    let shell = Shell::new(&database.url_as(&alice));
    assert!(shell.ok(&["queue", "list"]).contains("no queues"));
    shell.ok(&["queue", "set", "mail", "--concurrency", "2", "--rate", "100", "--per", "1m"]);
    shell.ok(&["queue", "pause", "mail"]);
    let later = shell.ok(&["start", "SELECT 1 AS n", "--queue", "mail", "--priority", "-3"]);
    shell.ok(&["start", "SELECT 2", "--queue", "mail", "--delay", "1h"]);
    let key = ["start", "SELECT 3", "--queue", "mail", "--dedup", "k"];
    assert_eq!(shell.ok(&key), shell.ok(&key));
    let queues = shell.json(&["queue", "list"]);
    let queue = &queues["queues"][0];
    assert_eq!((&queue["name"], &queue["state"]), (&"mail".into(), &"paused".into()), "{queues}");
    assert_eq!((&queue["waiting"], &queue["delayed"], &queue["running"]), (&2.into(), &1.into(), &0.into()));
    let table = shell.ok(&["queue", "list"]);
    assert!(table.contains("0 of 100 in 1") && table.contains("2 at once"), "{table}");
    let line = shell.ok(&["top", "--count", "1"]);
    assert!(
        line.contains("  queues mail: waiting 2 (oldest ") && line.contains(" running 0 let in 0 of 100 in "),
        "{line}"
    );
    let _worker = Shell::new(&database.url()).worker(&[]);
    let top = shell.json(&["top", "--count", "1"]);
    assert_eq!((&top["pending"], &top["queues"][0]["waiting"]), (&3.into(), &2.into()), "{top}");
    shell.ok(&["queue", "resume", "mail"]);
    assert!(shell.ok(&["await", later.trim()]).contains("row_count"));
    until("two were let in", || shell.json(&["top", "--count", "1"])["queues"][0]["admitted"] == 2);
    let refused = shell.fails(1, &["queue", "drop", "mail"]);
    assert!(refused.contains("is not empty") && refused.contains("Drain it"), "{refused}");
    let unknown = shell.fails(1, &["start", "SELECT 1", "--queue", "nowhere"]);
    assert!(unknown.contains("there is no queue \"nowhere\"") && unknown.contains("df.queue"), "{unknown}");
    shell.ok(&["queue", "drain", "mail"]);
    let drained = shell.fails(1, &["start", "SELECT 1", "--queue", "mail"]);
    assert!(drained.contains("is being drained"), "{drained}");
    shell.ok(&["queue", "set", "other"]);
    shell.ok(&["queue", "drop", "other"]);
    // Options that say nothing together.
    shell.fails(2, &["queue", "set", "mail", "--per", "1s"]);
    shell.fails(2, &["start", "SELECT 1", "--debounce", "1s"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schedule_is_set_shown_triggered_and_dropped() {
    let database = common::database().await;
    let alice = database.role("alice").await;
    let shell = Shell::new(&database.url_as(&alice));
    let _worker = Shell::new(&database.url()).worker(&[]);
    shell.ok(&[
        "schedule",
        "set",
        "yearly",
        "SELECT $input.scheduled_at AS at",
        "--cron",
        "0 3 1 1 *",
        "--time-zone",
        "Europe/Berlin",
    ]);
    shell.ok(&[
        "schedule",
        "set",
        "often",
        "'SELECT 1' ~> 'SELECT 2'",
        "--every",
        "1s",
        "--overlap",
        "allow",
    ]);
    until("it is started", || {
        let schedules = shell.json(&["schedule", "list"]);
        schedules["schedules"][0]["started"].as_i64().unwrap() > 0
    });
    shell.ok(&["schedule", "pause", "often"]);
    let id = shell.ok(&["schedule", "trigger", "yearly"]);
    assert!(shell.ok(&["await", id.trim()]).contains("row_count"));
    shell.ok(&["schedule", "backfill", "yearly", "2020-06-01T00:00:00Z", "2024-06-01T00:00:00Z"]);
    until("four years are filled in", || {
        shell.json(&["schedule", "list"])["schedules"][1]["started"].as_i64() == Some(4)
    });
    let table = shell.ok(&["schedule", "list"]);
    for word in ["0 3 1 1 * (Europe/Berlin)", "every 1", "paused"] {
        assert!(table.contains(word), "{word}: {table}");
    }
    for name in ["yearly", "often"] {
        shell.ok(&["schedule", "drop", name]);
    }
    assert!(shell.ok(&["schedule", "list"]).contains("no schedules"));
    shell.fails(2, &["schedule", "set", "x", "SELECT 1"]);
    let wrong = shell.fails(1, &["schedule", "set", "x", "SELECT 1", "--cron", "61 * * * *"]);
    assert!(wrong.contains("df.schedule"), "{wrong}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_failed_is_resumed_or_forked() {
    let database = common::database().await;
    let alice = database.role("alice").await;
    let client = database.connect(&alice).await;
    let owner = database.owner().await;
    owner.batch_execute(&format!("CREATE TABLE t (v int); ALTER TABLE t OWNER TO {alice}")).await.unwrap();
    let shell = Shell::new(&database.url_as(&alice));
    let _worker = Shell::new(&database.url()).worker(&[]);
    let function =
        "('INSERT INTO t VALUES (1) RETURNING v' |=> 'first') ~> 'SELECT 1 / 0' ~> 'SELECT 5 AS five'";
    let id = shell.ok(&["start", function]).trim().to_owned();
    shell.fails(1, &["await", &id]);
    shell.ok(&["resume", &id, "--step", "SELECT 1"]);
    assert!(shell.ok(&["await", &id]).contains("row_count"));
    assert_eq!(one(&client, "SELECT count(*) FROM t").await.unwrap(), "1");
    let fork = shell.ok(&["fork", &id, "--from", "first", "--label", "again"]).trim().to_owned();
    assert_ne!(fork, id);
    assert!(shell.ok(&["await", &fork]).contains("row_count"));
    assert_eq!(one(&client, "SELECT count(*) FROM t").await.unwrap(), "2");
    let said = shell.fails(1, &["fork", &id, "--from", "nothing"]);
    assert!(said.contains("has no step nothing") && said.contains("node_id"), "{said}");
    let said = shell.fails(1, &["resume", &id]);
    assert!(said.contains("it is completed"), "{said}");
}
