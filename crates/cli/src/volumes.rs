//! How the command line names ways to clone volumes.

use clap::ValueEnum;
use duramen_postgres::volume::Choice;

/// How volumes are cloned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum VolumesName {
    /// The best that works here
    Auto,
    /// btrfs snapshots, in a loop-backed file where need be
    Btrfs,
    /// Reflink copies
    Reflink,
    /// Plain copies
    Copy,
}

impl From<VolumesName> for Choice {
    fn from(name: VolumesName) -> Choice {
        match name {
            VolumesName::Auto => Choice::Auto,
            VolumesName::Btrfs => Choice::Btrfs,
            VolumesName::Reflink => Choice::Reflink,
            VolumesName::Copy => Choice::Copy,
        }
    }
}
