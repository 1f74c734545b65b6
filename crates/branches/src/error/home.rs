//! Why a home cannot be used.

use super::{Coded, Kind};
use duramen_postgres::{volume::VolumeError, UserError};
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub(crate) enum HomeError {
    #[error("{0}")]
    NotTraversable(UserError),
    #[error("{} does not belong to the user who runs the daemon, or is shared by all; choose a directory of your own as --home", path.display())]
    Foreign { path: PathBuf },
    #[error("{} belongs to somebody else, so no socket is put there; remove it, or choose a shorter --home", path.display())]
    ForeignSockets { path: PathBuf },
    #[error("{} is missing, and without it nobody enters what was made under it, such as {}; put it back from a backup, or begin anew with `duramen purge`", path.display(), made_under.display())]
    MissingKey { path: PathBuf, made_under: PathBuf },
    #[error("{} holds {length} bytes instead of 32; put it back from a backup, or begin anew with `duramen purge`: what was imported under another key can no longer be entered", path.display())]
    DamagedKey { path: PathBuf, length: usize },
    #[error("{0}")]
    NoServerUser(UserError),
    #[error("{0}")]
    NoVolumes(VolumeError),
    #[error("{0}")]
    StillMounted(VolumeError),
}

impl Coded for HomeError {
    fn code(&self) -> (Kind, &'static str) {
        let code = match self {
            HomeError::NotTraversable(_) => "home_not_traversable",
            HomeError::Foreign { .. } | HomeError::ForeignSockets { .. } => "foreign_directory",
            HomeError::MissingKey { .. } => "missing_key",
            HomeError::DamagedKey { .. } => "damaged_key",
            HomeError::NoServerUser(_) => "no_server_user",
            HomeError::NoVolumes(_) => "no_volumes",
            HomeError::StillMounted(_) => "still_mounted",
        };
        (Kind::Failed, code)
    }
}
