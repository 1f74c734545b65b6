//! A real etcd of its own for a test, and nodes on it.

use duramen_drill::etcd::{program, Etcd};
use duramen_drill::Network;
use duramen_fleet::{
    address::Access,
    agreed::Agreement,
    member::{Fleet, Settings, Standing},
    names::{Holds, Local},
    record::Capacity,
};
use duramen_postgres::ServerUser;
use etcd_client::{Client, GetOptions};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

/// How long names are kept for a node that is gone.
pub(crate) const GRACE: Duration = Duration::from_secs(2);
const SOON: Duration = Duration::from_secs(15);

/// What a node of that name joins with.
pub(crate) fn settings(etcd: &str, access: Access, node: &str) -> Settings {
    Settings {
        etcd: etcd.parse().expect("an address"),
        access,
        node: node.to_owned(),
        advertise: format!("{node}.invalid:1"),
        home: format!("h-{node}"),
        starts: vec![format!("s-{node}")],
        place: format!("p-{node}"),
        sessions: true,
        version: "test".to_owned(),
        grace: GRACE,
    }
}

pub(crate) struct Bed {
    pub(crate) etcd: Etcd,
    network: Network,
    _dir: tempfile::TempDir,
}

impl Bed {
    /// With so many members of etcd; nothing where there is no etcd, which is said.
    pub(crate) async fn new(members: usize) -> Bed {
        let dir = tempfile::tempdir().expect("a folder");
        let program = program(&duramen_base::home::usual()).expect("etcd is there");
        let user = ServerUser::of_this_process().expect("a user");
        let network = Network::loopback(members);
        let etcd = Etcd::start(dir.path(), &program, members, &user, &network).expect("it starts");
        etcd.ready().await.expect("a leader");
        Bed { etcd, network, _dir: dir }
    }

    pub(crate) fn settings(&self, node: &str) -> Settings {
        settings(&format!("etcd://{}/test", self.etcd.clients().join(",")), Access::default(), node)
    }

    /// A node that does not wait until it is registered.
    pub(crate) fn joining(&self, settings: Settings) -> Arc<Fleet> {
        Fleet::join(settings, Box::new(Capacity::default)).expect("it begins")
    }

    pub(crate) async fn node(&self, node: &str) -> Arc<Fleet> {
        let fleet = self.joining(self.settings(node));
        registered(&fleet).await;
        fleet
    }

    /// The fleet's etcd as it is, for who is not a node.
    pub(crate) fn agreement(&self) -> Agreement {
        Agreement::at(self.settings("x").etcd, Access::default()).expect("it needs no file")
    }

    /// All members lose their data, and begin anew.
    pub(crate) async fn lose(&self) {
        for member in self.etcd.members() {
            member.kill().expect("it ends");
            std::fs::remove_dir_all(member.dir().join("data")).expect("its data");
        }
        for member in self.etcd.members() {
            member.start(&self.network).expect("it starts");
        }
        self.etcd.ready().await.expect("a leader");
    }

    /// All members answer nothing, or again.
    pub(crate) fn hold(&self, held: bool) {
        self.etcd.members().iter().for_each(|member| member.hold(held));
    }

    pub(crate) async fn client(&self) -> Client {
        Client::connect(self.etcd.clients(), None).await.expect("a client")
    }

    /// What stands below a part of the fleet's keys.
    pub(crate) async fn keys(&self, below: &str) -> Vec<String> {
        let mut client = self.client().await;
        let prefix = format!("/duramen/test/v1/{below}");
        let all = client.get(prefix, Some(GetOptions::new().with_prefix())).await.expect("an answer");
        all.kvs()
            .iter()
            .map(|kv| kv.key_str().expect("text").rsplit('/').next().unwrap().to_owned())
            .collect()
    }

    /// The revision of etcd: how often it was written to.
    pub(crate) async fn revision(&self) -> i64 {
        self.client().await.get("x", None).await.expect("an answer").header().expect("a header").revision()
    }
}

pub(crate) async fn registered(fleet: &Fleet) {
    until("it is registered", async || {
        matches!(fleet.standing(), Standing::Member(_)) && fleet.view().node(fleet.node()).is_some()
    })
    .await;
}

pub(crate) async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(SOON, waiting).await.unwrap_or_else(|_| panic!("it never came to this: {what}"));
}

/// What a node holds.
#[derive(Default)]
pub(crate) struct Held(pub(crate) Mutex<Vec<Local>>);

impl Held {
    pub(crate) fn of(held: &[(&str, &str)]) -> Held {
        let local = held.iter().map(|(name, id)| Local {
            name: (*name).to_owned(),
            id: (*id).to_owned(),
            source: "s".to_owned(),
            holder: None,
        });
        Held(Mutex::new(local.collect()))
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.0.lock().unwrap().iter().map(|local| local.name.clone()).collect()
    }
}

impl Holds for Held {
    fn all(&self) -> Vec<Local> {
        self.0.lock().unwrap().clone()
    }

    fn rename(&self, name: &str, id: &str, other: &str) -> Result<(), String> {
        let mut held = self.0.lock().unwrap();
        let local =
            held.iter_mut().find(|local| local.name == name && local.id == id).ok_or("it is not there")?;
        local.name = other.to_owned();
        Ok(())
    }
}
