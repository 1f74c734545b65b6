//! Why a generation is not kept, named, compared or branched.

use super::{lease::hint, Coded, Kind};

/// How many labels a source has at most.
pub(crate) const LABELS_MAX: usize = 64;

#[derive(Debug, thiserror::Error)]
pub(crate) enum GenerationError {
    #[error("source {source_name} has no generation {wanted:?}{}; `duramen source generations {source_name}` lists those that there are", hint(closest.as_deref()))]
    Unknown { source_name: String, wanted: String, closest: Option<String> },
    #[error(
        "{label:?} is not a valid label: a label needs at least one letter, because generations are numbered"
    )]
    NotALabel { label: String },
    #[error("generation {generation} of source {source_name} has the label {label} already; remove it there first: duramen source label {source_name} {generation} {label} --remove")]
    LabelTaken { source_name: String, label: String, generation: u32 },
    #[error("generation {generation} of source {source_name} has no label {label:?}{}", hint(closest.as_deref()))]
    NoLabel { source_name: String, label: String, generation: u32, closest: Option<String> },
    #[error("a source has at most {LABELS_MAX} labels; remove one first")]
    TooManyLabels,
    #[error(
        "branch {name} exists, and is of generation {is}, not {wanted}; choose another name or destroy it"
    )]
    NameClash { name: String, is: u32, wanted: u32 },
    #[error("a branch is made of a generation, of a moment or of another branch, not of several of them")]
    TwoBeginnings,
    #[error("generation {generation} of source {source_name} is not masked, and its rows stay on their machine; give the source rules for masking and refresh it, or start the daemon with --unmasked-ok")]
    NotMasked { source_name: String, generation: u32 },
    #[error("making the branch crashed: {0}; the daemon's log says more")]
    Crashed(tokio::task::JoinError),
}

impl Coded for GenerationError {
    fn code(&self) -> (Kind, &'static str) {
        match self {
            GenerationError::Unknown { .. } => (Kind::NotFound, "unknown_generation"),
            GenerationError::NotALabel { .. } => (Kind::Invalid, "bad_label"),
            GenerationError::LabelTaken { .. } => (Kind::Conflict, "label_exists"),
            GenerationError::NoLabel { .. } => (Kind::NotFound, "unknown_label"),
            GenerationError::TooManyLabels => (Kind::Conflict, "too_many_labels"),
            GenerationError::NameClash { .. } => (Kind::Conflict, "name_clash"),
            GenerationError::TwoBeginnings => (Kind::Invalid, "two_beginnings"),
            GenerationError::NotMasked { .. } => (Kind::Conflict, "not_masked"),
            GenerationError::Crashed(_) => (Kind::Failed, "internal"),
        }
    }
}
