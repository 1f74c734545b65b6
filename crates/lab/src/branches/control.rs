//! The lab's own connection to the daemon: everything around the rounds, nothing that is timed.

use std::net::SocketAddr;
use std::time::Duration;

use duramen_api::model::{
    AddSource, AuditVerification, ChangeSettings, ColdBranch, Policy, PoolView, SourceFingerprint,
    SourceView, Status,
};
use duramen_api::request::MeasureCold;
use duramen_api::token::{CreateToken, NewToken};
use duramen_client::{Client, ClientError, Connection};
use serde::Deserialize;

use super::client::STEP_DEADLINE;
use duramen_reports::suite::SuiteError;

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
    pub(crate) async fn another(&self) -> Result<Connection, SuiteError> {
        self.client.connect().await.map_err(SuiteError::refused("connect to the daemon"))
    }

    /// Destroys a branch.
    pub(crate) async fn destroy_branch(&mut self, name: &str) -> Result<(), ClientError> {
        self.connection.destroy_branch_text(name).await.map(drop)
    }

    /// Where the router listens.
    pub(crate) async fn router(&mut self) -> Result<SocketAddr, SuiteError> {
        let doors = self.connection.doors().await.map_err(SuiteError::refused("ask for the doors"))?;
        let address = doors.postgres.map(|router| router.address);
        let missing = "the daemon does not listen for PostgreSQL clients; restart it with --pg-listen";
        address.ok_or_else(|| SuiteError::Failed(missing.to_owned()))
    }

    /// Makes a token.
    pub(crate) async fn create_token(&mut self, wanted: &CreateToken) -> Result<NewToken, SuiteError> {
        self.connection.create_token(wanted).await.map_err(SuiteError::refused("make a token"))
    }

    /// Ends a token.
    pub(crate) async fn revoke_token(&mut self, name: &str) -> Result<(), SuiteError> {
        self.connection.revoke_token(name).await.map(drop).map_err(SuiteError::refused("revoke a token"))
    }

    /// The daemon's status.
    pub(crate) async fn status(&mut self) -> Result<Status, SuiteError> {
        self.connection.status().await.map_err(SuiteError::refused("ask for the status"))
    }

    /// The state of one pool, if there is such a pool.
    pub(crate) async fn pool(
        &mut self,
        source: &str,
        policy: Policy,
    ) -> Result<Option<PoolView>, SuiteError> {
        let doing = "ask for the status";
        let status = self.connection.status_text().await.map_err(SuiteError::refused(doing))?;
        let status: Pools = serde_json::from_slice(&status).map_err(|error| {
            SuiteError::Failed(format!("cannot {doing}: the reply is not understood: {error}"))
        })?;
        Ok(status.pools.into_iter().find(|pool| pool.source == source && pool.policy == policy))
    }

    /// All sources.
    pub(crate) async fn sources(&mut self) -> Result<Vec<SourceView>, SuiteError> {
        self.connection.sources().await.map_err(SuiteError::refused("list the sources"))
    }

    /// The live source now.
    pub(crate) async fn fingerprint(&mut self, source: &str) -> Result<SourceFingerprint, SuiteError> {
        self.connection
            .fingerprint_source(source)
            .await
            .map_err(SuiteError::refused("fingerprint the source"))
    }

    /// Changes how branches of a source run.
    pub(crate) async fn change_settings(
        &mut self,
        source: &str,
        change: &ChangeSettings,
    ) -> Result<SourceView, SuiteError> {
        let changed = self.connection.change_settings(source, change).await;
        changed.map_err(SuiteError::refused("change the source's settings"))
    }

    /// Removes a source.
    pub(crate) async fn remove_source(&mut self, source: &str) -> Result<(), SuiteError> {
        let removed = self.connection.remove_source(source).await;
        removed.map(drop).map_err(SuiteError::refused("remove the source that was imported for the run"))
    }

    /// One branch without the pool.
    pub(crate) async fn measure_cold(&mut self, request: &MeasureCold) -> Result<ColdBranch, SuiteError> {
        let measured = self.connection.measure_cold(request).await;
        measured.map_err(SuiteError::refused("make a branch without the pool"))
    }

    /// The memory of idle branches, in bytes.
    pub(crate) async fn idle_pss(&mut self, source: &str, sample: u32) -> Result<Vec<u64>, SuiteError> {
        let found = self.connection.idle_pss(source, sample).await;
        found.map_err(SuiteError::refused("ask for the memory of idle branches"))
    }

    /// Whether the audit log is whole.
    pub(crate) async fn verify_audit(&mut self) -> Result<AuditVerification, SuiteError> {
        self.connection.verify_audit().await.map_err(SuiteError::refused("check the audit log"))
    }

    /// A long request that reports what it is doing.
    pub(crate) async fn import(
        &mut self,
        request: &AddSource,
        say: &dyn Fn(&str),
    ) -> Result<SourceView, SuiteError> {
        let mut last = String::new();
        let on_progress = |step: &str, _fraction: Option<f64>| {
            // Fractions come many times a second; the lab's lines are for steps.
            if step != last {
                say(step);
                last = step.to_owned();
            }
        };
        let imported = self.connection.add_source(request, on_progress).await;
        imported.map_err(SuiteError::refused("import the source"))
    }
}
