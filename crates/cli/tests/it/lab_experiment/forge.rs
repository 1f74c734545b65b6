//! A server that plays the comments of a forge, as its API is documented: GitHub's issue comments and GitLab's notes of merge
//! requests, with authors, pages, limits and failures.

use serde_json::{json, Value};
use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        atomic::{AtomicBool, Ordering},
        Arc, Condvar, Mutex,
    },
    thread::{self, JoinHandle},
    time::Duration,
};

/// Whose token it is.
pub(crate) const BOT: &str = "github-actions[bot]";
pub(crate) const TOKEN: &str = "ghs_0123456789abcdef";
/// How long a request waits for others that it is to meet.
const MEETING: Duration = Duration::from_secs(20);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Comment {
    pub(crate) id: u64,
    pub(crate) author: String,
    pub(crate) body: String,
}

/// What goes wrong with the next requests of a method.
#[derive(Debug, Clone)]
pub(crate) struct Fault {
    pub(crate) method: &'static str,
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    /// Whether it is done all the same.
    pub(crate) is_done: bool,
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) comments: Vec<Comment>,
    last: u64,
    pub(crate) faults: Vec<Fault>,
    /// What was asked for: method and path.
    pub(crate) asked: Vec<String>,
    /// So many new comments are waited for before one is made.
    pub(crate) meeting: usize,
    waiting: usize,
}

impl State {
    pub(crate) fn add(&mut self, author: &str, body: &str) -> u64 {
        self.last += 1;
        self.comments.push(Comment { id: self.last, author: author.to_owned(), body: body.to_owned() });
        self.last
    }

    /// The comments of the token's owner that are verdicts.
    pub(crate) fn verdicts(&self) -> Vec<Comment> {
        let is_ours =
            |comment: &&Comment| comment.author == BOT && comment.body.starts_with("<!-- duramen-verdict");
        self.comments.iter().filter(is_ours).cloned().collect()
    }
}

pub(crate) struct Forge {
    pub(crate) address: SocketAddr,
    pub(crate) state: Arc<(Mutex<State>, Condvar)>,
    is_over: Arc<AtomicBool>,
    server: Option<JoinHandle<()>>,
}

impl Forge {
    pub(crate) fn open() -> Forge {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let address = listener.local_addr().expect("its address");
        let state = Arc::new((Mutex::new(State::default()), Condvar::new()));
        let is_over = Arc::new(AtomicBool::new(false));
        let (shared, over) = (state.clone(), is_over.clone());
        let server = thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if over.load(Ordering::Relaxed) {
                    return;
                }
                let shared = shared.clone();
                thread::spawn(move || {
                    let _ = serve(&shared, &stream);
                });
            }
        });
        Forge { address, state, is_over, server: Some(server) }
    }

    pub(crate) fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.state.0.lock().expect("the state"))
    }
}

impl Drop for Forge {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.address);
        if let Some(server) = self.server.take() {
            let _ = server.join();
        }
    }
}

fn serve(shared: &(Mutex<State>, Condvar), stream: &TcpStream) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let mut words = line.split_whitespace();
    let (method, target) =
        (words.next().unwrap_or_default().to_owned(), words.next().unwrap_or_default().to_owned());
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let length = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;

    let (status, extra, reply) = answer(shared, &method, &target, &headers, &body);
    let text = reply.to_string();
    let mut out = stream;
    write!(out, "HTTP/1.1 {status} x\r\ncontent-type: application/json\r\nconnection: close\r\n")?;
    for (name, value) in extra {
        write!(out, "{name}: {value}\r\n")?;
    }
    write!(out, "content-length: {}\r\n\r\n{text}", text.len())
}

type Answer = (u16, Vec<(&'static str, String)>, Value);

fn answer(
    shared: &(Mutex<State>, Condvar),
    method: &str,
    target: &str,
    headers: &BTreeMap<String, String>,
    body: &[u8],
) -> Answer {
    let mut state = shared.0.lock().expect("the state");
    state.asked.push(format!("{method} {target}"));
    let bearer = headers.get("authorization").and_then(|value| value.strip_prefix("Bearer "));
    let token = bearer.or(headers.get("private-token").map(String::as_str));
    if token != Some(TOKEN) {
        return (401, vec![], json!({ "message": "Bad credentials" }));
    }
    let fault =
        state.faults.iter().position(|fault| fault.method == method).map(|at| state.faults.remove(at));
    if let Some(fault) = fault.as_ref().filter(|fault| !fault.is_done) {
        return (
            fault.status,
            fault.headers.clone(),
            json!({ "message": "Resource not accessible by integration" }),
        );
    }
    if method == "POST" && state.meeting > 0 {
        state.waiting += 1;
        shared.1.notify_all();
        let is_alone = |state: &mut State| state.waiting < state.meeting;
        state = shared.1.wait_timeout_while(state, MEETING, is_alone).expect("the state").0;
    }
    let done = act(&mut state, method, target, body);
    match fault {
        Some(fault) => (fault.status, fault.headers, json!({ "message": "Server Error" })),
        None => done,
    }
}

fn act(state: &mut State, method: &str, target: &str, body: &[u8]) -> Answer {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    let text = || {
        let value: Value = serde_json::from_slice(body).unwrap_or_default();
        value["body"].as_str().map(str::to_owned)
    };
    let shown = |comment: &Comment| {
        json!({ "id": comment.id, "body": comment.body,
            "user": { "login": comment.author }, "author": { "username": comment.author } })
    };
    let is_list = matches!(parts[..], ["repos", "acme", "shop", "issues", "7", "comments"])
        || matches!(parts[..], ["projects", "42", "merge_requests", "7", "notes"]);
    let one = match parts[..] {
        ["repos", "acme", "shop", "issues", "comments", id] => id.parse::<u64>().ok(),
        ["projects", "42", "merge_requests", "7", "notes", id] => id.parse().ok(),
        _ => None,
    };
    let update = if parts[0] == "repos" { "PATCH" } else { "PUT" };
    match (method, one) {
        ("GET", None) if path == "/user" => (200, vec![], json!({ "username": BOT })),
        ("GET", None) if is_list => {
            let value = |name: &str| {
                query
                    .split('&')
                    .find_map(|pair| pair.strip_prefix(name)?.strip_prefix('=')?.parse::<usize>().ok())
            };
            let (size, page) = (value("per_page").unwrap_or(30), value("page").unwrap_or(1));
            let page: Vec<Value> =
                state.comments.iter().skip((page - 1) * size).take(size).map(shown).collect();
            (200, vec![], Value::Array(page))
        }
        ("POST", None) if is_list => match text() {
            Some(body) => {
                let id = state.add(BOT, &body);
                (201, vec![], json!({ "id": id }))
            }
            None => (422, vec![], json!({ "message": "Validation Failed" })),
        },
        (method, Some(id)) => {
            let Some(at) = state.comments.iter().position(|comment| comment.id == id) else {
                return (404, vec![], json!({ "message": "Not Found" }));
            };
            if state.comments[at].author != BOT {
                return (403, vec![], json!({ "message": "not yours" }));
            }
            match (method, text()) {
                ("DELETE", _) => {
                    state.comments.remove(at);
                    (204, vec![], Value::Null)
                }
                (method, Some(body)) if method == update => {
                    state.comments[at].body = body;
                    (200, vec![], json!({ "id": id }))
                }
                _ => (405, vec![], json!({ "message": "Method Not Allowed" })),
            }
        }
        _ => (404, vec![], json!({ "message": "Not Found" })),
    }
}
