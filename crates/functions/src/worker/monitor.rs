//! What an operator reads of a worker: its figures, and whether it is well.

use std::sync::Arc;

use super::backlog::Backlog;
use super::health::Unhealthy;
use super::metrics::head;
use super::shared::Shared;

/// Reads a worker's figures. It holds nothing up: neither the worker nor its end.
pub struct Monitor {
    shared: Arc<Shared>,
    backlog: Backlog,
}

impl Monitor {
    pub(crate) fn new(shared: &Arc<Shared>) -> Self {
        Self { shared: Arc::clone(shared), backlog: Backlog::default() }
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// The figures in the text exposition format of Prometheus: those of the worker, and those of its database if it can say
    /// within two seconds what waits. It is asked once in ten seconds, however often this is called.
    pub async fn prometheus(&self) -> String {
        let backlog = self.backlog.prometheus(&self.shared).await;
        let mut text = self.shared.metrics.prometheus();
        let name =
            head(&mut text, "heard_seconds", "gauge", "How long ago the database has answered the worker.");
        text.push_str(&format!("{name} {}\n", self.shared.health.heard().as_secs_f64()));
        text.push_str(&backlog);
        text
    }

    /// Whether the database answers the worker.
    ///
    /// # Errors
    /// [`Unhealthy`] says why it is not well.
    pub fn health(&self) -> Result<(), Unhealthy> {
        self.motion()?;
        self.shared.health.check()
    }

    /// Whether the worker goes on, whatever the database does: what a supervisor restarts it for.
    ///
    /// # Errors
    /// [`Unhealthy::Still`].
    pub fn motion(&self) -> Result<(), Unhealthy> {
        self.shared.health.check_motion()
    }

    /// Whether it begins nothing new any more.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.shared.is_draining()
    }
}
