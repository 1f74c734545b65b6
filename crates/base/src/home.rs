//! The directory that holds sources, branches and packages of this machine.

use std::{env, path::PathBuf};

/// The home directory used when the caller names none: `DURAMEN_HOME`; else, for root, `/var/lib/duramen`; else a folder
/// in the user's folder for data.
///
/// # Examples
/// ```
/// assert!(duramen_base::home::usual().file_name().is_some());
/// ```
#[must_use]
pub fn usual() -> PathBuf {
    env::var_os("DURAMEN_HOME").filter(|home| !home.is_empty()).map_or_else(of_user, PathBuf::from)
}

/// The same, whatever `DURAMEN_HOME` says.
#[must_use]
pub fn of_user() -> PathBuf {
    if crate::system::is_root() {
        return PathBuf::from("/var/lib/duramen");
    }
    let data = env::var_os("XDG_DATA_HOME")
        .or_else(|| env::var_os("LOCALAPPDATA"))
        .map(PathBuf::from)
        .or_else(|| env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/share")));
    data.unwrap_or_else(env::temp_dir).join("duramen")
}
