//! Rows: what a role can see and write of the schema's tables, and what it cannot.

use crate::common;
use crate::common::{one, refusal, rows, Database};
use tokio_postgres::Client;

/// Two roles that may use durable functions, each with an instance that has ended, one that runs, and a variable.
async fn neighbours() -> (Database<'static>, Client, Client) {
    let database = common::database().await;
    let mut clients = Vec::new();
    for name in ["alice", "bob"] {
        let role = database.role(name).await;
        let client = database.connect(&role).await;
        for label in ["ended", "running", "pending"] {
            one(&client, &format!("SELECT df.start('SELECT 1', '{label}', idempotency_key => '{label}')"))
                .await;
        }
        one(&client, &format!("SELECT df.setvar('secret', '{name}')")).await;
        clients.push(client);
    }
    let owner = database.owner().await;
    owner
        .batch_execute(
            &format!("{};
             INSERT INTO df._done (seq, submitted_by, status, started_at, output)
                 SELECT seq, submitted_by, 'c', now(), '1' FROM df._instance WHERE label = 'ended';
             INSERT INTO df._execution SELECT seq, 1, submitted_by, 'c', now(), now(), 1 FROM df._done;
             INSERT INTO df._work (seq, submitted_by, started_at, updated_at, state)
                 SELECT seq, submitted_by, now(), now(), '{{\"cells\":{{}}}}' FROM df._instance WHERE label = 'running';
             INSERT INTO df._activity (seq, cell, submitted_by, kind, payload)
                 SELECT seq, '0', submitted_by, 'sql', '{{}}' FROM df._work", common::take("label <> 'pending'")),
        )
        .await
        .unwrap();
    let bob = clients.pop().unwrap();
    let alice = clients.pop().unwrap();
    one(&bob, "SELECT df.signal(id, 'x') FROM df.instances WHERE status = 'running'").await;
    (database, alice, bob)
}

async fn id_of(client: &Client, label: &str) -> String {
    one(client, &format!("SELECT id FROM df.instances WHERE label = '{label}'")).await.unwrap()
}

#[tokio::test]
async fn each_role_sees_its_own_rows_only() {
    let (database, alice, bob) = neighbours().await;
    for (table, expected) in [
        ("instances", "3"),
        ("nodes", "3"),
        ("vars", "1"),
        ("_started", "3"),
        ("_instance", "2"),
        ("_done", "1"),
        ("_execution", "1"),
        ("_work", "1"),
        ("_ready", "1"),
        ("_activity", "1"),
        ("_key", "3"),
        ("list_instances()", "3"),
    ] {
        for client in [&alice, &bob] {
            let count = one(client, &format!("SELECT count(*) FROM df.{table}")).await;
            assert_eq!(count.as_deref(), Some(expected), "{table}");
        }
    }
    assert_eq!(one(&alice, "SELECT count(*) FROM df._inbox").await.as_deref(), Some("0"));
    assert_eq!(one(&bob, "SELECT count(*) FROM df._inbox").await.as_deref(), Some("1"));
    // Functions of a user's in a condition are shown no row of another's.
    let role = one(&alice, "SELECT current_user").await.unwrap();
    database.owner().await.batch_execute(&format!("CREATE SCHEMA own AUTHORIZATION {role}")).await.unwrap();
    alice
        .batch_execute(
            "CREATE TABLE own.seen (label text);
             CREATE FUNCTION own.leak(text) RETURNS boolean LANGUAGE plpgsql COST 0.0001 AS $$
             BEGIN INSERT INTO own.seen VALUES ($1); RETURN true; END $$;
             SELECT count(*) FROM df.instances WHERE own.leak(id);
             SELECT count(*) FROM df._instance WHERE own.leak(id);
             SELECT count(*) FROM df.nodes WHERE own.leak(instance_id);
             SELECT count(*) FROM df.vars WHERE own.leak(value)",
        )
        .await
        .unwrap();
    let foreign = format!("SELECT count(*) FROM own.seen WHERE label = '{}'", id_of(&bob, "ended").await);
    assert_eq!(one(&alice, &foreign).await.as_deref(), Some("0"));
    assert_eq!(one(&alice, "SELECT count(*) FROM own.seen WHERE label = 'bob'").await.as_deref(), Some("0"));
    assert_eq!(one(&alice, "SELECT count(*) > 0 FROM own.seen").await.as_deref(), Some("t"));
}

#[tokio::test]
async fn the_functions_know_nothing_of_anothers_instance() {
    let (_database, alice, bob) = neighbours().await;
    for label in ["ended", "running", "pending"] {
        let id = id_of(&bob, label).await;
        for call in ["status", "result"] {
            assert_eq!(one(&alice, &format!("SELECT df.{call}('{id}')")).await, None);
        }
        for call in ["instance_info", "instance_nodes", "instance_executions"] {
            assert!(rows(&alice, &format!("SELECT * FROM df.{call}('{id}')")).await.is_empty(), "{call}");
        }
        for call in [
            "signal('?', 'x')",
            "cancel('?')",
            "pause('?')",
            "resume('?')",
            "delete('?')",
            "await_instance('?')",
        ] {
            let said = refusal(&alice, &format!("SELECT df.{}", call.replace('?', &id))).await;
            assert!(said.contains("not found or access denied"), "{call}: {said}");
        }
    }
    assert_eq!(one(&bob, "SELECT count(*) FROM df._inbox").await.as_deref(), Some("1"));
    assert_eq!(one(&bob, "SELECT count(*) FROM df._started").await.as_deref(), Some("3"));
}

#[tokio::test]
async fn a_row_cannot_be_signed_with_anothers_name() {
    let (_database, alice, bob) = neighbours().await;
    let bob_name = one(&bob, "SELECT current_user").await.unwrap();
    let other = format!("'{bob_name}'::regrole");
    let own = "current_user::regrole";
    let seq = one(&bob, "SELECT seq FROM df._work").await.unwrap();
    for (statement, expected) in [
        (format!("INSERT INTO df._ready (submitted_by, statement) VALUES ({other}, 'SELECT 1')"), "permission denied"),
        (format!("INSERT INTO df._inbox (seq, submitted_by, kind) VALUES ({seq}, {other}, 'cancel')"), "row-level security"),
        (format!("INSERT INTO df._key (submitted_by, key, seq) VALUES ({other}, 'x', {seq})"), "row-level security"),
        (format!("INSERT INTO df._request (submitted_by, action, arguments) VALUES ({other}, 'delete', '{{}}')"), "row-level security"),
        (format!("INSERT INTO df.vars (name, value, owner) VALUES ('x', 'y', {other})"), "row-level security"),
        (format!("UPDATE df.vars SET owner = {other}"), "permission denied"),
        // Nor can the number and the id of an instance, its time or its parent be chosen.
        ("INSERT INTO df._ready (seq, graph) VALUES (999, '[]')".to_owned(), "permission denied"),
        ("INSERT INTO df._ready (created_at, graph) VALUES (now(), '[]')".to_owned(), "permission denied"),
        (format!("INSERT INTO df._ready (parent, graph) VALUES ({seq}, '[]')"), "permission denied"),
        (format!("INSERT INTO df._instance (seq, submitted_by, created_at, id, graph) VALUES (9, {own}, now(), 'x', '[]')"), "permission denied"),
        (format!("INSERT INTO df._done (seq, submitted_by, status, started_at) VALUES ({seq}, {own}, 'c', now())"), "permission denied"),
        (format!("INSERT INTO df._work (seq, submitted_by, started_at, updated_at, state) VALUES (1, {own}, now(), now(), '{{}}')"), "permission denied"),
        (format!("INSERT INTO df._activity (seq, cell, submitted_by, kind, payload) VALUES (1, '0', {own}, 'sql', '{{}}')"), "permission denied"),
        (format!("INSERT INTO df._execution VALUES ({seq}, 9, {own}, 'c', now(), now(), 1)"), "permission denied"),
        ("UPDATE df._instance SET graph = '[]'".to_owned(), "permission denied"),
        ("UPDATE df._work SET paused = true".to_owned(), "permission denied"),
        ("UPDATE df._ready SET wake = false".to_owned(), "permission denied"),
        ("DELETE FROM df._instance".to_owned(), "permission denied"),
        ("DELETE FROM df._ready".to_owned(), "permission denied"),
        ("DELETE FROM df._inbox".to_owned(), "permission denied"),
        ("DELETE FROM df._done".to_owned(), "permission denied"),
        ("TRUNCATE df._inbox".to_owned(), "permission denied"),
        ("SELECT setval('df._instance_seq', 1)".to_owned(), "permission denied"),
        ("SELECT nextval('df._instance_seq')".to_owned(), "permission denied"),
        ("INSERT INTO df._ready (seq, statement) VALUES (7, 'SELECT 1')".to_owned(), "permission denied"),
        ("SELECT setval('df._asleep', 1)".to_owned(), "permission denied"),
        ("SELECT * FROM df._worker_epoch".to_owned(), "permission denied"),
        ("SELECT * FROM df._instance_0".to_owned(), "permission denied"),
        ("DELETE FROM df.instances".to_owned(), "denied"),
        ("ALTER TABLE df._instance DISABLE ROW LEVEL SECURITY".to_owned(), "must be owner"),
        ("CREATE TABLE df.mine (a int)".to_owned(), "permission denied"),
        ("CREATE FUNCTION df_run.mine() RETURNS int LANGUAGE sql AS 'SELECT 1'".to_owned(), "permission denied"),
    ] {
        let said = refusal(&alice, &statement).await;
        let lacks = said.contains("cannot delete from view") && expected == "denied";
        assert!(said.contains(expected) || lacks, "{statement}: {said}");
    }
}

#[tokio::test]
async fn forged_rows_of_ones_own_reach_no_one_else() {
    let (_database, alice, bob) = neighbours().await;
    let seq = one(&bob, "SELECT seq FROM df._done").await.unwrap();
    let id = id_of(&bob, "ended").await;
    // A request in the own name for the deletion of another's instance.
    let request = one(
        &alice,
        &format!(
            "INSERT INTO df._request (submitted_by, action, arguments)
             VALUES (current_user::regrole, 'delete', '{{\"seq\": {seq}}}') RETURNING id"
        ),
    )
    .await
    .unwrap();
    let said = refusal(&alice, &format!("SELECT df._delete_rows({request})")).await;
    assert!(said.contains("not found or access denied"), "{said}");
    assert_eq!(one(&bob, &format!("SELECT df.status('{id}')")).await.as_deref(), Some("completed"));
    // Another's request cannot be carried out in one's own name.
    assert!(refusal(&bob, "SELECT df._start_elsewhere(999)").await.contains("there is no request"));
    // A deletion of what has not ended.
    let running = one(&alice, "SELECT seq FROM df._work").await.unwrap();
    let request = one(
        &alice,
        &format!(
            "INSERT INTO df._request (submitted_by, action, arguments)
             VALUES (current_user::regrole, 'delete', '{{\"seq\": {running}}}') RETURNING id"
        ),
    )
    .await
    .unwrap();
    let said = refusal(&alice, &format!("SELECT df._delete_rows({request})")).await;
    assert!(said.contains("not found"), "{said}");
}

#[tokio::test]
async fn who_has_no_usage_has_nothing() {
    let (database, alice, _bob) = neighbours().await;
    let role = database.stranger("carol").await;
    let carol = database.connect(&role).await;
    for statement in ["SELECT df.start('SELECT 1')", "SELECT * FROM df.instances", "SELECT df.version()"] {
        assert!(refusal(&carol, statement).await.contains("permission denied for schema df"));
    }
    for statement in [
        "SELECT * FROM df.metrics()".to_owned(),
        format!("SELECT df.grant_usage('{role}')"),
        format!("SELECT df.revoke_usage('{role}')"),
        "SELECT df.http('https://example.org')".to_owned(),
        "SELECT df.http_multipart('https://example.org')".to_owned(),
        "SELECT df._claim(5, 10, 0, 10, 10, true)".to_owned(),
        "SELECT df._set_asleep(false)".to_owned(),
    ] {
        let said = refusal(&alice, &statement).await;
        assert!(said.contains("permission denied for function"), "{statement}: {said}");
    }
    for role in ["nobody_at_all", "public"] {
        let said = refusal(&database.owner().await, &format!("SELECT df.grant_usage('{role}')")).await;
        assert!(said.contains(&format!("role \"{role}\" does not exist")), "{said}");
    }
}

#[tokio::test]
async fn rights_are_given_handed_on_and_taken_back() {
    let (database, _alice, bob) = neighbours().await;
    let owner = database.owner().await;
    let bob_name = one(&bob, "SELECT current_user").await.unwrap();
    one(&owner, &format!("SELECT df.grant_usage('{bob_name}', include_http => true)")).await;
    one(&bob, "SELECT df.http('https://example.org')").await.unwrap();
    let lead = database.stranger("lead").await;
    one(&owner, &format!("SELECT df.grant_usage('{lead}', with_grant => true)")).await;
    let lead_client = database.connect(&lead).await;
    assert_eq!(one(&lead_client, "SELECT total_instances FROM df.metrics()").await.as_deref(), Some("6"));
    let carol = database.stranger("carol").await;
    one(&lead_client, &format!("SELECT df.grant_usage('{carol}')")).await;
    let carol_client = database.connect(&carol).await;
    one(&carol_client, "SELECT df.start('SELECT 1')").await.unwrap();
    // Who may hand on, and has no right on HTTP, can take back what it gave; and give it again.
    let dave = database.stranger("dave").await;
    one(&lead_client, &format!("SELECT df.grant_usage('{dave}')")).await;
    one(&lead_client, &format!("SELECT df.revoke_usage('{dave}')")).await;
    owner.batch_execute(&format!("DROP ROLE {dave}")).await.unwrap();
    // What the lead gave is not the owner's to take, and it is not taken silently.
    let said = refusal(&owner, &format!("SELECT df.revoke_usage('{carol}')")).await;
    assert!(said.contains("still has the rights") && said.contains(&lead), "{said}");
    one(&owner, &format!("SELECT df.revoke_usage('{lead}')")).await;
    for client in [&lead_client, &carol_client] {
        let said = refusal(client, "SELECT df.status('00000000')").await;
        assert!(said.contains("permission denied for schema df"), "{said}");
    }
    one(&owner, &format!("SELECT df.revoke_usage('{bob_name}')")).await;
    one(&owner, &format!("SELECT df.revoke_usage('{bob_name}')")).await;
    assert!(refusal(&bob, "SELECT df.start('SELECT 1')").await.contains("permission denied"));
    assert!(refusal(&bob, "SELECT * FROM df.instances").await.contains("permission denied"));
    // Nothing of the role is left in the schema, so that it can be dropped; its instances stay.
    owner.batch_execute(&format!("DROP ROLE {bob_name}")).await.unwrap();
    assert_eq!(one(&owner, "SELECT count(*) FROM df.instances").await.as_deref(), Some("7"));
    // Given again, everything works again.
    one(&owner, &format!("SELECT df.grant_usage('{carol}')")).await;
    assert_eq!(one(&carol_client, "SELECT count(*) FROM df.instances").await.as_deref(), Some("1"));
}

#[tokio::test]
async fn a_superuser_acts_in_the_name_of_the_submitter() {
    let (database, alice, _bob) = neighbours().await;
    let owner = database.owner().await;
    assert_eq!(one(&owner, "SELECT count(*) FROM df.list_instances()").await.as_deref(), Some("6"));
    let running = id_of(&alice, "running").await;
    one(&owner, &format!("SELECT df.cancel('{running}', 'from above')")).await;
    let mail = one(&alice, "SELECT data FROM df._inbox WHERE kind = 'cancel'").await;
    assert_eq!(
        mail.as_deref(),
        Some("\"from above\""),
        "the worker believes only what is signed by the submitter"
    );
    let ended = id_of(&alice, "ended").await;
    one(&owner, &format!("SELECT df.delete('{ended}')")).await;
    assert_eq!(one(&alice, "SELECT count(*) FROM df.instances").await.as_deref(), Some("2"));
}

#[tokio::test]
async fn a_function_that_runs_as_its_owner_starts_as_its_owner() {
    let (database, alice, bob) = neighbours().await;
    let owner = database.owner().await;
    let alice_name = one(&alice, "SELECT current_user").await.unwrap();
    owner.batch_execute(&format!("CREATE SCHEMA shared AUTHORIZATION {alice_name}")).await.unwrap();
    alice
        .batch_execute(
            "CREATE FUNCTION shared.go() RETURNS text LANGUAGE sql SECURITY DEFINER
                 AS $$ SELECT df.start('SELECT 1', 'by the owner of the function') $$;
             GRANT USAGE ON SCHEMA shared TO PUBLIC",
        )
        .await
        .unwrap();
    one(&bob, "SELECT shared.go()").await.unwrap();
    let whose = "SELECT submitted_by::text FROM df.instances WHERE label = 'by the owner of the function'";
    assert_eq!(one(&alice, whose).await, Some(alice_name));
    assert!(rows(&bob, whose).await.is_empty());
}
