//! F-1, F-2 and F-4: as in `cut_off`, for steps of every kind: whatever an instance is made of, a worker that is cut off at any
//! point of it and comes back after another one has gone on leaves every effect once.

use super::cut_off::{bury, quiet, AT_ONCE};
use super::Scene;
use crate::common::{one, OWNER};
use crate::proxy::{Proxy, RoundTrip, Side};
use crate::worker::{ended, eventually, execute, start, TestWorker, SOON};
use futures_util::{stream, StreamExt};
use std::time::Duration;

/// What an instance is made of, where a worker is cut off, and what stands in the ledger at the end.
struct Kind {
    name: &'static str,
    /// `{a}`, `{b}`: statements that make these entries, as literals.
    graph: &'static str,
    cuts: &'static [(&'static str, usize)],
    entries: &'static str,
}

/// What every turn asks.
const TURN: &[(&str, usize)] =
    &[("df._claim", 0), ("FETCH ALL", 0), ("df._finish", 0), ("CLOSE ALL; COMMIT", 0)];
/// The same in the second turn, in which things go on.
const NEXT_TURN: &[(&str, usize)] =
    &[("df._claim", 1), ("FETCH ALL", 1), ("df._finish", 1), ("CLOSE ALL; COMMIT", 1)];
/// What a step outside of turns asks that runs no SQL.
const OUTSIDE: &[(&str, usize)] = &[
    ("df._take", 0),
    ("has_function_privilege", 0),
    ("df._end_activity", 0),
    ("df._finish", 1),
    ("CLOSE ALL; COMMIT", 1),
];

/// Where a turn is cut off whose points the kinds above have all.
const END: &[(&str, usize)] = &[("CLOSE ALL; COMMIT", 0)];

const KINDS: [Kind; 16] = [
    Kind {
        name: "map",
        graph: "df.map('SELECT n FROM generate_series(1, 3) n', {item}, 'item', 2)",
        cuts: TURN,
        entries: "1 2 3",
    },
    Kind {
        name: "call",
        graph: "df.call({a}) ~> {b}",
        cuts: &[
            ("df._start_child", 0),
            ("df._finish", 0),
            ("CLOSE ALL; COMMIT", 0),
            ("df._claim", 1),
            ("df._finish", 1),
        ],
        entries: "a b",
    },
    Kind {
        name: "loop",
        graph: "df.loop({number}, 'SELECT count(*) < 2 FROM {ledger}')",
        cuts: NEXT_TURN,
        entries: "0 1",
    },
    Kind { name: "timer", graph: "{a} ~> df.sleep(0.2) ~> {b}", cuts: NEXT_TURN, entries: "a b" },
    Kind { name: "signal", graph: "{a} ~> df.wait_for_signal('go') ~> {b}", cuts: NEXT_TURN, entries: "a b" },
    Kind { name: "race", graph: "(df.sleep(60) | {a}) ~> {b}", cuts: TURN, entries: "a b" },
    Kind {
        name: "retry",
        graph: "df.catch(df.retry('SELECT 1 / 0', 2, 0.1, 1, 1, 0), {a}) ~> {b}",
        cuts: NEXT_TURN,
        entries: "a b",
    },
    // Not allowed here, which is an end like any other, and is recorded in the same way.
    Kind {
        name: "http",
        graph: "df.catch(df.http('http://localhost/'), {a}) ~> {b}",
        cuts: OUTSIDE,
        entries: "a b",
    },
    Kind {
        name: "long",
        graph: "{slow} ~> {b}",
        cuts: &[("df._take", 0), ("pg_my_temp_schema", 0), ("df._end_activity", 0)],
        entries: "a b",
    },
    Kind { name: "if", graph: "('SELECT true' ?> {a} !> {b}) ~> {b}", cuts: END, entries: "a b" },
    Kind { name: "join", graph: "({a} & {b})", cuts: END, entries: "a b" },
    Kind {
        name: "time limit",
        graph: "df.timeout({a} ~> df.sleep(0.2), 30) ~> {b}",
        cuts: NEXT_TURN,
        entries: "a b",
    },
    Kind {
        name: "undo",
        graph: "df.step({a}, {b}) ~> df.sleep(0.1) ~> 'SELECT 1 / 0'",
        cuts: NEXT_TURN,
        entries: "a b",
    },
    Kind { name: "task", graph: "{a} ~> df.task('outside', '{}') ~> {b}", cuts: NEXT_TURN, entries: "a b" },
    Kind {
        name: "queue",
        graph: "{a} ~> {b}",
        cuts: &[("df._admit", 0), ("df._finish", 0), ("CLOSE ALL; COMMIT", 0)],
        entries: "a b",
    },
    Kind {
        name: "event",
        graph: "{a} ~> 'SELECT df.set_event(''{sys_instance_id}'', ''half'', ''50'')' ~> {b}",
        cuts: END,
        entries: "a b",
    },
];

