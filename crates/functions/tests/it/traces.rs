//! Spans, as a collector gets them. The invariants are those of docs/design/traces.md.

mod collector;
mod delivery;

use std::collections::BTreeMap;

use duramen_functions::cluster::ClusterWorker;
use duramen_traces::{Span, SpanKind, StatusCode};

use crate::common;
use crate::worker::{ended, execute, start, start_step, submitter, TestWorker, SOON};
use collector::{number, string, Collector};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const STARTER: &str = "00f067aa0ba902b7";
const GIVEN: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn code(span: &Span) -> i32 {
    span.status.as_ref().map_or(0, |status| status.code)
}

/// The only span that fits.
fn one<'s>(spans: &'s [Span], what: &str, fits: impl Fn(&Span) -> bool) -> &'s Span {
    let found: Vec<&Span> = spans.iter().filter(|span| fits(span)).collect();
    assert_eq!(found.len(), 1, "{what}: {found:#?} of {spans:#?}");
    found[0]
}

fn is_of(id: &str) -> impl Fn(&Span) -> bool + '_ {
    move |span| string(&span.attributes, "duramen.instance.id").as_deref() == Some(id)
}

/// T-1, T-2: whichever worker runs which part of it, and in however many turns.
#[tokio::test(flavor = "multi_thread")]
async fn an_instance_is_one_tree_in_the_trace_of_its_starter() {
    let database = common::database().await;
    let (alice, client, _owner) = submitter(&database).await;
    execute(&client, &[&format!("CREATE SEQUENCE {alice}.tries")]).await;
    let collector = Collector::start(&[]).await;
    let settings = collector
        .settings(&[("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=a%2Cb"), ("OTEL_SERVICE_NAME", "shop")]);
    let one_worker = TestWorker::start_traced(&database, 2, settings.clone()).await;
    let other_worker = TestWorker::start_traced(&database, 2, settings).await;
    execute(&client, &["BEGIN", &format!("SELECT df.set_traceparent('{GIVEN}')")]).await;
    let id = start(
        &client,
        &format!(
            "df.seq(df.seq(df.as('SELECT 1 AS v', 'first'),
                 df.join('SELECT 2 AS beside', 'SELECT pg_sleep(0.2)')),
             df.seq(df.retry('SELECT 10 / (nextval(''{alice}.tries'') - 1)', 3, 0.1, 1, 1, 0),
                 df.seq(df.call(df.as('SELECT 3', 'inner'), 'child'), 'SELECT 1 / 0'))), 'of alice'"
        ),
    )
    .await;
    execute(&client, &["COMMIT"]).await;
    assert!(ended(&client, &id, SOON).await.failed().contains("division by zero"));
    let spans = collector.spans_of(10).await;
    one_worker.drain(SOON).await;
    other_worker.drain(SOON).await;
    assert_eq!(collector.spans().len(), 10, "nothing comes twice");

    let mut by_id: BTreeMap<String, &Span> = BTreeMap::new();
    for span in &spans {
        assert_eq!(hex(&span.trace_id), TRACE, "{span:#?}");
        assert!(by_id.insert(hex(&span.span_id), span).is_none(), "an id is there twice: {span:#?}");
        assert!(span.start_time_unix_nano <= span.end_time_unix_nano, "{span:#?}");
    }
    let parent = |span: &Span| hex(&span.parent_span_id);
    for span in &spans {
        assert!(parent(span) == STARTER || by_id.contains_key(&parent(span)), "no parent: {span:#?}");
    }

    let root = one(&spans, "the instance", |span| parent(span) == STARTER);
    assert!(is_of(&id)(root));
    assert_eq!((root.name.as_str(), root.kind), ("durable function", SpanKind::Consumer as i32));
    assert_eq!(code(root), StatusCode::Error as i32);
    assert_eq!(string(&root.attributes, "error.type").as_deref(), Some("22012"));
    assert_eq!(string(&root.attributes, "duramen.instance.status").as_deref(), Some("failed"));
    assert_eq!(string(&root.attributes, "duramen.instance.label").as_deref(), Some("of alice"));
    assert_eq!(string(&root.attributes, "duramen.submitter").as_deref(), Some(alice.as_str()));

    let root_id = hex(&root.span_id);
    let steps: Vec<Span> = spans.iter().filter(|span| parent(span) == root_id).cloned().collect();
    assert_eq!(steps.len(), 7, "{steps:#?}");
    for step in steps.iter().filter(|step| step.name.starts_with("SELECT")) {
        assert_eq!(step.kind, SpanKind::Client as i32);
        assert_eq!(string(&step.attributes, "db.system.name").as_deref(), Some("postgresql"));
        assert_eq!(string(&step.attributes, "db.namespace").as_deref(), Some(database.name()));
        assert_eq!(string(&step.attributes, "db.operation.name").as_deref(), Some("SELECT"));
        assert_eq!(string(&step.attributes, "db.query.text"), None);
    }
    let named = one(&steps, "the first", |span| span.name == "SELECT first");
    assert_eq!(code(named), StatusCode::Unset as i32);
    // The long one left its turn, and says when it began.
    let took = |span: &Span| span.end_time_unix_nano - span.start_time_unix_nano;
    let long = one(&steps, "the long one", |span| took(span) > 200_000_000);
    let began = long.events.iter().find(|event| event.name == "began").unwrap();
    assert_eq!(number(&began.attributes, "duramen.activity.attempt"), Some(1));
    assert!(
        began.time_unix_nano >= long.start_time_unix_nano && began.time_unix_nano <= long.end_time_unix_nano
    );

    let attempt = |n| move |span: &Span| number(&span.attributes, "duramen.retry.attempt") == Some(n);
    let first = one(&steps, "the first attempt", attempt(1));
    let second = one(&steps, "the second attempt", attempt(2));
    assert_eq!((code(first), code(second)), (StatusCode::Error as i32, StatusCode::Unset as i32));
    assert_eq!(string(&first.attributes, "db.response.status_code").as_deref(), Some("22012"));
    assert!(second.events.iter().any(|event| event.name == "retry"));
    assert!(second.start_time_unix_nano >= first.end_time_unix_nano + 100_000_000);
    one(&steps, "what failed at last", |span| code(span) == StatusCode::Error as i32 && !attempt(1)(span));

    let call = one(&steps, "the call", |span| span.name == "call");
    let child = one(&spans, "the child", |span| parent(span) == hex(&call.span_id));
    assert_eq!(string(&child.attributes, "duramen.instance.label").as_deref(), Some("child"));
    assert_eq!(code(child), StatusCode::Unset as i32);
    let inner = one(&spans, "the child's step", |span| parent(span) == hex(&child.span_id));
    assert_eq!(inner.name, "SELECT inner");

    assert_eq!(collector.header("x-tenant").as_deref(), Some("a,b"));
    assert_eq!(collector.header("content-type").as_deref(), Some("application/x-protobuf"));
    assert_eq!(collector.resource("service.name").as_deref(), Some("shop"));
    // T-7
    for text in ["pg_sleep", "beside", "division"] {
        assert!(!collector.has_seen(text), "{text} was sent, and nobody has asked for texts");
    }
}

