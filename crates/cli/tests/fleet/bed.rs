//! Three daemons with one source, which is on all of them, and three members of etcd.

use crate::support::{entries, Home, EXE};
use duramen_api::{
    fleet::{FleetSource, FleetView},
    model::{AddSource, Origin, Policy, PoolSize, SourceSettings, SourceView},
};
use duramen_client::{Client, ClientError, Connection};
use duramen_drill::{etcd, etcd::Etcd, program::Program, Network};
use duramen_fleet::authority;
use duramen_postgres::{processes_below, ServerUser};
use rustix::process::{kill_process, Pid, Signal};
use std::{
    collections::{BTreeMap, BTreeSet},
    future::Future,
    path::PathBuf,
    time::Duration,
};

/// Where nodes listen for one another.
pub(crate) const PORT: u16 = 7443;
/// And for PostgreSQL clients, and HTTP clients.
pub(crate) const PG_PORT: u16 = 6432;
pub(crate) const HTTP_PORT: u16 = 6433;
/// What comes by itself comes within this.
pub(crate) const SOON: Duration = Duration::from_secs(60);
pub(crate) const NAMES: [&str; 3] = ["a", "b", "c"];
const SQL: &str = "CREATE TABLE t (id bigint PRIMARY KEY, note text); INSERT INTO t VALUES (0, 'first');";

pub(crate) struct Node {
    pub(crate) name: &'static str,
    pub(crate) program: Program,
    pub(crate) home: Home,
}

pub(crate) struct Bed {
    pub(crate) nodes: Vec<Node>,
    pub(crate) etcd: Etcd,
    pub(crate) dir: tempfile::TempDir,
    pub(crate) network: Network,
}

/// How a bed is made.
pub(crate) struct Made {
    pub(crate) nodes: usize,
    pub(crate) hot: u32,
    pub(crate) grace: &'static str,
    /// On how many nodes the source is; 0: there is none yet.
    pub(crate) replicas: u32,
}

impl Default for Made {
    fn default() -> Made {
        Made { nodes: 3, hot: 4, grace: "10m", replicas: 3 }
    }
}

/// Makes a bed and does something in it. The thread of the test is moved into the bed's network, and its runtime with it.
pub(crate) fn within<F: Future<Output = ()>>(made: Made, work: impl FnOnce(Bed) -> F) {
    let dir = tempfile::Builder::new().prefix("df-").tempdir().expect("a folder");
    let mode = <std::fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o755);
    std::fs::set_permissions(dir.path(), mode).expect("its mode");
    let network = Network::namespaces(dir.path(), made.nodes).expect("namespaces; it needs root");
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(4)
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let bed = Bed::make(dir, network, &made).await;
        work(bed).await;
    });
}

impl Bed {
    async fn make(dir: tempfile::TempDir, network: Network, made: &Made) -> Bed {
        let user = ServerUser::of_this_process().expect("a user");
        let program = etcd::program(&duramen_base::home::usual()).expect("etcd is there");
        let etcd = Etcd::start(dir.path(), &program, 3, &user, &network).expect("etcd starts");
        etcd.ready().await.expect("a leader");
        let ca = dir.path().join("ca");
        authority::make(&ca).expect("an authority");
        let mut bed = Bed { nodes: Vec::new(), etcd, dir, network };
        for (number, name) in NAMES.into_iter().take(made.nodes).enumerate() {
            let home = Home::new();
            authority::certify(&ca, name, &home.path().join("fleet")).expect("a certificate");
            let jumps = bed.jumps(number).display().to_string();
            let program = bed.program(number, name, &home, made.grace, &[("DURAMEN_CLOCK_JUMPS", jumps)]);
            bed.nodes.push(Node { name, program, home });
        }
        for node in &bed.nodes {
            node.program.start(&bed.network).expect("it starts");
        }
        for node in &bed.nodes {
            until("it is a member", async || node.view().await.is_some_and(|view| view.standing == "member"))
                .await;
        }
        let replicas = made.replicas.min(u32::try_from(made.nodes).expect("a number"));
        if replicas > 0 {
            bed.add("a", SQL, made.hot, replicas).await.expect("the import");
            bed.ready().await;
        }
        bed
    }

    /// Adds the source `app` on a node, to be on so many.
    pub(crate) async fn add(
        &self,
        node: &str,
        sql: &str,
        hot: u32,
        replicas: u32,
    ) -> Result<SourceView, ClientError> {
        let node = self.node(node);
        let path = node.home.beside("app.sql");
        std::fs::write(&path, sql).expect("the script");
        let settings = SourceSettings {
            pool: PoolSize { hot: [(Policy::ReadWrite, hot)].into(), cold: 2 },
            replicas: Some(replicas),
            ..SourceSettings::default()
        };
        let origin = Origin::Script { path: path.display().to_string() };
        let request = AddSource { name: "app".to_owned(), origin, database: None, settings };
        node.connect().await.add_source(&request, |_, _| {}).await
    }

