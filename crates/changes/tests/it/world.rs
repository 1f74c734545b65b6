//! A snapshot, a branch of it, and a server on another clone to compare with; all real.

use duramen_changes::{compare, ChangesError, Part, Request, Side, Summary, Written};
use duramen_postgres::{
    volume::{self, Choice, Store},
    Cluster, Installation, Postmaster, ServerUser, Settings, StopMode, SOCKET_PORT,
};
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};
use tokio_postgres::{Client, Config, NoTls};

const LIMIT: Duration = Duration::from_secs(60);
/// Of the store, in bytes.
const SIZE: u64 = 2 << 30;

pub(crate) struct World {
    pub(crate) branch: Clone,
    pub(crate) baseline: Clone,
    pub(crate) snapshot: PathBuf,
    /// Mounted inside `home`; the outer one is that of a store within a store.
    stores: Vec<Store>,
    home: tempfile::TempDir,
}

/// A clone of the snapshot with its server.
pub(crate) struct Clone {
    pub(crate) data: PathBuf,
    sockets: PathBuf,
    server: Option<Postmaster>,
}

impl Clone {
    pub(crate) async fn client(&self) -> Client {
        let mut config = Config::new();
        config.host_path(&self.sockets).port(SOCKET_PORT).user("admin").dbname("postgres");
        config.options("-c search_path=pg_catalog,pg_temp");
        let (client, connection) = config.connect(NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    }
}

impl Drop for Clone {
    fn drop(&mut self) {
        if let Some(mut server) = self.server.take() {
            server.kill();
        }
    }
}

impl World {
    /// `choice` says how clones are made; `setup` fills the snapshot.
    pub(crate) async fn new(choice: Choice, setup: &str) -> World {
        let home = tempfile::Builder::new().prefix("dm-").tempdir().unwrap();
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let mut stores = Vec::new();
        if choice == Choice::Copy {
            stores.push(volume::open(home.path(), choice, SIZE).unwrap());
        } else {
            stores.push(volume::open(home.path(), Choice::Btrfs, SIZE).unwrap());
        }
        if choice == Choice::Reflink {
            let inner = stores[0].root.join("inner");
            fs::create_dir(&inner).unwrap();
            stores.push(volume::open(&inner, choice, SIZE).unwrap());
        }
        let store = stores.last().unwrap();
        let root = store.root.clone();
        let installation = Installation::choose(Path::new("/var/lib/duramen"), None).unwrap();
        let major = installation.version.major;
        let user = ServerUser::current().unwrap();
        let cluster = |data: &Path| Cluster::new(installation.clone(), data, user.clone());
        let start = |data: PathBuf, sockets: PathBuf| {
            let cluster = cluster(&data).with_log(home.path().join("log"));
            let server = cluster.start(&sockets, &Settings::minimal(major), LIMIT).unwrap();
            Clone { data, sockets, server: Some(server) }
        };
        let snapshot = root.join("snapshot");
        store.volumes.create(&snapshot).unwrap();
        user.own(&snapshot).unwrap();
        let made = cluster(&snapshot);
        made.init("admin", true).unwrap();
        made.write_file("pg_hba.conf", "local all all trust\n").unwrap();
        let mut draft = start(snapshot.clone(), home.path().join("d"));
        let client = draft.client().await;
        client.batch_execute("set search_path = public").await.unwrap();
        client.batch_execute(setup).await.unwrap();
        client.batch_execute("vacuum (freeze, analyze)").await.unwrap();
        drop(client);
        draft.server.take().unwrap().stop(StopMode::Fast, LIMIT).unwrap();
        store.volumes.freeze(&snapshot).unwrap();
        let clone = |name: &str| {
            let data = root.join(name);
            store.volumes.clone_volume(&snapshot, &data, None).unwrap();
            start(data, home.path().join(name))
        };
        let (branch, baseline) = (clone("branch"), clone("baseline"));
        World { branch, baseline, snapshot, stores, home }
    }

    /// A copy of the branch as it is this moment, with a server that recovered there.
    pub(crate) fn copy(&self, name: &str) -> Clone {
        let data = self.stores.last().unwrap().root.join(name);
        self.stores.last().unwrap().volumes.clone_volume(&self.branch.data, &data, None).unwrap();
        let _ = fs::remove_file(data.join("postmaster.pid"));
        let installation = Installation::choose(Path::new("/var/lib/duramen"), None).unwrap();
        let settings = Settings::minimal(installation.version.major);
        let cluster = Cluster::new(installation, &data, ServerUser::current().unwrap());
        let sockets = self.home.path().join(name);
        let server =
            cluster.with_log(self.home.path().join("log")).start(&sockets, &settings, LIMIT).unwrap();
        Clone { data, sockets, server: Some(server) }
    }

    /// What differs between two copies that were made apart.
    pub(crate) async fn compare_apart(old: &Clone, new: &Clone) -> (Vec<Part>, Summary) {
        let (new_client, holding, old_client) = (new.client().await, new.client().await, old.client().await);
        let request = Request {
            branch: Side { client: &new_client, files: &new.data },
            holding: &holding,
            baseline: Side { client: &old_client, files: &old.data },
            snapshot: &old.data,
            written: &Written::Apart,
            only: &[],
            whole: false,
            rows: 1_000_000,
        };
        let (told, mut heard) = tokio::sync::mpsc::channel(1 << 20);
        let summary = compare(request, &told).await.unwrap();
        drop(told);
        let mut parts = Vec::new();
        while let Some(part) = heard.recv().await {
            parts.push(part);
        }
        (parts, summary)
    }

    /// What differs.
    pub(crate) async fn compare(
        &self,
        only: &[&str],
        rows: u64,
    ) -> Result<(Vec<Part>, Summary), ChangesError> {
        let (new, holding, old) =
            (self.branch.client().await, self.branch.client().await, self.baseline.client().await);
        let only: Vec<String> = only.iter().map(|name| (*name).to_owned()).collect();
        let request = Request {
            branch: Side { client: &new, files: &self.branch.data },
            holding: &holding,
            baseline: Side { client: &old, files: &self.baseline.data },
            snapshot: &self.snapshot,
            written: &Written::Nothing,
            only: &only,
            whole: false,
            rows,
        };
        let (told, mut heard) = tokio::sync::mpsc::channel(16);
        let listen = async {
            let mut parts = Vec::new();
            while let Some(part) = heard.recv().await {
                parts.push(part);
            }
            parts
        };
        let work = async move {
            let summary = compare(request, &told).await;
            drop(told);
            summary
        };
        let (summary, parts) = tokio::join!(work, listen);
        Ok((parts, summary?))
    }
}

impl Drop for World {
    fn drop(&mut self) {
        for clone in [&mut self.branch, &mut self.baseline] {
            if let Some(mut server) = clone.server.take() {
                server.kill();
            }
        }
        self.stores.pop();
        for store in &self.stores {
            let _ = store.close();
        }
        let _ = Command::new("umount").arg("--lazy").arg(self.home.path().join("volumes")).output();
    }
}
