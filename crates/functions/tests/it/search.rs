//! Finding, counting and telling of instances: what is found is what fits, all of it, in order, and only one's own.

use crate::common::{self, one, refusal, rows, Database};
use crate::worker::{self, ended, eventually, execute, start, start_step, TestWorker, SOON};
use tokio_postgres::Client;

/// Instances of two roles: with labels, inputs and queues, in every status.
async fn populated() -> (Database<'static>, Client, Client) {
    let database = common::database().await;
    let owner = database.owner().await;
    let mut clients = Vec::new();
    for name in ["alice", "bob"] {
        let role = database.role(name).await;
        let client = database.connect(&role).await;
        execute(&client, &["SELECT df.queue('mail'), df.queue('other')"]).await;
        for queue in ["NULL", "'mail'", "'other'"] {
            for label in ["'night 1'", "'night 2'", "NULL"] {
                let start = format!(
                    "SELECT count(*) FROM df.start_many(ARRAY(SELECT 'SELECT 1' FROM generate_series(1, 20)), {label},
                        inputs => ARRAY(SELECT jsonb_build_object('n', n % 4, 'of', jsonb_build_object('x', {queue}::text))
                            FROM generate_series(1, 20) n), queue => {queue})"
                );
                assert_eq!(one(&client, &start).await.as_deref(), Some("20"));
            }
        }
        clients.push(client);
    }
    execute(
        &owner,
        &[
            // Times that do not follow the numbers, and repeat.
            "UPDATE df._ready SET created_at = '2026-11-22 01:00:00Z'::timestamptz + ((seq * 7919) % 50) * interval '1 s'",
            "UPDATE df._queued SET created_at = '2026-11-22 01:00:00Z'::timestamptz + ((seq * 7919) % 50) * interval '1 s'",
            &common::take("seq % 5 < 4"),
            "WITH taken AS (DELETE FROM df._queued WHERE seq % 5 < 4 RETURNING *)
             INSERT INTO df._instance (seq, submitted_by, created_at, label, database, graph, vars, input, id, queue)
             SELECT seq, submitted_by, created_at, label, database, coalesce(graph, df._statement_graph(statement)), vars,
                 input, df._id(seq), queue FROM taken",
            "INSERT INTO df._done (seq, submitted_by, status, started_at, output)
             SELECT seq, submitted_by, CASE seq % 5 WHEN 0 THEN 'f' WHEN 1 THEN 'x' ELSE 'c' END, now(),
                 CASE WHEN seq % 5 < 2 THEN '\"why\"' ELSE '1' END::json
             FROM df._instance WHERE seq % 5 < 3",
            "INSERT INTO df._work (seq, submitted_by, started_at, updated_at, execution, state)
             SELECT seq, submitted_by, now(), now(), 3, '{\"cells\":{}}' FROM df._instance WHERE seq % 5 = 3",
        ],
    )
    .await;
    let bob = clients.pop().unwrap();
    let alice = clients.pop().unwrap();
    (database, alice, bob)
}

/// What a search is asked for, and the same as a condition on the view of instances.
fn filters(bob: &str) -> Vec<(String, String)> {
    let mut filters = vec![(String::new(), "true".to_owned())];
    let kinds: [&[(&str, &str)]; 6] = [
        &[
            ("status => 'pending'", "i.status = 'pending'"),
            ("status => 'running'", "i.status = 'running'"),
            ("status => 'Completed'", "i.status = 'completed'"),
            ("status => 'failed'", "i.status = 'failed'"),
            ("status => 'cancelled'", "i.status = 'cancelled'"),
        ],
        &[("label => 'night 1'", "i.label = 'night 1'"), ("label_like => 'night%'", "i.label LIKE 'night%'")],
        &[("queue => 'mail'", "s.x = 'mail'"), ("queue => 'nowhere'", "false")],
        &[("role => 'BOB'", "i.submitted_by::text = 'BOB'"), ("role => 'nobody'", "false")],
        &[
            ("started_after => '2026-11-22 01:00:20Z'", "i.created_at >= '2026-11-22 01:00:20Z'"),
            ("started_before => '2026-11-22 01:00:30Z'", "i.created_at <= '2026-11-22 01:00:30Z'"),
        ],
        &[
            ("input => '{\"n\": 2}'", "s.n = 2"),
            ("input => '{\"of\": {\"x\": \"other\"}, \"n\": 1}'", "s.n = 1 AND s.x = 'other'"),
        ],
    ];
    for (place, kind) in kinds.iter().enumerate() {
        for (asked, fits) in kind.iter() {
            filters.push(((*asked).to_owned(), (*fits).to_owned()));
            // With one of each later kind, and all of them together.
            for other in &kinds[place + 1..] {
                for (also, fits_also) in other.iter() {
                    filters.push((format!("{asked}, {also}"), format!("{fits} AND {fits_also}")));
                }
            }
        }
    }
    filters.push((
        "'completed', NULL, 'night%', 'mail', 'BOB', '2026-11-22 01:00:05Z', '2026-11-22 01:00:45Z', '{\"n\": 3}'".to_owned(),
        "i.status = 'completed' AND i.label LIKE 'night%' AND s.x = 'mail' AND i.submitted_by::text = 'BOB' AND s.n = 3
         AND i.created_at BETWEEN '2026-11-22 01:00:05Z' AND '2026-11-22 01:00:45Z'"
            .to_owned(),
    ));
    filters.iter().map(|(asked, fits)| (asked.replace("BOB", bob), fits.replace("BOB", bob))).collect()
}

