//! What is shown of instances, queues and schedules, and what can be done with one from outside; and that nobody is shown more than a limit, or
//! waits for ever.

use crate::common::{self, one, rows, take, Database};
use crate::worker::{self, ended, eventually, execute, start, TestWorker, SOON};
use duramen_functions::inspect::{
    Action, Database as Inspected, Filter, InspectError, Instance, Slot, Value, PAGE_MAX, VALUE_MAX,
};
use std::{
    collections::HashSet,
    time::{Duration, Instant},
};
use tokio::net::TcpListener;

fn inspected(url: &str) -> Inspected {
    Inspected::at(url).expect("a connection string")
}

fn by_status(status: &str) -> Filter {
    Filter { status: Some(status.to_owned()), ..Filter::default() }
}

/// Instances of two roles in every status, as a worker would have written them.
async fn many(database: &Database<'_>, count: u32) -> String {
    let owner = database.owner().await;
    let (alice, bob) = (database.role("alice").await, database.role("bob").await);
    for role in [&alice, &bob] {
        let client = database.connect(role).await;
        let half = count / 2;
        let started = format!(
            "SELECT count(*) FROM df.start_many(ARRAY(SELECT 'SELECT ' || n FROM generate_series(1, {half}) n), 'night')"
        );
        assert_eq!(one(&client, &started).await, Some(half.to_string()));
    }
    execute(
        &owner,
        &[
            &take("seq > 0"),
            "INSERT INTO df._done (seq, submitted_by, status, started_at, output)
             SELECT seq, submitted_by, CASE WHEN seq % 1000 = 0 THEN 'f' WHEN seq % 1000 = 1 THEN 'x' ELSE 'c' END, now(),
                 CASE WHEN seq % 1000 < 2 THEN '\"why\"' ELSE '{\"rows\":[]}' END::json
             FROM df._instance WHERE seq % 1000 <> 2",
            "INSERT INTO df._work (seq, submitted_by, started_at, updated_at, state, bytes)
             SELECT seq, submitted_by, now(), now(),
                 '{\"cells\":{\"0\":{\"s\":\"running\",\"at\":\"2026-11-22T01:00:00Z\",\"x\":\"1\"}}}', 80
             FROM df._instance WHERE seq % 1000 = 2",
            "ANALYZE df._ready, df._queued, df._instance, df._done, df._work",
        ],
    )
    .await;
    alice
}

