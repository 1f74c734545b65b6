//! How tools reach the daemon's interface: through a client, or, in the daemon itself, as the caller who asked.

use bytes::Bytes;
use duramen_api::model::{
    BranchEvidence, BranchView, CreateBranch, QueryReply, QueryRequest, QueryStatement, RenewBranch,
    SourceView,
};
use duramen_api::route::{Op, Route};
use duramen_client::{self, Client, ClientError, Connection, Encoded};
use hyper::http::request::Parts;
use rmcp::{service::RequestContext, ErrorData, RoleServer};
use serde::{de::DeserializeOwned, Serialize};
use std::{
    fmt::Debug,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::time::timeout;

/// Connections that wait for the next request.
const IDLE_MAX: usize = 4;
/// How long most requests may take.
const USUAL: Duration = Duration::from_secs(120);
/// How much longer than a statement, or a wait for a branch, its reply may take.
pub(super) const GRACE: Duration = Duration::from_secs(15);
/// Evidence reads all of the source.
const LONG: Duration = Duration::from_secs(3600);

/// The status and the body of a reply, or why it broke off.
pub type Answered = Pin<Box<dyn Future<Output = Result<(u16, Bytes), String>> + Send>>;

/// The interface in the daemon's own process.
pub trait Here: Debug + Send + Sync {
    /// Whoever sent a request of an agent, by its head; nobody, if that is not known.
    fn asker(&self, head: &Parts) -> Option<Arc<dyn Asker>>;
}

/// Somebody in whose name requests are made in the daemon.
pub trait Asker: Debug + Send + Sync {
    /// Has a request answered as his own.
    fn ask(&self, route: Route<'_>, body: Bytes) -> Answered;
}

/// The way to the interface.
#[derive(Debug, Clone)]
pub(super) enum Way {
    /// By a client: as whoever the daemon takes it for.
    Client(Arc<Connections>),
    /// In the daemon: as the caller of each request.
    Here(Arc<dyn Here>),
}

/// Connections of a client, each of which has one request at a time.
#[derive(Debug)]
pub(super) struct Connections {
    client: Client,
    idle: Mutex<Vec<Connection>>,
}

/// The interface, for one request of an agent.
#[derive(Debug)]
pub(super) enum Interface {
    Client(Arc<Connections>),
    Here(Arc<dyn Asker>),
}

impl Way {
    /// By a client and its first connection.
    pub(super) fn of_client(client: Client, first: Connection) -> Way {
        Way::Client(Arc::new(Connections { client, idle: Mutex::new(vec![first]) }))
    }

    /// The interface for who sent a request.
    ///
    /// # Errors
    /// When nobody is known to have sent it (M1).
    pub(super) fn for_request(&self, context: &RequestContext<RoleServer>) -> Result<Interface, ErrorData> {
        match self {
            Way::Client(connections) => Ok(Interface::Client(Arc::clone(connections))),
            Way::Here(here) => {
                let asker = context.extensions.get::<Parts>().and_then(|head| here.asker(head));
                let asker = asker.ok_or_else(|| ErrorData::internal_error("nobody asks", None))?;
                Ok(Interface::Here(asker))
            }
        }
    }
}

impl Connections {
    async fn send(&self, route: Route<'_>, body: Bytes, deadline: Duration) -> Result<Bytes, ClientError> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut connection = match idle {
            Some(connection) => connection,
            None => self.client.connect().await?,
        };
        connection.set_deadline(deadline);
        // What is given up takes its connection with it, which ends what the daemon does for it.
        let answer = connection.send(route, body).await;
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < IDLE_MAX {
            idle.push(connection);
        }
        answer
    }
}

/// Every method fails with what the daemon refuses, or with what kept its answer from coming.
impl Interface {
    async fn send(&self, route: Route<'_>, body: Bytes, deadline: Duration) -> Result<Bytes, ClientError> {
        match self {
            Interface::Client(connections) => connections.send(route, body, deadline).await,
            Interface::Here(asker) => {
                let late =
                    |_| ClientError::Timeout { request: route.to_string(), seconds: deadline.as_secs_f64() };
                let answered = timeout(deadline, asker.ask(route, body)).await.map_err(late)?;
                match answered.map_err(|error| duramen_client::broken(route, &error))? {
                    (200..300, bytes) => Ok(bytes),
                    (status, bytes) => Err(duramen_client::refused(status, &bytes)),
                }
            }
        }
    }

    async fn get<T: DeserializeOwned>(&self, route: Route<'_>, deadline: Duration) -> Result<T, ClientError> {
        duramen_client::parse(route, &self.send(route, Bytes::new(), deadline).await?)
    }

    async fn post<B: Serialize, T: DeserializeOwned>(
        &self,
        route: Route<'_>,
        body: &B,
        deadline: Duration,
    ) -> Result<T, ClientError> {
        let body = Encoded::new(body)?.into_bytes();
        duramen_client::parse(route, &self.send(route, body, deadline).await?)
    }

    pub(super) async fn sources(&self) -> Result<Vec<SourceView>, ClientError> {
        self.get(Route::to(Op::Sources), USUAL).await
    }

    pub(super) async fn branches(&self) -> Result<Vec<BranchView>, ClientError> {
        self.get(Route::to(Op::Branches), USUAL).await
    }

    pub(super) async fn branch(&self, name: &str) -> Result<BranchView, ClientError> {
        self.get(Route::of(Op::Branch, name), USUAL).await
    }

    pub(super) async fn create(&self, wanted: &CreateBranch) -> Result<BranchView, ClientError> {
        self.post(Route::to(Op::CreateBranch), wanted, USUAL).await
    }

    pub(super) async fn renew(&self, name: &str, ttl_s: i64) -> Result<BranchView, ClientError> {
        let wanted = RenewBranch { ttl_s: Some(ttl_s), expires_at: None };
        self.post(Route::of(Op::RenewBranch, name), &wanted, USUAL).await
    }

    pub(super) async fn reset(&self, name: &str) -> Result<BranchView, ClientError> {
        self.get(Route::of(Op::ResetBranch, name), USUAL).await
    }

    pub(super) async fn destroy(&self, name: &str) -> Result<BranchView, ClientError> {
        self.get(Route::of(Op::DestroyBranch, name), USUAL).await
    }

    pub(super) async fn evidence(
        &self,
        name: &str,
        table: Option<&str>,
    ) -> Result<BranchEvidence, ClientError> {
        let route = Route::of(Op::Evidence, name);
        self.get(table.map_or(route, |table| route.with(table)), LONG).await
    }

    pub(super) async fn query(
        &self,
        name: &str,
        request: &QueryRequest,
        limit: Duration,
    ) -> Result<QueryReply, ClientError> {
        self.post(Route::of(Op::Query, name), request, limit.saturating_add(GRACE)).await
    }

    /// What a statement gives that cannot write, and for which names are those of the system unless they say otherwise.
    pub(super) async fn look(
        &self,
        name: &str,
        own_path: bool,
        sql: String,
        params: Vec<serde_json::Value>,
        limit: Duration,
    ) -> Result<QueryReply, ClientError> {
        let bare = |sql: &str| QueryStatement { sql: sql.to_owned(), params: Vec::new() };
        let mut statements = vec![bare("SET TRANSACTION READ ONLY")];
        if !own_path {
            statements.push(bare("SET LOCAL search_path = pg_catalog"));
        }
        statements.push(QueryStatement { sql, params });
        let timeout_ms = Some(u64::try_from(limit.as_millis()).unwrap_or(u64::MAX));
        let request = QueryRequest { statements, timeout_ms, ..QueryRequest::default() };
        let mut reply = self.query(name, &request, limit).await?;
        // What the caller asked for is the last one.
        let last = reply.results.pop();
        reply.results = last.into_iter().collect();
        Ok(reply)
    }
}
