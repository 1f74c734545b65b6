//! Fifty clients create, query, reset and destroy under random kills, holds, partitions and jumps of clocks; what they were told
//! is checked.

use crate::bed::{end, until, within, Bed, Made};
use crate::history::{History, Told};
use duramen_api::model::{CreateBranch, QueryRequest};
use duramen_base::{clock, entropy};
use duramen_client::{Client, ClientError};
use rustix::process::Signal;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        atomic::{AtomicBool, AtomicU64, Ordering},
        Arc, Mutex,
    },
    time::Duration,
};

const CLIENTS: usize = 50;
const NAMES: usize = 24;
/// Longer than all the time by which clocks are set off.
const LEASE_S: i64 = 80 * 86_400;
/// Seconds, unless `DURAMEN_FLEET_SECONDS` says otherwise.
const SECONDS: u64 = 120;

/// Rows of branches, by the branch's id: those that were acknowledged, and whether a reset was asked for that may have taken them.
#[derive(Default)]
struct Rows {
    acknowledged: BTreeMap<String, BTreeSet<u64>>,
    reset: BTreeSet<String>,
}

struct Storm {
    history: History,
    rows: Mutex<Rows>,
    next: AtomicU64,
    over: AtomicBool,
    clients: Vec<Client>,
    counts: Mutex<BTreeMap<String, u64>>,
}

impl Storm {
    fn count(&self, what: impl Into<String>) {
        *self.counts.lock().unwrap().entry(what.into()).or_default() += 1;
    }

    /// What an answer says, of those that say something.
    fn told(&self, op: &str, answer: Result<(String, bool), ClientError>) -> Told {
        match answer {
            Ok((id, existing)) => {
                self.count(format!("{op}: done"));
                Told::Done { id, existing }
            }
            Err(ClientError::Refused { status: 404, .. }) => {
                self.count(format!("{op}: none"));
                Told::None
            }
            Err(ClientError::Refused { body, .. }) => {
                self.count(format!("{op}: {}", body.code));
                Told::Unknown
            }
            Err(_) => {
                self.count(format!("{op}: no answer"));
                Told::Unknown
            }
        }
    }

    async fn one(&self, client: usize, rng: &mut fastrand::Rng) {
        let name = format!("n-{}", rng.usize(..NAMES));
        let through =
            self.clients[rng.usize(..self.clients.len())].clone().with_deadline(Duration::from_secs(8));
        let Ok(mut at) = through.connect().await else {
            self.count("no connection");
            tokio::time::sleep(Duration::from_millis(100)).await;
            return;
        };
        let call = self.history.now();
        match rng.u32(..40) {
            0..=13 => {
                let (wait_ms, ttl_s) = (Some(5000), Some(LEASE_S));
                let wanted =
                    CreateBranch { name: Some(name.clone()), wait_ms, ttl_s, ..CreateBranch::default() };
                let made = at.create_branch(&wanted).await;
                // A refusal that is certain changes nothing; it is not looked at, as those that are not.
                let told = self.told("create", made.map(|branch| (branch.id, branch.existing)));
                self.history.note(client, "create", &name, call, &told);
            }
            14..=19 => {
                let told =
                    self.told("destroy", at.destroy_branch(&name).await.map(|branch| (branch.id, false)));
                self.history.note(client, "destroy", &name, call, &told);
            }
            20..=23 => {
                let told = self.told("get", at.branch(&name).await.map(|branch| (branch.id, false)));
                self.history.note(client, "get", &name, call, &told);
            }
            24 => {
                let Ok(branch) = at.branch(&name).await else { return };
                // Before it is asked for: what it takes back is then not looked for.
                self.rows.lock().unwrap().reset.insert(branch.id);
                let told = at.reset_branch(&name).await;
                self.count(if told.is_ok() { "reset: done" } else { "reset: not" });
                if let Ok(branch) = told {
                    self.rows.lock().unwrap().reset.insert(branch.id);
                }
            }
            _ => {
                let row = self.next.fetch_add(1, Ordering::Relaxed);
                let Ok(before) = at.branch(&name).await else { return };
                let sql = format!("INSERT INTO t VALUES ({row}, 'row')");
                let request = QueryRequest { sql: Some(sql), ..QueryRequest::default() };
                let done = at.query(&name, &request).await.is_ok();
                self.count(if done { "insert: done" } else { "insert: not" });
                // Whose row it is is certain only if the name was the same branch's before and after.
                if let (true, Ok(after)) = (done, at.branch(&name).await) {
                    if after.id == before.id {
                        self.rows.lock().unwrap().acknowledged.entry(after.id).or_default().insert(row);
                    }
                }
            }
        }
    }
}

/// What is done to a node.
#[derive(Debug, Clone, Copy)]
enum Fault {
    /// The daemon is killed; servers go on.
    Kill,
    /// The machine is gone, with all that ran on it.
    Power,
    /// The daemon is held.
    Stop,
    /// The cable is pulled.
    Cut,
    /// The wall clock is hours off, forward or back, and right again later.
    Jump,
    /// The machine was suspended for hours.
    Suspend,
}

