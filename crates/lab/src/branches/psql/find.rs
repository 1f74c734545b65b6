//! Which `psql`: the one of the server that the source's branches run, else the one on the `PATH`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use duramen_postgres::Installation;
use tokio::process::Command;

use super::Psql;
use crate::branches::program::{finish, said};

/// It says its version within this.
const VERSION_LIMIT: Duration = Duration::from_secs(20);
const NAME: &str = "psql";

/// Why there is no `psql`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum PsqlError {
    /// Nothing that works was found.
    #[error(
        "no working psql was found (looked at: {looked}); install Debian's package postgresql-client, or put the directory \
         of another psql on the PATH"
    )]
    NotFound {
        /// The places with what is wrong there.
        looked: String,
    },
}

impl Psql {
    /// Finds the client for a server of this version; for that of a source that is not there yet if there is none.
    pub(crate) async fn find(home: &Path, server_version: Option<&str>) -> Result<Psql, PsqlError> {
        // If none can be listed, the one on the PATH is left.
        let installations = Installation::discover(home).unwrap_or_default();
        Psql::first_of(candidates(&installations, server_version)).await
    }

    /// The first that says its version.
    async fn first_of(candidates: Vec<PathBuf>) -> Result<Psql, PsqlError> {
        let mut looked = Vec::new();
        for program in candidates {
            let mut command = Command::new(&program);
            command.arg("--version");
            let reason = match finish(command, VERSION_LIMIT).await {
                Ok(output) if output.status.success() => {
                    return Ok(Psql { program, version: said(&output.stdout) });
                }
                Ok(output) => format!("{}: {} {}", program.display(), output.status, said(&output.stderr)),
                Err(error) => error.to_string(),
            };
            looked.push(reason);
        }
        Err(PsqlError::NotFound { looked: looked.join("; ") })
    }
}

/// Where to look, best first: beside the very server, beside one of its major version, on the `PATH`.
fn candidates(installations: &[Installation], server_version: Option<&str>) -> Vec<PathBuf> {
    // A new source has the first that is found.
    let first = installations.first().map(|first| first.version.to_string());
    let Some(server_version) = server_version.or(first.as_deref()) else { return vec![PathBuf::from(NAME)] };
    let version = server_version.split_whitespace().next().unwrap_or_default();
    let major = version.split('.').next().unwrap_or_default();
    let same = installations.iter().filter(|found| found.version.to_string() == version);
    let alike = installations
        .iter()
        .filter(|found| found.version.to_string() != version && found.version.major.to_string() == major);
    let mut programs: Vec<PathBuf> =
        same.chain(alike).map(|found| found.program(NAME)).filter(|program| program.exists()).collect();
    programs.push(PathBuf::from(NAME));
    programs
}

#[cfg(test)]
#[path = "../../../tests/unit/branches/psql_find.rs"]
mod tests;
