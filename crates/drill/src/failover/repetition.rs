//! One drill, once: clients, a fault, its end, and the account.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use duramen_base::clock;
use duramen_postgres::connection::Target;
use serde_json::json;

use super::options::Drill;
use super::stages::{Stages, Watcher};
use crate::disk::FullDisk;
use crate::error::DrillError;
use crate::ledger::{Account, Ledger};
use crate::network::Network;
use crate::patroni::{members, Patroni};
use crate::program::blocking;
use crate::writer::{Work, Writers, TABLE};

/// Clients write for so long before anything is done.
const WARM: Duration = Duration::from_secs(2);
/// A fault of etcd lasts for so long after commits have stopped, and a leader that was cut off is away for so long after
/// another one has acknowledged rows.
const AWAY: Duration = Duration::from_secs(4);
/// Clients write on for so long after all is put right, so that a leader that came back can do harm.
const AFTER: Duration = Duration::from_secs(2);
/// Rows are acknowledged again, or have stopped, within this.
const LIMIT: Duration = Duration::from_secs(120);
/// All nodes stream again within this: one that was killed or cut off is rewound.
const HEALTHY: Duration = Duration::from_secs(180);
/// Without a row for so long, commits have stopped.
const STOPPED: Duration = Duration::from_secs(3);
/// A statement that only asks is answered within this.
const ANSWER: Duration = Duration::from_secs(30);

/// What a repetition brought back.
#[derive(Debug)]
pub(super) struct Repetition {
    /// The nodes that led before and after.
    pub(super) leaders: [usize; 2],
    /// When the fault began, and when all was healthy again.
    pub(super) window: [Duration; 2],
    pub(super) stages: Stages,
    /// The first row that a client by the network was acknowledged after the fault, by any node.
    pub(super) first_commit: Option<Duration>,
    /// The last row that was acknowledged before the longest time without one, by any client.
    pub(super) stopped: Option<Duration>,
    /// Whether rows were acknowledged up to the fault.
    pub(super) had_load: bool,
    pub(super) ledger: Arc<Ledger>,
    /// So many clients write by the network; those after them are each beside a node.
    pub(super) roaming: usize,
    pub(super) account: Account,
}

impl Repetition {
    /// The longest time without an acknowledged row for all clients by the network together.
    pub(super) fn gap(&self) -> Duration {
        self.ledger.longest_gap(self.window, |attempt| self.is_roaming(attempt.client))
    }

    /// The same for each of them alone.
    pub(super) fn gaps(&self) -> Vec<Duration> {
        let gap = |client: usize| {
            self.ledger.longest_gap(self.window, |attempt| usize::try_from(attempt.client) == Ok(client))
        };
        (0..self.roaming).map(gap).collect()
    }

    /// What clients were told, and how often.
    pub(super) fn errors(&self) -> BTreeMap<String, u64> {
        self.ledger.errors()
    }

    fn is_roaming(&self, client: i32) -> bool {
        usize::try_from(client).is_ok_and(|client| client < self.roaming)
    }
}

/// What a repetition is held on.
pub(super) struct Ground {
    pub(super) cluster: Arc<Patroni>,
    pub(super) network: Arc<Network>,
    pub(super) clients: usize,
}

impl Ground {
    /// Holds a drill, under the number of a run.
    pub(super) async fn hold(&self, drill: Drill, run: i64) -> Result<Repetition, DrillError> {
        let old = self.cluster.healthy(HEALTHY).await?;
        let nodes = self.cluster.nodes();
        let leader = nodes[old].by_socket()?;
        execute(&leader, TABLE).await?;
        let by_network: Vec<(usize, Target)> = nodes
            .iter()
            .enumerate()
            .map(|(number, node)| Ok((number, node.by_network()?)))
            .collect::<Result<_, DrillError>>()?;
        let mut ways: Vec<Vec<(usize, Target)>> = (0..self.clients)
            .map(|client| {
                let mut way = by_network.clone();
                way.rotate_left(client % nodes.len());
                way
            })
            .collect();
        // Whoever is on the machine of a leader that is cut off still reaches it.
        for (number, node) in nodes.iter().enumerate() {
            ways.push(vec![(number, node.by_socket()?)]);
        }
        let ledger = Arc::new(Ledger::new());
        let origin = clock::now();
        let since = || clock::now().duration_since(origin);
        let writers = Writers::begin(ways, Work::Rows(run), &ledger, origin);
        tokio::time::sleep(WARM).await;
        let had_load =
            ledger.last().is_some_and(|last| since().saturating_sub(last) < Duration::from_secs(1));
        let watcher = Watcher::begin(&self.cluster, old, origin);
        let begin = since();
        let done = self.disturb(drill, old, &ledger, origin).await;
        if done.is_err() {
            // Whatever is still held, or cut off, is put right before anybody is told.
            self.heal(old).await;
        }
        done?;
        let new = self.cluster.healthy(HEALTHY).await?;
        let end = since();
        tokio::time::sleep(AFTER).await;
        writers.end().await?;
        let there = rows(&nodes[new].by_socket()?, run).await?;
        let roaming = self.clients;
        let is_other = |node| !drill.changes_leader() || node != old;
        Ok(Repetition {
            leaders: [old, new],
            window: [begin, end],
            stages: watcher.seen(),
            first_commit: match drill {
                Drill::Quorum => None,
                _ => ledger.first_after(begin, is_other),
            },
            stopped: ledger.stopped([begin, end]),
            had_load,
            account: ledger.account(&there, old),
            ledger,
            roaming,
        })
    }

