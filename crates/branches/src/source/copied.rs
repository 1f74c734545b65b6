//! What is known of a copy that does not come from an origin, but of a generation that was imported before.

use super::{manifest::Manifest, sanitise::Earlier};
use crate::model::{PromotedBranch, Sanitised, SourceFingerprint, Upgraded};

/// A copy of a generation, or of a branch of one. It was made harmless once, and rules for masking were applied to it then; they are not
/// applied again, because a pseudonym would become another one.
#[derive(Debug)]
pub(super) struct Copied<'a> {
    /// The generation, as it was made.
    pub(super) past: &'a Manifest,
    /// What is known of the origin.
    pub(super) source_at_import: SourceFingerprint,
    /// The branch, if it is one.
    pub(super) promoted: Option<PromotedBranch>,
    /// How it came to another version, if it did.
    pub(super) upgraded: Option<Upgraded>,
    pub(super) report: Vec<Sanitised>,
}

impl Copied<'_> {
    /// What was taken out when the generation was made.
    pub(super) fn earlier(&self) -> Option<Earlier<'_>> {
        let own_roles = self.past.own_roles.as_ref()?;
        Some(Earlier { database: &self.past.database, own_roles })
    }
}