/// Cuts a worker off once.
async fn cut(kind: &Kind, asks: &'static str, nth: usize, side: Side) {
    let scene = Scene::set().await;
    let database = scene.database.name().to_owned();
    let stall_at = RoundTrip { database: database.clone(), asks, nth, side };
    if !stall_at.is_possible() {
        return;
    }
    let place = format!("{} at {asks} {nth}, {side:?}", kind.name);
    let grant = format!("SELECT df.grant_usage('{}', include_http => true)", scene.alice);
    execute(&scene.owner, &[&grant]).await;
    let ledger = format!("{}.ledger", scene.alice);
    let enter = |entry: &str| format!("'INSERT INTO {ledger} VALUES (''{entry}'')'");
    let graph = kind
        .graph
        .replace("{a}", &enter("a"))
        .replace("{b}", &enter("b"))
        .replace(
            "{slow}",
            &format!("'WITH nap AS MATERIALIZED (SELECT pg_sleep(0.15)) INSERT INTO {ledger} SELECT ''a'' FROM nap'"),
        )
        .replace("{item}", &format!("'INSERT INTO {ledger} SELECT $item.n'"))
        .replace("{number}", &format!("'INSERT INTO {ledger} SELECT count(*) FROM {ledger}'"))
        .replace("{ledger}", &ledger);
    let proxy = Proxy::start(scene.database.server(), stall_at);
    let cut_off = TestWorker::start_at(&proxy.url(OWNER, &database), 2).await;
    let arguments = if kind.name == "queue" {
        execute(&scene.client, &["SELECT df.queue('narrow', concurrency => 1)"]).await;
        format!("{graph}, queue => 'narrow'")
    } else {
        graph
    };
    proxy.arm();
    let id = start(&scene.client, &arguments).await;
    if kind.name == "signal" {
        // Sent earlier it would be there in the first turn, and there would be no second one.
        eventually(&scene.client, &format!("SELECT df.status('{id}')"), "running", SOON).await;
        execute(&scene.client, &[&format!("SELECT df.signal('{id}', 'go')")]).await;
    }
    // A program that does tasks, for as long as this lives.
    let mut programs = tokio::task::JoinSet::new();
    if kind.name == "task" {
        let client = scene.database.connect(&scene.alice).await;
        programs.spawn(async move {
            loop {
                let do_one = "SELECT df.complete_task(t.token, '1') FROM df.claim_tasks('{outside}') t";
                execute(&client, &[do_one]).await;
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        });
    }
    tokio::time::timeout(SOON, proxy.stalled())
        .await
        .unwrap_or_else(|_| panic!("{place}: it was never asked"));
    bury(&scene.owner).await;
    let other = scene.worker().await;
    let end = ended(&scene.client, &id, SOON).await;
    if kind.name == "undo" {
        end.failed();
    } else {
        end.completed();
    }
    quiet(&other).await;
    other.kill();
    proxy.go_on();
    // It is back when it has done something else.
    let probe = start(&scene.client, &enter("probe")).await;
    ended(&scene.client, &probe, SOON).await.completed();
    quiet(&cut_off).await;
    let all = format!("SELECT string_agg(entry, ' ' ORDER BY entry) FROM {ledger}");
    let expected = format!("{} probe", kind.entries);
    assert_eq!(one(&scene.owner, &all).await, Some(expected), "{place}");
    let rest = "SELECT (SELECT count(*) FROM df._work) + (SELECT count(*) FROM df._activity)
        + (SELECT count(*) FROM df._ready)";
    assert_eq!(one(&scene.owner, rest).await.as_deref(), Some("0"), "{place}: nothing is left");
}

#[tokio::test(flavor = "multi_thread")]
async fn cut_off_at_any_step_of_any_kind() {
    let cuts = KINDS.iter().flat_map(|kind| {
        let sides = [Side::Request, Side::Answer];
        kind.cuts.iter().flat_map(move |(asks, nth)| sides.map(|side| (kind, *asks, *nth, side)))
    });
    stream::iter(cuts)
        .map(|(kind, asks, nth, side)| tokio::spawn(cut(kind, asks, nth, side)))
        // Most of the time each waits.
        .buffer_unordered(2 * AT_ONCE)
        .for_each(|cut| async { cut.expect("one of the cuts has failed") })
        .await;
}
