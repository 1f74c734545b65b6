//! Patroni with its nodes of PostgreSQL, on top of an etcd of ours.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use duramen_base::{clock, entropy, file};
use duramen_postgres::connection::Target;
use duramen_postgres::{find_packages, quote_parameter, Installation, ServerUser, SOCKET_PORT};
use serde_json::{json, Value};

use crate::error::DrillError;
use crate::etcd::Etcd;
use crate::http::Endpoint;
use crate::network::Network;
use crate::program::Program;

/// The name of a cluster that is alone.
pub const SCOPE: &str = "drill";
/// Where it has its keys in etcd.
const NAMESPACE: &str = "/duramen/";
/// The bootstrap superuser.
const OWNER: &str = "postgres";
/// A node answers within this, or has not answered.
const ANSWER: Duration = Duration::from_millis(1500);
/// The programs of PostgreSQL that Patroni runs.
const NEEDED: [&str; 7] =
    ["postgres", "initdb", "pg_ctl", "pg_controldata", "pg_basebackup", "pg_rewind", "pg_isready"];

/// How a cluster is set up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// How many nodes of PostgreSQL.
    pub nodes: usize,
    /// Whether commits wait for a synchronous standby (`synchronous_mode`).
    pub is_synchronous: bool,
    /// After how many seconds without a word from its holder the leader's key is free. Patroni takes 20 and more.
    pub ttl: u32,
    /// Seconds between two rounds of Patroni.
    pub loop_wait: u32,
    /// For how many seconds it tries again to reach etcd or PostgreSQL.
    pub retry_timeout: u32,
}

impl Default for Settings {
    fn default() -> Self {
        // As fast as Patroni lets it be: loop_wait + 2 * retry_timeout may not be above ttl.
        Self { nodes: 3, is_synchronous: true, ttl: 20, loop_wait: 3, retry_timeout: 8 }
    }
}

/// What is needed to run it.
#[derive(Debug, Clone)]
pub struct Programs {
    etcd: PathBuf,
    python: PathBuf,
    /// Where its modules are, unless Python finds them itself.
    site: Option<PathBuf>,
    installation: Installation,
}

impl Programs {
    /// Looks for etcd, Python, Patroni (in `site`, or in a package `patroni...` of the home) and PostgreSQL of a major version, or the
    /// newest that has all that Patroni runs.
    ///
    /// # Errors
    /// [`DrillError::Missing`] with all that is missing.
    pub fn find(home: &Path, site: Option<&Path>, major: Option<u32>) -> Result<Self, DrillError> {
        let mut missing = Vec::new();
        let etcd = crate::etcd::program(home).map_err(|reason| missing.push(reason)).unwrap_or_default();
        let python = PathBuf::from("/usr/bin/python3");
        if !python.is_file() {
            missing.push("/usr/bin/python3 is not there: apt-get install python3".to_owned());
        }
        let site = match site {
            Some(site) => Some(site.to_owned()),
            None => find_packages(home, "patroni").pop(),
        };
        let is_there = match &site {
            Some(site) => site.join("patroni/__main__.py").is_file(),
            None => Path::new("/usr/lib/python3/dist-packages/patroni/__main__.py").is_file(),
        };
        if !is_there {
            missing.push(
                "Patroni is not there: `make setup-cluster`, or python3 -m pip install --target DIR \
                 'patroni[etcd3,psycopg3]' and --patroni DIR"
                    .to_owned(),
            );
        }
        let installations = Installation::discover(home)
            .map_err(|error| DrillError::failed("looking for PostgreSQL", error))?;
        let fits = |installation: &&Installation| {
            major.is_none_or(|major| installation.version.major == major)
                && NEEDED.iter().all(|program| installation.program(program).is_file())
        };
        let installation = installations.iter().filter(fits).max_by_key(|found| found.version.major).cloned();
        match installation {
            Some(installation) if missing.is_empty() => Ok(Self { etcd, python, site, installation }),
            installation => {
                if installation.is_none() {
                    missing.push(format!(
                        "there is no PostgreSQL{} with {}: apt-get install postgresql",
                        major.map_or_else(String::new, |major| format!(" {major}")),
                        NEEDED.join(", ")
                    ));
                }
                Err(DrillError::Missing(missing))
            }
        }
    }

