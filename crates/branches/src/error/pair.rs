//! Why there is no pair, or no longer.

use super::{Coded, Kind};
use crate::capacity::Shortage;
use std::time::Duration;

#[derive(Debug, thiserror::Error)]
pub(crate) enum PairError {
    #[error("a pair of source {source_name} is lent already, and two at a time would disturb each other's figures; wait for the end of that run")]
    Busy { source_name: String },
    #[error("a pair needs at least {} MiB for what is written to it (`space_bytes`)", least >> 20)]
    TooLittle { least: u64 },
    #[error("{} MiB can be written to the volume store, and the pair needs {}: destroy branches, remove unused sources, or begin anew with a larger volume store (`duramen purge`, `duramen serve --volume-size`)", room >> 20, needed >> 20)]
    NoSpace { room: u64, needed: u64 },
    #[error(transparent)]
    NoRoom(Shortage),
    #[error("the pair was not made while {doing}: {reason}")]
    NotMade { doing: &'static str, reason: String },
    #[error("the pair was not there after {limit:?}, while {doing}, and was given up; the machine may be too busy")]
    TooSlow { doing: &'static str, limit: Duration },
    #[error("the {which} of the pair ended by itself; its log ends:\n{log}")]
    Ended { which: &'static str, log: String },
    #[error("the pair was lent for {limit:?}, and is gone; run fewer scenarios at a time")]
    OutOfTime { limit: Duration },
    #[error("who the pair was for has left, so it was given up")]
    CallerLeft,
    #[error("the source was removed while the pair was made; nothing is left of it")]
    SourceGone,
    #[error("the daemon is stopping, so the pair is gone; run again once it serves")]
    Stopping,
    #[error("making the pair ended without a word ({0}); the daemon's log says more")]
    Crashed(tokio::task::JoinError),
}

impl Coded for PairError {
    fn code(&self) -> (Kind, &'static str) {
        match self {
            PairError::Busy { .. } => (Kind::Conflict, "pair_lent"),
            PairError::TooLittle { .. } => (Kind::Invalid, "pair_too_small"),
            PairError::NoSpace { .. } => (Kind::Unavailable, "no_space"),
            PairError::NoRoom(_) => (Kind::Unavailable, "no_room"),
            PairError::NotMade { .. } => (Kind::Failed, "pair_failed"),
            PairError::TooSlow { .. } => (Kind::Timeout, "pair_failed"),
            PairError::Ended { .. } => (Kind::Failed, "pair_ended"),
            PairError::OutOfTime { .. } => (Kind::Timeout, "pair_ended"),
            PairError::SourceGone => (Kind::Conflict, "source_changed"),
            PairError::CallerLeft => (Kind::Unavailable, "client_gone"),
            PairError::Stopping => (Kind::Unavailable, "stopping"),
            PairError::Crashed(_) => (Kind::Failed, "internal"),
        }
    }
}
