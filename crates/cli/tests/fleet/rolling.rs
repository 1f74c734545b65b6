//! An upgrade of all nodes, one after another, under load: a daemon is stopped in order and started again within the grace.

use crate::bed::{end, until, within, Made};
use crate::history::{History, Told};
use duramen_api::model::CreateBranch;
use duramen_base::entropy;
use duramen_client::{Client, ClientError};
use std::{
    sync::{
        atomic::{AtomicBool, AtomicUsize, Ordering},
        Arc,
    },
    time::Duration,
};

const CLIENTS: usize = 12;
const NAMES: usize = 16;

struct Load {
    history: History,
    clients: Vec<Client>,
    over: AtomicBool,
    done: AtomicUsize,
}

impl Load {
    fn told(&self, answer: Result<(String, bool), ClientError>) -> Told {
        match answer {
            Ok((id, existing)) => {
                self.done.fetch_add(1, Ordering::Relaxed);
                Told::Done { id, existing }
            }
            Err(ClientError::Refused { status: 404, .. }) => Told::None,
            Err(_) => Told::Unknown,
        }
    }

    async fn one(&self, client: usize, rng: &mut fastrand::Rng) {
        let name = format!("r-{}", rng.usize(..NAMES));
        let through = self.clients[rng.usize(..self.clients.len())].clone();
        let Ok(mut at) = through.with_deadline(Duration::from_secs(8)).connect().await else { return };
        let call = self.history.now();
        let (op, told) = match rng.u32(..4) {
            0 | 1 => {
                let wanted =
                    CreateBranch { name: Some(name.clone()), wait_ms: Some(5000), ..CreateBranch::default() };
                let made = at.create_branch(&wanted).await;
                ("create", self.told(made.map(|branch| (branch.id, branch.existing))))
            }
            2 => ("destroy", self.told(at.destroy_branch(&name).await.map(|branch| (branch.id, false)))),
            _ => ("get", self.told(at.branch(&name).await.map(|branch| (branch.id, false)))),
        };
        self.history.note(client, op, &name, call, &told);
    }
}

/// FL-1, FL-5: no acknowledged branch is lost and no name is given twice while each daemon is stopped and started.
#[test]
fn daemons_are_stopped_and_started_one_after_another_under_load() {
    within(Made { hot: 6, ..Made::default() }, |bed| async move {
        let seed = entropy::seed();
        println!("seed {seed}");
        let load = Arc::new(Load {
            history: History::new(),
            clients: bed.nodes.iter().map(crate::bed::Node::client).collect(),
            over: AtomicBool::new(false),
            done: AtomicUsize::new(0),
        });
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let load = Arc::clone(&load);
                let mut rng = entropy::rng(seed.wrapping_add(client as u64));
                tokio::spawn(async move {
                    while !load.over.load(Ordering::Relaxed) {
                        load.one(client, &mut rng).await;
                        tokio::time::sleep(Duration::from_millis(rng.u64(10..100))).await;
                    }
                })
            })
            .collect();
        for node in &bed.nodes {
            tokio::time::sleep(Duration::from_secs(2)).await;
            let before = load.done.load(Ordering::Relaxed);
            node.connect().await.shutdown().await.expect("it stops");
            until("it has stopped", async || !node.program.is_running()).await;
            // It says that it goes: others need not wait until its lease is over.
            let other = bed.nodes.iter().find(|other| other.name != node.name).expect("another one");
            assert_eq!(other.sees(node.name).await, "unreachable", "{}", node.name);
            node.program.start(&bed.network).expect("it starts");
            node.connect().await;
            until("it is a member", async || node.view().await.is_some_and(|view| view.standing == "member"))
                .await;
            assert!(load.done.load(Ordering::Relaxed) > before, "the others went on");
        }
        tokio::time::sleep(Duration::from_secs(2)).await;
        load.over.store(true, Ordering::Relaxed);
        for client in clients {
            client.await.expect("a client ends");
        }
        bed.ready().await;
        bed.settled().await;
        println!("{} operations, {} of them done", load.history.len(), load.done.load(Ordering::Relaxed));
        let mut at = bed.nodes[0].connect().await;
        for name in (0..NAMES).map(|number| format!("r-{number}")) {
            let call = load.history.now();
            let told = load.told(at.branch(&name).await.map(|branch| (branch.id, false)));
            assert!(!matches!(told, Told::Unknown), "{name}: all are there");
            load.history.note(CLIENTS, "get", &name, call, &told);
        }
        load.history.check(bed.dir.path());
        for (name, _) in bed.held().await {
            at.destroy_branch(&name).await.expect("destroyed");
        }
        bed.settled().await;
        end(bed).await;
    });
}
