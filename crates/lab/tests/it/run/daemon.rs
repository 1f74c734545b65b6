//! A daemon of answers: HTTP/1.1 over the home's socket, with nothing behind it.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::{Arc, Mutex};

use duramen_api::model::{ChangeSettings, QueryRequest};
use serde_json::{json, Value};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};

/// How it answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Habit {
    /// As it should.
    Right,
    /// Reads of an airline return another one.
    WrongRows,
    /// Writes of several statements end in a deadlock.
    Deadlocks,
    /// Every fingerprint differs from the one before.
    ChangesSource,
    /// Its volumes are plain copies.
    Degraded,
    /// Its source has no table for events.
    NoEvents,
    /// It has two more sources, of a thousand and of two thousand rows.
    TwoSizes,
}

#[derive(Default)]
struct State {
    leases: HashSet<String>,
    changes: Vec<ChangeSettings>,
    fingerprints: u32,
    refills: u32,
}

pub(crate) struct FakeDaemon {
    home: TempDir,
    state: Arc<Mutex<State>>,
}

impl FakeDaemon {
    pub(crate) fn start(home: TempDir, habit: Habit) -> FakeDaemon {
        let listener = UnixListener::bind(home.path().join("daemon.sock")).expect("a socket");
        let state: Arc<Mutex<State>> = Arc::default();
        let shared = Arc::clone(&state);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&shared), habit));
            }
        });
        FakeDaemon { home, state }
    }

    pub(crate) fn home(&self) -> &Path {
        self.home.path()
    }

    pub(crate) fn leases(&self) -> usize {
        self.state.lock().expect("no panic").leases.len()
    }

    pub(crate) fn changes(&self) -> Vec<ChangeSettings> {
        self.state.lock().expect("no panic").changes.clone()
    }
}

async fn serve(stream: UnixStream, state: Arc<Mutex<State>>, habit: Habit) {
    let mut stream = BufReader::new(stream);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if stream.read_line(&mut head).await.unwrap_or(0) == 0 {
                return;
            }
        }
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().expect("a length"))
        });
        let mut body = vec![0; length.unwrap_or(0)];
        stream.read_exact(&mut body).await.expect("a body");
        let mut words = head.split(' ');
        let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let (status, reply) = answer(method, path, &body, &mut state.lock().expect("no panic"), habit);
        let reply = reply.to_string();
        let reply = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n\r\n{reply}", reply.len());
        if stream.write_all(reply.as_bytes()).await.is_err() {
            return;
        }
    }
}

fn answer(method: &str, path: &str, body: &[u8], state: &mut State, habit: Habit) -> (u16, Value) {
    let path = path.split('?').next().unwrap_or_default();
    let segments: Vec<&str> = path.trim_start_matches("/v1/").split('/').collect();
    let parsed: Value = serde_json::from_slice(body).unwrap_or_default();
    match (method, segments.as_slice()) {
        ("GET", ["status"]) => (200, status(state, habit)),
        ("GET", ["sources"]) => {
            let names: &[&str] =
                if habit == Habit::TwoSizes { &["flights", "rows_1000", "rows_2000"] } else { &["flights"] };
            (200, names.iter().map(|name| source(name)).collect())
        }
        ("PATCH", ["sources", name, "settings"]) => {
            state.changes.push(serde_json::from_slice(body).expect("a change"));
            (200, source(name))
        }
        ("POST", ["sources", _, "fingerprint"]) => (200, fingerprint(state, habit)),
        ("GET", ["sources", _, "idle-pss"]) => (200, json!([6_100_000, 6_200_000, 6_300_000])),
        ("POST", ["branches"]) => {
            let name = parsed["name"].as_str().expect("a name");
            state.leases.insert(name.to_owned());
            (200, branch(name, parsed["policy"].as_str().expect("a policy")))
        }
        ("DELETE", ["branches", name]) => {
            if state.leases.remove(*name) {
                state.refills += 1;
                return (200, branch(name, "read-write"));
            }
            refusal(404, "not_found", None)
        }
        ("POST", ["branches", _, "query"]) => query(&serde_json::from_slice(body).expect("a query"), habit),
        ("POST", ["measure", "cold"]) => (
            200,
            json!({ "first_query_ms": 30.0, "clone_ms": 2.0, "start_ms": 15.0, "connect_ms": 13.0,
                    "cpu_ms": 24.0, "pss_bytes": 6_000_000 }),
        ),
        ("POST", ["audit", "verify"]) => {
            (200, json!({ "intact": true, "entries": 3, "head": "h", "problem": null }))
        }
        _ => refusal(404, "unknown_route", None),
    }
}

fn refusal(status: u16, code: &str, sqlstate: Option<&str>) -> (u16, Value) {
    (status, json!({ "error": { "code": code, "message": code, "sqlstate": sqlstate } }))
}

