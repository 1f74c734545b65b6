//! A stream proxy that delays: distance between two servers of one machine.
//!
//! Every chunk waits in a queue from the time it was read until it is due, in each direction for half of the round
//! trip. What is behind it is read meanwhile, so that the delay takes nothing from the bandwidth. The queues are
//! bounded: who sends more than they hold waits, as on a network. Plain threads, because the timers of a runtime are
//! coarse (1 ms), and because the load that is measured must not hold them up.

use std::collections::VecDeque;
use std::fs::{self, Permissions};
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use duramen_base::{clock, entropy};

/// What is read at once.
const CHUNK: usize = 64 << 10;
/// What a direction of a connection holds at most.
const QUEUE: usize = 64 << 20;

/// A socket that leads to another socket, a while later. When this is dropped its connections are cut.
#[derive(Debug)]
pub struct Proxy {
    shared: Arc<Shared>,
    path: PathBuf,
    acceptor: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// In each direction.
    delay: Duration,
    jitter: Duration,
    /// Nothing is carried on.
    blocked: bool,
    closed: bool,
    connections: Vec<Connection>,
}

#[derive(Debug)]
struct Connection {
    lanes: [Arc<Lane>; 2],
    threads: Vec<JoinHandle<()>>,
}

/// One direction of one connection.
#[derive(Debug)]
struct Lane {
    from: UnixStream,
    to: UnixStream,
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Debug)]
struct Queue {
    delay: Duration,
    jitter: Duration,
    blocked: bool,
    /// When it was read, what share of the jitter it takes, and what; nothing is the end of the stream.
    chunks: VecDeque<(Instant, f64, Vec<u8>)>,
    bytes: usize,
    cut: bool,
}

impl Proxy {
    /// Listens at `path`, which anybody may connect to who can reach it, and connects each caller to `upstream`.
    ///
    /// # Errors
    /// The operating system's answer.
    pub fn start(path: &Path, upstream: &Path) -> io::Result<Self> {
        let listener = UnixListener::bind(path)?;
        // The folder decides who comes here.
        fs::set_permissions(path, Permissions::from_mode(0o777))?;
        let shared = Arc::new(Shared::default());
        let acceptor = thread::Builder::new().name("proxy".to_owned()).spawn({
            let (shared, upstream) = (Arc::clone(&shared), upstream.to_owned());
            move || shared.accept(&listener, &upstream)
        })?;
        Ok(Self { shared, path: path.to_owned(), acceptor: Some(acceptor) })
    }

    /// Carries nothing on any more, in either direction, and closes nothing; or all that has come meanwhile, and what
    /// comes then.
    pub fn block(&self, blocked: bool) {
        let mut state = lock(&self.shared.state);
        state.blocked = blocked;
        for lane in state.connections.iter().flat_map(|connection| &connection.lanes) {
            lock(&lane.queue).blocked = blocked;
            lane.changed.notify_all();
        }
    }

    /// Sets by how much longer a chunk takes at most, in each direction, each another time. They stay in order.
    pub fn set_jitter(&self, jitter: Duration) {
        let mut state = lock(&self.shared.state);
        state.jitter = jitter;
        for lane in state.connections.iter().flat_map(|connection| &connection.lanes) {
            lock(&lane.queue).jitter = jitter;
            lane.changed.notify_all();
        }
    }

