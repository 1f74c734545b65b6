//! A cluster whose programs run shut in.

use crate::{installation::Installation, user::ServerUser};
use duramen_cage::{Cage, Walls};
use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// Where servers of the machine keep what their user may read, and a way in for it.
const MACHINES_CLUSTERS: &str = "/var/lib/postgresql";

/// What the programs of a cluster see of the machine when they run in a cage: its files read-only, nothing below the
/// hidden directories but their own programs, data directory and sockets, no network, and no process but their own.
#[derive(Debug, Clone)]
pub struct Shut {
    cage: Cage,
    hidden: Vec<PathBuf>,
    socket_dir: PathBuf,
    /// Programs of another installation, which they run, too.
    programs: Option<PathBuf>,
    /// What it sees besides of the machine.
    readable: Vec<PathBuf>,
    has_network: bool,
}

impl Shut {
    /// Programs in `cage` that see nothing of `hidden` and make their sockets in `socket_dir`.
    #[must_use]
    pub fn new(cage: Cage, hidden: Vec<PathBuf>, socket_dir: PathBuf) -> Shut {
        Shut { cage, hidden, socket_dir, programs: None, readable: Vec::new(), has_network: false }
    }

    /// Lets the programs reach the network, and see these files and directories: other servers' sockets, certificates.
    #[must_use]
    pub fn with_network(mut self, readable: Vec<PathBuf>) -> Shut {
        self.has_network = true;
        self.with_readable(readable)
    }

    /// Lets the programs see these files and directories, which lie below what is hidden from them.
    #[must_use]
    pub fn with_readable(mut self, readable: Vec<PathBuf>) -> Shut {
        self.readable.extend(readable);
        self
    }

    /// Lets the programs run servers of another installation beside their own, as `pg_upgrade` does. The servers that it starts lose their
    /// parent, which is not to be the one that waits for other processes.
    #[must_use]
    pub fn with_servers_of(mut self, installation: &Installation) -> Shut {
        self.programs = Some(installation.bin_dir.clone());
        self
    }

    /// A command that will run `program` as `user`.
    pub(crate) fn command(
        &self,
        program: &Path,
        installation: &Installation,
        user: &ServerUser,
        writable: &[&Path],
    ) -> Command {
        let mut walls = Walls::new();
        let clusters = Path::new(MACHINES_CLUSTERS);
        for dir in self.hidden.iter().map(PathBuf::as_path).chain(Some(clusters).filter(|dir| dir.is_dir())) {
            walls = walls.hide(dir);
        }
        if self.has_network {
            walls = walls.with_network();
        }
        walls = self.readable.iter().filter(|path| path.exists()).fold(walls, Walls::readable);
        if self.programs.is_some() {
            walls = walls.with_orphans_collected();
        }
        for bin_dir in self.programs.iter().chain([&installation.bin_dir]) {
            if let Some(programs) = self.hidden.iter().find_map(|dir| entry_towards(dir, bin_dir)) {
                walls = walls.readable(programs);
            } else if ["/tmp", "/run", MACHINES_CLUSTERS].iter().any(|dir| bin_dir.starts_with(dir)) {
                walls = walls.readable(bin_dir.parent().unwrap_or(bin_dir));
            }
        }
        // The first that exists is where the program works.
        let there: Vec<&Path> =
            writable.iter().copied().chain([&*self.socket_dir]).filter(|path| path.is_dir()).collect();
        for path in &there {
            walls = walls.writable(*path);
            // The links on the way to it are hidden with what they lie in.
            walls = path.canonicalize().into_iter().filter(|real| real != path).fold(walls, Walls::writable);
        }
        if let Some(dir) = writable.first().filter(|path| path.is_dir()) {
            walls = walls.work_dir(dir.canonicalize().unwrap_or_else(|_| dir.to_path_buf()));
        }
        self.cage.command(program, &user.within(walls))
    }
}

/// The entry of `dir` in which `path` lies: all of it, because programs find their libraries by relative ways.
fn entry_towards(dir: &Path, path: &Path) -> Option<PathBuf> {
    Some(dir.join(path.strip_prefix(dir).ok()?.components().next()?))
}
