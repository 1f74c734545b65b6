//! What a run stands on: etcd, two pairs under Patroni, two servers alone, and three workers of all of them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use duramen_functions::cluster::Cluster;
use duramen_functions::schema;
use duramen_postgres::connection::Target;
use duramen_postgres::{
    quote_parameter, Cluster as Files, Postmaster, Scratch, ServerUser, Settings as Server, StopMode,
    SOCKET_PORT,
};

use super::load::TABLE;
use super::options::Options;
use crate::error::DrillError;
use crate::etcd::Etcd;
use crate::network::Network;
use crate::patroni::{Node, Patroni, Programs, Settings};
use crate::program::blocking;
use crate::program::Program;
use crate::writer::said;

/// The nodes of a pair.
const PAIR: usize = 2;
/// A new pair is healthy within this.
const MADE: Duration = Duration::from_secs(180);
/// A server alone starts and ends within this.
const PATIENCE: Duration = Duration::from_secs(60);
/// Workers of a run.
const WORKERS: usize = 3;
/// Workers are there within this.
const SERVED: Duration = Duration::from_secs(60);
/// Who starts instances.
const CLIENT: &str = "app";
/// Who installs and works.
const OWNER: &str = "postgres";

/// Nodes of the network that a run needs.
pub(super) const NODES: usize = 2 * PAIR;

/// All of it.
pub(super) struct Ground {
    // Ended in this order.
    workers: Vec<Program>,
    pairs: Vec<Arc<Patroni>>,
    alone: Vec<Alone>,
    network: Arc<Network>,
    /// Of each shard, as clients reach it.
    shards: Vec<Target>,
}

/// A server of its own.
struct Alone {
    postmaster: Postmaster,
    place: String,
}

impl Drop for Alone {
    fn drop(&mut self) {
        // What does not stop is ended by the guardian of the folder.
        let _ = self.postmaster.stop(StopMode::Immediate, PATIENCE);
    }
}

impl Ground {
    pub(super) async fn make(
        options: &Options,
        programs: &Programs,
        user: &ServerUser,
        network: &Arc<Network>,
        scratch: &Scratch,
    ) -> Result<Self, DrillError> {
        let settings =
            Settings { nodes: PAIR, is_synchronous: options.is_synchronous, ..Settings::default() };
        let (pairs, alone) = blocking({
            let (dir, programs, user, network) =
                (scratch.path().to_owned(), programs.clone(), user.clone(), Arc::clone(network));
            move || {
                let etcd = Arc::new(Etcd::start(&dir, programs.etcd(), 3, &user, &network)?);
                let pair = |scope: &str, first| {
                    let etcd = Arc::clone(&etcd);
                    let pair =
                        Patroni::beside(scope, first, etcd, &dir, &programs, settings, &user, &network);
                    pair.map(Arc::new)
                };
                let pairs = vec![pair("left", 0)?, pair("right", PAIR)?];
                let alone = vec![
                    Alone::start("a0", &dir, &programs, &user)?,
                    Alone::start("a1", &dir, &programs, &user)?,
                ];
                Ok((pairs, alone))
            }
        })
        .await?;
        for pair in &pairs {
            pair.etcd().ready().await?;
            pair.healthy(MADE).await?;
        }
        // Shards of both kinds in turn.
        let places =
            [place_of(&pairs[0]), alone[0].place.clone(), place_of(&pairs[1]), alone[1].place.clone()];
        let secrets = [pairs[0].nodes()[0].secret(), "", pairs[1].nodes()[0].secret(), ""];
        let mut urls = Vec::new();
        let mut shards = Vec::new();
        for (place, secret) in places.iter().zip(secrets) {
            urls.push(prepare(place, secret).await?);
            let client =
                format!("{place} user={CLIENT} password={} connect_timeout=1", quote_parameter(SHARED));
            shards.push(Target::parse(&client).map_err(|error| DrillError::failed("naming a shard", error))?);
        }
        let list: Vec<&str> = urls.iter().map(String::as_str).collect();
        Cluster::create(&list)
            .await
            .map_err(|error| DrillError::failed("making the cluster of shards", error))?;
        let workers = workers(options, &urls[1], scratch.path(), user)?;
        let ground = Self { workers, pairs, alone, network: Arc::clone(network), shards };
        for worker in 0..WORKERS {
            ground.start_worker(worker).await?;
        }
        ground.served().await?;
        Ok(ground)
    }

