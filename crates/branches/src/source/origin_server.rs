//! The servers that a source's data come from: those of others, and the sample's own.

use super::{address::Address, connected::Connected, connection, fingerprint, flights};
use crate::{
    error::{EngineError, Kind},
    home::Home,
    model::{Origin, SourceFingerprint},
};
use duramen_postgres::{
    Cluster, Installation, Postmaster, Secret, ServerUser, Settings, StopMode, SOCKET_PORT,
};
use std::{
    fs,
    num::NonZeroU32,
    path::Path,
    path::PathBuf,
    sync::{Mutex, PoisonError},
    time::Duration,
};
use tokio_postgres::Config;

const START_LIMIT: Duration = Duration::from_secs(60);
const STOP_LIMIT: Duration = Duration::from_secs(60);
/// The bootstrap superuser of the sample's server, and of clusters that scripts are run in.
pub(crate) const OWNER: &str = "postgres";

/// Connection settings for a server of our own, through its socket.
pub(crate) fn local(socket_dir: &Path, user: &str, secret: &Secret, database: &str) -> Config {
    let mut config = Config::new();
    config.host_path(socket_dir).port(SOCKET_PORT).user(user).password(secret.expose()).dbname(database);
    config
}

/// Makes `secret` the password of the bootstrap superuser of a cluster whose server is stopped.
pub(crate) fn give_secret(cluster: &Cluster, role: &str, secret: &Secret) -> Result<(), EngineError> {
    let statement = format!("alter role {role} password '{}';\n", secret.verifier(NonZeroU32::MIN));
    cluster
        .single_user("template1", &statement, &Settings::new())
        .map(drop)
        .map_err(|error| import_failed(&error))
}

/// The sample's server: a cluster in `origins/<name>`, started when it is needed.
#[derive(Debug)]
pub(crate) struct SampleServer {
    cluster: Cluster,
    user: ServerUser,
    socket_dir: PathBuf,
    secret: Secret,
}

/// The access rules of the sample's server.
const SAMPLE_RULES: &str = "local all all scram-sha-256\nlocal replication all scram-sha-256\n";

impl SampleServer {
    pub(crate) fn new(home: &Home, name: &str, installation: Installation, user: ServerUser) -> SampleServer {
        let cluster = Cluster::new(installation, home.origins().join(name), user.clone());
        let socket_dir = home.socket(&format!("o-{}", &blake3::hash(name.as_bytes()).to_hex()[..12]));
        SampleServer { cluster, user, socket_dir, secret: home.admin_secret(name) }
    }

    pub(crate) fn exists(&self) -> bool {
        self.cluster.data_dir().join("PG_VERSION").exists()
    }

    /// A session as its superuser in one of its databases.
    pub(crate) async fn connect(&self, database: &str) -> Result<Connected, EngineError> {
        let major = self.cluster.installation().version.major;
        connection::own(&local(&self.socket_dir, OWNER, &self.secret, database), major).await
    }

    pub(crate) fn address(&self) -> Address {
        Address::local(local(&self.socket_dir, OWNER, &self.secret, flights::DATABASE))
    }

    /// Makes the cluster. Only the daemon knows the secret that it asks for.
    pub(crate) fn init(&self) -> Result<(), EngineError> {
        let fail = |error: duramen_postgres::ClusterError| import_failed(&error);
        self.cluster.init(OWNER, true).map_err(fail)?;
        let mut settings = Settings::new();
        for (name, value) in [
            ("listen_addresses", ""),
            ("max_connections", "20"),
            ("max_wal_senders", "4"),
            ("wal_level", "replica"),
            ("shared_buffers", "128MB"),
            ("max_wal_size", "4GB"),
            ("autovacuum_naptime", "1h"),
        ] {
            settings.set(name, value);
        }
        self.cluster.write_file("postgresql.auto.conf", &settings.to_conf()).map_err(fail)?;
        self.secure()
    }

    /// Has the server, which is stopped, ask for the secret.
    fn secure(&self) -> Result<(), EngineError> {
        give_secret(&self.cluster, OWNER, &self.secret)?;
        self.cluster.write_file("pg_hba.conf", SAMPLE_RULES).map_err(|error| import_failed(&error))
    }