/// T-7
#[tokio::test(flavor = "multi_thread")]
async fn texts_are_sent_to_whoever_asks_as_they_were_written() {
    let database = common::database().await;
    let (_, client, _owner) = submitter(&database).await;
    let collector = Collector::start(&[]).await;
    let settings = collector.settings(&[]).with_texts(true);
    let _worker = TestWorker::start_traced(&database, 2, settings).await;
    start(&client, "'SELECT $input.secret::int', input => '{\"secret\": \"hush\"}'").await;
    let spans = collector.spans_of(2).await;
    let step = one(&spans, "the step", |span| span.name == "SELECT");
    assert_eq!(string(&step.attributes, "db.query.text").as_deref(), Some("SELECT $input.secret::int"));
    // The server quotes the value in its message: that is why nobody gets messages who has not asked.
    assert!(step.status.as_ref().unwrap().message.contains("hush"), "{step:#?}");
    assert!(step.events.iter().any(|event| event.name == "exception"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_given_up_or_cancelled_says_so() {
    let database = common::database().await;
    let (_, client, _owner) = submitter(&database).await;
    let collector = Collector::start(&[]).await;
    let _worker = TestWorker::start_traced(&database, 2, collector.settings(&[])).await;
    let raced = start(&client, "df.race('SELECT pg_sleep(60)', df.sleep(0.3))").await;
    ended(&client, &raced, SOON).await.completed();
    let cancelled = start(&client, "df.seq('SELECT 1', df.wait_for_signal('never'))").await;
    let status = format!("SELECT df.status('{cancelled}')");
    crate::worker::eventually(&client, &status, "running", SOON).await;
    execute(&client, &[&format!("SELECT df.cancel('{cancelled}', 'enough')")]).await;
    let spans = collector.spans_of(4).await;
    let lost = one(&spans, "the loser", |span| is_of(&raced)(span) && span.name == "SELECT");
    assert!(lost.attributes.iter().any(|attribute| attribute.key == "duramen.step.given_up"), "{lost:#?}");
    let instance =
        one(&spans, "the cancelled", |span| is_of(&cancelled)(span) && span.name == "durable function");
    assert_eq!(string(&instance.attributes, "duramen.instance.status").as_deref(), Some("cancelled"));
    // Nobody's trace: it is the first of its own.
    assert!(instance.parent_span_id.is_empty());
    assert_ne!(instance.trace_id, lost.trace_id);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_over_http_hands_the_trace_on() {
    let database = common::database().await;
    let (alice, client, owner) = submitter(&database).await;
    let collector = Collector::start(&[]).await;
    execute(
        &owner,
        &[
            &format!("ALTER DATABASE {} SET df.http = 'on'", database.name()),
            &format!("ALTER DATABASE {} SET df.http_allowed_hosts = '127.0.0.1'", database.name()),
            &format!("ALTER DATABASE {} SET df.http_allow_private = 'on'", database.name()),
            &format!("SELECT df.grant_usage('{alice}', include_http => true)"),
        ],
    )
    .await;
    let _worker = TestWorker::start_traced(&database, 2, collector.settings(&[])).await;
    let url = format!("http://127.0.0.1:{}/hook", collector.port);
    let own = format!("df.http('{url}', headers => '{{\"Traceparent\": \"mine\"}}')");
    let id = start(&client, &format!("df.seq(df.http('{url}'), {own})")).await;
    ended(&client, &id, SOON).await.completed();
    let spans = collector.spans_of(3).await;
    let calls = collector.calls();
    let sent = |call: usize| calls[call]["traceparent"].to_str().unwrap().to_owned();
    let step = one(&spans, "the first call", |span| {
        sent(0) == format!("00-{}-{}-01", hex(&span.trace_id), hex(&span.span_id))
    });
    assert_eq!(step.name, "HTTP");
    assert_eq!(number(&step.attributes, "http.response.status_code"), Some(200));
    assert_eq!(sent(1), "mine", "what the step says counts");
    assert_eq!(calls[1].get_all("traceparent").iter().count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_starter_does_not_sample_is_not_sent_nor_are_its_children() {
    let database = common::database().await;
    let (_, client, _owner) = submitter(&database).await;
    let collector = Collector::start(&[]).await;
    let worker = TestWorker::start_traced(&database, 2, collector.settings(&[])).await;
    let unsampled = format!("{}00", &GIVEN[..53]);
    execute(&client, &["BEGIN", &format!("SELECT df.set_traceparent('{unsampled}')")]).await;
    let id = start(&client, "df.call('SELECT 1')").await;
    execute(&client, &["COMMIT"]).await;
    ended(&client, &id, SOON).await.completed();
    let other = start_step(&client, "SELECT 1").await;
    ended(&client, &other, SOON).await.completed();
    worker.drain(SOON).await;
    let spans = collector.spans();
    assert_eq!(spans.len(), 2, "{spans:#?}");
    assert!(spans.iter().all(is_of(&other)));
}

/// T-5, T-8: submitters write rows by hand; what they write is theirs, and has a size.
#[tokio::test(flavor = "multi_thread")]
async fn a_hostile_submitter_gets_no_more_than_a_trace_of_her_own() {
    let database = common::database().await;
    let (alice, client, _owner) = submitter(&database).await;
    let bob = database.connect(&database.role("bob").await).await;
    let collector = Collector::start(&[]).await;
    let worker = TestWorker::start_traced(&database, 2, collector.settings(&[])).await;
    let hostile = [
        "x".repeat(1 << 20),
        format!("{GIVEN}\u{e9}"),
        GIVEN.to_uppercase(),
        "00-00000000000000000000000000000000-0000000000000000-01".to_owned(),
        "\u{e9}".repeat(27) + "e",
    ];
    for text in &hostile {
        let insert = "INSERT INTO df._ready (label, statement, vars) VALUES
            (repeat('\u{fc}', 450), 'SELECT 1', json_build_object('df.traceparent', $1::text))";
        client.execute(insert, &[text]).await.unwrap();
    }
    // The variables of these cannot be read: they fail, and are told of like others.
    for vars in ["7", "[]", r#"{"df.traceparent": 7}"#, r#"{"df.traceparent": {"a": "b"}}"#] {
        let insert =
            format!("INSERT INTO df._ready (label, statement, vars) VALUES ('odd', 'SELECT 1', '{vars}')");
        execute(&client, &[&insert]).await;
    }
    let id = start_step(&bob, "SELECT 1").await;
    ended(&bob, &id, SOON).await.completed();
    let many = hostile.len() * 2 + 4 + 2;
    let spans = collector.spans_of(many).await;
    assert_eq!(spans.len(), many, "{spans:#?}");
    for span in &spans {
        assert!(span.trace_id.len() == 16 && span.trace_id != [0; 16], "{span:#?}");
        assert!(span.span_id.len() == 8 && span.span_id != [0; 8], "{span:#?}");
        assert_ne!(hex(&span.trace_id), TRACE);
        assert!(span.attributes.iter().all(|attribute| {
            string(std::slice::from_ref(attribute), &attribute.key).is_none_or(|text| text.len() <= 200)
        }));
    }
    // Whose an instance is says the database.
    let submitters: Vec<String> = spans
        .iter()
        .filter(|span| !is_of(&id)(span))
        .filter_map(|span| string(&span.attributes, "duramen.submitter"))
        .collect();
    assert!(submitters.len() == hostile.len() + 4 && submitters.iter().all(|name| *name == alice));
    assert_eq!(worker.metric("failed_turns_total"), 0);
}

/// T-1: steps of a turn that is rolled back run again, and only then have they happened.
#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_is_rolled_back_tells_of_nothing() {
    let database = common::database().await;
    let (alice, client, _owner) = submitter(&database).await;
    let collector = Collector::start(&[]).await;
    execute(
        &client,
        &[
            &format!("CREATE TABLE {alice}.late (n int)"),
            &format!(
                "CREATE FUNCTION {alice}.late() RETURNS trigger LANGUAGE plpgsql AS $$
                 BEGIN
                     IF NEW.n > 0 THEN
                         SET CONSTRAINTS ALL DEFERRED;
                         INSERT INTO {alice}.late VALUES (NEW.n - 1);
                         RETURN NULL;
                     END IF;
                     RAISE EXCEPTION 'too late';
                 END $$"
            ),
            &format!(
                "CREATE CONSTRAINT TRIGGER late AFTER INSERT ON {alice}.late DEFERRABLE INITIALLY DEFERRED
                 FOR EACH ROW EXECUTE FUNCTION {alice}.late()"
            ),
        ],
    )
    .await;
    let mut ids = Vec::new();
    client.batch_execute("BEGIN").await.unwrap();
    for number in 0..10 {
        let step = match number {
            7 => format!("INSERT INTO {alice}.late VALUES (2)"),
            _ => "SELECT 1".to_owned(),
        };
        ids.push(start_step(&client, &step).await);
    }
    client.batch_execute("COMMIT").await.unwrap();
    let worker = TestWorker::start_traced(&database, 2, collector.settings(&[])).await;
    for id in &ids {
        ended(&client, id, SOON).await;
    }
    if database.server().major() >= 18 {
        assert!(worker.metric("failed_turns_total") > 0, "no turn was rolled back");
    }
    worker.drain(SOON).await;
    let spans = collector.spans();
    assert_eq!(spans.len(), 20, "{spans:#?}");
    for (number, id) in ids.iter().enumerate() {
        let of_it: Vec<&Span> = spans.iter().filter(|span| is_of(id)(span)).collect();
        assert_eq!(of_it.len(), 2, "{of_it:#?}");
        let expected = if number == 7 { StatusCode::Error } else { StatusCode::Unset };
        assert!(of_it.iter().all(|span| code(span) == expected as i32), "{of_it:#?}");
    }
}

/// T-2: what runs once more when an instance is resumed is told of once more, and nothing else; its span has a new end.
#[tokio::test(flavor = "multi_thread")]
async fn a_resumed_instance_is_the_same_span_with_another_end() {
    let database = common::database().await;
    let (alice, client, _owner) = submitter(&database).await;
    let collector = Collector::start(&[]).await;
    let _worker = TestWorker::start_traced(&database, 2, collector.settings(&[])).await;
    let id =
        start(&client, &format!("df.seq(df.as('SELECT 1', 'done'), 'SELECT count(*) FROM {alice}.later')"))
            .await;
    ended(&client, &id, SOON).await.failed();
    collector.spans_of(3).await;
    execute(&client, &[&format!("CREATE TABLE {alice}.later ()"), &format!("SELECT df.resume('{id}')")])
        .await;
    crate::worker::eventually(&client, &format!("SELECT df.status('{id}')"), "completed", SOON).await;
    let spans = collector.spans_of(5).await;
    let roots: Vec<&Span> = spans.iter().filter(|span| span.name == "durable function").collect();
    assert_eq!((spans.len(), roots.len()), (5, 2), "{spans:#?}");
    assert_eq!(roots[0].span_id, roots[1].span_id);
    assert!(roots[0].end_time_unix_nano < roots[1].end_time_unix_nano);
    assert_eq!((code(roots[0]), code(roots[1])), (StatusCode::Error as i32, StatusCode::Unset as i32));
    assert!(spans.iter().all(|span| span.trace_id == roots[0].trace_id));
    one(&spans, "what was done", |span| span.name == "SELECT done");
}

/// T-1, T-2 on every shard of a cluster: one worker for all of them, and each instance is a tree of its own in the trace of its starter.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_of_a_cluster_traces_what_it_runs_on_each_shard() {
    let (databases, _, alice) = crate::clusters::cluster_of(2).await;
    let collector = Collector::start(&[]).await;
    let settings = collector.settings(&[]);
    let options = crate::clusters::workers::options(&databases[0].url());
    let worker = ClusterWorker::start_traced(options, settings).await.unwrap();
    let mut ids = Vec::new();
    for database in &databases {
        let client = database.connect(&alice).await;
        execute(&client, &["BEGIN", &format!("SELECT df.set_traceparent('{GIVEN}')")]).await;
        let id = start(&client, "df.as('SELECT 7', 'seven')").await;
        execute(&client, &["COMMIT"]).await;
        ended(&client, &id, SOON).await.completed();
        ids.push(id);
    }
    worker.drain(std::time::Duration::from_secs(5)).await;
    let spans = collector.spans_of(4).await;
    let mut roots = Vec::new();
    for id in &ids {
        let root = one(&spans, "the instance", |span| is_of(id)(span) && span.name == "durable function");
        assert_eq!((hex(&root.trace_id), hex(&root.parent_span_id)), (TRACE.to_owned(), STARTER.to_owned()));
        one(&spans, "its step", |span| span.parent_span_id == root.span_id);
        roots.push(root.span_id.clone());
    }
    assert_ne!(roots[0], roots[1]);
}
