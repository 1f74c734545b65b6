//! What `pg_control` of a standby tells: of which server it is, and how far it has replayed.

use super::{origin_server::import_failed, standby::standby_path, standby::Place, wal::Position};
use crate::error::{EngineError, Kind};
use duramen_postgres::{Cluster, Installation};

/// What a data directory is of, and how far it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Control {
    /// By which it is known from those of other servers.
    pub(super) system: u64,
    pub(super) segment_size: u64,
    pub(super) page_size: u64,
    /// Where a server that starts begins to replay.
    pub(super) redo: Position,
    /// The timeline that it is known to be in.
    pub(super) timeline: u32,
    /// Up to where it must have replayed to be consistent.
    pub(super) needed: Position,
    /// Whether a copy has not been replayed up to where it was complete.
    pub(super) is_in_backup: bool,
    /// Whether its server ended in order, while it was replaying.
    pub(super) is_stopped: bool,
}

impl Control {
    fn read(printed: &str) -> Option<Control> {
        let text = |name: &str| {
            let of_line = |line: &str| Some(line.strip_prefix(name)?.strip_prefix(':')?.trim().to_owned());
            printed.lines().find_map(of_line)
        };
        let number = |name: &str| text(name)?.parse::<u64>().ok();
        let position = |name: &str| text(name)?.parse::<Position>().ok();
        let timeline = |name: &str| text(name)?.parse::<u32>().ok();
        Some(Control {
            system: number("Database system identifier")?,
            segment_size: number("Bytes per WAL segment")?,
            page_size: number("WAL block size")?,
            redo: position("Latest checkpoint's REDO location")?,
            timeline: timeline("Latest checkpoint's TimeLineID")?
                .max(timeline("Min recovery ending loc's timeline")?),
            needed: position("Minimum recovery ending location")?,
            is_in_backup: position("Backup start location")?.0 != 0
                || position("Backup end location")?.0 != 0
                || text("End-of-backup record required")? != "no",
            is_stopped: text("Database cluster state")? == "shut down in recovery",
        })
    }
}

impl Place<'_> {
    /// That of a source's standby. Blocks.
    pub(super) fn control(&self, source: &str, installation: &Installation) -> Result<Control, EngineError> {
        let path = standby_path(self.store, source);
        let cluster = Cluster::new(installation.clone(), &path, self.user.clone());
        let printed = cluster
            .run("pg_controldata", &["-D".to_owned(), path.display().to_string()], None)
            .map_err(|error| import_failed(&error))?;
        Control::read(&printed).ok_or_else(|| {
            EngineError::new(
                Kind::Failed,
                "import_failed",
                format!(
                    "pg_controldata does not tell what system {} is of, and how far it is",
                    path.display()
                ),
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRINTED: &str = "\
pg_control version number:            1300
Database system identifier:           7461234567890123456
Database cluster state:               shut down in recovery
Latest checkpoint location:           0/3000060
Latest checkpoint's REDO location:    0/3000028
Latest checkpoint's TimeLineID:       1
Minimum recovery ending location:     0/3000A10
Min recovery ending loc's timeline:   2
Backup start location:                0/0
Backup end location:                  0/0
End-of-backup record required:        no
WAL block size:                       8192
Bytes per WAL segment:                16777216
";

    #[test]
    fn what_is_told_is_all_there_or_nothing_is() {
        let found = Control::read(PRINTED).expect("it is told");
        assert_eq!(
            (found.redo, found.needed, found.timeline),
            (Position(0x0300_0028), Position(0x0300_0A10), 2)
        );
        assert!(found.is_stopped && !found.is_in_backup);
        let in_backup =
            PRINTED.replace("Backup end location:                  0/0", "Backup end location: 0/4");
        assert!(Control::read(&in_backup).expect("it is told").is_in_backup);
        for line in
            PRINTED.lines().filter(|line| !line.starts_with("pg_") && !line.contains("checkpoint location"))
        {
            assert_eq!(Control::read(&PRINTED.replace(line, "")), None, "{line}");
        }
    }
}