    /// Starts the server unless it runs. Blocks.
    pub(crate) fn ensure_running(&self) -> Result<(), EngineError> {
        // Two readers at once would start it twice.
        static STARTING: Mutex<()> = Mutex::new(());
        let _one = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
        self.take_over()?;
        let rules = fs::read_to_string(self.cluster.data_dir().join("pg_hba.conf")).unwrap_or_default();
        if rules != SAMPLE_RULES {
            // Version 0.1 let its own system users in as superuser without a secret.
            self.stop();
            self.secure()?;
        }
        if Postmaster::adopt(self.cluster.data_dir()).is_some() {
            return Ok(());
        }
        self.cluster
            .start(&self.socket_dir, &Settings::new(), START_LIMIT)
            .map(drop)
            .map_err(|error| start_failed(&error))
    }

    /// Gives a server that ran as another user, before its source had one of its own, to that one.
    fn take_over(&self) -> Result<(), EngineError> {
        let dir = self.cluster.data_dir();
        let fail = |error: &dyn std::error::Error| import_failed(error);
        let owner = ServerUser::owner_of(dir).map_err(|error| fail(&error))?;
        if owner.uid() == self.user.uid() {
            return Ok(());
        }
        self.stop();
        self.user.own_all(dir).map_err(|error| fail(&error))
    }

    pub(crate) fn stop(&self) {
        if let Some(mut server) = Postmaster::adopt(self.cluster.data_dir()) {
            if let Err(error) = server.stop(StopMode::Fast, STOP_LIMIT) {
                tracing::warn!(%error, "the sample's server is ended by force");
                server.kill();
            }
        }
        let _ = fs::remove_dir_all(&self.socket_dir);
    }

    pub(crate) fn remove(&self) {
        self.stop();
        let _ = fs::remove_dir_all(self.cluster.data_dir());
        let _ = fs::remove_file(self.cluster.log().0);
    }
}

pub(crate) fn import_failed(error: &dyn std::error::Error) -> EngineError {
    EngineError::new(Kind::Failed, "import_failed", error.to_string())
}

pub(crate) fn start_failed(error: &duramen_postgres::StartError) -> EngineError {
    EngineError::new(Kind::Failed, "server_failed", error.to_string())
}

/// Why there is no evidence of servers that are dumped.
const NOT_READ: &str =
    "its role need not be able to read what evidence needs, and a managed server is read once, by pg_dump";

/// Why there is no evidence of servers that are not read.
const OF_A_GENERATION: &str =
    "it was made of a generation of another source here, which has evidence of its own";

/// Why there is no evidence of the origins of copies.
const ELSEWHERE: &str =
    "the source is kept by another node of the fleet, which alone knows its origin: ask that one";

/// Why there is no evidence of servers that are followed.
const FOLLOWED: &str =
    "the source follows it, and what others write there meanwhile says nothing of a branch; \
                        `duramen source fingerprint` reads it all the same";

/// What is known of the origin of a source that follows it.
pub(super) fn followed() -> SourceFingerprint {
    fingerprint::of_none(FOLLOWED)
}

/// What is known of the origin of a source that was made of a generation of another one.
pub(super) fn of_a_generation() -> SourceFingerprint {
    fingerprint::of_none(OF_A_GENERATION)
}

/// The present state of a source's origin. `login_triggers` are the databases that are known to have some.
pub(crate) async fn fingerprint(
    origin: &Origin,
    sample: &SampleServer,
    login_triggers: Option<&[String]>,
    stall: Duration,
    progress: fingerprint::Progress<'_>,
) -> Result<SourceFingerprint, EngineError> {
    match origin {
        Origin::Server { url } => {
            fingerprint::of_server(&Address::parse(url)?, login_triggers, stall, progress).await
        }
        Origin::Flights { .. } => {
            sample.ensure_running()?;
            fingerprint::of_server(&sample.address(), login_triggers, stall, progress).await
        }
        Origin::Logical { .. } => Ok(fingerprint::of_none(NOT_READ)),
        Origin::Copy { .. } => Ok(fingerprint::of_none(ELSEWHERE)),
        Origin::Upgrade { .. } => Ok(of_a_generation()),
        Origin::DataDirectory { path } | Origin::Script { path } => {
            fingerprint::of_files(Path::new(path)).await
        }
    }
}
