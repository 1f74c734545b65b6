//! F-4, F-12 and F-13: a worker that is cut off from the server at any step of its protocol, before the server hears of it or
//! before the worker hears the answer, is buried
//! by another one, which does the work, and then goes on. Every effect is there once, here and in other databases.

use super::Scene;
use crate::common::{one, rows, OWNER};
use crate::proxy::{Proxy, RoundTrip, Side};
use crate::worker::{ended, eventually, execute, start, TestWorker, SOON};
use futures_util::{stream, StreamExt};
use std::time::Duration;
use tokio_postgres::Client;

/// How many cuts are tried at the same time.
pub(super) const AT_ONCE: usize = 3;

/// A scene with a second database, in which the submitter has a ledger, too.
struct Two {
    scene: Scene<'static>,
    there: Client,
    other: String,
}

impl Two {
    async fn set() -> Two {
        let scene = Scene::set().await;
        let alice = &scene.alice;
        let other = scene.database.server().empty_database().await;
        let there = scene.database.server().connect(OWNER, &other).await;
        execute(
            &there,
            &[
                &format!("CREATE SCHEMA {alice} AUTHORIZATION {alice}"),
                &format!("CREATE TABLE {alice}.ledger (entry text)"),
                &format!("ALTER TABLE {alice}.ledger OWNER TO {alice}"),
            ],
        )
        .await;
        Two { scene, there, other }
    }

    /// One step that is too slow for a turn, and makes an entry.
    fn step(&self, entry: &str, elsewhere: bool) -> String {
        let alice = &self.scene.alice;
        let step = format!(
            "'WITH nap AS MATERIALIZED (SELECT pg_sleep(0.08)) INSERT INTO {alice}.ledger SELECT ''{entry}'' FROM nap'"
        );
        if elsewhere {
            format!("{step}, database => '{}'", self.other)
        } else {
            step
        }
    }

    async fn entries(&self, elsewhere: bool) -> String {
        let client = if elsewhere { &self.there } else { &self.scene.owner };
        let all = format!("SELECT string_agg(entry, ' ' ORDER BY entry) FROM {}.ledger", self.scene.alice);
        one(client, &all).await.unwrap_or_default()
    }
}

/// Others bury every worker that there is: its sessions end, its activities are given away.
pub(super) async fn bury(owner: &Client) {
    execute(owner, &["SELECT df._bury(epoch_id) FROM df._worker_epoch"]).await;
}

