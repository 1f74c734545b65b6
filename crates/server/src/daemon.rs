//! The daemon's life: lock the home, open the engine, serve until told to stop, leave nothing behind.

use crate::{
    api::{self, Api},
    attachments::Attached,
    caller,
    doors::{DoorError, Doors, Open},
    events::Followers,
    fleet::Peers,
    idempotency::Keys,
    listener::{self, BindError},
    lock::{HomeLock, LockError},
    mcp_door,
    metrics::Metrics,
    order::{Order, Orders},
    replace,
    router::RouterOptions,
    traces::Tracer,
};
use axum::body::Body;
pub use duramen_attachments::lab::Suites;
use duramen_branches::{Engine, EngineError, OpenOptions, LOOK_AT_FOLLOWED_EVERY};
use duramen_client::socket_path;
use hyper::{body::Incoming, Request, Response};
use rustix::process::{getrlimit, setrlimit, Resource, Rlimit};
use std::{
    io::{self, Read, Write},
    net::SocketAddr,
    sync::Arc,
    time::Duration,
};
use tokio::{
    signal::unix::{signal, Signal, SignalKind},
    time::timeout,
};
use tower_service::Service;

/// How long the engine may take to stop everything that it runs.
const CLOSE_LIMIT: Duration = Duration::from_secs(120);

