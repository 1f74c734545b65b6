//! A server that replays what an origin writes, and admits nobody: what a followed source's generations are made of.
//!
//! It runs in a cage that leaves the network open, because what it replays comes from somebody else's server. The password
//! lies beside its sockets, and the address among its arguments: nothing of either is in the data directory, which branches
//! are made of.

use super::{
    address::Address,
    connection::LOGIN_TRIGGERS_SINCE,
    history,
    import::invalid,
    origin_server::{import_failed, start_failed},
    tablespaces,
};
use crate::{
    error::{EngineError, Kind},
    files::io_error,
    home::Home,
};
use duramen_base::{entropy, file};
use duramen_cage::Cage;
use duramen_postgres::{
    end_processes, processes_below, volume, Cluster, Installation, LogFile, Postmaster, ServerUser, Settings,
    Shut, StopMode,
};
use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};
use tokio_postgres::config::Host;

const START_LIMIT: Duration = Duration::from_secs(60);
/// It writes back what it has in memory before it ends.
const STOP_LIMIT: Duration = Duration::from_secs(600);
/// Since when recovery reads in advance.
const PREFETCHING_SINCE: u32 = 15;
/// The name of the file with the origin's password, beside the sockets.
const PASSWORD: &str = "origin";

/// Where the data directories of standbys are.
pub(crate) fn standbys(store: &volume::Store) -> PathBuf {
    store.root.join("standbys")
}

/// That of a source.
pub(crate) fn standby_path(store: &volume::Store, source: &str) -> PathBuf {
    standbys(store).join(source)
}

/// The log of a source's standby.
pub(super) fn log(home: &Home, source: &str) -> LogFile {
    LogFile(home.logs().join(format!("standby-{source}.log")))
}

/// Where standbys are, and what they are started with.
pub(crate) struct Place<'a> {
    pub(crate) home: &'a Home,
    pub(crate) store: &'a volume::Store,
    pub(crate) user: &'a ServerUser,
    /// None where the machine has not the means.
    pub(crate) cage: Option<Cage>,
}

impl Place<'_> {
    /// The programs of a standby, by what its data directory says.
    pub(super) fn installation(&self, source: &str) -> Result<Installation, EngineError> {
        let major =
            Cluster::major_of(&standby_path(self.store, source)).map_err(|error| import_failed(&error))?;
        Installation::choose(self.home.root(), Some(major))
            .map_err(|error| EngineError::new(Kind::Failed, "no_server", error.to_string()))
    }
}

/// Where a standby has from what it replays.
#[derive(Debug, Clone, Copy)]
pub(super) enum Feeding<'a> {
    /// It is sent it, by a slot of its own if there is one to spare.
    Stream { origin: &'a Address, has_slot: bool },
    /// It is put into its log, and nothing is asked of anybody: of this timeline.
    Archive { timeline: u32 },
}

impl Feeding<'_> {
    fn timeline(&self) -> Option<u32> {
        match self {
            Feeding::Stream { .. } => None,
            Feeding::Archive { timeline } => Some(*timeline),
        }
    }
}

/// A running standby.
#[derive(Debug)]
pub(crate) struct Standby {
    pub(super) path: PathBuf,
    pub(super) socket_dir: PathBuf,
    /// By which the origin knows it.
    pub(crate) name: String,
    /// Where the segments are kept that it receives, if they are: it removes no others.
    pub(super) kept_in: Option<PathBuf>,
    /// The timeline that it replays of an archive, if it does.
    pub(super) timeline: Option<u32>,
    pub(super) server: Postmaster,
}

/// Where the server of a source has its sockets.
pub(super) fn socket_dir(place: &Place<'_>, source: &str) -> PathBuf {
    place.home.socket(&format!("f-{}", &blake3::hash(source.as_bytes()).to_hex()[..12]))
}