async fn faults(bed: &Bed, storm: &Storm, rng: &mut fastrand::Rng) {
    // For how long each node was suspended: that is not taken back.
    let mut suspended = vec![0; bed.nodes.len()];
    while !storm.over.load(Ordering::Relaxed) {
        tokio::time::sleep(Duration::from_millis(rng.u64(1000..4000))).await;
        let number = rng.usize(..bed.nodes.len());
        let node = &bed.nodes[number];
        let all = [Fault::Kill, Fault::Power, Fault::Stop, Fault::Cut, Fault::Jump, Fault::Suspend];
        let fault = all[rng.usize(..all.len())];
        // Shorter than the etcd lease, or longer.
        let lasting = Duration::from_millis(rng.u64(500..9000));
        storm.count(format!("fault: {fault:?}"));
        match fault {
            Fault::Kill => {
                node.kill().await;
                tokio::time::sleep(lasting / 4).await;
                node.program.start(&bed.network).expect("it starts");
            }
            Fault::Power => {
                node.program.kill().expect("all of it ends");
                tokio::time::sleep(lasting / 4).await;
                node.program.start(&bed.network).expect("it starts");
            }
            Fault::Stop => {
                node.signal(Signal::STOP);
                tokio::time::sleep(lasting).await;
                node.signal(Signal::CONT);
            }
            Fault::Cut => {
                bed.network.pull(number, true).expect("pulled");
                tokio::time::sleep(lasting).await;
                bed.network.pull(number, false).expect("put back");
            }
            Fault::Jump => {
                bed.jump(number, rng.i64(-6 * 3600..6 * 3600), suspended[number]);
                tokio::time::sleep(lasting).await;
                bed.jump(number, 0, suspended[number]);
            }
            Fault::Suspend => {
                // What the daemon sees of it when it goes on: it stood still for a moment, and hours have gone by.
                node.signal(Signal::STOP);
                tokio::time::sleep(Duration::from_millis(rng.u64(10..500))).await;
                suspended[number] += rng.u64(60..6 * 3600);
                bed.jump(number, 0, suspended[number]);
                node.signal(Signal::CONT);
            }
        }
    }
}

/// FL-1, FL-3, FL-6: no name twice, no acknowledged lease or row lost, nothing leaked.
#[test]
fn a_storm_of_faults_gives_no_name_twice_and_loses_nothing() {
    within(Made { hot: 6, ..Made::default() }, |bed| async move {
        let seconds =
            std::env::var("DURAMEN_FLEET_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(SECONDS);
        let seed = entropy::seed();
        println!("seed {seed}, {seconds} s");
        let storm = Arc::new(Storm {
            history: History::new(),
            rows: Mutex::default(),
            next: AtomicU64::new(1),
            over: AtomicBool::new(false),
            clients: bed.nodes.iter().map(crate::bed::Node::client).collect(),
            counts: Mutex::default(),
        });
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let storm = Arc::clone(&storm);
                let mut rng = entropy::rng(seed.wrapping_add(client as u64 + 1));
                tokio::spawn(async move {
                    while !storm.over.load(Ordering::Relaxed) {
                        storm.one(client, &mut rng).await;
                        tokio::time::sleep(Duration::from_millis(rng.u64(20..200))).await;
                    }
                })
            })
            .collect();
        let begin = clock::now();
        let mut rng = entropy::rng(seed);
        let timer = async {
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            storm.over.store(true, Ordering::Relaxed);
        };
        tokio::join!(faults(&bed, &storm, &mut rng), timer);
        for client in clients {
            client.await.expect("a client ends");
        }
        println!(
            "{} operations in {:?}: {:#?}",
            storm.history.len(),
            begin.elapsed(),
            storm.counts.lock().unwrap()
        );

        // It heals.
        for node in &bed.nodes {
            node.program.start(&bed.network).expect("it runs");
            node.connect().await;
        }
        until("all are members", async || {
            let mut back = true;
            for node in &bed.nodes {
                back &= node.view().await.is_some_and(|view| view.standing == "member" && view.to_free == 0);
            }
            back
        })
        .await;
        bed.settled().await;

        // What is there at last is part of the history: a lease that was acknowledged and is gone is not linearizable.
        let mut at = bed.nodes[0].connect().await;
        let mut looked_at = 0;
        for name in (0..NAMES).map(|number| format!("n-{number}")) {
            let call = storm.history.now();
            let told = storm.told("last", at.branch(&name).await.map(|branch| (branch.id, false)));
            assert!(!matches!(told, Told::Unknown), "{name}: all are there");
            storm.history.note(CLIENTS, "get", &name, call, &told);
            let Told::Done { id, .. } = told else { continue };
            let expected = {
                let rows = storm.rows.lock().unwrap();
                rows.acknowledged.get(&id).filter(|_| !rows.reset.contains(&id)).cloned()
            };
            let Some(expected) = expected else { continue };
            let rows = crate::support::query(&mut at, &name, "SELECT id FROM t").await.expect("rows");
            let found: BTreeSet<u64> =
                rows.as_array().unwrap().iter().filter_map(|row| row[0].as_u64()).collect();
            assert!(found.is_superset(&expected), "{name} ({id}): {:?}", expected.difference(&found));
            looked_at += expected.len();
        }
        println!("{looked_at} acknowledged rows are there");
        storm.history.check(bed.dir.path());
        for (name, _) in bed.held().await {
            at.destroy_branch(&name).await.expect("destroyed");
        }
        bed.settled().await;
        end(bed).await;
    });
}
