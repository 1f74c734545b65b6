//! The threads on which plain sessions are passed on.
//!
//! Each has an event loop of its own, and a session stays on one: handing work to another thread costs a session of small
//! statements a fifth of its rate. TLS sessions stay where they are, because what they cost is the encryption.

use super::splice::{self, Counters, End};
use std::{
    io,
    num::NonZeroUsize,
    sync::{
        atomic::{AtomicUsize, Ordering},
        Arc,
    },
    thread,
    time::Duration,
};
use tokio::{
    net::{TcpStream, UnixStream},
    runtime::{Builder, Handle},
    sync::oneshot,
    task::AbortHandle,
};

/// The threads. They end with this value.
#[derive(Debug)]
pub(super) struct Splicers {
    loops: Vec<Loop>,
    next: AtomicUsize,
}

#[derive(Debug)]
struct Loop {
    handle: Handle,
    /// Dropped when it has to end.
    _ends: oneshot::Sender<()>,
}

/// Ends a task with its owner.
struct Owned(AbortHandle);

impl Drop for Owned {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Splicers {
    /// One thread for every two processors: the other half is for the servers and their clients.
    pub(super) fn start() -> io::Result<Splicers> {
        let processors = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let loops = (0..(processors / 2).max(1)).map(|_| Loop::start()).collect::<io::Result<_>>()?;
        Ok(Splicers { loops, next: AtomicUsize::new(0) })
    }

    /// Passes bytes on until one side closes its end; gives the client back.
    ///
    /// # Errors
    /// A side that broke.
    pub(super) async fn splice(
        &self,
        client: TcpStream,
        server: UnixStream,
        idle: Option<Duration>,
        counters: Arc<Counters>,
    ) -> io::Result<(TcpStream, End)> {
        let (client, server) = (client.into_std()?, server.into_std()?);
        let next = self.next.fetch_add(1, Ordering::Relaxed) % self.loops.len();
        let task = self.loops[next].handle.spawn(async move {
            let (mut client, mut server) = (TcpStream::from_std(client)?, UnixStream::from_std(server)?);
            let end = splice::splice(&mut client, &mut server, idle, &counters).await?;
            Ok::<_, io::Error>((client.into_std()?, end))
        });
        let _owned = Owned(task.abort_handle());
        let (client, end) = task.await.map_err(io::Error::other)??;
        Ok((TcpStream::from_std(client)?, end))
    }
}

impl Loop {
    fn start() -> io::Result<Loop> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (ends, ended) = oneshot::channel();
        // It is not joined: what it runs ends with the runtime.
        thread::Builder::new().name("router".to_owned()).spawn(move || {
            let _ = runtime.block_on(ended);
        })?;
        Ok(Loop { handle, _ends: ends })
    }
}