#[tokio::test]
async fn what_is_found_is_all_that_fits_in_order() {
    let (database, alice, bob) = populated().await;
    let owner = database.owner().await;
    let bobs_name = one(&bob, "SELECT current_user").await.unwrap();
    let mut found_some = 0;
    for client in [&alice, &owner] {
        for (asked, fits) in filters(&bobs_name) {
            let whole = rows(
                client,
                &format!(
                    "SELECT i.id, i.status, i.label, s.x FROM df.instances i
                     JOIN LATERAL (SELECT (t.input ->> 'n')::int AS n, t.input -> 'of' ->> 'x' AS x
                         FROM df._started t WHERE t.id = i.id) s ON true
                     WHERE {fits} ORDER BY i.created_at DESC, i.id COLLATE \"C\""
                ),
            )
            .await;
            found_some += usize::from(!whole.is_empty());
            let mut found = Vec::new();
            let mut cursor = "NULL".to_owned();
            loop {
                let comma = if asked.is_empty() { "" } else { ", " };
                let page = format!(
                    "SELECT instance_id, status, label, queue, next_cursor FROM df.find_instances({asked}{comma}limit_count => 37,
                        after_cursor => {cursor})"
                );
                let page = rows(client, &page).await;
                let next = page.first().and_then(|row| row[4].clone());
                found.extend(page.into_iter().map(|row| row[..4].to_vec()));
                match next {
                    Some(next) => cursor = format!("'{next}'"),
                    None => break,
                }
            }
            assert!(found == whole, "{asked}: {} found, {} fit", found.len(), whole.len());
            let counted =
                one(client, &format!("SELECT coalesce(sum(count), 0) FROM df.count_instances({asked})"))
                    .await;
            assert_eq!(counted, Some(whole.len().to_string()), "{asked}");
        }
    }
    assert!(found_some > 60, "{found_some} of the searches find something");
    let of_bob = format!("SELECT count(*) FROM df.find_instances(role => '{bobs_name}')");
    assert_eq!(one(&alice, &of_bob).await.as_deref(), Some("0"), "alice sees nothing of bob's");
    let by_group = rows(&alice, "SELECT status, queue, count FROM df.count_instances(queue => 'mail')").await;
    assert_eq!(by_group.len(), 5, "{by_group:?}");
}

/// What is counted together is one row, also what came through queues that are gone.
#[tokio::test]
async fn each_group_is_counted_once() {
    let database = common::database().await;
    let (_, client, _) = worker::submitter(&database).await;
    let _worker = TestWorker::start(&database, 2).await;
    let mut ids = vec![start(&client, "'SELECT 1'").await];
    for queue in ["one", "other"] {
        execute(&client, &[&format!("SELECT df.queue('{queue}')")]).await;
        ids.push(start(&client, &format!("'SELECT 1', queue => '{queue}'")).await);
    }
    for id in &ids {
        ended(&client, id, SOON).await.completed();
    }
    let counted = "SELECT status, queue, count FROM df.count_instances()";
    assert_eq!(rows(&client, counted).await.len(), 3);
    execute(&client, &["SELECT df.drop_queue('one')", "SELECT df.drop_queue('other')"]).await;
    let counted = rows(&client, counted).await;
    assert_eq!(counted, [[Some("completed".to_owned()), None, Some("3".to_owned())]]);
}

