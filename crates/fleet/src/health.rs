//! How etcd is: each of its members asked by itself, at once, with a limit.

use crate::{
    etcd::{Etcd, EtcdError},
    member::Fleet,
    record::Key,
};
use duramen_base::clock;
use etcd_client::StatusResponse;
use std::{sync::Arc, time::Duration};
use tokio::task::JoinSet;

/// How etcd is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EtcdHealth {
    /// Its members: those of the address, and then those that the address does not have.
    pub members: Vec<MemberHealth>,
    /// Members that vote, as etcd's own list has them; none, if nobody gave the list.
    pub voting: usize,
    /// How many of these must be there for anything to be agreed on.
    pub quorum: usize,
    /// How many of them are there and have a leader.
    pub present: usize,
    /// How long one read took that a quorum had to confirm.
    pub read: Option<Duration>,
    /// Why it did not come, if it did not.
    pub problem: Option<String>,
}

/// How a member is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MemberHealth {
    /// Where it is asked; absent if the address does not have it.
    pub address: Option<String>,
    /// Its name, as etcd's own list has it.
    pub name: Option<String>,
    /// What it says of itself.
    pub said: Option<Said>,
    /// Why it says nothing, if it was asked.
    pub problem: Option<String>,
}

/// What a member says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// Its number.
    pub id: u64,
    /// Its version.
    pub version: String,
    /// Whether it leads.
    pub leads: bool,
    /// Whether it knows of a leader.
    pub is_led: bool,
    /// Whether it only listens, and does not vote.
    pub learns: bool,
    /// The size of its database, in bytes.
    pub size: u64,
    /// How much of that is used; the rest is freed by `etcdctl defrag`.
    pub used: u64,
    /// How large it may become; unknown before version 3.6.
    pub quota: Option<u64>,
    /// What it complains of: alarms above all.
    pub errors: Vec<String>,
}

impl Fleet {
    /// How etcd is. Every member is asked by itself, all at once, each with a limit of two seconds.
    pub async fn etcd_health(&self) -> EtcdHealth {
        of(&self.etcd).await
    }
}

pub(crate) async fn of(etcd: &Arc<Etcd>) -> EtcdHealth {
    let begin = clock::now();
    let reading = async { (etcd.get(Key::Member("a")).await, begin.elapsed()) };
    let ((read, took), asked) = tokio::join!(reading, all(etcd));
    let mut health = EtcdHealth::default();
    match read {
        Ok(_) => health.read = Some(took),
        Err(error) => health.problem = Some(error.to_string()),
    }
    let list = asked.iter().find_map(|(_, _, list)| list.as_deref()).unwrap_or_default().to_vec();
    for (place, said, _) in asked {
        let mut member = MemberHealth { address: etcd.members().get(place).cloned(), ..Default::default() };
        match said {
            Ok(said) => {
                member.name = list.iter().find(|listed| listed.id == said.id).map(|it| it.name.clone());
                member.said = Some(said);
            }
            Err(error) => member.problem = Some(error.to_string()),
        }
        health.members.push(member);
    }
    let silent = health.members.iter().filter(|member| member.said.is_none()).count();
    let is_known =
        |id: u64| health.members.iter().filter_map(|it| it.said.as_ref()).any(|said| said.id == id);
    let unknown: Vec<&Listed> = list.iter().filter(|listed| !is_known(listed.id)).collect();
    // Those that do not answer may be these.
    let beyond = unknown.len().saturating_sub(silent);
    let further: Vec<MemberHealth> = unknown
        .iter()
        .rev()
        .take(beyond)
        .map(|listed| MemberHealth { name: Some(listed.name.clone()), ..Default::default() })
        .collect();
    health.voting = list.iter().filter(|listed| !listed.learns).count();
    health.quorum = if health.voting == 0 { 0 } else { health.voting / 2 + 1 };
    let mut led: Vec<u64> = health
        .members
        .iter()
        .filter_map(|member| member.said.as_ref())
        .filter(|said| said.is_led && !said.learns)
        .map(|said| said.id)
        .collect();
    // Two addresses may lead to one member.
    led.sort_unstable();
    led.dedup();
    health.present = led.len();
    health.members.extend(further);
    health
}

#[derive(Debug, Clone)]
struct Listed {
    id: u64,
    name: String,
    learns: bool,
}

type Answered = (usize, Result<Said, EtcdError>, Option<Vec<Listed>>);

async fn all(etcd: &Arc<Etcd>) -> Vec<Answered> {
    let mut asked = JoinSet::new();
    for place in 0..etcd.members().len() {
        let etcd = Arc::clone(etcd);
        asked.spawn(async move {
            let (said, list) = match one(&etcd, place).await {
                Ok((said, list)) => (Ok(said), list),
                Err(error) => (Err(error), None),
            };
            (place, said, list)
        });
    }
    let mut answers = asked.join_all().await;
    answers.sort_by_key(|(place, ..)| *place);
    answers
}

async fn one(etcd: &Etcd, place: usize) -> Result<(Said, Option<Vec<Listed>>), EtcdError> {
    let client = etcd.client_of(place).await?;
    let mut maintenance = client.maintenance_client();
    let said = read(&etcd.within(maintenance.status()).await?);
    let mut cluster = client.cluster_client();
    let list = etcd.within(cluster.member_list()).await.ok();
    let list = list.map(|list| {
        let listed = |it: &etcd_client::Member| Listed {
            id: it.id(),
            name: it.name().to_owned(),
            learns: it.is_learner(),
        };
        list.members().iter().map(listed).collect()
    });
    Ok((said, list))
}

fn read(status: &StatusResponse) -> Said {
    let id = status.header().map_or(0, etcd_client::ResponseHeader::member_id);
    let size = |bytes: i64| u64::try_from(bytes).unwrap_or(0);
    Said {
        id,
        version: status.version().to_owned(),
        leads: status.leader() != 0 && status.leader() == id,
        is_led: status.leader() != 0,
        learns: status.is_learner(),
        size: size(status.db_size()),
        used: size(status.raft_used_db_size()),
        quota: Some(size(status.db_size_quota())).filter(|quota| *quota > 0),
        errors: status.errors().to_vec(),
    }
}
