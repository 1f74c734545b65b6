//! What a fleet costs: printed, and asserted only where it is a count.

use crate::bed::{end, within, Bed, Made};
use crate::sessions::{enter, token};
use duramen_api::{
    model::{CreateBranch, QueryRequest},
    token::Role,
};
use duramen_base::clock;
use duramen_client::Connection;
use duramen_fleet::{
    address::Access,
    member::{Fleet, Settings, Standing},
    record::Capacity,
};
use std::time::Duration;

const CREATES: usize = 100;
const QUERIES: usize = 1000;
/// Queries before those that are measured.
const WARM: usize = 100;

fn percentile(times: &mut [Duration], part: f64) -> f64 {
    times.sort();
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a place in a list"
    )]
    let place = ((times.len() - 1) as f64 * part).round() as usize;
    clock::ms(times[place])
}

async fn creates(at: &mut Connection, prefix: &str) -> Vec<Duration> {
    let mut times = Vec::new();
    for number in 0..CREATES {
        let name = format!("{prefix}-{number}");
        let wanted = CreateBranch { name: Some(name.clone()), ..CreateBranch::default() };
        let begin = clock::now();
        at.create_branch(&wanted).await.expect("a branch");
        times.push(begin.elapsed());
        at.destroy_branch(&name).await.expect("destroyed");
        // The pool fills again, so that it is not measured.
        tokio::time::sleep(Duration::from_millis(150)).await;
    }
    times
}

/// The same done here and there by turns, so that both share what else the machine does.
struct Turns {
    here: Vec<Duration>,
    there: Vec<Duration>,
}

impl Turns {
    async fn of(mut once: impl AsyncFnMut(bool)) -> Turns {
        let mut turns = Turns { here: Vec::new(), there: Vec::new() };
        for number in 0..QUERIES + WARM {
            for is_here in [true, false] {
                let begin = clock::now();
                once(is_here).await;
                let times = if is_here { &mut turns.here } else { &mut turns.there };
                if number >= WARM {
                    times.push(begin.elapsed());
                }
            }
        }
        turns
    }

    fn print(&mut self, what: &str) {
        for part in [0.5, 0.95] {
            let (here, there) = (percentile(&mut self.here, part), percentile(&mut self.there, part));
            let us = (there - here) * 1000.0;
            println!(
                "{what}, p{:.0}: {here:.3} ms here, {there:.3} ms by a hop, {us:+.0} us (150 wanted)",
                part * 100.0
            );
        }
    }
}

/// FL-9 is asserted; times are printed.
#[test]
fn what_a_fleet_costs() {
    within(Made { nodes: 2, hot: 12, ..Made::default() }, |bed| async move {
        let (mut here, mut there) = (bed.node("a").connect().await, bed.node("b").connect().await);
        let mut puts = puts(&bed).await;
        here.drain_node("b", true).await.expect("all are made on a");
        let before = writes(&bed).await;
        let mut local = creates(&mut here, "local").await;
        let mut elsewhere = creates(&mut there, "hop").await;
        let wrote = writes(&bed).await - before;
        let wanted = CreateBranch { name: Some("q".to_owned()), ..CreateBranch::default() };
        here.create_branch(&wanted).await.expect("a branch");
        let request = QueryRequest { sql: Some("SELECT 1".to_owned()), ..QueryRequest::default() };
        let token = token(&bed, "a", "ci", Role::Admin).await;
        let sessions = [enter(&bed, 0, &token, "q").await, enter(&bed, 1, &token, "q").await];
        let [session_here, session_there] = sessions.map(|session| session.expect("a session"));
        let mut rounds = Vec::new();
        for _ in 0..3 {
            let by_http = Turns::of(async |is_here| {
                let at = if is_here { &mut here } else { &mut there };
                at.query("q", &request).await.expect("a row");
            });
            let by_http = by_http.await;
            let by_session = Turns::of(async |is_here| {
                let session = if is_here { &session_here } else { &session_there };
                session.simple_query("SELECT 1").await.expect("a row");
            });
            rounds.push((by_http, by_session.await));
        }
        drop((session_here, session_there));
        println!(
            "one write to etcd: p50 {:.2} ms, p95 {:.2} ms",
            percentile(&mut puts, 0.5),
            percentile(&mut puts, 0.95)
        );
        for (what, times) in [("create on this node", &mut local), ("create on another node", &mut elsewhere)]
        {
            println!("{what}: p50 {:.2} ms, p95 {:.2} ms", percentile(times, 0.5), percentile(times, 0.95));
        }
        println!(
            "create elsewhere minus local minus one put, p95: {:.2} ms (2 wanted)",
            percentile(&mut elsewhere, 0.95) - percentile(&mut local, 0.95) - percentile(&mut puts, 0.95)
        );
        for (mut by_http, mut by_session) in rounds {
            by_http.print("query");
            by_session.print("query in a session");
        }
        #[allow(clippy::cast_precision_loss, reason = "a few hundred")]
        let each = wrote as f64 / (2 * CREATES) as f64;
        println!("writes to names a lease: {each}");
        assert!(each <= 2.0, "FL-9");
        here.destroy_branch("q").await.expect("destroyed");
        here.drain_node("b", false).await.expect("no more");
        end(bed).await;
    });
}

/// How often daemons wrote to names in etcd, as they count it; the tests of the fleet's crate hold that count to etcd's own.
async fn writes(bed: &Bed) -> u64 {
    let mut writes = 0;
    for node in &bed.nodes {
        writes += node.view().await.expect("a view").writes;
    }
    writes
}

/// A node without sources, which only claims names: what one write to etcd takes, by the same client.
async fn puts(bed: &Bed) -> Vec<Duration> {
    let settings = Settings {
        etcd: format!("etcd://{}/figures", bed.etcd.clients().join(",")).parse().expect("an address"),
        access: Access::default(),
        node: "probe".to_owned(),
        advertise: "probe.invalid:1".to_owned(),
        home: "h-probe".to_owned(),
        starts: vec!["s-probe".to_owned()],
        place: "p-probe".to_owned(),
        sessions: false,
        version: "0".to_owned(),
        grace: Duration::from_secs(60),
    };
    let fleet = Fleet::join(settings, Box::new(Capacity::default)).expect("it begins");
    while !matches!(fleet.standing(), Standing::Member(_)) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let mut times = Vec::new();
    for number in 0..200 {
        let (name, id) = (format!("p-{number}"), format!("b-{number}"));
        let begin = clock::now();
        fleet.claim(&name, &id, None, None).await.expect("a claim");
        times.push(begin.elapsed());
        fleet.ended(&name, &id);
        fleet.freed(&name, &id, Duration::from_secs(5)).await;
    }
    fleet.leave().await;
    times
}