fn status(state: &State, habit: Habit) -> Value {
    let pools: Vec<Value> = ["read-only", "read-write", "ddl"]
        .map(|policy| json!({ "source": "flights", "policy": policy, "hot": 3, "target": 3, "waiting": 0 }))
        .into();
    let refills: Vec<Value> = (0..state.refills)
        .map(|n| {
            json!({ "branches": 1, "total_ms": f64::from(n), "clone_ms": 1.0, "start_ms": 2.0, "connect_ms": 3.0,
                    "failed": 0, "first_error": null })
        })
        .collect();
    json!({
        "version": "0", "pid": 1, "volumes": "btrfs", "volumes_reason": "made up",
        "degraded": habit == Habit::Degraded, "pools": pools, "cold": 0, "leases": state.leases.len(),
        "to_delete": 0, "settled": true, "refills": refills, "pool_error": null,
    })
}

fn source(name: &str) -> Value {
    json!({
        "name": name, "origin": "sample flights", "database": "flights", "generation": 1,
        "imported_at": "2026-01-01T00:00:00Z", "server_version": "18", "bytes": 1, "digest": "d", "sanitised": [],
        "branches_by_generation": {},
        "settings": { "pool": { "hot": { "read-write": 10 }, "cold": 2 } },
    })
}

fn fingerprint(state: &mut State, habit: Habit) -> Value {
    state.fingerprints += u32::from(habit == Habit::ChangesSource);
    let hash = state.fingerprints.to_string();
    let contents = BTreeMap::from([("d.public.flights", json!({ "count": 1000, "hash": hash }))]);
    json!({
        "taken_at": "2026-01-01T00:00:00Z", "method": "server", "write_position": "0/100", "rows_written": 1000,
        "contents": contents, "content_hash": hash,
    })
}

fn branch(name: &str, policy: &str) -> Value {
    json!({
        "name": name, "id": "b-1", "source": "flights", "generation": 1, "policy": policy, "data": "full",
        "durable": false, "url": "postgresql://u:p@/flights?host=/nowhere", "state": "ready", "protected": false,
        "created_at": "2026-01-01T00:00:00Z", "expires_at": "2026-01-01T01:00:00Z", "existing": false,
    })
}

fn query(request: &QueryRequest, habit: Habit) -> (u16, Value) {
    let flight = |id: i64| json!(["UA", id, "EWR", "IAH", -2]);
    let sql = request.sql.as_deref().unwrap_or_default();
    if !request.statements.is_empty() {
        if habit == Habit::Deadlocks {
            return refusal(409, "sql_error", Some("40P01"));
        }
        let commands = request.statements.iter().map(|statement| {
            let insert = statement.sql.starts_with("insert");
            (json!([]), if insert { "INSERT 0 1" } else { "CREATE" })
        });
        return results(commands.collect());
    }
    if sql.contains("count(*)") {
        return results(vec![(json!([[1000, 1, 1000]]), "SELECT 1")]);
    }
    if let Some((_, list)) = sql.split_once("where id in (") {
        let ids = list.trim_end_matches(')').split(", ").map(|id| id.parse::<i64>().expect("an id"));
        let rows: Vec<Value> = ids.map(|id| json!([id, "UA", id, "EWR", "IAH", -2])).collect();
        return results(vec![(json!(rows), "SELECT")]);
    }
    if sql.starts_with("insert") {
        if habit == Habit::NoEvents {
            return refusal(400, "sql_error", Some("42P01"));
        }
        return results(vec![(json!([[7]]), "INSERT 0 1")]);
    }
    if sql.contains("from airlines order by") {
        return results(vec![(json!([["AA", "airline AA"], ["UA", "airline UA"]]), "SELECT 2")]);
    }
    if sql.contains("from airlines where carrier = $1") {
        let carrier = request.params[0].as_str().expect("a carrier");
        let name = match (habit, carrier.strip_prefix('C')) {
            (Habit::WrongRows, _) => "another airline".to_owned(),
            (Habit::TwoSizes, Some(number)) => format!("airline {number}"),
            _ => format!("airline {carrier}"),
        };
        return results(vec![(json!([[name]]), "SELECT 1")]);
    }
    let id = request.params[0].as_i64().expect("an id");
    if sql.contains("delay, distance") {
        return results(vec![(json!([[id % 16 + 1, id % 400 - 20, id % 5000]]), "SELECT 1")]);
    }
    results(vec![(json!([flight(id)]), "SELECT 1")])
}

fn results(results: Vec<(Value, &str)>) -> (u16, Value) {
    let results: Vec<Value> = results
        .into_iter()
        .map(|(rows, command)| {
            let count = rows.as_array().map_or(0, Vec::len);
            json!({ "columns": [], "rows": rows, "row_count": count, "truncated": false, "command": command })
        })
        .collect();
    let reply = json!({ "branch": "b", "policy": "read-write", "data": "full", "durable": false, "results": results,
                        "server_us": 900 });
    (200, reply)
}
