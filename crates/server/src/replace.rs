//! The daemon's program run anew in the daemon's own process: the same process id, and the same listening socket, so that
//! whoever supervises the daemon sees no end, and whoever connects meanwhile waits.
//!
//! The socket is passed as systemd passes sockets (`sd_listen_fds(3)`).

use command_fds::{CommandFdExt, FdMapping};
use listenfd::ListenFd;
use std::{
    env, io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::process::CommandExt,
    },
    path::{Path, PathBuf},
    process::Command,
};
use tokio::net::UnixListener;

/// The first descriptor that `sd_listen_fds(3)` passes.
const FIRST_FD: i32 = 3;

/// The program that this process runs, as it is called now: an upgrade removes the file that runs, and puts another one
/// in its place.
pub(crate) fn program() -> io::Result<PathBuf> {
    env::current_exe()
}

/// The socket at `path`, if this process was given one that is bound there.
pub(crate) fn inherited_listener(path: &Path) -> io::Result<Option<UnixListener>> {
    let Some(listener) = ListenFd::from_env().take_unix_listener(0)? else { return Ok(None) };
    if listener.local_addr()?.as_pathname() != Some(path) {
        return Ok(None);
    }
    listener.set_nonblocking(true)?;
    UnixListener::from_std(listener).map(Some)
}

/// Another descriptor of the same socket: as long as it is open, who connects waits.
pub(crate) fn keep(listener: &UnixListener) -> io::Result<OwnedFd> {
    listener.as_fd().try_clone_to_owned()
}

/// Runs `program` in this process, with the arguments and the environment that it had. Returns only if that fails.
pub(crate) fn replace(program: &Path, listener: OwnedFd) -> io::Error {
    let mut command = Command::new(program);
    command.args(env::args_os().skip(1));
    command.env("LISTEN_FDS", "1").env("LISTEN_PID", std::process::id().to_string());
    match command.fd_mappings(vec![FdMapping { parent_fd: listener, child_fd: FIRST_FD }]) {
        Ok(command) => command.exec(),
        Err(error) => io::Error::other(error),
    }
}
