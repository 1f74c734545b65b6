//! Settings are tried on a server before they are kept: one that does not start would take the whole pool down.

use crate::{
    branch::{Branch, SocketDir},
    environment::Environment,
    error::{EngineError, SourceError},
    generation::Generation,
    model::Policy,
};
use std::sync::Arc;

/// Starts a branch of a generation, connects to it, and throws it away.
///
/// # Errors
/// `bad_setting` when the server does not start or takes no connection, with what it said.
pub(crate) async fn try_settings(
    environment: &Environment,
    generation: &Arc<Generation>,
) -> Result<(), EngineError> {
    let trial = tokio::task::block_in_place(|| {
        let volume = environment.clone_snapshot(generation)?;
        let branch = Branch::new(environment, Arc::clone(generation), Policy::ReadWrite, volume, None);
        let trial = Trial { environment, branch: Arc::new(branch) };
        trial.branch.start().map_err(|error| refused(&error))?;
        Ok::<_, EngineError>(trial)
    })?;
    trial.branch.connect(false).await.map_err(|error| refused(&error))
}

/// A branch that nobody else knows: it is thrown away with this, whatever ends what it is for.
pub(crate) struct Trial<'a> {
    pub(crate) environment: &'a Environment,
    pub(crate) branch: Arc<Branch>,
}

impl Drop for Trial<'_> {
    fn drop(&mut self) {
        tokio::task::block_in_place(|| self.branch.delete(self.environment, SocketDir::Remove));
    }
}

fn refused(error: &EngineError) -> EngineError {
    SourceError::SettingsDoNotRun { reason: error.to_string() }.into()
}
