//! The program that shuts others in.

use crate::walls::Walls;
use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// The search path inside, and for the tools that a cage is made of.
const PATH: &str = "/usr/sbin:/usr/bin:/sbin:/bin";

/// Why programs cannot be shut in here.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Unavailable {
    /// bubblewrap is not installed.
    #[error("bubblewrap is not installed: apt-get install bubblewrap")]
    NotInstalled,
    /// It is, and is refused what it needs.
    #[error("bubblewrap does not work here ({output}): run as root, or allow user namespaces (sysctl kernel.unprivileged_userns_clone=1)")]
    Refused {
        /// What it printed.
        output: String,
    },
}

/// A way to run programs shut in, which has been tried on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cage {
    bubblewrap: PathBuf,
}

impl Cage {
    /// Looks for bubblewrap and runs a program in it.
    ///
    /// # Errors
    /// [`Unavailable`], with what to do about it.
    pub fn find() -> Result<Cage, Unavailable> {
        let bubblewrap = PATH.split(':').map(|dir| Path::new(dir).join("bwrap")).find(|path| path.is_file());
        let cage = Cage { bubblewrap: bubblewrap.ok_or(Unavailable::NotInstalled)? };
        let mut walls = Walls::new();
        if rustix::process::geteuid().is_root() {
            // As somebody else, which is what it is for.
            walls = walls.user(65_534, 65_534);
        }
        let refused = |output: String| Unavailable::Refused { output };
        let output = cage.command(Path::new("/bin/true"), &walls).stdin(Stdio::null()).output();
        let output = output.map_err(|error| refused(error.to_string()))?;
        if output.status.success() {
            return Ok(cage);
        }
        Err(refused(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
    }

    /// A command that will run `program` within `walls`; arguments, environment and streams are set as usual.
    ///
    /// The process that it starts is bubblewrap's, which waits for the program and ends as the program does, with its
    /// exit status; what the program has left running ends too. A signal to bubblewrap does not reach the program: it has a
    /// process id of its own outside, and another inside (`NSpid` in `/proc/PID/status`).
    #[must_use]
    pub fn command(&self, program: &Path, walls: &Walls) -> Command {
        let mut command = Command::new(&self.bubblewrap);
        command.args(walls.arguments()).arg(program);
        command
    }
}