    /// The servers' programs.
    #[must_use]
    pub fn installation(&self) -> &Installation {
        &self.installation
    }

    /// The program of etcd.
    #[must_use]
    pub fn etcd(&self) -> &Path {
        &self.etcd
    }

    /// The version of PostgreSQL.
    #[must_use]
    pub fn version(&self) -> String {
        self.installation.version.to_string()
    }
}

/// A node: Patroni, and the PostgreSQL that it looks after.
#[derive(Debug)]
pub struct Node {
    name: String,
    program: Program,
    rest: Endpoint,
    address: String,
    sockets: PathBuf,
    secret: String,
}

impl Node {
    /// What Patroni calls it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its processes.
    #[must_use]
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Where its Patroni answers.
    #[must_use]
    pub fn rest(&self) -> &Endpoint {
        &self.rest
    }

    /// Its address and its port.
    #[must_use]
    pub fn address(&self) -> (&str, &str) {
        self.address.rsplit_once(':').unwrap_or((&self.address, "5432"))
    }

    /// The password of its superuser.
    #[must_use]
    pub fn secret(&self) -> &str {
        &self.secret
    }

    /// Its PostgreSQL by the network, as its clients reach it.
    ///
    /// # Errors
    /// [`DrillError::Failed`].
    pub fn by_network(&self) -> Result<Target, DrillError> {
        let (host, port) = self.address();
        self.target(&format!("host={host} port={port} password={}", quote_parameter(&self.secret)))
    }

    /// Its PostgreSQL by its socket, as whoever is on the same machine: a cable that is pulled does not matter.
    ///
    /// # Errors
    /// [`DrillError::Failed`].
    pub fn by_socket(&self) -> Result<Target, DrillError> {
        self.target(&self.socket())
    }

    /// The same as a connection string.
    #[must_use]
    pub fn dsn(&self) -> String {
        format!("{} user={OWNER} dbname=postgres", self.socket())
    }

    fn socket(&self) -> String {
        let sockets = quote_parameter(&self.sockets.display().to_string());
        let port = self.address.rsplit_once(':').map_or("5432", |(_, port)| port);
        format!("host={sockets} port={port}")
    }

    fn target(&self, place: &str) -> Result<Target, DrillError> {
        let text =
            format!("{place} user={OWNER} dbname=postgres connect_timeout=1 application_name=duramen-drill");
        Target::parse(&text).map_err(|error| DrillError::failed("reaching a node", error))
    }
}

/// A member as Patroni tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// `leader`, `sync_standby`, `quorum_standby`, `replica`.
    pub role: String,
    /// `running`, `streaming`, `stopped`, ...
    pub state: String,
    /// Its timeline.
    pub timeline: Option<u64>,
}

/// The members that a Patroni tells, of its own node or of others.
///
/// # Errors
/// In words.
pub async fn members(rest: &Endpoint) -> Result<Vec<Member>, String> {
    let answer = rest.ask("GET", "/cluster", None, ANSWER).await?;
    let body: Value = serde_json::from_str(&answer.body).map_err(|error| error.to_string())?;
    let list = body["members"].as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let member = |member: &Value| Member {
        name: text(&member["name"]),
        role: text(&member["role"]),
        state: text(&member["state"]),
        timeline: member["timeline"].as_u64(),
    };
    Ok(list.iter().map(member).collect())
}

/// Whether all members are there, one of them leads, and the others stream from it.
#[must_use]
pub fn is_healthy(members: &[Member], nodes: usize, is_synchronous: bool) -> bool {
    let leads = |member: &&Member| member.role == "leader" && member.state == "running";
    let Some(leader) = members.iter().find(leads) else { return false };
    let follows = |member: &Member| member.state == "streaming" && member.timeline == leader.timeline;
    members.len() == nodes
        && members.iter().all(|member| member.role == "leader" || follows(member))
        && members.iter().filter(leads).count() == 1
        && (!is_synchronous || members.iter().any(|member| member.role.ends_with("sync_standby")))
}

