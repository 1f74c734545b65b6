//! A proxy before an S3 server that counts requests and breaks those that it is told to.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What happens to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It takes its time.
    Slow,
    /// The server has an error, and does nothing.
    Error,
    /// The server is busy, and does nothing.
    Busy,
    /// The server does it, and says that it has an error.
    DoneAndError,
    /// The server does it, and the connection ends without an answer.
    DoneAndLost,
    /// The connection ends, and the server hears nothing.
    Lost,
    /// The connection ends in the middle of the request.
    HalfAsked,
    /// The connection ends in the middle of the answer.
    HalfAnswered,
    /// The server does it, and the answer never comes.
    NoAnswer,
    /// The request comes to the server when nobody waits for it any more.
    Late,
}

impl Fault {
    pub(crate) const ALL: [Self; 10] = [
        Self::Slow,
        Self::Error,
        Self::Busy,
        Self::DoneAndError,
        Self::DoneAndLost,
        Self::Lost,
        Self::HalfAsked,
        Self::HalfAnswered,
        Self::NoAnswer,
        Self::Late,
    ];
}

/// What is done at a request beside that.
type Watcher = Box<dyn Fn(u64, &str, bool) + Send + Sync>;

/// The proxy. Its threads end with the connections.
pub(crate) struct Proxy {
    address: String,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    target: String,
    requests: AtomicU64,
    by_method: Mutex<BTreeMap<String, u64>>,
    /// By the number of the request, and how many from there on.
    faults: Mutex<Vec<(u64, u64, Fault)>>,
    /// How long `NoAnswer` and `Late` take.
    patience: Mutex<Duration>,
    watcher: Mutex<Option<Arc<Watcher>>>,
    ends: AtomicBool,
}

impl Proxy {
    pub(crate) fn start(target: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let shared = Arc::new(Shared {
            target: target.to_owned(),
            patience: Mutex::new(Duration::from_secs(1)),
            ..Shared::default()
        });
        let of_thread = shared.clone();
        std::thread::spawn(move || {
            for client in listener.incoming() {
                if of_thread.ends.load(Ordering::SeqCst) {
                    return;
                }
                let shared = of_thread.clone();
                std::thread::spawn(move || forward(&client.ok()?, &shared));
            }
        });
        Self { address, shared }
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Requests so far.
    pub(crate) fn requests(&self) -> u64 {
        self.shared.requests.load(Ordering::SeqCst)
    }

    /// Requests by what they are, since the last call.
    pub(crate) fn by_method(&self) -> BTreeMap<String, u64> {
        std::mem::take(&mut *self.shared.by_method.lock().unwrap())
    }

    /// Breaks `count` requests from number `from` on, which is the next one if it is 1 more than there were.
    pub(crate) fn breaks(&self, from: u64, count: u64, fault: Fault) {
        self.shared.faults.lock().unwrap().push((from, count, fault));
    }

    /// How long requests are held up that are.
    pub(crate) fn set_patience(&self, patience: Duration) {
        *self.shared.patience.lock().unwrap() = patience;
    }

    /// Is told of each request: its number, its first line, and whether the server has done it.
    pub(crate) fn watch(&self, watcher: impl Fn(u64, &str, bool) + Send + Sync + 'static) {
        *self.shared.watcher.lock().unwrap() = Some(Arc::new(Box::new(watcher)));
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.ends.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(&self.address);
    }
}

fn head(stream: &mut impl BufRead) -> Option<String> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if stream.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    Some(head)
}

fn length(head: &str) -> usize {
    let line = head.lines().find(|line| line.to_ascii_lowercase().starts_with("content-length:"));
    line.and_then(|line| line.split(':').nth(1)?.trim().parse().ok()).unwrap_or(0)
}