    /// The shards as clients reach them.
    pub(super) fn shards(&self) -> &[Target] {
        &self.shards
    }

    /// A pair and the number of its shard.
    pub(super) fn pair(&self, number: usize) -> (Arc<Patroni>, usize) {
        let pair = number % self.pairs.len();
        (Arc::clone(&self.pairs[pair]), 2 * pair)
    }

    /// Kills the leader of a pair with its Patroni, waits until another one takes writes, and starts it again.
    pub(super) async fn fail_over(&self, number: usize) -> Result<(), DrillError> {
        let (pair, shard) = self.pair(number);
        let old = pair.healthy(MADE).await?;
        blocking({
            let pair = Arc::clone(&pair);
            move || pair.nodes()[old].program().kill()
        })
        .await?;
        let begin = duramen_base::clock::now();
        while !takes_writes(&self.shards[shard]).await {
            if begin.elapsed() > MADE {
                return Err(DrillError::Timeout {
                    what: "the standby to take writes".to_owned(),
                    seconds: MADE.as_secs(),
                    said: pair.nodes()[1 - old].program().log(),
                });
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        let network = Arc::clone(&self.network);
        blocking(move || {
            pair.nodes()[old].program().start(&network)?;
            Ok(())
        })
        .await
    }

    /// Waits until all pairs are whole.
    pub(super) async fn healthy(&self) -> Result<(), DrillError> {
        for pair in &self.pairs {
            pair.healthy(MADE).await?;
        }
        Ok(())
    }

    /// Kills a worker.
    pub(super) fn kill_worker(&self, number: usize) -> Result<(), DrillError> {
        self.workers[number % WORKERS].kill()
    }

    /// Starts a worker, if it does not run.
    pub(super) async fn start_worker(&self, number: usize) -> Result<(), DrillError> {
        self.workers[number % WORKERS].start(&self.network)
    }

    /// How many workers there are.
    pub(super) fn workers(&self) -> usize {
        WORKERS
    }

    /// Waits until a worker has begun on each shard.
    async fn served(&self) -> Result<(), DrillError> {
        let begin = duramen_base::clock::now();
        loop {
            let ready = self.workers.iter().filter(|worker| worker.log().contains("worker ready")).count();
            if ready == WORKERS {
                return Ok(());
            }
            if begin.elapsed() > SERVED {
                return Err(DrillError::Timeout {
                    what: "workers to begin".to_owned(),
                    seconds: SERVED.as_secs(),
                    said: self.workers.iter().map(Program::log).collect::<Vec<_>>().join("\n"),
                });
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// Ends all of it in order.
    pub(super) async fn end(self) -> Result<(), DrillError> {
        blocking(move || {
            for worker in &self.workers {
                worker.stop(Duration::from_secs(20));
            }
            for pair in &self.pairs {
                pair.stop(Duration::from_secs(15));
            }
            drop(self.alone);
            Ok(())
        })
        .await
    }
}

/// The password of clients, and of workers, on every shard: the network is the run's own.
const SHARED: &str = "drill";

impl Alone {
    fn start(name: &str, dir: &Path, programs: &Programs, user: &ServerUser) -> Result<Self, DrillError> {
        let failed = |error: &dyn std::fmt::Display| DrillError::failed(format!("starting {name}"), error);
        let sockets = dir.join(name);
        fs::create_dir(&sockets).map_err(DrillError::file("make the folder", &sockets))?;
        user.own(&sockets).map_err(DrillError::file("prepare the folder", &sockets))?;
        let files = Files::new(programs.installation().clone(), sockets.join("data"), user.clone());
        files.init(OWNER, false).map_err(|error| failed(&error))?;
        files
            .write_file("pg_hba.conf", "local all postgres trust\nlocal all all scram-sha-256\n")
            .map_err(|error| failed(&error))?;
        let mut settings = Server::minimal(programs.installation().version.major);
        for (name, value) in [("max_connections", "100"), ("fsync", "on"), ("full_page_writes", "on")] {
            settings.set(name, value);
        }
        let postmaster = files.start(&sockets, &settings, PATIENCE).map_err(|error| failed(&error))?;
        let place = format!(
            "host={} port={SOCKET_PORT} dbname=postgres",
            quote_parameter(&sockets.display().to_string())
        );
        Ok(Self { postmaster, place })
    }
}

/// Where a pair is: both of its nodes, of which the one is meant that takes writes.
fn place_of(pair: &Patroni) -> String {
    let of = |part: fn(&Node) -> String| pair.nodes().iter().map(part).collect::<Vec<_>>().join(",");
    format!(
        "host={} port={} dbname=postgres target_session_attrs=read-write",
        of(|node| node.address().0.to_owned()),
        of(|node| node.address().1.to_owned())
    )
}

/// Installs the schema and makes the table and the roles; the connection string of the worker's role, a superuser of its own
/// name, whose password is the same on all shards.
async fn prepare(place: &str, secret: &str) -> Result<String, DrillError> {
    let failed = |detail: String| DrillError::failed("preparing a shard", detail);
    let owner = format!("{place} user={OWNER} password={} connect_timeout=2", quote_parameter(secret));
    let target = Target::parse(&owner).map_err(|error| failed(error.to_string()))?;
    let client = target.connect().await.map_err(|error| failed(error.to_string()))?;
    let execute = async |sql: &str| client.batch_execute(sql).await.map_err(|error| failed(said(&error)));
    execute(&format!("CREATE ROLE worker LOGIN SUPERUSER PASSWORD '{SHARED}'; CREATE ROLE {CLIENT} LOGIN PASSWORD '{SHARED}'")).await?;
    let worker = format!("{place} user=worker password={}", quote_parameter(SHARED));
    schema::install(&worker).await.map_err(|error| failed(error.to_string()))?;
    execute(TABLE).await?;
    execute(&format!(
        "GRANT SELECT, INSERT ON public.effects TO {CLIENT}; SELECT df.grant_usage('{CLIENT}')"
    ))
    .await?;
    // Accounts are read by the client, too.
    execute(&format!("GRANT pg_read_all_data TO {CLIENT}; ALTER ROLE {CLIENT} BYPASSRLS")).await?;
    Ok(worker)
}

fn workers(options: &Options, url: &str, dir: &Path, user: &ServerUser) -> Result<Vec<Program>, DrillError> {
    // Its user may not be able to come to where ours is.
    let program = dir.join("duramen");
    fs::copy(&options.program, &program).map_err(DrillError::file("copy", &options.program))?;
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755))
        .map_err(DrillError::file("prepare", &program))?;
    let worker = |number: usize| {
        let name = format!("w{number}");
        let worker = Program::new(&name, &program, &dir.join(&name), user, None)?;
        Ok(worker.arguments(["fn", "worker", url, "--cluster", "--allow-superuser"]).arguments([
            "--connections",
            "16",
            "--lanes",
            "1",
            "--drain-limit",
            "10s",
        ]))
    };
    (0..WORKERS).map(worker).collect()
}

async fn takes_writes(target: &Target) -> bool {
    let asked = async {
        let client = target.connect().await.ok()?;
        let row = client.query_one("SELECT NOT pg_is_in_recovery()", &[]).await.ok()?;
        row.try_get::<_, bool>(0).ok()
    };
    tokio::time::timeout(Duration::from_secs(3), asked).await.ok().flatten().unwrap_or(false)
}
