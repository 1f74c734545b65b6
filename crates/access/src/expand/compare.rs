//! Who gained and who lost what between two syncs, by whatever way.

use std::collections::HashSet;
use std::ops::ControlFlow;

use xxhash_rust::xxh3::xxh3_128;

use super::{Effective, EffectiveGrant};
use crate::graph::format::key;

/// What happened to somebody's holding an entitlement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It is held in the newer sync only.
    Gained,
    /// It is held in the older sync only.
    Lost,
}

/// How much was gained and lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccessCounts {
    /// Pairs of a principal and an entitlement that only the newer sync has.
    pub gained: u64,
    /// Pairs that only the older sync has.
    pub lost: u64,
}

/// Calls `visit` with each entitlement that a principal holds in one of two syncs only, by a grant or through others; what
/// was lost first. It is the first grant by which it is held there. How something is held makes no difference. Takes about
/// 20 bytes for each pair of a principal and an entitlement that it holds.
pub fn compare(
    older: &Effective,
    newer: &Effective,
    visit: &mut dyn FnMut(Access, &EffectiveGrant<'_>) -> ControlFlow<()>,
) -> AccessCounts {
    let (old, new) = (held(older), held(newer));
    let mut counts = AccessCounts::default();
    let mut tell = |of: &Effective, other: &HashSet<u128>, access: Access| {
        let (mut key, mut last, mut count) = (Vec::new(), None, 0);
        let mut is_told = true;
        of.for_each(&mut |grant| {
            let hash = hash(grant, &mut key);
            // Grants of one pair follow each other.
            if last.replace(hash) != Some(hash) && !other.contains(&hash) {
                count += 1;
                is_told = is_told && visit(access, grant).is_continue();
            }
            ControlFlow::Continue(())
        });
        count
    };
    counts.lost = tell(older, &new, Access::Lost);
    counts.gained = tell(newer, &old, Access::Gained);
    counts
}

/// What is held, by whom.
fn held(effective: &Effective) -> HashSet<u128> {
    let (mut all, mut key) = (HashSet::new(), Vec::new());
    effective.for_each(&mut |grant| {
        all.insert(hash(grant, &mut key));
        ControlFlow::Continue(())
    });
    all
}

fn hash(grant: &EffectiveGrant<'_>, buffer: &mut Vec<u8>) -> u128 {
    let (of, holder) = (grant.entitlement, grant.principal);
    let parts = [of.resource_type, of.resource, of.id, holder.resource_type, holder.resource];
    key::join_into(buffer, &parts);
    xxh3_128(buffer)
}