impl Standby {
    /// Starts the standby of a source, whose data directory is there, and waits until it replays. Blocks.
    pub(super) fn start(
        place: &Place<'_>,
        source: &str,
        feeding: Feeding<'_>,
        installation: &Installation,
        kept_in: Option<PathBuf>,
    ) -> Result<Standby, EngineError> {
        let path = standby_path(place.store, source);
        let socket_dir = socket_dir(place, source);
        let _ = fs::remove_dir_all(&socket_dir);
        let name = format!("duramen-{}", entropy::token(12));
        let log = log(place.home, source);
        let cluster = Cluster::new(installation.clone(), &path, place.user.clone()).with_log(log.0).shut_in(
            place.cage.clone().map(|cage| {
                let hidden = vec![place.home.root().to_owned(), place.store.root.clone()];
                let seen = kept_in.as_deref().map(|wal| history::seen_by_standby(wal).to_owned());
                let shut = Shut::new(cage, hidden, socket_dir.clone());
                match feeding {
                    Feeding::Stream { origin, .. } => {
                        shut.with_network(reached(origin).into_iter().chain(seen).collect())
                    }
                    Feeding::Archive { .. } => shut.with_readable(seen.into_iter().collect()),
                }
            }),
        );
        let fail = |error: duramen_postgres::ClusterError| import_failed(&error);
        cluster.write_file("standby.signal", "").map_err(fail)?;
        cluster.prepare_dir(&socket_dir).map_err(fail)?;
        let mut settings = settings(installation.version.major, &path)?;
        match feeding {
            Feeding::Stream { origin, has_slot } => {
                let mut conninfo = format!("{} application_name='{name}'", origin.conninfo());
                if let Some(password) = origin.config.get_password() {
                    let text = password_file(&String::from_utf8_lossy(password));
                    let at = socket_dir.join(PASSWORD);
                    file::replace_with(&at, text.as_bytes(), 0o600, |fresh| place.user.own_file(fresh))
                        .map_err(|error| io_error("write", &at, &error))?;
                    conninfo.push_str(&format!(" passfile='{}'", at.display()));
                }
                stream(&mut settings, &conninfo, has_slot);
            }
            Feeding::Archive { timeline } => {
                wait_for_files(&mut settings, installation.version.major, timeline)
            }
        }
        if let Some(wal) = &kept_in {
            // H4.
            settings.set("archive_mode", "always").set("archive_command", &history::archive_command(wal));
            settings.set("wal_level", "replica");
        }
        let server = cluster
            .start_replaying(&socket_dir, &settings, START_LIMIT)
            .map_err(|error| start_failed(&error))?;
        Ok(Standby { path, socket_dir, name, kept_in, timeline: feeding.timeline(), server })
    }

    /// Whether it has from where it is to have it what it replays.
    pub(super) fn is_fed(&self, feeding: Feeding<'_>) -> bool {
        self.timeline == feeding.timeline()
    }

    /// Whether it still runs.
    pub(crate) fn is_running(&mut self) -> bool {
        self.server.is_running()
    }

    /// Stops it with all that it has received on the disk. Blocks.
    pub(crate) fn stop(mut self) -> Result<(), EngineError> {
        let stopped = self.server.stop(StopMode::Fast, STOP_LIMIT);
        let _ = fs::remove_dir_all(&self.socket_dir);
        stopped.map_err(|error| import_failed(&error))
    }
}

/// It is nobody's when nobody has it.
impl Drop for Standby {
    fn drop(&mut self) {
        if self.server.is_running() {
            self.server.kill();
        }
        end_processes(&processes_below(&self.path), &self.path);
        let _ = fs::remove_dir_all(&self.socket_dir);
    }
}

