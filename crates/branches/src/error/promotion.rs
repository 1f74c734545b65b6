//! Why a branch does not become a generation of its source.

use super::{Coded, Kind};

#[derive(Debug, thiserror::Error)]
pub(crate) enum PromotionError {
    #[error("branch {branch} was made of generation {generation} of source {source_name}, whose rules for masking are others by now: what it holds was not masked by them; make a branch of the current generation, and promote that")]
    OtherRules { branch: String, source_name: String, generation: u32 },
    #[error("branch {branch} is of a generation that version 0.1 made, of which no branch is made any more; run `duramen source refresh {source_name}`, and make the branch anew")]
    Outdated { branch: String, source_name: String },
}

impl Coded for PromotionError {
    fn code(&self) -> (Kind, &'static str) {
        match self {
            PromotionError::OtherRules { .. } => (Kind::Conflict, "rules_changed"),
            PromotionError::Outdated { .. } => (Kind::Conflict, "snapshot_outdated"),
        }
    }
}