    /// The source as a node sees it.
    pub(crate) async fn source(&self, node: &str) -> Option<FleetSource> {
        let view = self.node(node).view().await?;
        view.sources.into_iter().find(|source| source.name == "app")
    }

    /// The nodes that have the current generation, as a node sees it.
    pub(crate) async fn holders(&self, node: &str) -> Vec<String> {
        let copies = self.source(node).await.map(|source| source.copies).unwrap_or_default();
        copies.into_iter().filter(|copy| copy.state == "held").map(|copy| copy.node).collect()
    }

    /// A daemon that is not started yet.
    pub(crate) fn program(
        &self,
        number: usize,
        name: &str,
        home: &Home,
        grace: &str,
        variables: &[(&str, String)],
    ) -> Program {
        self.program_at(number, name, home, grace, variables, [PORT, PG_PORT, HTTP_PORT])
    }

    /// The same, that listens at other ports.
    pub(crate) fn program_at(
        &self,
        number: usize,
        name: &str,
        home: &Home,
        grace: &str,
        variables: &[(&str, String)],
        [port, pg_port, http_port]: [u16; 3],
    ) -> Program {
        let user = ServerUser::of_this_process().expect("a user");
        let place = home.path().parent().expect("a folder").to_owned();
        let address = format!("{}:{port}", self.network.address(number));
        let fleet = format!("etcd://{}/test", self.etcd.clients().join(","));
        let mut program = Program::new(format!("node {name}"), &exe(), &place, &user, Some(number))
            .expect("a program")
            .arguments(["--home".to_owned(), home.path().display().to_string()])
            .arguments(["serve", "--volume-size", "2G", "--fleet", &fleet, "--node", name])
            .arguments([
                "--advertise",
                &address,
                "--fleet-grace",
                grace,
                "--insecure",
                "--unmasked-ok",
                "--etcd-insecure",
            ])
            .arguments(["--pg-listen", &format!("{}:{pg_port}", self.network.address(number))])
            .arguments(["--http-listen", &format!("{}:{http_port}", self.network.address(number))]);
        for (name, value) in variables {
            program = program.variable(name, value);
        }
        program
    }

    fn jumps(&self, number: usize) -> PathBuf {
        self.dir.path().join(format!("{number}.jumps"))
    }

    /// Sets the clocks of a node off: its wall clock by so many seconds, and that which goes on while a machine is suspended.
    pub(crate) fn jump(&self, number: usize, wall_s: i64, suspended_s: u64) {
        let (path, draft) = (self.jumps(number), self.dir.path().join(format!("{number}.draft")));
        std::fs::write(&draft, format!("{wall_s} {suspended_s}")).expect("a file");
        std::fs::rename(draft, path).expect("its place");
    }

    pub(crate) fn node(&self, name: &str) -> &Node {
        self.nodes.iter().find(|node| node.name == name).expect("a node of the bed")
    }

    /// Waits until every node sees all as ready, and has a full pool.
    pub(crate) async fn ready(&self) {
        for node in &self.nodes {
            until(&format!("{} sees all, and its pool is full", node.name), async || {
                let Some(view) = node.view().await else { return false };
                let pools = node.try_connect().await;
                let status = match pools {
                    Some(mut connection) => connection.status().await.ok(),
                    None => None,
                };
                let seen = view.nodes.iter().filter(|node| node.state == "ready").count();
                // Which of them are offered stands in what they say of themselves.
                let offering = view.nodes.iter().filter(|node| !node.sources.is_empty()).count();
                let has_sources = view.sources.iter().all(|source| offering >= source.replicas as usize);
                view.standing == "member"
                    && seen == self.nodes.len()
                    && has_sources
                    && status.is_some_and(|status| status.settled)
            })
            .await;
        }
    }

    /// The names in etcd, with their nodes and ids.
    pub(crate) async fn claims(&self) -> BTreeMap<String, (String, String)> {
        let all = self.etcd.below("/duramen/test/v1/names/").await.expect("an answer");
        let read = |(key, value): (String, String)| {
            let name = key.rsplit('/').next().expect("a name").to_owned();
            let value: serde_json::Value = serde_json::from_str(&value).expect("JSON");
            let text = |key: &str| value[key].as_str().expect("text").to_owned();
            (name, (text("node"), text("id")))
        };
        all.into_iter().map(read).collect()
    }

    /// What nodes hold, by name: node and id. A name on two of them fails the test (FL-1).
    pub(crate) async fn held(&self) -> BTreeMap<String, (String, String)> {
        self.held_once().await.expect("FL-1")
    }