/// Its data are to outlive the machine: another copy of the origin takes hours.
fn settings(major: u32, path: &Path) -> Result<Settings, EngineError> {
    let mut settings = Settings::minimal(major).durable();
    for (name, value) in [
        ("hot_standby", "off"),
        ("listen_addresses", ""),
        ("restart_after_crash", "off"),
        ("shared_buffers", "64MB"),
        ("max_wal_size", "1GB"),
        ("max_files_per_process", "1000"),
    ] {
        settings.set(name, value);
    }
    if major >= LOGIN_TRIGGERS_SINCE {
        settings.set("event_triggers", "off");
    }
    if tablespaces::are_inside(path)? {
        tablespaces::allow(&mut settings);
    }
    Ok(settings)
}

/// It is sent what it replays.
fn stream(settings: &mut Settings, conninfo: &str, has_slot: bool) {
    for (name, value) in [
        ("primary_conninfo", conninfo),
        // A slot that is gone with the connection: whatever becomes of us, the origin keeps nothing for us.
        ("wal_receiver_create_temp_slot", if has_slot { "on" } else { "off" }),
        ("wal_retrieve_retry_interval", "1s"),
        ("wal_receiver_status_interval", "1s"),
        ("wal_receiver_timeout", "30s"),
        ("recovery_target_timeline", "latest"),
    ] {
        settings.set(name, value);
    }
}

/// It looks for what it replays in its own log again and again, and runs nothing for it (F10).
fn wait_for_files(settings: &mut Settings, major: u32, timeline: u32) {
    for (name, value) in [
        ("primary_conninfo", ""),
        ("restore_command", ""),
        ("wal_retrieve_retry_interval", "200ms"),
        ("recovery_target_timeline", &timeline.to_string()),
        // A segment that is made of an old one would have the name of one that is brought.
        ("wal_recycle", "off"),
        ("update_process_title", "on"),
    ] {
        settings.set(name, value);
    }
    if major >= PREFETCHING_SINCE {
        // Its title tells what is replayed, and not what is read in advance.
        settings.set("recovery_prefetch", "off");
    }
}

/// Programs that follow an origin need TLS of their own if it demands it.
pub(super) fn check_tls(installation: &Installation, origin: &Address) -> Result<(), EngineError> {
    if origin.by_network() && origin.security.demands() && !installation.features().tls {
        return Err(invalid(
            "no_tls",
            format!(
                "the URL asks for TLS, and PostgreSQL {} in {} was built without it; install a PostgreSQL {} with TLS, or set \
                 DURAMEN_PG_BIN to the directory that holds it",
                installation.version,
                installation.bin_dir.display(),
                installation.version.major
            ),
        ));
    }
    Ok(())
}

/// Files and directories that lead to an origin: its socket's, and certificates.
pub(super) fn reached(origin: &Address) -> Vec<PathBuf> {
    let sockets = origin.config.get_hosts().iter().filter_map(|host| match host {
        Host::Unix(path) => Some(path.clone()),
        Host::Tcp(_) => None,
    });
    let certificates = origin.security.parameters().into_iter().map(|(_, value)| PathBuf::from(value));
    sockets.chain(certificates.filter(|path| path.is_absolute())).collect()
}

/// A password as libpq's password files have it, for every host.
pub(super) fn password_file(password: &str) -> String {
    let escaped: String = password
        .chars()
        .flat_map(|c| ['\\'].into_iter().filter(move |_| matches!(c, ':' | '\\')).chain([c]))
        .collect();
    format!("*:*:*:*:{escaped}\n")
}

/// Removes what is left of a source's standby, which does not run. Blocks.
pub(crate) fn remove(store: &volume::Store, home: &Home, source: &str) -> Result<(), EngineError> {
    let path = standby_path(store, source);
    end_processes(&processes_below(&path), &path);
    let _ = fs::remove_file(log(home, source).0);
    store
        .volumes
        .delete(&path)
        .map_err(|error| EngineError::new(Kind::Failed, "standby_left", error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::password_file;

    #[test]
    fn a_password_is_written_as_libpq_reads_it() {
        assert_eq!(password_file("a:b\\c'd"), "*:*:*:*:a\\:b\\\\c'd\n");
    }
}
