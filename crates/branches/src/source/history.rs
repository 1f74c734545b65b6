//! What is kept of the past of a followed source: bases, and the segments of the log that follow them. The invariants H1 to H8 are in
//! `docs/design/history.md`.

mod keep;
mod ledger;
mod retain;

pub(crate) use keep::{clone_base, end_open, is_base_due, keep, received_timeline};
pub(super) use keep::{copy_file, copy_segment, log_of};
pub(crate) use ledger::{Chosen, Ledger, Mark, Stretch, Target};
pub(crate) use retain::{remove, retain, sweep, Rule};

use duramen_postgres::volume;
use std::path::{Path, PathBuf};

/// Where history is.
pub(crate) fn histories(store: &volume::Store) -> PathBuf {
    store.root.join("history")
}

/// That of a source.
fn history_path(store: &volume::Store, source: &str) -> PathBuf {
    histories(store).join(source)
}

/// That of a stretch of it.
fn stretch_path(store: &volume::Store, source: &str, stretch: u32) -> PathBuf {
    history_path(store, source).join(format!("{stretch:06}"))
}

/// Where the segments of a stretch are.
pub(super) fn wal_path(store: &volume::Store, source: &str, stretch: u32) -> PathBuf {
    stretch_path(store, source, stretch).join("wal")
}

/// A base of a stretch.
pub(super) fn base_path(store: &volume::Store, source: &str, stretch: u32, base: u32) -> PathBuf {
    stretch_path(store, source, stretch).join(format!("base-{base:06}"))
}

/// The names of files that a standby of this stretch need not keep, and that are not kept: of before it.
fn passed_path(wal: &Path) -> PathBuf {
    wal.with_file_name("passed")
}

/// Whether a standby may remove a segment or another file of its log, as a shell asks (H4).
pub(super) fn archive_command(wal: &Path) -> String {
    let quoted =
        |dir: &Path| format!("'{}'", dir.display().to_string().replace('%', "%%").replace('\'', "'\\''"));
    format!("test -e {}/%f || test -e {}/%f", quoted(wal), quoted(&passed_path(wal)))
}

/// The directory that a standby has to see for that.
pub(super) fn seen_by_standby(wal: &Path) -> &Path {
    wal.parent().unwrap_or(wal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_a_home_is_called_a_shell_and_a_server_read_the_same() {
        assert_eq!(
            archive_command(Path::new("/a 100%/it's/wal")),
            "test -e '/a 100%%/it'\\''s/wal'/%f || test -e '/a 100%%/it'\\''s/passed'/%f"
        );
    }
}