/// Waits until a worker runs no activity any more.
pub(super) async fn quiet(worker: &TestWorker) {
    tokio::time::timeout(SOON, async {
        while worker.running_activities() > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .expect("its activities end");
}

/// Where a worker is cut off: what it asks there, the how manieth time, and whether in the other database.
type Step = (&'static str, usize, bool);

/// Cuts a worker off at a step on one side of the server, for the whole of what it does.
async fn cut((asks, nth, is_there): Step, side: Side, elsewhere: bool, fails: bool) {
    let two = Two::set().await;
    let scene = &two.scene;
    let home = scene.database.name();
    let database = if is_there { two.other.clone() } else { home.to_owned() };
    let stall_at = RoundTrip { database, asks, nth, side };
    if !stall_at.is_possible() {
        return;
    }
    let place = format!("{stall_at:?}");
    let proxy = Proxy::start(scene.database.server(), stall_at);
    let cut_off = TestWorker::start_at(&proxy.url(OWNER, home), 2).await;
    proxy.arm();
    let id = start(&scene.client, &two.step("x", elsewhere)).await;
    tokio::time::timeout(SOON, proxy.stalled())
        .await
        .unwrap_or_else(|_| panic!("{place}: it was never asked"));
    bury(&scene.owner).await;
    let alice = &scene.alice;
    if fails {
        // What it was about to do fails for the other one, and would succeed later.
        execute(&two.there, &[&format!("ALTER TABLE {alice}.ledger RENAME TO hidden")]).await;
    }
    let other = scene.worker().await;
    let end = ended(&scene.client, &id, SOON).await;
    // It clears up behind the end.
    quiet(&other).await;
    other.kill();
    if fails {
        execute(&two.there, &[&format!("ALTER TABLE {alice}.hidden RENAME TO ledger")]).await;
    }
    proxy.go_on();
    // It is back when it has done something else, in a turn and outside of it.
    let probe = start(&scene.client, &two.step("y", elsewhere)).await;
    assert_eq!(
        ended(&scene.client, &probe, SOON).await.status,
        "completed",
        "{place}: it does not come back"
    );
    quiet(&cut_off).await;
    let expected = if end.status == "completed" { "x y" } else { "y" };
    assert!(fails || end.status == "completed", "{place}: {}", end.output);
    assert_eq!(two.entries(elsewhere).await, expected, "{place}, and the instance is {}", end.status);
}

/// Cuts at every step in turn.
async fn cut_at_each(steps: &[Step], sides: &[Side], elsewhere: bool, fails: bool) {
    let cuts = sides.iter().flat_map(|side| steps.iter().map(|step| (*step, *side)));
    stream::iter(cuts)
        .map(|(step, side)| tokio::spawn(cut(step, side, elsewhere, fails)))
        .buffer_unordered(AT_ONCE)
        .for_each(|cut| async { cut.expect("one of the cuts has failed") })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cut_off_at_any_step_here() {
    let steps = [
        ("df._claim", 0, false),
        ("df_run.r", 0, false),
        ("FETCH ALL", 0, false),
        ("df._finish", 0, false),
        ("CLOSE ALL; COMMIT", 0, false),
        ("df._take", 0, false),
        ("pg_backend_pid", 1, false),
        ("pg_db_role_setting", 1, false),
        ("BEGIN", 0, false),
        ("df_run.r", 1, false),
        ("FETCH ALL", 1, false),
        ("w.bytes", 0, false),
        ("df._end_activity", 0, false),
        ("df._finish", 1, false),
        ("CLOSE ALL; COMMIT", 1, false),
        ("pg_my_temp_schema", 0, false),
    ];
    cut_at_each(&steps, &[Side::Request, Side::Answer], false, false).await;
}

/// What a step in another database asks, from the turn that leaves it to an activity on.
const ELSEWHERE: [Step; 22] = [
    ("df._claim", 0, false),
    ("df._finish", 0, false),
    ("CLOSE ALL; COMMIT", 0, false),
    ("df._take", 0, false),
    ("FROM pg_database d", 0, false),
    ("pg_describe_object", 0, true),
    ("obj_description", 0, true),
    ("CREATE SCHEMA df_run", 0, true),
    ("df_run.ensure_executor", 0, true),
    ("installation::text", 0, false),
    ("pg_backend_pid", 0, true),
    ("BEGIN", 0, true),
    ("INSERT INTO df_run.marker", 0, true),
    ("df_run.r", 0, true),
    ("FETCH ALL", 0, true),
    ("UPDATE df_run.marker", 0, true),
    ("CLOSE ALL; COMMIT", 0, true),
    ("BEGIN", 0, false),
    ("df._end_activity", 0, false),
    ("df._finish", 1, false),
    ("CLOSE ALL; COMMIT", 1, false),
    ("DELETE FROM df_run.marker", 0, true),
];

#[tokio::test(flavor = "multi_thread")]
async fn cut_off_at_any_step_in_another_database() {
    cut_at_each(&ELSEWHERE, &[Side::Request, Side::Answer], true, false).await;
}

/// The end that was recorded may be a failure: then the attempt that was given up has no effect either.
#[tokio::test(flavor = "multi_thread")]
async fn cut_off_while_another_fails_in_another_database() {
    cut_at_each(&ELSEWHERE, &[Side::Answer], true, true).await;
}

/// A loop uses its cells again: an attempt at one iteration, whose answer was under way for long, must not end as a
/// later one, which the same worker has taken since.
#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_ends_only_its_own_iteration() {
    let scene = Scene::set().await;
    let alice = &scene.alice;
    // The number of the iteration is in the text of the step.
    let looped = format!(
        "df.loop(('SELECT count(*) + 1 AS n FROM {alice}.ledger' |=> 'i') ~>
         'WITH nap AS MATERIALIZED (SELECT pg_sleep(1.5)) INSERT INTO {alice}.ledger SELECT $i.n FROM nap',
         'SELECT count(*) < 3 FROM {alice}.ledger')"
    );
    let database = scene.database.name().to_owned();
    let take = RoundTrip { database, asks: "df._take", nth: 0, side: Side::Answer };
    let proxy = Proxy::of_one_connection(scene.database.server(), take);
    let first = TestWorker::start_at(&proxy.url(OWNER, scene.database.name()), 2).await;
    proxy.arm();
    let id = start(&scene.client, &looped).await;
    proxy.stalled().await;
    bury(&scene.owner).await;
    let second = scene.worker().await;
    let entries = format!("SELECT count(*) FROM {alice}.ledger");
    eventually(&scene.owner, &entries, "2", SOON).await;
    second.kill();
    bury(&scene.owner).await;
    proxy.go_on();
    let end = ended(&scene.client, &id, Duration::from_secs(60)).await;
    assert_eq!(end.status, "completed", "{}", end.output);
    quiet(&first).await;
    let ledger = rows(&scene.owner, &format!("SELECT entry FROM {alice}.ledger ORDER BY entry")).await;
    let ledger: Vec<&str> = ledger.iter().map(|row| row[0].as_deref().unwrap()).collect();
    assert_eq!(ledger, ["1", "2", "3"], "every iteration once");
}
