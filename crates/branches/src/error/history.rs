//! Why a branch of a moment is not made.

use super::{Coded, Kind};
use jiff::Timestamp;

#[derive(Debug, thiserror::Error)]
pub(crate) enum HistoryError {
    #[error("no history is kept of source {source_name}: duramen source follow {source_name} --keep-history 7d begins with it, and branches can be made of any moment from then on")]
    NotKept { source_name: String },
    #[error("{wanted} is out of reach: of source {source_name} there {possible}; `duramen source timeline {source_name}` shows it")]
    OutOfReach { source_name: String, wanted: String, possible: String },
    #[error("{wanted} has not come yet: by the clock of the origin of source {source_name} it is {now}")]
    TimeToCome { source_name: String, wanted: String, now: Timestamp },
    #[error("{wanted} is not written yet: the origin of source {source_name} has written up to {written}")]
    PositionToCome { source_name: String, wanted: String, written: String },
    #[error("{wanted} is not archived yet: what the archive of source {source_name} brought ends with the commit at {archived}; pg_switch_wal() at the origin has it archive more")]
    NotArchived { source_name: String, wanted: String, archived: String },
    #[error("{text:?} is not a valid position in a write-ahead log; write it as pg_current_wal_lsn() does: 0/1A2B3C8")]
    NotAPosition { text: String },
    #[error("a branch is made of a time or of a position, not of both")]
    TwoMoments,
}

impl Coded for HistoryError {
    fn code(&self) -> (Kind, &'static str) {
        match self {
            HistoryError::NotKept { .. } => (Kind::Conflict, "no_history"),
            HistoryError::OutOfReach { .. } => (Kind::NotFound, "moment_out_of_reach"),
            HistoryError::TimeToCome { .. }
            | HistoryError::PositionToCome { .. }
            | HistoryError::NotArchived { .. } => (Kind::Invalid, "moment_to_come"),
            HistoryError::NotAPosition { .. } => (Kind::Invalid, "bad_lsn"),
            HistoryError::TwoMoments => (Kind::Invalid, "two_beginnings"),
        }
    }
}