#[tokio::test]
async fn a_search_that_makes_no_sense_is_refused() {
    let (_database, alice, _bob) = populated().await;
    for (call, expected) in [
        ("df.find_instances(status => 'done')", "unknown status"),
        ("df.count_instances(status => 'done')", "unknown status"),
        ("df.find_instances(limit_count => 0)", "at least 1"),
        ("df.find_instances(limit_count => 1001)", "df.list_instances_max_limit"),
        ("df.find_instances(after_cursor => 'x')", "invalid after_cursor"),
    ] {
        let said = refusal(&alice, &format!("SELECT * FROM {call}")).await;
        assert!(said.contains(expected), "{call}: {said}");
    }
}

/// What a worker does to an instance shows in its timeline, in the order in which it happened.
#[tokio::test(flavor = "multi_thread")]
async fn a_timeline_tells_what_happened_in_order() {
    let database = common::database().await;
    let (_, client, _) = worker::submitter(&database).await;
    let bob = database.role("bob").await;
    let _worker = TestWorker::start(&database, 4).await;
    let graph =
        "('SELECT 1 AS one' |=> 'first') ~> 'SELECT df.set_event(''{sys_instance_id}'', ''half'', ''50'')'
        ~> df.wait_for_signal('go') ~> df.catch('SELECT 1/0', 'SELECT $error.sqlstate')";
    let id = start(&client, &format!("{graph}, 'told'")).await;
    let waits = format!(
        "SELECT count(*) FROM df.timeline('{id}') WHERE event = 'node begun' AND detail LIKE 'SIGNAL%'"
    );
    eventually(&client, &waits, "1", SOON).await;
    execute(&client, &[&format!("SELECT df.signal('{id}', 'go')")]).await;
    ended(&client, &id, SOON).await.completed();
    let told = rows(
        &client,
        &format!("SELECT event, detail, after_ms >= 0, node_id IS NULL FROM df.timeline('{id}')"),
    )
    .await;
    let texts: Vec<String> = told
        .iter()
        .map(|row| format!("{} {}", row[0].as_deref().unwrap_or(""), row[1].as_deref().unwrap_or("")))
        .collect();
    let place = |part: &str| {
        texts.iter().position(|text| text.contains(part)).unwrap_or_else(|| panic!("{part}: {texts:#?}"))
    };
    assert_eq!((texts[0].as_str(), texts[1].trim()), ("started told", "begun"));
    assert!(place("event half") < place("completed SIGNAL"), "{texts:#?}");
    assert!(place("completed SIGNAL") < place("failed SQL: division by zero"), "{texts:#?}");
    assert!(texts.last().is_some_and(|last| last.starts_with("completed {")), "{texts:#?}");
    assert!(told.iter().all(|row| row[2].as_deref() == Some("t")), "{told:?}");
    let bobs = database.connect(&bob).await;
    assert!(rows(&bobs, &format!("SELECT * FROM df.timeline('{id}')")).await.is_empty());

    let exported = one(&client, &format!("SELECT df.export_instance('{id}')")).await.unwrap();
    let exported: serde_json::Value = serde_json::from_str(&exported).unwrap();
    assert_eq!(exported["format"], "duramen.instance/1");
    assert_eq!((&exported["status"], &exported["label"]), (&"completed".into(), &"told".into()));
    assert_eq!(exported["events"]["half"], 50);
    assert_eq!(exported["timeline"].as_array().map(Vec::len), Some(told.len()));
    assert_eq!(exported["nodes"].as_array().map(Vec::len), exported["graph"].as_array().map(Vec::len));
    assert_eq!(one(&bobs, &format!("SELECT df.export_instance('{id}')")).await, None);
    assert_eq!(one(&client, "SELECT df.export_instance('00000000')").await, None);

    // One that has not begun, one that waits in a queue, and a single step that is over.
    let lone = start_step(&client, "SELECT 2").await;
    ended(&client, &lone, SOON).await.completed();
    let told = rows(&client, &format!("SELECT event FROM df.timeline('{lone}')")).await;
    assert_eq!(told.len(), 3, "{told:?}");
    execute(&client, &["SELECT df.queue('shut')", "SELECT df.pause_queue('shut')"]).await;
    let queued = start(&client, "'SELECT 3', queue => 'shut'").await;
    let told = rows(&client, &format!("SELECT event, detail FROM df.timeline('{queued}')")).await;
    assert_eq!(told, [[Some("started".to_owned()), Some("waits in queue shut".to_owned())]]);
    let exported = one(&client, &format!("SELECT df.export_instance('{queued}') ->> 'queue'")).await;
    assert_eq!(exported.as_deref(), Some("shut"));
}
