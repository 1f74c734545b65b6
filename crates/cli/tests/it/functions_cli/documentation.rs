//! The quick start of durable functions, as it is written: an order that is paid in time, and one that is not.

use super::{
    common::{self, one},
    shell::Shell,
};

const PAGE: &str = include_str!("../../../../../docs/functions.md");

/// The blocks of code of the quick start: the commands, and what is started.
fn blocks() -> (Vec<&'static str>, &'static str) {
    let (_, rest) = PAGE.split_once("\n## Quick start\n").expect("the section");
    let (_, rest) = rest.split_once("\n```\n").expect("the commands");
    let (commands, rest) = rest.split_once("\n```").expect("their end");
    let (_, rest) = rest.split_once("\n```sql\n").expect("what is started");
    let commands = commands.lines().map(|line| line.strip_prefix("$ ").expect("a command")).collect();
    (commands, rest.split_once("\n```").expect("its end").0)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_quick_start_reminds_who_has_not_paid() {
    let (commands, sql) = blocks();
    let database = common::database().await;
    let owner = database.owner().await;
    let operator = Shell::new(&database.url());
    owner.batch_execute("CREATE ROLE app LOGIN").await.unwrap();
    let mut worker = None;
    for command in commands {
        if let Some(arguments) = command.strip_prefix("duramen fn ") {
            match arguments.strip_suffix(" &") {
                Some("worker --allow-superuser") => worker = Some(operator.worker(&[])),
                _ => drop(operator.ok(&arguments.split(' ').collect::<Vec<_>>())),
            }
        } else if let Some(sql) = command.strip_prefix("psql \"$DURAMEN_FN_URL\" -c ") {
            owner.batch_execute(sql.trim_matches('"')).await.unwrap();
        } else {
            assert!(command.starts_with("export DURAMEN_FN_URL="), "{command}");
        }
    }
    assert!(worker.is_some(), "the page starts a worker");
    let tables = "CREATE TABLE orders (id int PRIMARY KEY, state text);
                  CREATE TABLE reminders (order_id int);
                  INSERT INTO orders VALUES (7, 'new');
                  ALTER TABLE orders OWNER TO app; ALTER TABLE reminders OWNER TO app";
    owner.batch_execute(tables).await.unwrap();
    let app = database.connect("app").await;
    let shell = Shell::new(&database.url_as("app"));
    let ended = |id: &str| shell.json(&["await", id])["status"].clone();
    let (start, signal) = sql.split_once(";\n").expect("two statements");

    // Paid in time: a signal that is sent before it is waited for counts. Only the id is another.
    let id = one(&app, start).await.expect("an id");
    assert!(signal.contains("'8f3a1c02'"), "{signal}");
    app.batch_execute(&signal.replace("8f3a1c02", &id)).await.unwrap();
    assert_eq!(ended(&id), "completed");
    assert_eq!(one(&app, "SELECT state FROM orders").await.as_deref(), Some("paid"));
    assert_eq!(one(&app, "SELECT count(*) FROM reminders").await.as_deref(), Some("0"));

    // Not paid. A day is over sooner here.
    assert_eq!(start.matches("86400").count(), 1, "{start}");
    let id = one(&app, &start.replace("86400", "1")).await.expect("an id");
    assert_eq!(ended(&id), "completed");
    assert_eq!(one(&app, "SELECT state FROM orders").await.as_deref(), Some("placed"));
    assert_eq!(one(&app, "SELECT order_id FROM reminders").await.as_deref(), Some("7"));
    owner.batch_execute("DROP OWNED BY app CASCADE; DROP ROLE app").await.unwrap();
}
