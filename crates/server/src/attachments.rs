//! What is shown beside branches, and who changes that. How it is kept is in `crates/attachments`.

mod functions;
mod lab;
mod reading;
mod stored;

use self::reading::Reading;
use crate::{
    api::{Answer, Api},
    reply::{json, Refusal},
};
use duramen_api::attachments::{AddAttachment, Attachment};
use duramen_attachments::{
    functions::Sessions,
    lab::Suites,
    registry::{Registry, RegistryError},
};
use duramen_branches::{EngineError, Kind};
use hyper::StatusCode;
use serde_json::json as object;
use std::path::Path;

/// The attachments of a home, or why they cannot be used, and what is open of them.
#[derive(Debug)]
pub(crate) struct Attached {
    registry: Result<Registry, String>,
    measured: lab::Measured,
    pub(crate) reading: Reading,
    /// Who is in the databases that are attached.
    databases: Sessions,
}

impl Attached {
    /// Reads them. Where that cannot be done nothing is shown, but all else goes on.
    pub(crate) fn open(home: &Path, suites: Suites) -> Attached {
        let registry = Registry::open(home).map_err(|error| {
            tracing::error!(%error, "nothing that is attached is shown");
            error.to_string()
        });
        Attached {
            registry,
            measured: lab::Measured::new(suites),
            reading: Reading::default(),
            databases: Sessions::default(),
        }
    }

    pub(crate) fn registry(&self) -> Result<&Registry, Refusal> {
        let failed =
            |error: &String| EngineError::new(Kind::Failed, "attachments_failed", error.clone()).into();
        self.registry.as_ref().map_err(failed)
    }
}

/// What is attached is data that nobody masked: it stays on its machine, as that of an unmasked source does (R5).
pub(crate) fn unmasked(name: &str) -> Refusal {
    let message = format!(
        "what is attached as {name} is not masked, and stays on its machine; look at it there, or start the daemon with --unmasked-ok"
    );
    Refusal::new(StatusCode::FORBIDDEN, "not_masked", message)
}

impl From<RegistryError> for Refusal {
    fn from(error: RegistryError) -> Refusal {
        let (kind, code) = match &error {
            RegistryError::Name(_) => (Kind::Invalid, "bad_name"),
            RegistryError::Exists(_) => (Kind::Conflict, "attachment_exists"),
            RegistryError::Unknown(_) => (Kind::NotFound, "unknown_attachment"),
            RegistryError::OtherKind { .. } => (Kind::Invalid, "other_kind"),
            RegistryError::Unfit { .. } => (Kind::Invalid, "unfit"),
            RegistryError::Full => (Kind::Unavailable, "too_many_attachments"),
            // `File`, and what is added later.
            _ => (Kind::Failed, "attachments_failed"),
        };
        EngineError::new(kind, code, error.to_string()).into()
    }
}

impl Api {
    /// Attaches something. What is not in the audit log is not attached.
    pub(crate) fn add_attachment(&self, wanted: AddAttachment) -> Answer {
        let registry = self.attachments.registry()?;
        let attached = tokio::task::block_in_place(|| registry.add(wanted))?;
        self.note_attachment("attachment_added", &attached)
            .inspect_err(|_| drop(registry.remove(&attached.name)))?;
        json(&attached)
    }

    /// Takes an attachment away.
    pub(crate) fn remove_attachment(&self, name: &str) -> Answer {
        let registry = self.attachments.registry()?;
        let gone = tokio::task::block_in_place(|| registry.remove(name))?;
        self.note_attachment("attachment_removed", &gone)?;
        json(&gone)
    }

    fn note_attachment(&self, event: &str, attachment: &Attachment) -> Result<(), Refusal> {
        let Attachment { name, kind, at, .. } = attachment;
        Ok(self.engine.note(event, object!({ "name": name, "kind": kind, "at": at }))?)
    }
}