    /// Sets the round trip that is added, at once, also for what is on its way.
    pub fn set_rtt(&self, rtt: Duration) {
        let mut state = lock(&self.shared.state);
        state.delay = rtt / 2;
        for lane in state.connections.iter().flat_map(|connection| &connection.lanes) {
            lock(&lane.queue).delay = rtt / 2;
            lane.changed.notify_all();
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let connections = {
            let mut state = lock(&self.shared.state);
            state.closed = true;
            std::mem::take(&mut state.connections)
        };
        connections.into_iter().for_each(Connection::cut);
        // It waits for callers: one more lets it see that it is to end. If there is no way to call it, it is left.
        let called = UnixStream::connect(&self.path).is_ok();
        if let Some(acceptor) = self.acceptor.take().filter(|_| called) {
            let _ = acceptor.join();
        }
        let _ = fs::remove_file(&self.path);
    }
}

impl Shared {
    fn accept(&self, listener: &UnixListener, upstream: &Path) {
        for caller in listener.incoming() {
            let mut state = lock(&self.state);
            if state.closed {
                return;
            }
            let (ended, open) = std::mem::take(&mut state.connections)
                .into_iter()
                .partition(|connection| connection.threads.iter().all(JoinHandle::is_finished));
            state.connections = open;
            Vec::into_iter(ended).for_each(Connection::cut);
            // Whoever cannot be connected sees his connection closed, and may come again.
            let connected = caller.and_then(|caller| {
                let upstream = UnixStream::connect(upstream)?;
                Connection::open(caller, upstream, &state)
            });
            state.connections.extend(connected);
        }
    }
}

impl Connection {
    fn open(caller: UnixStream, upstream: UnixStream, state: &State) -> io::Result<Self> {
        let State { delay, jitter, blocked, .. } = *state;
        let lane = |from: &UnixStream, to: &UnixStream| -> io::Result<Arc<Lane>> {
            let queue =
                Mutex::new(Queue { delay, jitter, blocked, chunks: VecDeque::new(), bytes: 0, cut: false });
            Ok(Arc::new(Lane {
                from: from.try_clone()?,
                to: to.try_clone()?,
                queue,
                changed: Condvar::new(),
            }))
        };
        let lanes = [lane(&caller, &upstream)?, lane(&upstream, &caller)?];
        let mut connection = Self { lanes, threads: Vec::new() };
        for lane in &connection.lanes {
            for work in [Lane::read as fn(&Lane), Lane::write] {
                let lane = Arc::clone(lane);
                let thread = thread::Builder::new().name("proxy lane".to_owned()).spawn(move || work(&lane));
                match thread {
                    Ok(thread) => connection.threads.push(thread),
                    Err(error) => {
                        connection.cut();
                        return Err(error);
                    }
                }
            }
        }
        Ok(connection)
    }

    /// Closes both ends and waits for the threads.
    fn cut(self) {
        for lane in &self.lanes {
            lane.cut();
        }
        for thread in self.threads {
            let _ = thread.join();
        }
    }
}

impl Lane {
    /// Reads what comes, as long as there is room for it.
    fn read(&self) {
        let mut buffer = vec![0; CHUNK];
        let mut rng = entropy::rng(entropy::seed());
        loop {
            let read = (&self.from).read(&mut buffer);
            let read_at = clock::now();
            // What cannot be read any more has ended.
            let length = read.unwrap_or(0);
            let mut queue = lock(&self.queue);
            while queue.bytes >= QUEUE && !queue.cut {
                queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
            }
            if queue.cut {
                return;
            }
            queue.bytes += length;
            queue.chunks.push_back((read_at, rng.f64(), buffer[..length].to_vec()));
            self.changed.notify_all();
            if length == 0 {
                return;
            }
        }
    }

    /// Writes what is due.
    fn write(&self) {
        while let Some(chunk) = self.due() {
            if chunk.is_empty() {
                // The other direction may still have something to say.
                let _ = self.to.shutdown(Shutdown::Write);
                return;
            }
            if (&self.to).write_all(&chunk).is_err() {
                return self.cut();
            }
        }
    }

    /// The next chunk, when its time has come; `None` when the connection was cut.
    fn due(&self) -> Option<Vec<u8>> {
        let mut queue = lock(&self.queue);
        loop {
            if queue.cut {
                return None;
            }
            let next = queue.chunks.front().filter(|_| !queue.blocked);
            let wait = next.map(|(read_at, share, _)| {
                (queue.delay + queue.jitter.mul_f64(*share)).saturating_sub(read_at.elapsed())
            });
            queue = match wait {
                Some(Duration::ZERO) => break,
                Some(wait) => {
                    self.changed.wait_timeout(queue, wait).unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner),
            };
        }
        let (.., chunk) = queue.chunks.pop_front()?;
        queue.bytes -= chunk.len();
        self.changed.notify_all();
        Some(chunk)
    }

    fn cut(&self) {
        lock(&self.queue).cut = true;
        self.changed.notify_all();
        // Who is gone already cannot be shut down again.
        let _ = self.from.shutdown(Shutdown::Both);
        let _ = self.to.shutdown(Shutdown::Both);
    }
}

/// What is behind these locks stays whole when a thread panics.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