fn forward(client: &TcpStream, shared: &Shared) -> Option<()> {
    // Head and body are written one after the other: without this the second waits for what the other side acknowledges late.
    client.set_nodelay(true).ok()?;
    let mut from_client = BufReader::new(client.try_clone().ok()?);
    let mut to_client = client.try_clone().ok()?;
    loop {
        let request = head(&mut from_client)?;
        let mut body = vec![0; length(&request)];
        from_client.read_exact(&mut body).ok()?;
        let number = shared.requests.fetch_add(1, Ordering::SeqCst) + 1;
        let line = request.lines().next().unwrap_or_default().to_owned();
        let method = line.split(' ').next().unwrap_or_default();
        let kind = if line.contains("list-type") { "LIST" } else { method };
        *shared.by_method.lock().unwrap().entry(kind.to_owned()).or_default() += 1;
        let faults = shared.faults.lock().unwrap().clone();
        let is_hit = |(from, count, _): &&(u64, u64, Fault)| (*from..from + count).contains(&number);
        let fault = faults.iter().find(is_hit).map(|(_, _, fault)| *fault);
        let watcher = shared.watcher.lock().unwrap().clone();
        if let Some(watcher) = &watcher {
            watcher(number, &line, false);
        }
        let patience = *shared.patience.lock().unwrap();
        let failed = |stream: &mut TcpStream, status: &str, code: &str| {
            let body = format!("<Error><Code>{code}</Code></Error>");
            let answer = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
            stream.write_all(answer.as_bytes()).ok()
        };
        match fault {
            Some(Fault::Slow) => std::thread::sleep(patience / 4),
            Some(Fault::Error) => {
                failed(&mut to_client, "500 Internal Server Error", "InternalError")?;
                continue;
            }
            Some(Fault::Busy) => {
                failed(&mut to_client, "503 Slow Down", "SlowDown")?;
                continue;
            }
            Some(Fault::Lost) => return client.shutdown(Shutdown::Both).ok(),
            Some(Fault::Late) => {
                std::thread::sleep(patience);
                // The client has gone; the server hears of it now.
                ask(shared, &request, &body);
                return client.shutdown(Shutdown::Both).ok();
            }
            Some(Fault::HalfAsked) => {
                let mut server = TcpStream::connect(&shared.target).ok()?;
                server.write_all(request.as_bytes()).ok()?;
                server.write_all(&body[..body.len() / 2]).ok()?;
                server.shutdown(Shutdown::Both).ok();
                return client.shutdown(Shutdown::Both).ok();
            }
            _ => {}
        }
        let (answer, mut answered) = ask(shared, &request, &body)?;
        if let Some(watcher) = &watcher {
            watcher(number, &line, true);
        }
        match fault {
            Some(Fault::DoneAndError) => {
                failed(&mut to_client, "500 Internal Server Error", "InternalError")?;
                continue;
            }
            Some(Fault::DoneAndLost) => return client.shutdown(Shutdown::Both).ok(),
            Some(Fault::NoAnswer) => {
                std::thread::sleep(patience);
                return client.shutdown(Shutdown::Both).ok();
            }
            Some(Fault::HalfAnswered) if answered.is_empty() => {
                to_client.write_all(&answer.as_bytes()[..answer.len() / 2]).ok()?;
                return client.shutdown(Shutdown::Both).ok();
            }
            Some(Fault::HalfAnswered) => answered.truncate(answered.len() / 2),
            _ => {}
        }
        to_client.write_all(answer.as_bytes()).ok()?;
        to_client.write_all(&answered).ok()?;
        if fault == Some(Fault::HalfAnswered) {
            return client.shutdown(Shutdown::Both).ok();
        }
    }
}

/// Asks the server. A connection for each request, so that its end is the end of the answer.
fn ask(shared: &Shared, request: &str, body: &[u8]) -> Option<(String, Vec<u8>)> {
    let request = request.replacen("\r\n", "\r\nConnection: close\r\n", 1);
    let mut server = TcpStream::connect(&shared.target).ok()?;
    server.set_nodelay(true).ok()?;
    server.write_all(request.as_bytes()).ok()?;
    server.write_all(body).ok()?;
    let mut from_server = BufReader::new(server);
    let mut answer = head(&mut from_server)?;
    while answer.starts_with("HTTP/1.1 100") {
        answer = head(&mut from_server)?;
    }
    let mut answered = Vec::new();
    from_server.read_to_end(&mut answered).ok()?;
    Some((answer.replace("Connection: close\r\n", ""), answered))
}
