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
    let branch = tokio::task::block_in_place(|| {
        let volume = environment.clone_snapshot(generation)?;
        let branch = Branch::new(environment, Arc::clone(generation), Policy::ReadWrite, volume, None);
        match branch.start() {
            Ok(()) => Ok(branch),
            Err(error) => {
                branch.delete(environment, SocketDir::Remove);
                Err(refused(&error))
            }
        }
    })?;
    let connected = branch.connect(false).await;
    tokio::task::block_in_place(|| branch.delete(environment, SocketDir::Remove));
    connected.map_err(|error| refused(&error))
}

fn refused(error: &EngineError) -> EngineError {
    SourceError::SettingsDoNotRun { reason: error.to_string() }.into()
}
