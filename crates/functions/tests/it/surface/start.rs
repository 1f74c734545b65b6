//! `df.start` and `df.start_many`.

use super::{session, started};
use crate::common::{maybe_one, one, refusal, rows};

#[tokio::test]
async fn a_start_stores_one_instance_and_queues_it() {
    let (database, client) = session().await;
    let id = started(&client, "'SELECT 1', 'first', input => '{\"a\":1}'").await;
    assert!(id.len() == 8 && id.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)), "{id}");
    let stored = rows(
        &client,
        "SELECT id, label, graph, vars, input, i.database, status, i.submitted_by::regrole = quote_ident(current_user)::regrole,
             (SELECT count(*) FROM df._ready r WHERE r.seq = i.seq AND r.wake), v.database, v.completed_at, v.root_node
         FROM df._started i JOIN df.instances v USING (id, label, created_at) WHERE i.seq = df._seq(id)",
    )
    .await;
    assert_eq!(stored.len(), 1);
    let text = |column: usize| stored[0][column].as_deref();
    assert_eq!(text(0), Some(id.as_str()));
    assert_eq!(text(1), Some("first"));
    assert_eq!(text(2), Some(r#"[{"type":"SQL","query":"SELECT 1"}]"#));
    assert_eq!((text(3), text(4), text(5)), (None, Some(r#"{"a": 1}"#), None));
    assert_eq!((text(6), text(7), text(8)), (Some("pending"), Some("t"), Some("1")));
    assert_eq!((text(9), text(10)), (Some(database.name()), None));
    let root = one(&client, &format!("SELECT df._node_id(df._seq('{id}'), 0)")).await;
    assert_eq!(text(11), root.as_deref());
}

/// The form of the reference: four texts by position.
#[tokio::test]
async fn four_texts_by_position_are_a_start() {
    let (database, client) = session().await;
    let name = database.name();
    one(&client, &format!("SELECT df.start('SELECT 1', 'mine', '{name}', 'caller')")).await.unwrap();
    let stored = "SELECT label || ' ' || database FROM df.instances";
    assert_eq!(one(&client, stored).await, Some(format!("mine {name}")));
}

#[tokio::test]
async fn a_start_goes_away_with_the_callers_transaction() {
    let (_database, client) = session().await;
    client.batch_execute("BEGIN; SELECT df.start('SELECT 1'); ROLLBACK").await.unwrap();
    assert_eq!(one(&client, "SELECT count(*) FROM df._started").await.as_deref(), Some("0"));
    assert_eq!(one(&client, "SELECT count(*) FROM df._ready").await.as_deref(), Some("0"));
}

#[tokio::test]
async fn what_cannot_start_is_refused_and_leaves_nothing() {
    let (database, client) = session().await;
    for (call, expected) in [
        ("df.start(NULL)", "must not be NULL"),
        (
            "df.start('SELECT 1', transaction_mode => 'both')",
            "invalid transaction_mode \"both\" for df.start(): expected 'caller' or 'new'",
        ),
        ("df.start('SELECT 1', transaction_mode => NULL)", "expected 'caller' or 'new'"),
        ("df.start('SELECT 1', database => 'nowhere')", "database \"nowhere\" does not exist"),
        ("df.start('SELECT 1', database => 'template0')", "allows no connections"),
        ("df.start('SELECT 1', repeat('x', 1001))", "at most 1000 bytes"),
        ("df.start('SELECT 1', idempotency_key => '')", "1 to 200 characters"),
        ("df.start('SELECT 1', idempotency_key => repeat('x', 201))", "1 to 200 characters"),
        (
            "df.start('{\"node_type\":\"NONE\",\"query\":\"x\"}')",
            "Unknown node_type 'NONE'. Valid types: SQL, THEN",
        ),
        (
            "df.start(df.setvar('a', 'b'))",
            "df.setvar cannot be used as a workflow step. Call df.setvar before df.start().",
        ),
        ("df.start_many(NULL)", "futs must not be NULL"),
        ("df.start_many(ARRAY['SELECT 1', NULL])", "element 2 of futs must not be NULL"),
        (
            "df.start_many(ARRAY['SELECT 1'], inputs => ARRAY['1', '2']::jsonb[])",
            "inputs has 2 elements, and futs has 1",
        ),
        ("df.start_many(ARRAY['SELECT 1', '{\"node_type\":\"NONE\"}'])", "Unknown node_type 'NONE'"),
    ] {
        let said = refusal(&client, &format!("SELECT {call}")).await;
        assert!(said.contains(expected), "{call}: expected {expected:?} in {said:?}");
    }
    let owner = database.owner().await;
    for table in ["_instance", "_ready", "_key", "vars"] {
        let count = one(&owner, &format!("SELECT count(*) FROM df.{table}")).await;
        assert_eq!(count.as_deref(), Some("0"), "{table}");
    }
}

#[tokio::test]
async fn who_may_not_log_in_or_is_a_superuser_is_refused() {
    let (database, client) = session().await;
    let owner = database.owner().await;
    let nobody = database.role("nobody").await;
    owner.batch_execute(&format!("ALTER ROLE {nobody} NOLOGIN; SET ROLE {nobody}")).await.unwrap();
    let said = refusal(&owner, "SELECT df.start('SELECT 1')").await;
    assert!(said.contains("does not have LOGIN privilege"), "{said}");
    owner.batch_execute("RESET ROLE").await.unwrap();
    for call in ["df.start('SELECT 1')", "df.start_many(ARRAY['SELECT 1'])"] {
        let said = refusal(&owner, &format!("SELECT {call}")).await;
        assert!(said.contains("df.enable_superuser_instances"), "{said}");
        // What a session says of itself does not help, and does not outlive a change of role.
        owner.batch_execute("SET df.may_start = '10'").await.unwrap();
        assert!(refusal(&owner, &format!("SELECT {call}")).await.contains("df.enable_superuser_instances"));
    }
    owner.batch_execute("SET df.enable_superuser_instances = on; SELECT df.start('SELECT 1')").await.unwrap();
    drop(client);
}

#[tokio::test]
async fn a_database_that_the_role_may_not_enter_is_refused() {
    let (database, client) = session().await;
    let closed = format!("{}_closed", database.name());
    let owner = database.owner().await;
    owner.batch_execute(&format!("CREATE DATABASE {closed}")).await.unwrap();
    started(&client, &format!("'SELECT 1', database => '{closed}'")).await;
    owner.batch_execute(&format!("REVOKE CONNECT ON DATABASE {closed} FROM PUBLIC")).await.unwrap();
    let said = refusal(&client, &format!("SELECT df.start('SELECT 1', database => '{closed}')")).await;
    assert!(said.contains("may not connect to database") && said.contains("GRANT CONNECT"), "{said}");
    owner.batch_execute(&format!("DROP DATABASE {closed}")).await.unwrap();
}

#[tokio::test]
async fn many_start_at_once_in_the_order_of_the_array() {
    let (_database, client) = session().await;
    one(&client, "SELECT df.setvar('limit', '7')").await;
    let ids = rows(
        &client,
        "SELECT df.start_many(ARRAY(SELECT 'SELECT ' || n FROM generate_series(1, 500) n), 'bulk',
             inputs => ARRAY(SELECT to_jsonb(n) FROM generate_series(1, 500) n))",
    )
    .await;
    let listed = rows(
        &client,
        "SELECT i.id, i.graph -> 0 ->> 'query', i.input, i.label, i.vars ->> 'limit', r.wake
         FROM df._started i JOIN df._ready r USING (seq) ORDER BY seq",
    )
    .await;
    assert_eq!((ids.len(), listed.len()), (500, 500));
    for (n, row) in listed.iter().enumerate() {
        assert_eq!(row[0], ids[n][0]);
        let n = n + 1;
        let expected = [format!("SELECT {n}"), n.to_string(), "bulk".to_owned(), "7".to_owned()];
        let found: Vec<&str> = row[1..5].iter().map(|value| value.as_deref().unwrap()).collect();
        assert_eq!(found, expected);
        assert_eq!(
            row[5].as_deref(),
            Some(if n == 500 { "t" } else { "f" }),
            "the last one wakes the workers"
        );
    }
    let again = rows(&client, "SELECT df.start_many(ARRAY['SELECT 3', df.seq('a', 'b')])").await;
    assert_eq!(again.len(), 2);
    let graph = format!("SELECT graph FROM df._started WHERE id = '{}'", again[1][0].as_deref().unwrap());
    let graph = one(&client, &graph).await.unwrap();
    assert!(graph.starts_with(r#"[{"type":"THEN","left":1,"right":2}"#), "{graph}");
    assert!(rows(&client, "SELECT df.start_many('{}')").await.is_empty());
}

#[tokio::test]
async fn a_key_starts_once() {
    let (database, client) = session().await;
    let first = started(&client, "'SELECT 1', idempotency_key => 'order 7'").await;
    assert_eq!(started(&client, "'SELECT 2', idempotency_key => 'order 7'").await, first);
    assert_ne!(started(&client, "'SELECT 1', idempotency_key => 'order 8'").await, first);
    // Keys are each role's own.
    let bob = database.role("bob").await;
    let other = database.connect(&bob).await;
    assert_ne!(started(&other, "'SELECT 1', idempotency_key => 'order 7'").await, first);
    let count = one(&client, "SELECT count(*) FROM df._started").await;
    assert_eq!(count.as_deref(), Some("2"));

    // Two at once: the second waits for the first to commit, and has its id.
    let second = database.connect(&one(&client, "SELECT current_user").await.unwrap()).await;
    client.batch_execute("BEGIN").await.unwrap();
    let held = started(&client, "'SELECT 1', idempotency_key => 'race'").await;
    let waiting = tokio::spawn(async move {
        maybe_one(&second, "SELECT df.start('SELECT 1', idempotency_key => 'race')").await
    });
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    client.batch_execute("COMMIT").await.unwrap();
    assert_eq!(waiting.await.unwrap(), Ok(Some(held)));
    assert_eq!(one(&client, "SELECT count(*) FROM df._started").await.as_deref(), Some("3"));
}

#[tokio::test]
async fn names_that_need_quotes_and_hostile_search_paths_do_no_harm() {
    let (database, client) = session().await;
    let name = one(&client, "SELECT current_user").await.unwrap();
    assert!(name.starts_with("Alice_"), "the role's name has a capital: {name}");
    client.batch_execute("SET search_path = ''").await.unwrap();
    started(&client, "'SELECT 1'").await;
    assert_eq!(one(&client, "SELECT count(*) FROM df.list_instances()").await.as_deref(), Some("1"));
    let said = maybe_one(&client, "SELECT df.run('abcd0123')").await.unwrap().unwrap();
    assert!(said.contains("abcd0123"), "{said}");
    drop(database);
}
