//! How a branch's server is stopped, held still, or ended with everything the branch had.

use super::{Branch, SocketDir, START_LIMIT};
use crate::{environment::Environment, home::ADMIN_DIR};
use duramen_postgres::{end_processes, processes_below, Hold, Postmaster, StopMode};
use std::{
    fs,
    sync::{atomic::Ordering, PoisonError},
};

impl Branch {
    /// Nothing starts the server again, and nobody new finds its socket. Sessions that are open go on until the
    /// server is ended.
    pub(crate) fn retire(&self) {
        self.retired.store(true, Ordering::Release);
        for dir in [self.socket_dir.clone(), self.socket_dir.join(ADMIN_DIR)] {
            let _ = fs::remove_file(dir.join(format!(".s.PGSQL.{}", duramen_postgres::SOCKET_PORT)));
        }
    }

    /// Ends the server at once, for good. Blocks.
    pub(crate) fn kill(&self) {
        self.retired.store(true, Ordering::Release);
        match self.postmaster.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(mut server) => server.kill(),
            None => self.end_orphans(),
        }
    }

    /// Ends what a server that is gone may have left in the directory.
    fn end_orphans(&self) {
        let dir = self.cluster.data_dir();
        end_processes(&processes_below(dir), dir);
    }

    /// Stops the server with a checkpoint, so that its data come back with the next start. Blocks.
    pub(crate) fn stop(&self) {
        self.stop_if(|| true);
    }

    /// The same, unless `may` says under the lock of the server that it must not be. Whether it was.
    pub(crate) fn stop_if(&self, may: impl FnOnce() -> bool) -> bool {
        let mut slot = self.postmaster.lock().unwrap_or_else(PoisonError::into_inner);
        if !may() {
            return false;
        }
        let _ = self.stop_server(slot.take());
        true
    }

    /// Blocks. An error: it did not stop in order, and was ended.
    fn stop_server(&self, server: Option<Postmaster>) -> std::io::Result<()> {
        let Some(mut server) = server else {
            self.end_orphans();
            return Ok(());
        };
        // One that is gone already has ended without its backends.
        if server.is_running() && server.stop(StopMode::Fast, START_LIMIT).is_ok() {
            return Ok(());
        }
        server.kill();
        Err(std::io::Error::other("its server did not stop in order, and recovers from its log"))
    }

    /// Makes the write-ahead log of a branch that was stopped in order as short as it can be. Blocks.
    pub(crate) fn trim(&self) -> Result<(), duramen_postgres::ClusterError> {
        let arguments = ["--pgdata".to_owned(), self.cluster.data_dir().display().to_string()];
        self.cluster.run("pg_resetwal", &arguments, None).map(drop)
    }

    /// Does something while the files of the branch do not change: its server's processes are held for so long, or it is stopped
    /// (`quiesce`); one that does not run is not started. `None`: the branch has ended. Blocks.
    pub(crate) fn while_still<T>(
        &self,
        quiesce: bool,
        act: impl FnOnce(Option<&Hold>) -> T,
    ) -> Option<std::io::Result<T>> {
        let mut slot = self.postmaster.lock().unwrap_or_else(PoisonError::into_inner);
        if self.retired.load(Ordering::Acquire) {
            return None;
        }
        if let Some(Err(error)) = quiesce.then(|| self.stop_server(slot.take())) {
            return Some(Err(error));
        }
        let running = slot.as_mut().and_then(|server| server.is_running().then(|| server.pid()));
        let hold = running.map(|pid| Hold::of(self.cluster.data_dir(), pid, self.group.as_ref())).transpose();
        Some(hold.map(|hold| act(hold.as_ref())))
    }

    /// Ends the server and deletes everything the branch had, except a socket directory that is still in use.
    pub(crate) fn delete(&self, environment: &Environment, socket: SocketDir) {
        self.kill();
        if let Some(group) = &self.group {
            group.remove();
        }
        environment.delete_volume(&self.volume);
        if socket == SocketDir::Remove {
            let _ = fs::remove_dir_all(&self.socket_dir);
        }
    }
}
