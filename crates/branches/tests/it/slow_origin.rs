//! A proxy before an origin that lets an answer through slowly, or stops in the middle of it.

use crate::{origin::OtherServer, support::Home};
use duramen_api::model::Origin;
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    sync::{
        atomic::{AtomicBool, Ordering},
        Arc,
    },
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        unix::{OwnedReadHalf, OwnedWriteHalf},
        UnixListener, UnixStream,
    },
    task::JoinHandle,
};

/// How the answer comes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Pace {
    /// So many bytes, and nothing after them.
    StopsAfter(usize),
    /// So many bytes at a time, with a pause before each.
    Slow(usize, Duration),
}

/// Ends when it is dropped; connections through it go on.
pub(crate) struct SlowOrigin {
    socket: PathBuf,
    accepting: JoinHandle<()>,
    /// Whether what it is slow at was asked.
    pub(crate) met: Arc<AtomicBool>,
}

impl Drop for SlowOrigin {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl SlowOrigin {
    /// Slow at what is asked in a text that contains `asks`, from then on, on that connection.
    pub(crate) fn start(
        home: &Home,
        name: &str,
        origin: &OtherServer,
        asks: &'static str,
        pace: Pace,
    ) -> SlowOrigin {
        let socket = home.beside(name);
        fs::create_dir(&socket).expect("a directory");
        let path = socket.join(".s.PGSQL.5432");
        let listener = UnixListener::bind(&path).expect("a socket");
        // Programs of an import run as another user.
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).expect("its mode");
        let upstream = origin.socket().join(".s.PGSQL.5432");
        let met = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&met);
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = UnixStream::connect(&upstream).await.expect("the origin accepts");
                let (from_client, to_client) = client.into_split();
                let (from_server, to_server) = server.into_split();
                let asked = Arc::new(AtomicBool::new(false));
                let ask =
                    forward_questions(from_client, to_server, asks, Arc::clone(&asked), Arc::clone(&seen));
                let answer = forward_answers(from_server, to_client, asked, pace);
                // Whichever side closes, closes both.
                tokio::spawn(async move {
                    tokio::select! {
                        () = ask => {}
                        () = answer => {}
                    }
                });
            }
        });
        SlowOrigin { socket, accepting, met }
    }

    pub(crate) fn origin(&self) -> Origin {
        Origin::Server { url: format!("postgresql://boss@/shop?host={}&port=5432", self.socket.display()) }
    }
}

async fn forward_questions(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    asks: &str,
    asked: Arc<AtomicBool>,
    met: Arc<AtomicBool>,
) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        // Questions are short, and come in one piece through a socket of this machine.
        if buffer[..length].windows(asks.len()).any(|part| part == asks.as_bytes()) {
            asked.store(true, Ordering::Release);
            met.store(true, Ordering::Release);
        }
        if to.write_all(&buffer[..length]).await.is_err() {
            return;
        }
    }
}

async fn forward_answers(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    asked: Arc<AtomicBool>,
    pace: Pace,
) {
    let mut buffer = vec![0; 64 << 10];
    let mut passed = 0;
    loop {
        let most = match pace {
            Pace::Slow(bytes, _) if asked.load(Ordering::Acquire) => bytes,
            _ => buffer.len(),
        };
        let Ok(length @ 1..) = from.read(&mut buffer[..most]).await else { return };
        if asked.load(Ordering::Acquire) {
            match pace {
                Pace::StopsAfter(bytes) if passed >= bytes => std::future::pending().await,
                Pace::StopsAfter(_) => passed += length,
                Pace::Slow(_, pause) => tokio::time::sleep(pause).await,
            }
        }
        if to.write_all(&buffer[..length]).await.is_err() {
            return;
        }
    }
}