/// A cluster of ours.
#[derive(Debug)]
pub struct Patroni {
    // Ended in this order: whoever looks after others first.
    nodes: Vec<Node>,
    etcd: Arc<Etcd>,
    scope: String,
    settings: Settings,
}

impl Patroni {
    /// Starts etcd and all nodes in folders below `dir`. Blocks.
    ///
    /// # Errors
    /// [`DrillError`].
    pub fn start(
        dir: &Path,
        programs: &Programs,
        settings: Settings,
        user: &ServerUser,
        network: &Network,
    ) -> Result<Self, DrillError> {
        let etcd = Arc::new(Etcd::start(dir, &programs.etcd, 3, user, network)?);
        Self::beside(SCOPE, 0, etcd, dir, programs, settings, user, network)
    }

    /// Starts all nodes of a cluster of its own name on an etcd that others may use too, from a node of the network on. Blocks.
    ///
    /// # Errors
    /// [`DrillError`].
    #[allow(clippy::too_many_arguments, reason = "each is another thing that it stands on")]
    pub fn beside(
        scope: &str,
        first: usize,
        etcd: Arc<Etcd>,
        dir: &Path,
        programs: &Programs,
        settings: Settings,
        user: &ServerUser,
        network: &Network,
    ) -> Result<Self, DrillError> {
        let secret = entropy::token(24);
        let mut nodes = Vec::new();
        for index in first..first + settings.nodes {
            let name = format!("n{index}");
            let address = network.address(index);
            let place = dir.join(&name);
            let rest = format!("{address}:{}", network.free_port(Some(index))?);
            let postgres = match network.has_cables() {
                true => format!("{address}:{SOCKET_PORT}"),
                false => format!("{address}:{}", network.free_port(Some(index))?),
            };
            let program = Program::new(&name, &programs.python, &place, user, Some(index))?;
            let sockets = program.dir().join("s");
            fs::create_dir(&sockets).map_err(DrillError::file("make the folder", &sockets))?;
            user.own(&sockets).map_err(DrillError::file("prepare the folder", &sockets))?;
            let node = Node {
                name: name.clone(),
                program,
                rest: Endpoint { address: rest, credentials: Some(("drill".to_owned(), secret.clone())) },
                address: postgres,
                sockets,
                secret: secret.clone(),
            };
            let config = node.program.dir().join("patroni.json");
            let text = configuration(scope, &node, programs, settings, etcd.clients());
            // It holds the superuser's password.
            file::create(&config, text.to_string().as_bytes(), 0o600)
                .and_then(|()| user.own(&config))
                .map_err(DrillError::file("write", &config))?;
            let mut program = node.program.arguments(["-m", "patroni", "patroni.json"]);
            if let Some(site) = &programs.site {
                program = program.variable("PYTHONPATH", site.display().to_string());
            }
            let program = program.variable("PYTHONDONTWRITEBYTECODE", "1");
            nodes.push(Node { program, ..node });
        }
        let cluster = Self { scope: scope.to_owned(), nodes, etcd, settings };
        cluster.nodes.iter().try_for_each(|node| node.program.start(network))?;
        Ok(cluster)
    }

    /// Its nodes.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Its etcd.
    #[must_use]
    pub fn etcd(&self) -> &Etcd {
        &self.etcd
    }

    /// How it is set up.
    #[must_use]
    pub fn settings(&self) -> Settings {
        self.settings
    }

