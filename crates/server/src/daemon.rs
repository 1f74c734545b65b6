//! The daemon's life: lock the home, open the engine, serve until told to stop, leave nothing behind.

use crate::{
    api::Api,
    caller,
    listener::{self, BindError},
    lock::{HomeLock, LockError},
    socket_path,
};
use duramen_branches::{Engine, EngineError, OpenOptions};
use rustix::process::{getrlimit, setrlimit, Resource, Rlimit};
use std::{
    io::{self, Read, Write},
    sync::Arc,
    time::Duration,
};
use tokio::{
    signal::unix::{signal, SignalKind},
    sync::watch,
    time::timeout,
};

/// How long the engine may take to stop everything that it runs.
const CLOSE_LIMIT: Duration = Duration::from_secs(120);

/// How the daemon runs.
#[derive(Debug, Clone)]
pub struct ServeOptions {
    /// How the engine is opened; its home is the one that is served.
    pub engine: OpenOptions,
    /// Stop when the standard input ends, which it does when the process that started this one dies.
    pub until_stdin_ends: bool,
}

/// Why the daemon did not run, or did not end well.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The home is not ours.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The engine did not open, or did not close.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The socket could not be bound.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// Signals, the standard input or the standard output cannot be used.
    #[error("cannot {doing}: {source}")]
    Io {
        /// What was tried.
        doing: &'static str,
        /// The operating system's answer.
        source: io::Error,
    },
    /// The engine took too long to close.
    #[error("not everything stopped within {seconds} s; `duramen purge --yes` ends what is left, `duramen serve` takes it up again")]
    CloseTimeout {
        /// The time that was allowed.
        seconds: u64,
    },
}

/// Serves a home until SIGTERM, SIGINT or `POST /v1/shutdown`. Prints `duramen serves HOME (pid N)` on the
/// standard output once requests are answered.
///
/// # Errors
/// [`ServeError`]. Whatever happens, the socket is gone and the lock is free afterwards.
pub async fn serve(options: ServeOptions) -> Result<(), ServeError> {
    let home = options.engine.home.clone();
    let _lock = HomeLock::acquire(&home)?;
    raise_descriptor_limit();
    let (stop, stopping) = watch::channel(false);
    // From here on a signal is remembered, also while the engine opens.
    stop_on_signals(&stop)?;
    if options.until_stdin_ends {
        stop_on_end_of_input(&stop)?;
    }
    // Bound before the engine opens, so that a path that does not fit is told at once. Who connects meanwhile waits.
    let socket = socket_path(&home);
    let listener = listener::bind_private(&socket)?;
    caller::admit_members(&socket)
        .map_err(|source| ServeError::Io { doing: "let the group `duramen` connect", source })?;
    let result = run(options.engine, listener, stop, stopping).await;
    if let Err(error) = std::fs::remove_file(&socket) {
        tracing::warn!("cannot remove {}: {error}", socket.display());
    }
    result
}

async fn run(
    options: OpenOptions,
    listener: tokio::net::UnixListener,
    stop: watch::Sender<bool>,
    mut stopping: watch::Receiver<bool>,
) -> Result<(), ServeError> {
    let home = options.home.clone();
    let engine = Engine::open(options).await?;
    let pid = std::process::id();
    announce(&format!("duramen serves {} (pid {pid})", home.display()));
    tracing::info!(home = %home.display(), pid, "serving");

    let api = Arc::new(Api { engine: Arc::clone(&engine), stop });
    let handler = move |request| Arc::clone(&api).answer(request);
    let stopped = async move {
        // An error would mean that nothing can tell us to stop any more.
        let _ = stopping.wait_for(|stopping| *stopping).await;
    };
    listener::serve(listener, handler, stopped).await;

    tracing::info!("stopping");
    match timeout(CLOSE_LIMIT, engine.close()).await {
        Ok(result) => Ok(result?),
        Err(_) => Err(ServeError::CloseTimeout { seconds: CLOSE_LIMIT.as_secs() }),
    }
}

/// One line for whoever started us; a closed standard output is no reason not to serve.
fn announce(line: &str) {
    let mut out = io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

fn stop_on_signals(stop: &watch::Sender<bool>) -> Result<(), ServeError> {
    let listen = |kind| signal(kind).map_err(|source| ServeError::Io { doing: "listen for signals", source });
    let (mut terminate, mut interrupt) = (listen(SignalKind::terminate())?, listen(SignalKind::interrupt())?);
    let stop = stop.clone();
    tokio::spawn(async move {
        let name = tokio::select! {
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "SIGINT",
        };
        tracing::info!("received {name}");
        stop.send_replace(true);
    });
    Ok(())
}

fn stop_on_end_of_input(stop: &watch::Sender<bool>) -> Result<(), ServeError> {
    let stop = stop.clone();
    // A thread of its own: the runtime would wait at its end for a read that may never return.
    let wait = move || {
        let mut byte = [0];
        while matches!(io::stdin().lock().read(&mut byte), Ok(1)) {}
        tracing::info!("the standard input ended");
        stop.send_replace(true);
    };
    let thread = std::thread::Builder::new().name("until-stdin-ends".to_owned()).spawn(wait);
    thread.map(drop).map_err(|source| ServeError::Io { doing: "start a thread", source })
}

/// A thousand branches hold several thousand descriptors; the usual soft limit is 1,024.
fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    if limit.current == limit.maximum {
        return;
    }
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!("cannot raise the limit of open files from {:?}: {error}", limit.current);
    }
}
