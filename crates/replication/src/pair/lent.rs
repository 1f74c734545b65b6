//! A pair that somebody else makes for the run, and takes back at its end: two clones of a source. The suite knows nobody who
//! lends: it is given one.

use std::fmt::Debug;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;

use duramen_postgres::connection::Target;
use duramen_postgres::{quote_parameter, Secret, SOCKET_PORT};
use duramen_reports::suite::SuiteError;
use tokio::sync::watch;

use super::super::scenario::Node;
use super::{cannot_reach, ours};

/// What comes of asking for a pair.
pub type Lending<'a> = Pin<Box<dyn Future<Output = Result<Lent, SuiteError>> + Send + 'a>>;

/// Who lends pairs.
pub trait Lender: Debug + Send + Sync {
    /// Asks for a pair to which `space` bytes can be written, and waits until its standby streams. When what is returned is
    /// dropped, waited for or not, the pair goes.
    fn lend(&self, space: u64) -> Lending<'_>;
}

/// What keeps a pair.
pub trait Lease: Debug + Send + Sync {}

/// A pair that is lent.
#[derive(Debug)]
pub struct Lent {
    /// What its data is of, for the evidence: the source, and its generation.
    pub source: String,
    /// The generation.
    pub generation: u32,
    /// What data that is: `full` or `masked`.
    pub data: String,
    /// The major version of both servers.
    pub major: u32,
    /// The folders of their sockets, the primary's first.
    pub sockets: [PathBuf; 2],
    /// A superuser of both.
    pub role: String,
    /// Its secret.
    pub secret: Secret,
    /// A database that both have.
    pub database: String,
    /// What the standby is called on the primary.
    pub standby_name: String,
    /// Why it is gone, once it is. It is gone, too, when nobody is left to say so.
    pub gone: watch::Receiver<Option<String>>,
    /// It is given back when this is dropped.
    pub lease: Box<dyn Lease>,
}

/// What no session of ours takes from the source, whatever its databases and roles are set to: nothing of it runs in them.
const PINNED: &[(&str, &str)] = &[
    ("role", "none"),
    ("session_preload_libraries", ""),
    ("local_preload_libraries", ""),
    ("dynamic_library_path", "$libdir"),
    ("session_replication_role", "origin"),
    ("default_table_access_method", "heap"),
    ("default_tablespace", ""),
    ("temp_tablespaces", ""),
    ("standard_conforming_strings", "on"),
];
/// The first major version in which event triggers can be turned off, and run at login.
const LOGIN_TRIGGERS_SINCE: u32 = 17;

impl Lent {
    /// Where the servers are: in the database that they have, and in `own`, which is to be made.
    pub(super) fn targets(&self, own: &str) -> Result<[[Target; 2]; 2], SuiteError> {
        let [primary, standby] = &self.sockets;
        let homes = [self.target(primary, Node::Primary)?, self.target(standby, Node::Standby)?];
        let inside = homes.clone().map(|target| target.database(own).settings([("search_path", "public")]));
        // In the database of the source, where others may have written functions, no name is looked for but in the catalogue.
        Ok([homes.map(|target| target.settings([("search_path", "pg_catalog,pg_temp")])), inside])
    }

    fn target(&self, sockets: &Path, node: Node) -> Result<Target, SuiteError> {
        let address = format!(
            "host={} port={SOCKET_PORT} user={} password={} dbname={}",
            quote_parameter(&sockets.display().to_string()),
            quote_parameter(&self.role),
            quote_parameter(self.secret.expose()),
            quote_parameter(&self.database)
        );
        let target = ours(Target::parse(&address).map_err(cannot_reach(node))?, self.major);
        let target = target.settings(PINNED.iter().copied());
        Ok(if self.major >= LOGIN_TRIGGERS_SINCE {
            target.settings([("event_triggers", "off")])
        } else {
            target
        })
    }

    /// Waits until it is gone, and says why.
    pub(super) async fn is_gone(&self) -> String {
        let mut gone = self.gone.clone();
        let said = gone.wait_for(Option::is_some).await;
        said.ok()
            .and_then(|reason| reason.clone())
            .unwrap_or_else(|| "whoever lent the pair is gone".to_owned())
    }
}
