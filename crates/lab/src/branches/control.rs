//! The lab's own connection to the daemon: everything around the rounds, nothing that is timed.

use std::time::Duration;

use bytes::Bytes;
use duramen_branches::model::{Policy, PoolView, SourceFingerprint, SourceView, Status};
use duramen_server::client::{Client, ClientError, Connection, Method};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::client::STEP_DEADLINE;
use super::error::LabError;

/// Reading all of a large source takes long; that it ends is the daemon's matter.
const CONTROL_DEADLINE: Duration = Duration::from_secs(3600);

/// A connection for requests that are not measured.
pub(crate) struct Control {
    client: Client,
    connection: Connection,
}

/// The part of the status that is polled.
#[derive(Deserialize)]
pub(crate) struct Pools {
    pub(crate) pools: Vec<PoolView>,
}

impl Control {
    /// Connects.
    pub(crate) async fn connect(client: Client) -> Result<Control, ClientError> {
        let connection = client.clone().with_deadline(CONTROL_DEADLINE).connect().await?;
        let client = client.with_deadline(STEP_DEADLINE);
        Ok(Control { client, connection })
    }

    /// Another connection, for one of the load's clients.
    pub(crate) async fn another(&self) -> Result<Connection, LabError> {
        self.client.connect().await.map_err(LabError::client("connect to the daemon"))
    }

    /// `GET` of a typed reply.
    pub(crate) async fn get<T: DeserializeOwned>(
        &mut self,
        doing: &'static str,
        path: &str,
    ) -> Result<T, LabError> {
        self.call(doing, Method::GET, path, Bytes::new()).await
    }

    /// `POST` of a typed body.
    pub(crate) async fn post<B: Serialize, T: DeserializeOwned>(
        &mut self,
        doing: &'static str,
        path: &str,
        body: &B,
    ) -> Result<T, LabError> {
        self.call(doing, Method::POST, path, encode(doing, body)?).await
    }

    /// `PATCH` of a typed body.
    pub(crate) async fn patch<B: Serialize, T: DeserializeOwned>(
        &mut self,
        doing: &'static str,
        path: &str,
        body: &B,
    ) -> Result<T, LabError> {
        self.call(doing, Method::PATCH, path, encode(doing, body)?).await
    }

    /// A request whose reply is not looked at.
    pub(crate) async fn delete(&mut self, path: &str) -> Result<(), ClientError> {
        self.connection.send(Method::DELETE, path, Bytes::new()).await.map(drop)
    }

    /// The daemon's status.
    pub(crate) async fn status(&mut self) -> Result<Status, LabError> {
        self.get("ask for the status", "/v1/status").await
    }

    /// The state of one pool, if there is such a pool.
    pub(crate) async fn pool(&mut self, source: &str, policy: Policy) -> Result<Option<PoolView>, LabError> {
        let status: Pools = self.get("ask for the status", "/v1/status").await?;
        Ok(status.pools.into_iter().find(|pool| pool.source == source && pool.policy == policy))
    }

    /// All sources.
    pub(crate) async fn sources(&mut self) -> Result<Vec<SourceView>, LabError> {
        self.get("list the sources", "/v1/sources").await
    }

    /// The live source now.
    pub(crate) async fn fingerprint(&mut self, source: &str) -> Result<SourceFingerprint, LabError> {
        let path = format!("/v1/sources/{source}/fingerprint");
        self.call("fingerprint the source", Method::POST, &path, Bytes::new()).await
    }

    /// A long request that reports what it is doing.
    pub(crate) async fn import<B: Serialize>(
        &mut self,
        body: &B,
        say: &dyn Fn(&str),
    ) -> Result<SourceView, LabError> {
        let doing = "import the source";
        let body = encode(doing, body)?;
        let mut last = String::new();
        let on_progress = |step: &str, _fraction: Option<f64>| {
            // Fractions come many times a second; the lab's lines are for steps.
            if step != last {
                say(step);
                last = step.to_owned();
            }
        };
        let reply = self.connection.stream(Method::POST, "/v1/sources", body, on_progress).await;
        reply.map_err(LabError::client(doing))
    }

    async fn call<T: DeserializeOwned>(
        &mut self,
        doing: &'static str,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<T, LabError> {
        let reply = self.connection.send(method, path, body).await.map_err(LabError::client(doing))?;
        serde_json::from_slice(&reply).map_err(|error| LabError::Reply { doing, detail: error.to_string() })
    }
}

fn encode<B: Serialize>(doing: &'static str, body: &B) -> Result<Bytes, LabError> {
    let bytes = serde_json::to_vec(body);
    bytes.map(Bytes::from).map_err(|error| LabError::Reply { doing, detail: error.to_string() })
}
