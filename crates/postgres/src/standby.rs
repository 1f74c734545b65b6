//! Standbys: servers that replay what another one writes.

use crate::{
    cluster::{Cluster, ClusterError},
    settings::quote_literal,
    volume::copy_directory,
};
use std::path::{Path, PathBuf};

/// The longest `postgresql.conf` that is written on, in bytes.
const CONF_MAX: u64 = 4 << 20;

impl Cluster {
    /// Copies this cluster, whose server must be stopped, into `data_dir`, and makes a streaming standby of the copy:
    /// when it is started it connects to `upstream` (a libpq connection string) and replays from there.
    ///
    /// Unlike a base backup this needs no server to be up, so that both can be started at the same time afterwards.
    /// Symbolic links are not followed: a cluster with tablespaces cannot be copied so.
    ///
    /// # Errors
    /// [`ClusterError::Io`] when a file cannot be copied or written.
    pub fn cold_standby(
        &self,
        data_dir: impl Into<PathBuf>,
        upstream: &str,
    ) -> Result<Cluster, ClusterError> {
        let data_dir: PathBuf = data_dir.into();
        let io = |path: &Path, source| ClusterError::Io { path: path.display().to_string(), source };
        copy_directory(self.data_dir(), &data_dir).map_err(|error| io(&data_dir, error))?;
        let standby = self.with_data_dir(data_dir);
        standby.append_conf(&format!("primary_conninfo = {}\n", quote_literal(upstream)))?;
        standby.write_file("standby.signal", "")?;
        Ok(standby)
    }

    /// Adds lines to `postgresql.conf`; the last line of a name wins. What is set there can be changed by ALTER SYSTEM
    /// later, which settings that are given at the start cannot.
    ///
    /// # Errors
    /// [`ClusterError::Io`].
    pub fn append_conf(&self, lines: &str) -> Result<(), ClusterError> {
        let path = self.data_dir().join("postgresql.conf");
        let mut text = duramen_base::file::read_plain(&path, CONF_MAX)
            .map_err(|source| ClusterError::Io { path: path.display().to_string(), source })?;
        if !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(lines);
        self.write_file("postgresql.conf", &text)
    }
}
