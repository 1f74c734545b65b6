//! Other submitters: what is theirs cannot be seen, and what is written in their name is not believed.

use super::{
    common::{maybe_one, one, refusal},
    execute, run_step, Scene,
};
use crate::worker::{ended, ended_yet, eventually, run, start, start_step, SOON};
use duramen_base::clock;
use duramen_functions::client::Waiter;
use duramen_postgres::connection::Target;
use std::time::Duration;
use tokio::time::sleep;

/// F-5: a step sees its submitter's instances, results and variables and nobody else's.
#[tokio::test(flavor = "multi_thread")]
async fn a_step_sees_only_what_is_its_submitters() {
    let scene = Scene::set().await;
    let bob = scene.database.role("bob").await;
    let bobs = scene.database.connect(&bob).await;
    execute(&bobs, &["SELECT df.setvar('password', 'bobs secret')"]).await;
    let id = start_step(&bobs, "SELECT 'bobs secret' AS secret").await;
    ended(&bobs, &id, SOON).await.completed();
    run_step(&scene.client, "SELECT 1").await.completed();
    let seen = [
        "SELECT count(*) AS n FROM df.instances WHERE submitted_by <> CAST(current_user AS regrole)",
        "SELECT count(*) AS n FROM df.nodes WHERE submitted_by <> CAST(current_user AS regrole)",
        "SELECT count(*) AS n FROM df.vars",
        "SELECT count(*) AS n FROM df._started WHERE graph::text LIKE '%bob' || 's%'",
        "SELECT count(*) AS n FROM df._done WHERE output::text LIKE '%bob' || 's%'",
        "SELECT count(*) AS n FROM df.list_instances() WHERE output LIKE '%bob' || 's%'",
        "SELECT count(df.getvar('password')) AS n",
        "SELECT count(df.result('{id}')) AS n",
        "SELECT count(df.status('{id}')) AS n",
    ];
    for query in seen {
        let output = run_step(&scene.client, &query.replace("{id}", &id)).await.completed();
        assert_eq!(output, r#"{"rows":[{"n":0}],"row_count":1}"#, "{query}");
    }
    let own = run_step(&scene.client, "SELECT count(*) > 0 AS own FROM df.instances").await.completed();
    assert!(own.contains("true"), "the queries do find what may be found: {own}");
    for attempt in ["cancel", "pause", "delete", "explain"] {
        let said = run_step(&scene.client, &format!("SELECT df.{attempt}('{id}')")).await.failed();
        assert!(said.contains("not found or access denied"), "{attempt}: {said}");
    }
    let said = run_step(&scene.client, &format!("SELECT df.signal('{id}', 'go')")).await.failed();
    assert!(said.contains("not found or access denied"), "signal: {said}");
}

/// F-8: `submitted_by` cannot be written as somebody else's, neither in a session nor in a step.
#[tokio::test(flavor = "multi_thread")]
async fn a_submitter_cannot_be_forged() {
    let scene = Scene::set().await;
    let bob = scene.database.role("bob").await;
    let oid = one(&scene.owner, &format!("SELECT '{bob}'::regrole::oid")).await.unwrap();
    let graph = r#"'[{"type":"SQL","query":"SELECT 1"}]'"#;
    let forgeries = [
        format!("INSERT INTO df._ready (submitted_by, graph) VALUES ({oid}, {graph})"),
        format!("INSERT INTO df._ready (seq, graph) VALUES (1, {graph})"),
        format!("INSERT INTO df._instance (seq, submitted_by, created_at, graph, id) VALUES (1, {oid}, now(), {graph}, 'x')"),
        format!("INSERT INTO df._inbox (seq, submitted_by, kind) VALUES (1, {oid}, 'cancel')"),
        format!("INSERT INTO df._key (submitted_by, key, seq) VALUES ({oid}, 'k', 1)"),
        format!("INSERT INTO df._request (submitted_by, action, arguments) VALUES ({oid}, 'delete', '{{}}')"),
        format!("INSERT INTO df.vars (owner, name, value) VALUES ({oid}, 'n', 'v')"),
        "INSERT INTO df._work (seq, submitted_by, started_at, updated_at, state)
            VALUES (1, 1, now(), now(), '{}')"
            .to_owned(),
        "INSERT INTO df._done (seq, submitted_by, status, started_at) VALUES (1, 1, 'c', now())".to_owned(),
        "INSERT INTO df._activity (seq, cell, submitted_by, kind, payload) VALUES (1, '0', 1, 'sql', '{}')"
            .to_owned(),
    ];
    for forgery in &forgeries {
        for said in [refusal(&scene.client, forgery).await, run_step(&scene.client, forgery).await.failed()] {
            let refused = said.contains("row-level security") || said.contains("permission denied");
            assert!(refused, "{forgery}: {said}");
        }
    }
}

/// F-8: rows under one's own name that name another's instance neither start it, nor end it, nor wake it.
#[tokio::test(flavor = "multi_thread")]
async fn rows_that_name_anothers_instance_are_not_believed() {
    let scene = Scene::set().await;
    let bob = scene.database.role("bob").await;
    let bobs = scene.database.connect(&bob).await;
    execute(&scene.owner, &[&format!("CREATE SCHEMA {bob} AUTHORIZATION {bob}")]).await;
    execute(&bobs, &[&format!("CREATE TABLE {bob}.ledger (what text)")]).await;
    let done = start_step(&bobs, &format!("INSERT INTO {bob}.ledger VALUES ('done')")).await;
    ended(&bobs, &done, SOON).await.completed();
    let first = format!("INSERT INTO {bob}.ledger VALUES ('before')");
    let last = format!("INSERT INTO {bob}.ledger VALUES ('after')");
    let waits = start(&bobs, &format!("$${first}$$ ~> df.wait_for_signal('go') ~> $${last}$$")).await;
    eventually(&bobs, &format!("SELECT df.status('{waits}')"), "running", SOON).await;
    let me = format!("'{}'::regrole", scene.alice);
    for id in [&done, &waits] {
        for (kind, name, data) in [
            ("cancel", "NULL", r#"'"forged"'"#),
            ("pause", "NULL", "NULL"),
            ("signal", "'go'", "'{}'"),
            ("child", "'1'", r#"'{"result":1}'"#),
            ("activity", "'0'", "'1'"),
        ] {
            let forge = format!(
                "INSERT INTO df._inbox (seq, submitted_by, kind, name, data)
                 VALUES (df._seq('{id}'), {me}, '{kind}', {name}, {data})"
            );
            let said = refusal(&scene.client, &forge).await;
            assert!(said.contains("row-level security"), "{said}");
            // An earlier version let them in.
            execute(&scene.owner, &[&forge]).await;
        }
    }
    // Two looks of the worker later at the least.
    for _ in 0..2 {
        run_step(&scene.client, "SELECT 1").await.completed();
        sleep(Duration::from_millis(600)).await;
    }
    assert_eq!(ended_yet(&bobs, &waits).await, None, "it still waits");
    assert_eq!(one(&bobs, &format!("SELECT df.status('{waits}')")).await.as_deref(), Some("running"));
    execute(&bobs, &[&format!("SELECT df.signal('{waits}', 'go')")]).await;
    ended(&bobs, &waits, SOON).await.completed();
    let ledger = one(&bobs, &format!("SELECT string_agg(what, ' ' ORDER BY what) FROM {bob}.ledger")).await;
    assert_eq!(ledger.as_deref(), Some("after before done"), "every step once");
}

/// F-8: rows that make no sense do no harm: no step runs twice, and nobody waits.
#[tokio::test(flavor = "multi_thread")]
async fn rows_that_make_no_sense_hold_nobody_up() {
    let scene = Scene::set().await;
    let bob = scene.database.role("bob").await;
    let bobs = scene.database.connect(&bob).await;
    let alice = &scene.alice;
    let me = format!("'{alice}'::regrole");
    execute(&scene.client, &[&format!("CREATE TABLE {alice}.ledger (what text)")]).await;
    let own = start(&scene.client, &format!("$$INSERT INTO {alice}.ledger VALUES ('own')$$")).await;
    ended(&scene.client, &own, SOON).await.completed();
    let to_nobody = format!(
        "INSERT INTO df._inbox (seq, submitted_by, kind) SELECT n, {me}, 'cancel' FROM generate_series(1, 3000) n"
    );
    let said = refusal(&scene.client, &to_nobody).await;
    assert!(said.contains("row-level security"), "{said}");
    // An earlier version let them in.
    execute(&scene.owner, &[&to_nobody]).await;
    execute(
        &scene.client,
        &[
            // Cannot be read.
            r#"INSERT INTO df._ready (graph) VALUES ('[{"type":"NONE"}]')"#,
            "INSERT INTO df._ready (statement, vars) VALUES ('SELECT 1', '[1]')",
            "INSERT INTO df._ready DEFAULT VALUES",
            // Does not fit into an index.
            "INSERT INTO df._ready (statement, label)
             SELECT 'SELECT 1', string_agg(md5(n::text), '') FROM generate_series(1, 300) n",
        ],
    )
    .await;
    let began = clock::now();
    for _ in 0..10 {
        let output = run_step(&bobs, "SELECT 1 AS n").await.completed();
        assert_eq!(output, r#"{"rows":[{"n":1}],"row_count":1}"#);
    }
    assert!(began.elapsed() < Duration::from_secs(10), "bob was held up for {:?}", began.elapsed());
    eventually(&scene.owner, "SELECT count(*) FROM df._ready", "0", SOON).await;
    let unreadable =
        "SELECT count(*) FROM df._done WHERE status = 'f' AND output::text LIKE '%cannot be read%'";
    eventually(&scene.owner, unreadable, "3", SOON).await;
    let cut = "SELECT count(*) FROM df._instance i JOIN df._done d USING (seq)
        WHERE octet_length(i.label) = 250";
    eventually(&scene.owner, cut, "1", SOON).await;
    let ledger = one(&scene.owner, &format!("SELECT count(*) FROM {alice}.ledger")).await;
    assert_eq!(ledger.as_deref(), Some("1"), "an instance that has ended does not begin again");
}

/// F-7: a notification that says that another's step is to stop is not believed; anybody may send one.
#[tokio::test(flavor = "multi_thread")]
async fn a_forged_notification_stops_nobodys_step() {
    let scene = Scene::set().await;
    let stranger = scene.database.stranger("stranger").await;
    let strangers = scene.database.connect(&stranger).await;
    let id = start_step(&scene.client, "SELECT pg_sleep(2) IS NOT NULL AS slept").await;
    eventually(&scene.owner, "SELECT count(*) FROM df._activity WHERE owner IS NOT NULL", "1", SOON).await;
    let seq = one(&scene.owner, &format!("SELECT df._seq('{id}')")).await.unwrap();
    let number = one(&scene.owner, "SELECT number FROM df._activity").await.unwrap();
    for payload in [seq.as_str(), number.as_str(), "0", "", "x"] {
        execute(&strangers, &[&format!("SELECT pg_notify('df_stop', '{payload}')")]).await;
    }
    execute(
        &strangers,
        &["SELECT pg_notify('df_stop', ''), pg_notify('df_wake', 'x'), pg_notify('df_done', 'x')"],
    )
    .await;
    let output = ended(&scene.client, &id, SOON).await.completed();
    assert!(output.contains("slept"), "{output}");
}

/// F-7: advisory locks are everybody's; whoever holds some, chosen with care, holds up nobody.
#[tokio::test(flavor = "multi_thread")]
async fn advisory_locks_of_others_hold_nobody_up() {
    let scene = Scene::set().await;
    let stranger = scene.database.stranger("stranger").await;
    let strangers = scene.database.connect(&stranger).await;
    let bob = scene.database.role("bob").await;
    let bobs = scene.database.connect(&bob).await;
    execute(
        &strangers,
        &[
            &format!(
                "SELECT pg_advisory_lock(hashtext('df_run.ensure_executor'), '{bob}'::regrole::oid::int)"
            ),
            &format!(
                "SELECT pg_advisory_lock(hashtext('df_run.ensure_executor'), '{}'::regrole::oid::int)",
                scene.alice
            ),
            "SELECT pg_advisory_lock(6579571, n) FROM generate_series(0, 9) n",
        ],
    )
    .await;
    let began = clock::now();
    let bobs_first = start_step(&bobs, "SELECT 1").await;
    run_step(&scene.client, "SELECT 1").await.completed();
    ended(&bobs, &bobs_first, SOON).await.completed();
    assert!(began.elapsed() < Duration::from_secs(5), "held up for {:?}", began.elapsed());
    let url = scene.database.url_as(&scene.alice);
    let waiter = tokio::time::timeout(SOON, Waiter::connect(&url)).await;
    let waiter = waiter.expect("connecting does not wait for the lock").unwrap();
    let id = start_step(&scene.client, "SELECT 1").await;
    assert_eq!(waiter.wait(&id, SOON).await.unwrap(), "completed");
}

/// F-5: `database` of a row that was written by hand opens no database that the role may not connect to.
#[tokio::test(flavor = "multi_thread")]
async fn a_database_without_the_right_to_connect_stays_shut() {
    let scene = Scene::set().await;
    let alice = &scene.alice;
    let other = scene.database.server().empty_database().await;
    execute(&scene.owner, &[&format!("REVOKE CONNECT ON DATABASE {other} FROM PUBLIC")]).await;
    let said = refusal(&scene.client, &format!("SELECT df.start('SELECT 1', database => '{other}')")).await;
    assert!(said.contains("may not connect"), "{said}");
    for database in [&other, "template1"] {
        for (kind, sql) in [("a step", "SELECT 1"), ("a bare statement", "VACUUM pg_catalog.pg_class")] {
            let graph = format!(r#"[{{"type":"SQL","query":"{sql}"}}]"#);
            let by_hand = format!(
                "INSERT INTO df._ready (database, graph) VALUES ('{database}', '{graph}') RETURNING df._id(seq)"
            );
            let id = one(&scene.client, &by_hand).await.unwrap();
            let said = ended(&scene.client, &id, SOON).await.failed();
            assert!(said.contains(database) || said.contains("connect"), "{kind} in {database}: {said}");
        }
    }
    let there = scene.database.server().connect(crate::common::OWNER, &other).await;
    let made = one(&there, "SELECT count(*) FROM pg_namespace WHERE nspname = 'df_run'").await;
    assert_eq!(made.as_deref(), Some("0"), "nothing was made in a database that is not the role's");
    // The right may also go away after the start.
    execute(&scene.owner, &[&format!("GRANT CONNECT ON DATABASE {other} TO {alice}")]).await;
    let id = start(&scene.client, &format!("df.sleep(1) ~> 'SELECT 1', database => '{other}'")).await;
    execute(&scene.owner, &[&format!("REVOKE CONNECT ON DATABASE {other} FROM {alice}")]).await;
    let said = ended(&scene.client, &id, SOON).await.failed();
    assert!(said.contains("connect"), "{said}");
}

/// F-7: an instance that the server refuses to write down does not hold up others; nor does a role whose settings make
/// its turns impossible.
#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_cannot_succeed_holds_nobody_up() {
    let scene = Scene::set().await;
    let bob = scene.database.role("bob").await;
    let bobs = scene.database.connect(&bob).await;
    run_step(&bobs, "SELECT 1").await.completed();
    for setting in [
        "default_transaction_read_only = on",
        "default_transaction_isolation = 'serializable'",
        "idle_in_transaction_session_timeout = 1",
        "statement_timeout = 1",
        "role = 'nobody'",
        "DateStyle = 'SQL, DMY'",
        "client_encoding = 'LATIN1'",
        "standard_conforming_strings = off",
        "lock_timeout = 1",
    ] {
        // Some of them cannot be set at all.
        let _ = scene.client.batch_execute(&format!("ALTER ROLE {} SET {setting}", scene.alice)).await;
    }
    let long = "(SELECT string_agg(md5(n::text), '') FROM generate_series(1, 300) n)";
    // It may be refused at once.
    let poison = format!("SELECT df.start(df.call('SELECT 1', label => {long}))");
    let poisoned = maybe_one(&scene.client, &poison).await.ok().flatten();
    for _ in 0..20 {
        start_step(&scene.client, "SELECT 1").await;
    }
    for number in 0..10 {
        let began = clock::now();
        run_step(&bobs, "SELECT 1").await.completed();
        assert!(
            began.elapsed() < Duration::from_secs(3),
            "bob's instance {number} took {:?}",
            began.elapsed()
        );
    }
    if let Some(id) = poisoned {
        assert_eq!(ended(&scene.client, &id, Duration::from_secs(60)).await.status, "failed");
    }
    let unfinished =
        "SELECT count(*) FROM df._started i WHERE NOT EXISTS (SELECT FROM df._done d WHERE d.seq = i.seq)";
    eventually(&scene.owner, unfinished, "0", Duration::from_secs(60)).await;
    let output = run(&bobs, "'SELECT 1' ~> 'SELECT 2 AS two'").await.completed();
    assert!(output.contains(r#""two":2"#));
}

/// Whoever may connect may listen: what can be heard tells nothing of others' instances.
#[tokio::test(flavor = "multi_thread")]
async fn who_listens_hears_no_ids_of_others() {
    let scene = Scene::set().await;
    let bob = scene.database.role("bob").await;
    let bobs = Target::parse(&scene.database.url_as(&bob)).unwrap();
    let (listener, mut heard) = bobs.connect_listening().await.unwrap();
    execute(&listener, &["LISTEN df_done", "LISTEN df_stop", "LISTEN df_wake"]).await;
    assert_eq!(one(&listener, "SELECT count(*) FROM df._channel").await.as_deref(), Some("0"));
    let waiter = Waiter::connect(&scene.database.url_as(&scene.alice)).await.unwrap();
    let mut ids = Vec::new();
    for _ in 0..5 {
        let began = clock::now();
        let id = start_step(&scene.client, "SELECT 1").await;
        waiter.ended(&id, SOON).await.unwrap();
        assert!(began.elapsed() < Duration::from_millis(1900), "alice is told, and need not ask");
        ids.push(id);
    }
    let id = start_step(&scene.client, "SELECT pg_sleep(60)").await;
    eventually(&scene.owner, "SELECT count(*) FROM df._activity WHERE owner IS NOT NULL", "1", SOON).await;
    execute(&scene.client, &[&format!("SELECT df.cancel('{id}')")]).await;
    ended(&scene.client, &id, SOON).await;
    ids.push(id);
    sleep(Duration::from_millis(300)).await;
    while let Ok(notification) = heard.try_recv() {
        let said = notification.payload().to_owned();
        assert!(!ids.iter().any(|id| said.contains(id.as_str())), "{}: {said}", notification.channel());
        assert_ne!(notification.channel(), "df_done", "{said}");
    }
}
