//! etcd: members of a cluster, at the switch of a network.

use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::{prelude::BASE64_STANDARD, Engine};
use duramen_base::clock;
use duramen_postgres::{find_packages, ServerUser};
use serde_json::{json, Value};

use crate::error::DrillError;
use crate::http::Endpoint;
use crate::network::{find, Network};
use crate::program::Program;

/// A cluster has elected its leader within this.
const READY: Duration = Duration::from_secs(30);
/// A member answers within this, or has not answered.
const ANSWER: Duration = Duration::from_millis(800);

/// A cluster of etcd.
#[derive(Debug)]
pub struct Etcd {
    members: Vec<Program>,
    clients: Vec<String>,
}

/// The program: that of the system, or of a package `etcd...` of the home.
///
/// # Errors
/// What to do where there is none.
pub fn program(home: &Path) -> Result<PathBuf, String> {
    let of_home = || find_packages(home, "etcd").into_iter().map(|package| package.join("usr/bin/etcd"));
    find("etcd")
        .or_else(|| of_home().rfind(|program| program.is_file()))
        .ok_or_else(|| "etcd is not there: `make setup-cluster`, or apt-get install etcd-server".to_owned())
}

impl Etcd {
    /// Starts a cluster of so many members of a [`program`] in folders below `dir`. Blocks.
    ///
    /// # Errors
    /// [`DrillError`].
    pub fn start(
        dir: &Path,
        etcd: &Path,
        members: usize,
        user: &ServerUser,
        network: &Network,
    ) -> Result<Self, DrillError> {
        let address = network.switch();
        let mut ports = Vec::new();
        for _ in 0..members {
            ports.push((network.free_port(None)?, network.free_port(None)?));
        }
        let peers: Vec<String> = ports
            .iter()
            .enumerate()
            .map(|(index, (_, peer))| format!("e{index}=http://{address}:{peer}"))
            .collect();
        let mut started = Self { members: Vec::new(), clients: Vec::new() };
        for (index, (client, peer)) in ports.into_iter().enumerate() {
            let (name, place) = (format!("e{index}"), dir.join(format!("e{index}")));
            let (client, peer) = (format!("{address}:{client}"), format!("http://{address}:{peer}"));
            let program = Program::new(&name, etcd, &place, user, None)?
                .arguments(["--name", &name, "--data-dir", "data"])
                .arguments(["--listen-client-urls", &format!("http://{client}")])
                .arguments(["--advertise-client-urls", &format!("http://{client}")])
                .arguments(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
                .arguments(["--initial-cluster", &peers.join(","), "--initial-cluster-state", "new"])
                .arguments(["--logger", "zap", "--log-outputs", "stderr"]);
            program.start(network)?;
            started.members.push(program);
            started.clients.push(client);
        }
        Ok(started)
    }

    /// Its members.
    #[must_use]
    pub fn members(&self) -> &[Program] {
        &self.members
    }

    /// Where its clients connect, `HOST:PORT`.
    #[must_use]
    pub fn clients(&self) -> &[String] {
        &self.clients
    }

    /// Waits until it answers with a quorum.
    ///
    /// # Errors
    /// [`DrillError::Timeout`].
    pub async fn ready(&self) -> Result<(), DrillError> {
        let begin = clock::now();
        while self.get("/ready").await.is_err() {
            if begin.elapsed() > READY {
                return Err(DrillError::Timeout {
                    what: "etcd to elect its leader".to_owned(),
                    seconds: READY.as_secs(),
                    said: self.members.first().map(Program::log).unwrap_or_default(),
                });
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(())
    }

    /// The value of a key, as a quorum of the members has it: by the first member that answers.
    ///
    /// # Errors
    /// In words, if none does.
    pub async fn get(&self, key: &str) -> Result<Option<String>, String> {
        let answer = self.ask("range", json!({ "key": BASE64_STANDARD.encode(key) })).await?;
        Ok(answer["kvs"][0]["value"].as_str().and_then(decoded))
    }

    /// All keys that begin with `prefix`, which ends with a character below `~`, with their values.
    ///
    /// # Errors
    /// In words, if no member answers.
    pub async fn below(&self, prefix: &str) -> Result<Vec<(String, String)>, String> {
        let mut end = prefix.as_bytes().to_vec();
        if let Some(last) = end.last_mut() {
            *last += 1;
        }
        let question =
            json!({ "key": BASE64_STANDARD.encode(prefix), "range_end": BASE64_STANDARD.encode(end) });
        let answer = self.ask("range", question).await?;
        let all = answer["kvs"].as_array().map(Vec::as_slice).unwrap_or_default();
        let pair = |kv: &Value| Some((decoded(kv["key"].as_str()?)?, decoded(kv["value"].as_str()?)?));
        Ok(all.iter().filter_map(pair).collect())
    }

    /// Gives a key a value, or takes it away.
    ///
    /// # Errors
    /// In words, if no member answers.
    pub async fn put(&self, key: &str, value: Option<&str>) -> Result<(), String> {
        let key = BASE64_STANDARD.encode(key);
        match value {
            Some(value) => {
                self.ask("put", json!({ "key": key, "value": BASE64_STANDARD.encode(value) })).await
            }
            None => self.ask("deleterange", json!({ "key": key })).await,
        }
        .map(drop)
    }

    async fn ask(&self, what: &str, question: Value) -> Result<Value, String> {
        let path = format!("/v3/kv/{what}");
        let mut last = "it has no members".to_owned();
        for address in &self.clients {
            let endpoint = Endpoint { address: address.clone(), credentials: None };
            match endpoint.ask("POST", &path, Some(&question), ANSWER).await {
                Ok(answer) if answer.status == 200 => {
                    return serde_json::from_str(&answer.body).map_err(|error| error.to_string());
                }
                Ok(answer) => last = format!("{address}: status {}", answer.status),
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

fn decoded(text: &str) -> Option<String> {
    let bytes = BASE64_STANDARD.decode(text).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}