    /// The number of a node.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<usize> {
        self.nodes.iter().position(|node| node.name == name)
    }

    /// Who holds the leader's key, as etcd has it; `None`: nobody.
    ///
    /// # Errors
    /// In words, if etcd has no quorum.
    pub async fn leader(&self) -> Result<Option<String>, String> {
        self.etcd.get(&format!("{NAMESPACE}{}/leader", self.scope)).await
    }

    /// Waits until all nodes are there and stream, and has the leader's number.
    ///
    /// # Errors
    /// [`DrillError::Timeout`] with what the members were.
    pub async fn healthy(&self, limit: Duration) -> Result<usize, DrillError> {
        let begin = clock::now();
        let mut last = String::new();
        while begin.elapsed() < limit {
            for node in &self.nodes {
                let Ok(members) = members(&node.rest).await else { continue };
                let leader = members.iter().find(|member| member.role == "leader");
                if is_healthy(&members, self.nodes.len(), self.settings.is_synchronous) {
                    if let Some(number) = leader.and_then(|leader| self.number(&leader.name)) {
                        return Ok(number);
                    }
                }
                last = format!("{members:?}");
                break;
            }
            tokio::time::sleep(Duration::from_millis(250)).await;
        }
        let log = self.nodes.first().map(|node| node.program.log()).unwrap_or_default();
        Err(DrillError::Timeout {
            what: "all nodes to stream from one leader".to_owned(),
            seconds: limit.as_secs(),
            said: format!("{last}\n{log}"),
        })
    }

    /// Ends everything in order. Blocks.
    pub fn stop(&self, patience: Duration) {
        std::thread::scope(|scope| {
            for node in &self.nodes {
                scope.spawn(|| node.program.stop(patience));
            }
        });
        if Arc::strong_count(&self.etcd) == 1 {
            self.etcd.members().iter().for_each(|member| member.stop(patience));
        }
    }
}

/// What Patroni reads. (JSON is YAML.)
fn configuration(
    scope: &str,
    node: &Node,
    programs: &Programs,
    settings: Settings,
    etcd: &[String],
) -> Value {
    let postgres = programs.installation.program("postgres");
    let account = |name: &str| json!({ "username": name, "password": node.secret });
    json!({
        "scope": scope,
        "namespace": NAMESPACE,
        "name": node.name,
        "restapi": {
            "listen": node.rest.address,
            "connect_address": node.rest.address,
            "authentication": { "username": "drill", "password": node.secret },
        },
        "ctl": { "authentication": { "username": "drill", "password": node.secret } },
        "etcd3": { "hosts": etcd },
        "bootstrap": {
            "dcs": {
                "ttl": settings.ttl,
                "loop_wait": settings.loop_wait,
                "retry_timeout": settings.retry_timeout,
                "maximum_lag_on_failover": 64 << 20,
                "synchronous_mode": settings.is_synchronous,
                "postgresql": {
                    "use_pg_rewind": true,
                    "parameters": {
                        "wal_level": "replica",
                        "hot_standby": "on",
                        "max_wal_senders": 10,
                        "max_replication_slots": 10,
                        "max_connections": 100,
                        "wal_keep_size": "256MB",
                        "wal_log_hints": "on",
                    },
                },
            },
            "initdb": [{ "encoding": "UTF8" }, { "locale": "C.UTF-8" }, "data-checksums"],
        },
        "postgresql": {
            "listen": node.address,
            "connect_address": node.address,
            "data_dir": node.program.dir().join("data"),
            "bin_dir": postgres.parent(),
            "pgpass": node.program.dir().join("pgpass"),
            "use_unix_socket": true,
            "authentication": {
                "superuser": account(OWNER),
                "replication": account("replicator"),
                "rewind": account("rewinder"),
            },
            "parameters": {
                "unix_socket_directories": node.sockets,
                "shared_buffers": "32MB",
                // In the data directory: nothing of it is left anywhere when the server is killed.
                "dynamic_shared_memory_type": "mmap",
                "fsync": "on",
                "full_page_writes": "on",
            },
            "pg_hba": [
                "local all all trust",
                "local replication all trust",
                "host all all 0.0.0.0/0 scram-sha-256",
                "host replication replicator 0.0.0.0/0 scram-sha-256",
            ],
        },
    })
}
