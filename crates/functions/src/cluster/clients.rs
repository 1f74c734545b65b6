//! Starting instances on the shards of a cluster, and asking for them by their ids.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio_postgres::types::{ToSql, Type};

use super::list::Cluster;
use super::ClusterError;
use crate::client::{Client, ClientError};
use crate::worker::shard_of;
use duramen_postgres::connection::Target;

/// The SQLSTATE of a shard that takes no new instances.
const TAKES_NONE: &str = "DFS02";

/// A start that has no answer within this is given up; with a key it may be tried again.
const START_WITHIN: Duration = Duration::from_secs(30);

/// Connections to the shards of a cluster, each opened when it is first needed.
///
/// ```no_run
/// # async fn example() -> Result<(), duramen_functions::cluster::ClusterError> {
/// use duramen_functions::cluster::Clients;
/// let clients = Clients::connect("postgres://app@a/jobs").await?;
/// let id = clients.start("SELECT 1", None, Some("order-4711")).await?;
/// println!("{:?}", clients.of(&id).await?.status(&id).await?);
/// # Ok(()) }
/// ```
pub struct Clients {
    url: String,
    cluster: Mutex<Arc<Cluster>>,
    open: Mutex<HashMap<u16, Arc<Client>>>,
}

impl Clients {
    /// Reads the list of a cluster from one of its databases.
    ///
    /// # Errors
    /// [`ClusterError`].
    pub async fn connect(url: &str) -> Result<Self, ClusterError> {
        let cluster = Mutex::new(Arc::new(Cluster::read(url).await?));
        Ok(Self { url: url.to_owned(), cluster, open: Mutex::default() })
    }

    /// Starts an instance and returns its id: on a shard that is open, by chance, or with an idempotency key on the key's own.
    ///
    /// # Errors
    /// [`ClusterError`]; with a key also that its shard takes no starts.
    pub async fn start(
        &self,
        graph: &str,
        label: Option<&str>,
        key: Option<&str>,
    ) -> Result<String, ClusterError> {
        let late = |_| ClusterError::Late { target: "a shard".to_owned(), after_s: START_WITHIN.as_secs() };
        tokio::time::timeout(START_WITHIN, self.started(graph, label, key)).await.map_err(late)?
    }

    async fn started(
        &self,
        graph: &str,
        label: Option<&str>,
        key: Option<&str>,
    ) -> Result<String, ClusterError> {
        let Some(key) = key else {
            let mut again = true;
            loop {
                let number = self.cluster().await.any_open()?.number;
                let client = self.on(number).await?;
                let parameters: [(&(dyn ToSql + Sync), Type); 2] =
                    [(&graph, Type::TEXT), (&label, Type::TEXT)];
                match client.raw().query_typed_one("SELECT df.start($1, $2)", &parameters).await {
                    Ok(row) => return Ok(row.get(0)),
                    // It is drained since the list was read.
                    Err(error) if again && error.code().is_some_and(|code| code.code() == TAKES_NONE) => {
                        again = false;
                        self.read_again().await?;
                    }
                    Err(error) => return Err(ClientError::from(error).into()),
                }
            }
        };
        let home = self.cluster().await.home(key)?;
        let row = self
            .on(home)
            .await?
            .raw()
            .query_typed_one(
                "SELECT df.start($1, $2, idempotency_key => $3)",
                &[(&graph, Type::TEXT), (&label, Type::TEXT), (&key, Type::TEXT)],
            )
            .await
            .map_err(ClientError::from)?;
        Ok(row.get(0))
    }

    /// The connection to the shard of an instance.
    ///
    /// # Errors
    /// [`ClusterError`]; [`ClientError::Unknown`] if the text is not an id.
    pub async fn of(&self, id: &str) -> Result<Arc<Client>, ClusterError> {
        let number = shard_of(id).ok_or_else(|| ClientError::Unknown(id.to_owned()))?;
        if self.cluster().await.shard(number).is_none() {
            // It may have come since.
            self.read_again().await?;
        }
        self.on(number).await
    }

    /// The connection to a shard: the one there is, unless it has broken.
    ///
    /// # Errors
    /// [`ClusterError`].
    pub async fn on(&self, number: u16) -> Result<Arc<Client>, ClusterError> {
        if let Some(client) = self.open.lock().await.get(&number) {
            if !client.raw().is_closed() {
                return Ok(Arc::clone(client));
            }
        }
        let target = self.target(number).await?;
        let client = Arc::new(Client::connect(&target.exposed()).await?);
        // A name may lead elsewhere from here.
        let found =
            client.raw().query_typed_one("SELECT df.shard()", &[]).await.map_err(ClientError::from)?;
        if found.get::<_, Option<i32>>(0) != Some(i32::from(number)) {
            return Err(ClusterError::Elsewhere { number, target: target.describe() });
        }
        self.open.lock().await.insert(number, Arc::clone(&client));
        Ok(client)
    }

    /// The list as it was last read.
    pub async fn cluster(&self) -> Arc<Cluster> {
        Arc::clone(&*self.cluster.lock().await)
    }

    async fn target(&self, number: u16) -> Result<Target, ClusterError> {
        let cluster = self.cluster().await;
        let missing = ClusterError::NoShard { number, version: cluster.version() };
        cluster.target_of(cluster.shard(number).ok_or(missing)?)
    }

    /// Reads the list again: where it was read first, or on another shard while that one does not answer. From there nothing is learned
    /// but what takes starts.
    async fn read_again(&self) -> Result<(), ClusterError> {
        let known = self.cluster().await;
        let read = match Cluster::read(&self.url).await {
            Ok(read) => read,
            Err(error) => {
                let mut read = None;
                for shard in known.served().filter(|shard| shard.number != known.here()) {
                    match Cluster::read(&known.target_of(shard)?.exposed()).await {
                        // Where else a password is sent says the database that was named, and nobody else.
                        Ok(found) if known.has_places_of(&found) && found.version() > known.version() => {
                            read = Some((*known).clone().with_list_of(found));
                            break;
                        }
                        _ => {}
                    }
                }
                read.ok_or(error)?
            }
        };
        *self.cluster.lock().await = Arc::new(read);
        Ok(())
    }
}
