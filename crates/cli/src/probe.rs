//! Trying which volumes a directory offers, without leaving anything there.

use duramen_api::model::VolumeKind;
use duramen_branches::volume_kind;
use duramen_postgres::volume::{self, Choice};
use std::path::{Path, PathBuf};

/// The loop-backed store that is made for the trial is sparse and this large, the least that it can be.
const TRIAL_SIZE: u64 = 512 << 20;

/// What was found.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) kind: VolumeKind,
    pub(crate) reason: String,
    /// Whether clones have quotas of disk, or why not.
    pub(crate) quotas: Result<(), String>,
}

/// The nearest directory that exists on the way to `path`.
pub(crate) fn nearest(path: &Path) -> PathBuf {
    path.ancestors().find(|path| path.is_dir()).unwrap_or(Path::new("/")).to_owned()
}

/// Opens a volume store of its own in a temporary directory beside where the real one would lie.
///
/// # Errors
/// Why nothing can be tried there.
pub(crate) fn try_volumes(home: &Path) -> Result<Found, String> {
    let dir = nearest(home);
    let trial = tempfile::Builder::new()
        .prefix(".duramen-doctor-")
        .tempdir_in(&dir)
        .map_err(|error| format!("cannot write to {}: {error}", dir.display()))?;
    let store = volume::open(trial.path(), Choice::Auto, TRIAL_SIZE).map_err(|error| error.to_string())?;
    let quotas = store.quotas().map(drop).map_err(str::to_owned);
    let found = Found { kind: volume_kind(store.volumes.kind()), reason: store.reason.clone(), quotas };
    // Unmounted first: removing the directory would otherwise fail on the mount.
    store.close().map_err(|error| error.to_string())?;
    trial.close().map_err(|error| format!("cannot remove the trial in {}: {error}", dir.display()))?;
    let trial_name = "a trial beside the home";
    Ok(Found { reason: plain_reason(&found, trial_name), ..found })
}

/// The store's own sentence names the trial's paths, which are gone.
fn plain_reason(found: &Found, trial: &str) -> String {
    if found.reason.contains("btrfs file system in a file") {
        format!("a btrfs file system in a file could be made and mounted in {trial}")
    } else {
        match found.kind {
            VolumeKind::Btrfs => "the home lies on btrfs".to_owned(),
            VolumeKind::Reflink => "the home's file system shares extents between files".to_owned(),
            VolumeKind::Copy => match found.reason.split_once("is not possible: ") {
                Some((_, reason)) => format!("no snapshots, no reflinks, no loop-backed btrfs: {reason}"),
                None => "no snapshots, no reflinks, no loop-backed btrfs".to_owned(),
            },
        }
    }
}