    /// Does it, waits until its effect is there, and puts it right.
    async fn disturb(
        &self,
        drill: Drill,
        old: usize,
        ledger: &Arc<Ledger>,
        origin: Instant,
    ) -> Result<(), DrillError> {
        let since = || clock::now().duration_since(origin);
        let begin = since();
        let another = async || {
            let begun = clock::now();
            while ledger.first_after(begin, |node| node != old).is_none() {
                if begun.elapsed() > LIMIT {
                    return Err(in_vain("another leader to acknowledge a row", LIMIT));
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            Ok(())
        };
        let held = |held| {
            let etcd = self.cluster.etcd().members().iter().skip(1);
            etcd.for_each(|member| member.hold(held));
        };
        match drill {
            Drill::Kill => {
                let cluster = Arc::clone(&self.cluster);
                blocking(move || cluster.nodes()[old].program().kill()).await?;
                another().await?;
                tokio::time::sleep(AWAY).await;
                self.start(old).await?;
            }
            Drill::Stop => {
                self.cluster.nodes()[old].program().hold(true);
                another().await?;
                tokio::time::sleep(AWAY).await;
                self.cluster.nodes()[old].program().hold(false);
            }
            Drill::Cut => {
                self.pull(old, true).await?;
                another().await?;
                tokio::time::sleep(AWAY).await;
                self.pull(old, false).await?;
            }
            Drill::Disk => {
                let cluster = Arc::clone(&self.cluster);
                let disk = blocking(move || FullDisk::of(cluster.nodes()[old].program())).await?;
                another().await?;
                tokio::time::sleep(AWAY).await;
                blocking(move || {
                    drop(disk);
                    Ok(())
                })
                .await?;
            }
            Drill::Switchover => {
                self.switch(old).await?;
                another().await?;
            }
            Drill::Quorum => {
                held(true);
                let begun = clock::now();
                while since().saturating_sub(ledger.last().unwrap_or_default()) < STOPPED {
                    if begun.elapsed() > LIMIT {
                        return Err(in_vain("commits to stop without a quorum of etcd", LIMIT));
                    }
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                tokio::time::sleep(AWAY).await;
                held(false);
                let healed = since();
                let begun = clock::now();
                while ledger.first_after(healed, |_| true).is_none() {
                    if begun.elapsed() > LIMIT {
                        return Err(in_vain("a row to be acknowledged after etcd was back", LIMIT));
                    }
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
        Ok(())
    }

    /// Hands the leadership over, as planned, to the synchronous standby or to any.
    async fn switch(&self, old: usize) -> Result<(), DrillError> {
        let nodes = self.cluster.nodes();
        let rest = nodes[old].rest();
        let failed = |detail: String| DrillError::failed("the switchover", detail);
        let members = members(rest).await.map_err(failed)?;
        let others = || members.iter().filter(|member| member.role != "leader");
        let candidate =
            others().find(|member| member.role.ends_with("sync_standby")).or_else(|| others().next());
        let candidate = candidate.map(|member| member.name.clone());
        let body = json!({ "leader": nodes[old].name(), "candidate": candidate });
        let answer = rest.ask("POST", "/switchover", Some(&body), LIMIT).await.map_err(failed)?;
        match answer.status {
            200 | 202 => Ok(()),
            status => Err(failed(format!("Patroni says {status}: {}", answer.body.trim()))),
        }
    }

    async fn heal(&self, old: usize) {
        self.cluster.etcd().members().iter().for_each(|member| member.hold(false));
        self.cluster.nodes()[old].program().hold(false);
        // What cannot be put right here is seen when the next repetition waits for a healthy cluster.
        let _ = self.pull(old, false).await;
        let _ = self.start(old).await;
    }

    async fn start(&self, node: usize) -> Result<(), DrillError> {
        let (cluster, network) = (Arc::clone(&self.cluster), Arc::clone(&self.network));
        blocking(move || cluster.nodes()[node].program().start(&network)).await
    }

    async fn pull(&self, node: usize, pulled: bool) -> Result<(), DrillError> {
        let network = Arc::clone(&self.network);
        blocking(move || network.pull(node, pulled)).await
    }
}

fn in_vain(what: &str, limit: Duration) -> DrillError {
    DrillError::Timeout { what: what.to_owned(), seconds: limit.as_secs(), said: String::new() }
}

async fn execute(target: &Target, sql: &str) -> Result<(), DrillError> {
    let failed = |detail: String| DrillError::failed("preparing the ledger's table", detail);
    let doing = async {
        let client = target.connect().await.map_err(|error| failed(error.to_string()))?;
        client.batch_execute(sql).await.map_err(|error| failed(crate::writer::said(&error)))
    };
    tokio::time::timeout(ANSWER, doing).await.map_err(|_| in_vain("the leader to make a table", ANSWER))?
}

/// The rows of a run.
async fn rows(target: &Target, run: i64) -> Result<HashSet<(i32, i64)>, DrillError> {
    let failed = |detail: String| DrillError::failed("reading what became of the rows", detail);
    let reading = async {
        let client = target.connect().await.map_err(|error| failed(error.to_string()))?;
        let sql = "SELECT client, n FROM public.drill_ledger WHERE run = $1";
        let rows = client.query(sql, &[&run]).await.map_err(|error| failed(crate::writer::said(&error)))?;
        Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
    };
    tokio::time::timeout(ANSWER, reading).await.map_err(|_| in_vain("the leader to tell its rows", ANSWER))?
}