/// The cost of a page follows its length, not the number of instances.
#[tokio::test(flavor = "multi_thread")]
async fn a_page_among_a_hundred_thousand_is_found_by_an_index() {
    let database = common::database().await;
    let alice = many(&database, 100_000).await;

    // All of them, each once, the newest first.
    let inspected_by_owner = inspected(&database.url());
    let (mut seen, mut cursor, mut last, mut pages) = (HashSet::new(), None::<String>, None, 0);
    loop {
        let page =
            inspected_by_owner.page(&Filter::default(), PAGE_MAX, cursor.as_deref()).await.expect("a page");
        assert!(page.instances.len() <= PAGE_MAX as usize);
        for listed in &page.instances {
            assert!(last.is_none_or(|last| listed.created_at <= last), "the newest are first");
            last = Some(listed.created_at);
            assert!(seen.insert(listed.id.clone()), "{} is there twice", listed.id);
        }
        pages += 1;
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!((seen.len(), pages), (100_000, 100));

    // No statement of a page scans what is large, whatever is asked for, and whoever asks.
    for role in [common::OWNER, &alice] {
        for filter in [
            Filter::default(),
            by_status("running"),
            by_status("completed"),
            by_status("failed"),
            by_status("cancelled"),
            Filter { search: seen.iter().next().cloned(), ..Filter::default() },
        ] {
            let plans = plans(&database, role, &filter).await;
            assert!(plans.contains("_instance_0"), "{filter:?} was seen:\n{plans}");
            for large in ["_instance_0", "_done_0"] {
                assert!(
                    !plans.contains(&format!("Seq Scan on {large}")),
                    "{role}: {filter:?} scans {large}:\n{plans}"
                );
            }
        }
    }

    let failed = inspected_by_owner.page(&by_status("failed"), 10, None).await.expect("a page");
    assert_eq!(failed.instances.len(), 10);
    assert!(failed.instances.iter().all(|listed| listed.reason.as_deref() == Some("why")));
    let running = inspected_by_owner.page(&by_status("running"), 1, None).await.expect("a page");
    let at = running.instances[0].at.as_ref().expect("where it is");
    assert!(at.node_type == "SQL" && at.query.as_deref().is_some_and(|query| query.starts_with("SELECT ")));
    assert_eq!(at.since, "2026-11-22T01:00:00Z".parse().ok());

    let overview = inspected_by_owner.overview().await.expect("an overview");
    let counts = &overview.counts;
    assert_eq!((counts.failed.count, counts.cancelled.count, counts.running.count), (100, 100, 100));
    assert_eq!((counts.completed.count, counts.completed.more), (99_700, false));
    assert!(overview.sees_all && overview.workers.is_some());
    let own = inspected(&database.url_as(&alice)).overview().await.expect("an overview");
    assert_eq!((own.sees_all, own.counts.failed.count, own.role), (false, 50, alice));
    assert_eq!(own.workers, None);
}

/// The plans of all that one page runs, those within functions too, as the server has run them.
async fn plans(database: &Database<'_>, role: &str, filter: &Filter) -> String {
    let owner = database.owner().await;
    let settings = [
        "session_preload_libraries = 'auto_explain'",
        "\"auto_explain.log_min_duration\" = 0",
        "\"auto_explain.log_analyze\" = on",
        "\"auto_explain.log_timing\" = off",
        "\"auto_explain.log_nested_statements\" = on",
    ];
    for setting in settings {
        execute(&owner, &[&format!("ALTER DATABASE {} SET {setting}", database.name())]).await;
    }
    // The log is the server's own, and others write to it, too: a mark of ours tells where these plans begin.
    let mark = format!("mark_{}", duramen_base::entropy::token(10));
    execute(&database.owner().await, &[&format!("DO $$ BEGIN RAISE LOG '{mark}'; END $$")]).await;
    inspected(&database.url_as(role)).page(filter, 200, None).await.expect("a page");
    for name in ["session_preload_libraries", "\"auto_explain.log_min_duration\""] {
        execute(&owner, &[&format!("ALTER DATABASE {} RESET {name}", database.name())]).await;
    }
    let log = database.server().whole_log();
    log.rsplit_once(&mark).map(|(_, behind)| behind.to_owned()).expect("the mark is in the log")
}

async fn shown(database: &Database<'_>, id: &str) -> Instance {
    inspected(&database.url()).instance(id).await.unwrap_or_else(|error| panic!("{id}: {error}"))
}

/// An instance that waits for a signal, in a queue, with a child, a retry and a map.
#[tokio::test(flavor = "multi_thread")]
async fn an_instance_shows_its_steps_its_waits_and_its_family() {
    let database = common::database().await;
    let (alice, client, _) = worker::submitter(&database).await;
    let _worker = TestWorker::start(&database, 4).await;
    execute(&client, &["SELECT df.queue('mail', concurrency => 1)"]).await;
    let graph = "('SELECT 1 AS one' |=> 'first')
        ~> df.map('SELECT n FROM generate_series(1, 3) n', 'SELECT $item.n')
        ~> df.call('SELECT 5', 'little')
        ~> (df.wait_for_signal('go') & df.retry('SELECT 1/0', 5, 600, 600))";
    let id = start(&client, &format!("{graph}, 'told', queue => 'mail', input => '{{\"n\": 7}}'")).await;
    let waits = format!(
        "SELECT count(*) FROM df.timeline('{id}') WHERE event = 'node begun' AND detail LIKE 'SIGNAL%'"
    );
    eventually(&client, &waits, "1", SOON).await;
    let fails = format!(
        "SELECT count(*) FROM df.instance_nodes('{id}') WHERE node_type = 'SQL' AND status = 'failed'"
    );
    eventually(&client, &fails, "1", SOON).await;
    let found = shown(&database, &id).await;
    assert_eq!((found.label.as_deref(), found.status.as_str(), found.role), (Some("told"), "running", alice));
    assert_eq!(found.queue.as_deref(), Some("mail"));
    assert_eq!(found.input.expect("an input").text, "{\"n\": 7}");
    assert!(found.begun_at.is_some() && found.ended_at.is_none() && found.problem.is_none());

    // A tree with one root, as the graph has it.
    let nodes = &found.nodes;
    assert_eq!(found.edges.len(), nodes.len() - 1);
    let of_type = |node_type: &str| nodes.iter().position(|node| node.node_type == node_type);
    let map = of_type("MAP").expect("a map");
    let below: Vec<Slot> = found.edges.iter().filter(|edge| edge.from == map).map(|edge| edge.slot).collect();
    assert_eq!(below, [Slot::Condition, Slot::Left]);
    let first = nodes.iter().find(|node| node.name.as_deref() == Some("first")).expect("a name");
    assert_eq!(
        first.result.as_ref().map(|result| result.text.as_str()),
        Some(r#"{"rows":[{"one":1}],"row_count":1}"#)
    );

    let step = |node: Option<usize>| {
        let found = found.steps.iter().find(|step| Some(step.node) == node);
        found.unwrap_or_else(|| panic!("no step of node {node:?}"))
    };
    let (signal, retry) = (step(of_type("SIGNAL")), step(of_type("RETRY")));
    assert!(signal.status == "running" && signal.begun_at.is_some() && signal.ended_at.is_none());
    assert_eq!((retry.status.as_str(), retry.attempt), ("running", Some(1)));
    assert!(retry.due_at > retry.begun_at, "it waits for its next attempt: {retry:?}");
    let call = step(of_type("CALL"));
    assert!(call.begun_at <= call.ended_at && call.begun_at.is_some(), "{call:?}");
    let items: Vec<&str> = found.steps.iter().filter_map(|step| step.items.as_deref()).collect();
    assert_eq!(items, ["2"], "the item that ended last is kept");

    let [child] = found.children.as_slice() else { panic!("{:?}", found.children) };
    assert_eq!((child.label.as_deref(), child.status.as_deref()), (Some("little"), Some("completed")));
    let of_child = shown(&database, &child.id).await;
    assert_eq!(of_child.parent.as_deref(), Some(id.as_str()));
    assert_eq!(of_child.steps.len(), 1, "one step, which has no state");
    assert!(of_child.steps[0].begun_at.is_some() && of_child.steps[0].ended_at == of_child.ended_at);

    let page = inspected(&database.url()).page(&by_status("running"), 10, None).await.expect("a page");
    let [listed] = page.instances.as_slice() else { panic!("{page:?}") };
    let at = listed.at.as_ref().expect("where it is");
    assert_eq!((at.node_type.as_str(), listed.queue.as_deref()), ("SIGNAL", Some("mail")));

    // What was sent and nobody waits for is kept, and shown.
    execute(&client, &[&format!("SELECT df.signal('{id}', 'other', '[1]')")]).await;
    let kept = shown(&database, &id).await.signals;
    assert_eq!((kept.len(), kept[0].name.as_str()), (1, "other"));
    assert_eq!(kept[0].data.as_ref().map(|data| data.text.as_str()), Some("[1]"));
}

/// Each action does what `duramen fn` does, and what cannot be done is refused in the schema's words.
#[tokio::test(flavor = "multi_thread")]
async fn an_instance_is_steered() {
    let database = common::database().await;
    let (_, client, owner) = worker::submitter(&database).await;
    let _worker = TestWorker::start(&database, 4).await;
    execute(&owner, &["CREATE TABLE public.told (x int); GRANT ALL ON public.told TO PUBLIC"]).await;
    let inspected = inspected(&database.url());
    let control = async |id: &str, action: Action| inspected.control(id, &action).await;

    let waits = start(&client, "df.wait_for_signal('go') |=> 's' ~> 'SELECT $s.data'").await;
    let sent = control(&waits, Action::Signal { name: "go".to_owned(), data: Some("41".to_owned()) }).await;
    assert_eq!(sent.expect("it is sent").message, format!("signal go was sent to {waits}"));
    assert!(ended(&client, &waits, SOON).await.completed().contains("41"));

    let long = start(&client, "df.sleep(600)").await;
    eventually(&client, &format!("SELECT df.status('{long}')"), "running", SOON).await;
    control(&long, Action::Pause).await.expect("it is paused");
    let paused = format!("SELECT count(*) FROM df._work WHERE seq = df._seq('{long}') AND paused");
    eventually(&client, &paused, "1", SOON).await;
    assert!(shown(&database, &long).await.paused);
    control(&long, Action::Resume { step: None }).await.expect("it goes on");
    eventually(&client, &paused, "0", SOON).await;
    let cancel = || Action::Cancel { reason: Some("enough".to_owned()) };
    let cancelled = control(&long, cancel()).await.expect("it is cancelled");
    assert_eq!(cancelled.status_before.as_deref(), Some("running"));
    ended(&client, &long, SOON).await;
    let found = shown(&database, &long).await;
    assert_eq!(
        (found.status.as_str(), found.reason.expect("a reason").text.as_str()),
        ("cancelled", "enough")
    );
    let again = control(&long, cancel()).await.expect("there is nothing to cancel");
    assert_eq!(again.status_before.as_deref(), Some("cancelled"));

    let fails = start(
        &client,
        "('SELECT 1' |=> 'a') ~> 'INSERT INTO public.told SELECT 1 / count(*) FROM public.told'",
    )
    .await;
    eventually(&client, &format!("SELECT df.status('{fails}')"), "failed", SOON).await;
    execute(&owner, &["INSERT INTO public.told VALUES (1)"]).await;
    control(&fails, Action::Resume { step: None }).await.expect("it goes on");
    ended(&client, &fails, SOON).await.completed();
    let fork = Action::Fork { from: Some("a".to_owned()), step: None, label: Some("again".to_owned()) };
    let forked = control(&fails, fork).await.expect("it is forked").fork.expect("an id");
    ended(&client, &forked, SOON).await.completed();
    assert_eq!(shown(&database, &forked).await.label.as_deref(), Some("again"));

    for (id, action, word) in [
        (&fails, Action::Resume { step: None }, "cannot resume"),
        (&fails, Action::Pause, "cannot pause"),
        (&fails, Action::Fork { from: Some("nowhere".to_owned()), step: None, label: None }, "has no step"),
        (&fails, Action::Signal { name: String::new(), data: None }, "must not be empty"),
    ] {
        match control(id, action).await {
            Err(InspectError::Refused { message, sqlstate }) => {
                assert!(message.contains(word) && sqlstate.len() == 5, "{message}");
            }
            other => panic!("{word}: {other:?}"),
        }
    }
    control(&fails, Action::Delete).await.expect("it is deleted");
    for unknown in [fails.as_str(), "00000000", "'; DROP TABLE public.told; --", ""] {
        for action in [cancel(), Action::Pause, Action::Delete, Action::Resume { step: None }] {
            let refused = control(unknown, action.clone()).await;
            assert!(matches!(refused, Err(InspectError::Unknown(_))), "{unknown:?} {action:?}: {refused:?}");
        }
        assert!(matches!(inspected.instance(unknown).await, Err(InspectError::Unknown(_))), "{unknown:?}");
    }
}

/// Whoever looks changes nothing, and sees what its role does.
#[tokio::test(flavor = "multi_thread")]
async fn a_role_sees_and_steers_its_own_instances_alone() {
    let database = common::database().await;
    let (_, client, _) = worker::submitter(&database).await;
    let bob = database.role("bob").await;
    let id = start(&client, "'SELECT 1', 'secret'").await;
    let as_bob = inspected(&database.url_as(&bob));
    assert_eq!(as_bob.page(&Filter::default(), 10, None).await.expect("a page").instances, []);
    let by_id = Filter { search: Some(id.clone()), ..Filter::default() };
    assert_eq!(as_bob.page(&by_id, 10, None).await.expect("a page").instances, []);
    assert!(matches!(as_bob.instance(&id).await, Err(InspectError::Unknown(_))));
    for action in [Action::Cancel { reason: None }, Action::Delete, Action::Pause] {
        let refused = as_bob.control(&id, &action).await;
        assert!(matches!(refused, Err(InspectError::Unknown(_))), "{action:?}: {refused:?}");
    }
    let page = inspected(&database.url()).page(&by_id, 10, None).await.expect("a page");
    assert_eq!(page.instances[0].label.as_deref(), Some("secret"));
}

/// What submitters write is text, and a graph that is none, or a huge value, harms nobody.
#[tokio::test(flavor = "multi_thread")]
async fn hostile_graphs_labels_and_values_are_shown_and_cut() {
    let database = common::database().await;
    let (alice, client, owner) = worker::submitter(&database).await;
    let label = r#"<img src=x onerror="window.hit=1">%_\"#;
    for graph in [
        "'7'",
        "'{}'",
        "'[]'",
        "'[1, null, \"x\"]'",
        r#"'[{"type": {"a": 1}, "left": "x", "right": 99, "extra": 5, "query": [1]}]'"#,
        r#"'[{"type": "LOOP", "left": 0}]'"#,
        r#"'[{"type": "SQL", "query": "SELECT 1", "left": 12345678901234567890}]'"#,
    ] {
        let insert = format!("INSERT INTO df._ready (label, graph) VALUES ($1, {graph})");
        client.execute(&insert, &[&label]).await.unwrap_or_else(|error| panic!("{graph}: {error}"));
    }
    let inspected = inspected(&database.url());
    let search = Filter { search: Some("%_\\".to_owned()), ..Filter::default() };
    let page = inspected.page(&search, 100, None).await.expect("a page");
    assert_eq!(page.instances.len(), 7, "a pattern is text");
    assert!(page.instances.iter().all(|listed| listed.label.as_deref() == Some(label)));
    let wrong = Filter { search: Some("%x".to_owned()), ..Filter::default() };
    assert_eq!(inspected.page(&wrong, 100, None).await.expect("a page").instances, []);
    let mut problems = 0;
    for listed in &page.instances {
        let found = inspected.instance(&listed.id).await.unwrap_or_else(|error| panic!("{error}"));
        problems += usize::from(found.problem.is_some());
        assert!(found.nodes.len() <= 3 && found.edges.is_empty(), "{found:?}");
    }
    assert!(problems >= 3, "{problems}");

    // A page, and its cursor, that nobody gave.
    for cursor in ["x", "", "7631", "'; DROP TABLE t; --"] {
        let refused = inspected.page(&Filter::default(), 10, Some(cursor)).await;
        assert!(matches!(refused, Err(InspectError::Refused { .. })), "{cursor:?}: {refused:?}");
    }
    let long = Filter { search: Some("a".repeat(5000)), ..Filter::default() };
    for filter in [by_status("done"), long, Filter { queue: Some("a\0b".to_owned()), ..Filter::default() }] {
        let refused = inspected.page(&filter, 10, None).await;
        assert!(matches!(refused, Err(InspectError::Invalid(_))), "{filter:?}: {refused:?}");
    }

    // Values are cut where they are, and say how long they are.
    let _worker = TestWorker::start(&database, 2).await;
    execute(&owner, &[&format!("GRANT USAGE ON SCHEMA public TO {alice}")]).await;
    let id = start(&client, "'SELECT repeat(chr(233), 200000) AS x' |=> 'x' ~> 'SELECT length($x)'").await;
    ended(&client, &id, SOON).await.completed();
    let found = inspected.instance(&id).await.expect("an instance");
    let large = found.nodes.iter().find(|node| node.name.as_deref() == Some("x")).expect("the step");
    let Some(Value { text, bytes }) = &large.result else { panic!("{large:?}") };
    assert!(
        text.len() <= VALUE_MAX && text.len() > VALUE_MAX - 4 && *bytes > 400_000,
        "{} {bytes}",
        text.len()
    );
}

/// What is down, has nothing, or does not answer is told with what to do, in time.
#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_shown_is_refused_in_time_with_what_to_do() {
    let database = common::database().await;
    let server = database.server();
    let empty = server.empty_database().await;
    let missing = inspected(&server.url(common::OWNER, &empty)).overview().await.unwrap_err();
    assert!(missing.to_string().contains("duramen fn install"), "{missing}");
    let owner = database.owner().await;
    execute(&owner, &["UPDATE df._meta SET schema_version = 4"]).await;
    let older = inspected(&database.url()).queues().await.unwrap_err();
    assert!(older.to_string().contains("has version 4") && older.to_string().contains("install"), "{older}");
    execute(&owner, &["UPDATE df._meta SET schema_version = 99"]).await;
    let newer = inspected(&database.url()).queues().await.unwrap_err();
    assert!(newer.to_string().contains("newer duramen"), "{newer}");
    execute(&owner, &["UPDATE df._meta SET schema_version = 6", "DROP FUNCTION df.schedules()"]).await;
    let other = inspected(&database.url()).schedules().await.unwrap_err();
    assert!(matches!(other, InspectError::OtherFunctions { .. }), "{other}");
    let stranger = database.stranger("eve").await;
    let refused = inspected(&database.url_as(&stranger)).overview().await.unwrap_err();
    assert!(refused.to_string().contains("df"), "{refused}");
    let down = inspected("postgres://ops:hidden@127.0.0.1:1/shop").overview().await.unwrap_err();
    assert!(matches!(down, InspectError::Connect(_)) && !down.to_string().contains("hidden"), "{down}");

    // Somebody takes the connection and says nothing.
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let silent = inspected(&format!("postgres://ops@127.0.0.1:{port}/shop?sslmode=disable"));
    let began: Instant = duramen_base::clock::now();
    let late = silent.overview().await.unwrap_err();
    assert!(matches!(late, InspectError::Late { .. }), "{late}");
    assert!(began.elapsed() < Duration::from_secs(9), "{:?}", began.elapsed());

    // Somebody holds a lock.
    let holder = database.owner().await;
    execute(&holder, &["BEGIN; LOCK TABLE df._queue IN ACCESS EXCLUSIVE MODE"]).await;
    let locked = inspected(&database.url()).queues().await.unwrap_err();
    assert!(matches!(locked, InspectError::Refused { .. } | InspectError::Slow { .. }), "{locked}");
}

#[tokio::test(flavor = "multi_thread")]
async fn queues_and_schedules_are_told_with_their_limits_and_next_times() {
    let database = common::database().await;
    let (alice, client, _) = worker::submitter(&database).await;
    execute(
        &client,
        &[
            "SELECT df.queue('mail', concurrency => 2, rate => 10, per => '1 minute')",
            "SELECT df.start('SELECT 1', queue => 'mail'), df.start('SELECT 2', queue => 'mail')",
            "SELECT df.schedule('nightly', 'SELECT 1', cron => '0 3 * * *', time_zone => 'Europe/Berlin')",
            "SELECT df.schedule('often', 'SELECT 1', every => '30 seconds')",
        ],
    )
    .await;
    let _worker = TestWorker::start(&database, 2).await;
    let has_next = "SELECT count(*) FROM df._schedule WHERE due_at IS NOT NULL";
    eventually(&client, has_next, "2", SOON).await;
    let inspected = inspected(&database.url());
    let queues = inspected.queues().await.expect("queues");
    let [queue] = queues.as_slice() else { panic!("{queues:?}") };
    assert_eq!((queue.name.as_str(), &queue.role, queue.concurrency), ("mail", &alice, Some(2)));
    assert_eq!((queue.rate, queue.per_s), (Some(10), Some(60.0)));
    let schedules = inspected.schedules().await.expect("schedules");
    let names: Vec<&str> = schedules.iter().map(|schedule| schedule.name.as_str()).collect();
    assert_eq!(names, ["nightly", "often"]);
    for schedule in &schedules {
        assert_eq!(schedule.next.len(), 5, "{schedule:?}");
        assert!(schedule.next.is_sorted() && schedule.next[0] == schedule.next_at.expect("a time"));
    }
    let gap = schedules[1].next[2].duration_since(schedules[1].next[1]);
    assert_eq!(gap.as_secs(), 30);
    execute(&client, &["SELECT df.pause_schedule('nightly')"]).await;
    assert_eq!(inspected.schedules().await.expect("schedules")[0].next, []);
    let only = Filter { queue: Some("mail".to_owned()), ..Filter::default() };
    assert_eq!(inspected.page(&only, 10, None).await.expect("a page").instances.len(), 2);
    let mails = rows(&client, "SELECT count(*) FROM df.find_instances(queue => 'mail')").await;
    assert_eq!(mails[0][0].as_deref(), Some("2"));
}
