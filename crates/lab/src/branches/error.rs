//! What keeps the suite from being run. Branches that fail do not: they are what is measured.

use duramen_measure::evidence::EvidenceError;
use duramen_measure::host::HostError;
use duramen_measure::load::LoadError;
use duramen_measure::report::ReportError;
use duramen_server::client::ClientError;

/// Why the suite could not be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LabError {
    /// The options make no sense.
    #[error("{0}")]
    Options(String),
    /// The daemon refused a request or could not be reached.
    #[error("cannot {doing}: {source}")]
    Client {
        /// What was tried.
        doing: &'static str,
        /// Why it failed.
        source: Box<ClientError>,
    },
    /// A reply is not what this version expects.
    #[error("cannot {doing}: the daemon's answer is not understood: {detail}; is it of another version?")]
    Reply {
        /// What was tried.
        doing: &'static str,
        /// What is wrong with the answer.
        detail: String,
    },
    /// The daemon could not be started or stopped.
    #[error("cannot {doing} the daemon: {detail}")]
    Daemon {
        /// `start` or `stop`.
        doing: &'static str,
        /// Why.
        detail: String,
    },
    /// There is no such source.
    #[error("there is no source {name:?}; {known}. Import one with `duramen source add`, or measure the sample with --source flights")]
    UnknownSource {
        /// The name that was asked for.
        name: String,
        /// Which there are, in words.
        known: String,
    },
    /// The sample source is there in another size.
    #[error("the source {name:?} has {found} flights, not {wanted}; leave --rows out, or remove it with `duramen source remove {name}`")]
    Size {
        /// The source.
        name: String,
        /// How many flights it has.
        found: u64,
        /// How many were asked for.
        wanted: u64,
    },
    /// The source cannot take the writes.
    #[error("the source {name:?} cannot take the write `events`: {detail}. It needs a table events (flight_id bigint, kind text, payload jsonb) with a generated id; or choose --write ddl or none")]
    NoEvents {
        /// The source.
        name: String,
        /// What the branch answered.
        detail: String,
    },
    /// The branch that looks at the data before the rounds could not be used.
    #[error("the branch that looks at the data before the rounds failed: {0}")]
    Probe(String),
    /// The machine could not be described.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The load could not be run.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The evidence could not be written.
    #[error(transparent)]
    Evidence(#[from] EvidenceError),
    /// The page could not be written.
    #[error(transparent)]
    Report(#[from] ReportError),
}

impl LabError {
    /// Wraps an error of the client with what was tried.
    pub(crate) fn client(doing: &'static str) -> impl FnOnce(ClientError) -> LabError {
        move |source| LabError::Client { doing, source: Box::new(source) }
    }
}
