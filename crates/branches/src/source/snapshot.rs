//! What lies in a snapshot, as those need to know who make it and who make branches of it.

use super::sanitise::ADMIN;
use crate::model::Policy;
use duramen_postgres::volume;
use std::{num::NonZeroU32, path::PathBuf};

/// The name under which a snapshot keeps its relation cache files.
pub(crate) const KEPT_CACHE: &str = "duramen_internal.init";

/// Rounds of the verifier of a holder's secret: the least that pgjdbc accepts. 130 bits need none.
pub(crate) const HOLDER_ITERATIONS: NonZeroU32 = NonZeroU32::new(4096).expect("it is not zero");

/// Where the snapshot of a generation lies.
pub(crate) fn snapshot_path(store: &volume::Store, source: &str, generation: u32) -> PathBuf {
    store.root.join("snapshots").join(format!("{source}.{generation:06}"))
}

/// The file with the access rules of one policy's branches.
pub(crate) fn hba_file(policy: Policy) -> String {
    format!("pg_hba.{policy}.conf")
}

/// Who may enter a branch: its policy's role and its administrator, each with a secret.
pub(crate) fn access_rules(policy: Policy) -> String {
    format!("local all {ADMIN} scram-sha-256\nlocal all {} scram-sha-256\n", policy.role())
}
