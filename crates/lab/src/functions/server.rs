//! The PostgreSQL server that is measured: as it is delivered, but for what a private server needs.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use duramen_base::clock;
use duramen_measure::process;
use duramen_postgres::{
    processes_below, Cluster, Installation, Postmaster, ServerUser, Settings, SOCKET_PORT,
};
use rustix::process::{kill_process, Pid, Signal};

use super::options::Options;
use duramen_reports::suite::SuiteError;

/// The bootstrap superuser, as which the schema is installed and the worker connects.
pub(crate) const OWNER: &str = "postgres";

/// Ready to answer within this, crash recovery included.
const START: Duration = Duration::from_secs(120);
/// Killed processes are gone within this.
const GONE: Duration = Duration::from_secs(10);
/// Sessions beside the worker's: the widest rung, and the suite's own.
const SESSIONS: usize = 160;

/// A server in the folder of the run.
pub(crate) struct Server {
    cluster: Cluster,
    settings: Settings,
    root: PathBuf,
    postmaster: Option<Postmaster>,
}

impl Server {
    /// Makes the data directory and starts the server.
    pub(crate) fn make(options: &Options, user: &ServerUser, root: &Path) -> Result<Self, SuiteError> {
        let installation = Installation::choose(&options.home, options.major).map_err(SuiteError::other)?;
        let cluster = Cluster::new(installation, root.join("data"), user.clone());
        cluster.init(OWNER, true).map_err(SuiteError::other)?;
        cluster.write_file("pg_hba.conf", "local all all trust\n").map_err(SuiteError::other)?;
        let mut settings = Settings::new();
        settings
            .set("listen_addresses", "")
            .set("max_connections", &(SESSIONS + options.connections).to_string())
            // Not other than the defaults, but nothing around us is to change them.
            .set("fsync", "on")
            .set("synchronous_commit", "on")
            .set("full_page_writes", "on")
            // So that statements in the log can be told apart by who sent them.
            .set("log_line_prefix", super::statements::PREFIX);
        let mut server = Self { cluster, settings, root: root.to_owned(), postmaster: None };
        server.start()?;
        Ok(server)
    }

    /// Starts it, recovering if need be. Blocks.
    pub(crate) fn start(&mut self) -> Result<(), SuiteError> {
        let started = self.cluster.start(&self.root, &self.settings, START);
        self.postmaster = Some(started.map_err(SuiteError::other)?);
        Ok(())
    }

    /// Whether it runs.
    pub(crate) fn is_running(&mut self) -> bool {
        self.postmaster.as_mut().is_some_and(Postmaster::is_running)
    }

    /// Ends all of its processes with SIGKILL, the postmaster first, and waits until they are gone. Blocks.
    pub(crate) fn kill(&mut self) {
        let Some(mut postmaster) = self.postmaster.take() else { return };
        let mut pids = vec![postmaster.pid()];
        pids.extend(process::tree(postmaster.pid()));
        let begin = clock::now();
        // Until the postmaster is collected, its lock files seem to belong to somebody.
        while (postmaster.is_running() || !pids.is_empty()) && begin.elapsed() < GONE {
            for pid in pids {
                if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
                    // Who is gone already need not be killed.
                    let _ = kill_process(pid, Signal::KILL);
                }
            }
            thread::sleep(Duration::from_millis(1));
            pids = processes_below(self.cluster.data_dir());
        }
    }

    /// A connection string for a role and a database.
    pub(crate) fn url(&self, role: &str, database: &str) -> String {
        let mut host = String::new();
        for byte in self.root.as_os_str().as_encoded_bytes() {
            if byte.is_ascii_alphanumeric() {
                host.push(char::from(*byte));
            } else {
                host.push_str(&format!("%{byte:02X}"));
            }
        }
        format!("postgres://{role}@/{database}?host={host}&port={SOCKET_PORT}")
    }

    /// The file that the server logs to.
    pub(crate) fn log(&self) -> PathBuf {
        self.cluster.log().0
    }

    /// The version of the server.
    pub(crate) fn version(&self) -> String {
        self.cluster.installation().version.to_string()
    }

    /// The settings that are not those of a new cluster.
    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The CPU time of all processes of the server that live now.
    pub(crate) fn cpu_time(&self) -> Duration {
        let Some(postmaster) = &self.postmaster else { return Duration::ZERO };
        let pids = std::iter::once(postmaster.pid()).chain(process::tree(postmaster.pid()));
        // A process that ends meanwhile is not counted.
        pids.filter_map(|pid| process::cpu_time(pid).ok()).sum()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut postmaster) = self.postmaster.take() {
            postmaster.kill();
        }
    }
}