    /// The same; an error for a name on two of them, as it is before a node that was lost has brought its names together with etcd.
    async fn held_once(&self) -> Result<BTreeMap<String, (String, String)>, String> {
        let mut held = BTreeMap::new();
        for node in &self.nodes {
            let list = node.connect().await.branches().await.expect("a list");
            for branch in list.into_iter().filter(|branch| branch.node.as_deref() == Some(node.name)) {
                let other = held.insert(branch.name.clone(), (node.name.to_owned(), branch.id));
                if let Some(other) = other {
                    return Err(format!("{} is on two nodes, {other:?} and {}", branch.name, node.name));
                }
            }
        }
        Ok(held)
    }

    /// Waits until what etcd says and what nodes hold is the same (FL-6), and no volume is left that nobody needs.
    pub(crate) async fn settled(&self) {
        let begin = duramen_base::clock::now();
        loop {
            let (claims, held) = (self.claims().await, self.held_once().await);
            if held.as_ref() == Ok(&claims) {
                break;
            }
            assert!(begin.elapsed() < SOON, "FL-6: claims {claims:?}\nheld {held:?}");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        for node in &self.nodes {
            until(&format!("{} has no volume too many", node.name), async || {
                let Some(mut connection) = node.try_connect().await else { return false };
                let Ok(status) = connection.status().await else { return false };
                let hot: u32 = status.pools.iter().map(|pool| pool.hot).sum();
                let mut needed = (status.leases + hot + status.cold) as usize;
                // What a branch was before it was reset is kept.
                for branch in connection.branches().await.unwrap_or_default() {
                    if branch.node.as_deref() == Some(node.name) {
                        needed +=
                            connection.snapshots(&branch.name).await.map_or(0, |snapshots| snapshots.len());
                    }
                }
                let there = entries(&node.home.path().join("volumes/branches")).len();
                status.settled && status.to_delete == 0 && there == needed
            })
            .await;
        }
    }
}

impl Node {
    pub(crate) fn client(&self) -> Client {
        Client::new(&self.home.path()).with_deadline(Duration::from_secs(15))
    }

    pub(crate) async fn try_connect(&self) -> Option<Connection> {
        self.client().connect().await.ok()
    }

    /// A connection, once the daemon answers.
    pub(crate) async fn connect(&self) -> Connection {
        let begin = duramen_base::clock::now();
        loop {
            if let Some(mut connection) = self.try_connect().await {
                if connection.status().await.is_ok() {
                    return connection;
                }
            }
            assert!(begin.elapsed() < SOON, "{} does not answer:\n{}", self.name, self.program.log());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    pub(crate) async fn view(&self) -> Option<FleetView> {
        let mut connection = self.client().with_deadline(Duration::from_secs(2)).connect().await.ok()?;
        connection.nodes().await.ok()
    }

    /// The state of a node as this one sees it.
    pub(crate) async fn sees(&self, other: &str) -> String {
        let view = self.view().await;
        let found = view.and_then(|view| view.nodes.into_iter().find(|node| node.name == other));
        found.map_or_else(String::new, |node| node.state)
    }

    /// The process of the daemon itself.
    pub(crate) fn daemon(&self) -> Option<Pid> {
        let text = std::fs::read_to_string(self.program.dir().join("supervisor.pid")).ok()?;
        text.trim().parse().ok().and_then(Pid::from_raw)
    }

    /// Signals the daemon, and not the servers of its branches.
    pub(crate) fn signal(&self, signal: Signal) {
        if let Some(pid) = self.daemon() {
            let _ = kill_process(pid, signal);
        }
    }

    /// Kills the daemon: the servers of leased branches go on.
    pub(crate) async fn kill(&self) {
        self.signal(Signal::KILL);
        until("it is dead", async || !self.program.is_running()).await;
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.home.path()
    }
}

/// The program of the daemons: that of the tests, unless `DURAMEN_FLEET_PROGRAM` says another one, for figures of a release.
fn exe() -> PathBuf {
    std::env::var_os("DURAMEN_FLEET_PROGRAM").map_or_else(|| PathBuf::from(EXE), PathBuf::from)
}

pub(crate) async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let begin = duramen_base::clock::now();
    while !is_so().await {
        assert!(begin.elapsed() < SOON, "it never came to this: {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Stops the daemons in order, and sees that nothing is left of them.
pub(crate) async fn end(bed: Bed) {
    let Bed { nodes, etcd, dir, network } = bed;
    for node in &nodes {
        node.program.hold(false);
        if let Some(mut connection) = node.try_connect().await {
            let _ = connection.shutdown().await;
        }
    }
    for node in &nodes {
        let begin = duramen_base::clock::now();
        while node.program.is_running() && begin.elapsed() < SOON {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert!(!node.program.is_running(), "{} does not stop:\n{}", node.name, node.program.log());
        let left: BTreeSet<u32> = processes_below(&node.root()).into_iter().collect();
        assert_eq!(left, BTreeSet::new(), "{}", node.name);
    }
    drop(nodes);
    drop((etcd, network));
    drop(dir);
}