/// How the daemon runs.
#[derive(Debug, Clone)]
pub struct ServeOptions {
    /// How the engine is opened; its home is the one that is served.
    pub engine: OpenOptions,
    /// How PostgreSQL clients come in.
    pub router: RouterOptions,
    /// Where HTTP clients with a token come in, by TLS with the router's certificate; nowhere, if it is `None`.
    pub http_listen: Option<SocketAddr>,
    /// Stop when the standard input ends, which it does when the process that started this one dies.
    pub until_stdin_ends: bool,
    /// The suites that know the targets of what is shown of attached measurements.
    pub suites: Suites,
    /// Where requests, leases and first sessions are traced to, if anywhere.
    #[cfg(feature = "otlp")]
    pub traces: Option<duramen_traces::TraceSettings>,
    /// The fleet that it takes part in, if it does in one.
    #[cfg(feature = "fleet")]
    pub fleet: Option<crate::fleet::FleetOptions>,
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
    /// Clients cannot come in where they should.
    #[error(transparent)]
    Door(#[from] DoorError),
    /// It cannot take part in its fleet.
    #[cfg(feature = "fleet")]
    #[error(transparent)]
    Fleet(#[from] crate::fleet::FleetError),
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
/// `POST /v1/handover` ends it too, but leaves the servers of leased branches running, with the sessions of their holders;
/// the next daemon of the home adopts them. SIGUSR2 does the same and runs the program, which may be a newer one by now,
/// anew in this process: it goes on under the same process id, and who connects meanwhile waits. SIGHUP has the certificates of
/// the doors read anew.
///
/// # Errors
/// [`ServeError`]. Whatever happens, the socket is gone and the lock is free afterwards.
pub async fn serve(options: ServeOptions) -> Result<(), ServeError> {
    let home = options.engine.home.clone();
    let _lock = HomeLock::acquire(&home)?;
    raise_descriptor_limit();
    let orders = Orders::new();
    // From here on a signal is remembered, also while the engine opens.
    obey_signals(&orders)?;
    let hang_ups = listen_for(SignalKind::hangup())?;
    if options.until_stdin_ends {
        stop_on_end_of_input(&orders)?;
    }
    let program =
        replace::program().map_err(|source| ServeError::Io { doing: "find this program", source })?;
    // Bound before the engine opens, so that a path that does not fit is told at once. Who connects meanwhile waits.
    let socket = socket_path(&home);
    let inherited = replace::inherited_listener(&socket).map_err(|source| ServeError::Io {
        doing: "use the socket that it was passed (without LISTEN_FDS it makes its own)",
        source,
    })?;
    let listener = match inherited {
        Some(listener) => listener,
        None => listener::bind_private(&socket)?,
    };
    let kept = replace::keep(&listener)
        .map_err(|source| ServeError::Io { doing: "keep the socket open", source })?;
    caller::admit_members(&socket)
        .map_err(|source| ServeError::Io { doing: "let the group `duramen` connect", source })?;
    let result = run(options, listener, orders, hang_ups).await;
    if let Ok(Order::Replace) = result {
        tracing::info!("running {} anew", program.display());
        // The lock is free from the moment in which the program begins.
        let source = replace::replace(&program, kept);
        tracing::error!("cannot run {}: {source}", program.display());
        let _ = std::fs::remove_file(&socket);
        return Err(ServeError::Io {
            doing: "run this program anew; `duramen serve` adopts its branches",
            source,
        });
    }
    drop(kept);
    if let Err(error) = std::fs::remove_file(&socket) {
        tracing::warn!("cannot remove {}: {error}", socket.display());
    }
    result.map(drop)
}

/// Serves until an order ends that, and tells which.
async fn run(
    options: ServeOptions,
    listener: tokio::net::UnixListener,
    orders: Orders,
    mut hang_ups: Signal,
) -> Result<Order, ServeError> {
    let home = options.engine.home.clone();
    let (tracer, sending) = Tracer::of(&options);
    let joining = Peers::join(&options);
    let engine = Engine::open(options.engine).await?;
    let opened = Doors::open((&engine, tracer.clone()), &home, options.router, options.http_listen);
    let (doors, Open { router, http }) = match opened {
        Ok(doors) => doors,
        Err(error) => {
            engine.close().await?;
            return Err(error.into());
        }
    };
    let fleet = match joining.open(&engine, &doors) {
        Ok(fleet) => fleet,
        Err(error) => {
            engine.close().await?;
            return Err(error);
        }
    };
    let pid = std::process::id();
    announce(&format!("duramen serves {} (pid {pid})", home.display()));
    if let Some(http) = doors.view().http {
        announce(&format!("the console is at {}; `duramen console` signs a browser in", http.address_here()));
    }
    tracing::info!(home = %home.display(), pid, "serving");

    let mut ending = orders.ending();
    let (mut routing, mut visiting, mut peering) = (orders.ending(), orders.ending(), orders.ending());
    let metrics = Metrics::new(&engine, doors.router_metrics(), fleet.as_ref());
    let api = Arc::new(Api {
        keys: Keys::default(),
        engine: Arc::clone(&engine),
        attachments: Attached::open(&home, options.suites),
        doors,
        fleet: fleet.clone(),
        metrics,
        followers: Followers::default(),
        orders,
        tracer,
    });
    let found = api::router(Arc::clone(&api));
    let handler = {
        let found = found.clone();
        move |request| answer(found.clone(), request)
    };
    let serving = listener::serve(listener, handler, async {
        ending.wait().await;
    });
    let routing = async {
        if let Some(router) = router {
            router
                .serve(async {
                    let _ = routing.wait().await;
                })
                .await;
        }
    };
    let peering = async {
        if let Some(fleet) = fleet.clone() {
            fleet
                .serve(found.clone(), async {
                    let _ = peering.wait().await;
                })
                .await;
        }
    };
    let visiting = async {
        if let Some(http) = http {
            http.serve(mcp_door::with_mcp(found.clone()), async {
                let _ = visiting.wait().await;
            })
            .await;
        }
    };
    let reading = async {
        while hang_ups.recv().await.is_some() {
            tracing::info!("received SIGHUP: reading certificates; other settings take effect with SIGUSR2");
            let api = Arc::clone(&api);
            // Files may be on a network.
            let _ = tokio::task::spawn_blocking(move || api.doors.read_certificates()).await;
        }
        std::future::pending().await
    };
    let looking = tokio::spawn({
        let engine = Arc::clone(&engine);
        async move {
            loop {
                tokio::time::sleep(LOOK_AT_FOLLOWED_EVERY).await;
                engine.look_after_followed().await;
            }
        }
    });
    tokio::select! {
        _ = async { tokio::join!(serving, routing, visiting, peering) } => {}
        () = reading => {}
    }

    looking.abort();
    let order = ending.wait().await;
    tracing::info!(?order, "stopping");
    if let Some(fleet) = &fleet {
        fleet.close(order).await;
    }
    let closed = async {
        match order {
            Order::HandOver | Order::Replace => engine.hand_over().await,
            Order::Serve | Order::Stop => engine.close().await,
        }
    };
    let (closed, ()) = tokio::join!(timeout(CLOSE_LIMIT, closed), sending.flush());
    match closed {
        Ok(result) => Ok(result.map(|()| order)?),
        Err(_) => Err(ServeError::CloseTimeout { seconds: CLOSE_LIMIT.as_secs() }),
    }
}

/// Has a request answered.
async fn answer(mut found: axum::Router, request: Request<Incoming>) -> Response<Body> {
    match found.call(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    }
}

/// One line for whoever started us; a closed standard output is no reason not to serve.
fn announce(line: &str) {
    let mut out = io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

fn listen_for(kind: SignalKind) -> Result<Signal, ServeError> {
    signal(kind).map_err(|source| ServeError::Io { doing: "listen for signals", source })
}

fn obey_signals(orders: &Orders) -> Result<(), ServeError> {
    let (mut terminate, mut interrupt) =
        (listen_for(SignalKind::terminate())?, listen_for(SignalKind::interrupt())?);
    let mut replace = listen_for(SignalKind::user_defined2())?;
    let orders = orders.clone();
    tokio::spawn(async move {
        loop {
            let (name, order) = tokio::select! {
                _ = terminate.recv() => ("SIGTERM", Order::Stop),
                _ = interrupt.recv() => ("SIGINT", Order::Stop),
                _ = replace.recv() => ("SIGUSR2", Order::Replace),
            };
            tracing::info!("received {name}");
            orders.give(order);
        }
    });
    Ok(())
}

fn stop_on_end_of_input(orders: &Orders) -> Result<(), ServeError> {
    let orders = orders.clone();
    // A thread of its own: the runtime would wait at its end for a read that may never return.
    let wait = move || {
        let mut byte = [0];
        while matches!(io::stdin().lock().read(&mut byte), Ok(1)) {}
        tracing::info!("the standard input ended");
        orders.give(Order::Stop);
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
