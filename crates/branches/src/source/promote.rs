//! From a branch to a snapshot: its files are cloned, and made harmless as an import is. What a branch holds was written by
//! whoever held it, so it is trusted no more than an origin. Invariants G1 to G6 of docs/design/generations.md.

use super::{
    copied::Copied,
    draft::Draft,
    import::{invalid, Beginning, Importer},
    manifest::{Manifest, SourceRecord},
    snapshot::{is_access_file, KEPT_CACHE},
};
use crate::{
    error::EngineError,
    files::io_error,
    generation::Generation,
    model::{PromotedBranch, Sanitised},
};
use std::{fs, os::unix::fs::MetadataExt, path::Path};

/// Files by which a server would recover otherwise than from a crash. A branch has none, unless somebody put them there; a map
/// of tablespaces would have the server make links.
const RECOVERY_FILES: [&str; 2] = ["backup_label", "tablespace_map"];

/// A branch on its way to a generation of its source.
#[derive(Debug)]
pub(crate) struct Promotion<'a> {
    /// What the branch was made of.
    pub(crate) generation: &'a Generation,
    branch: PromotedBranch,
    /// A snapshot of the branch.
    snapshot: &'a Path,
}

impl<'a> Promotion<'a> {
    pub(crate) fn of(
        generation: &'a Generation,
        branch: PromotedBranch,
        snapshot: &'a Path,
    ) -> Promotion<'a> {
        Promotion { generation, branch, snapshot }
    }

    /// What the report says of rules for masking: they were applied before the branch began, and are not again, because a
    /// pseudonym would become another one.
    fn unmasked(&self) -> Option<Sanitised> {
        self.generation.manifest.masking.as_ref()?;
        Some(Sanitised {
            kind: "masking".to_owned(),
            object: format!("branch {}", self.branch.name),
            action:
                "what the branch wrote itself is as it wrote it; the rest was masked before the branch began"
                    .to_owned(),
        })
    }
}

impl Importer<'_> {
    /// Makes the next generation of a source of a snapshot of a branch. On failure nothing is left behind but that snapshot.
    pub(crate) async fn promote(
        &self,
        record: &SourceRecord,
        of: &Promotion<'_>,
    ) -> Result<Manifest, EngineError> {
        let draft = Draft::of_branch(self.home, self.store, record);
        self.say("copying the branch");
        tokio::task::block_in_place(|| {
            draft.clone_from(of.snapshot)?;
            self.take_over(&draft.path)
        })?;
        let past = &of.generation.manifest;
        let made_by = (of.generation.installation.clone(), past.database.clone());
        let copied = Copied {
            past,
            // Of the origin nothing is read: what was known of it when the branch's own generation was made still is.
            source_at_import: past.source_at_import.clone(),
            promoted: Some(of.branch.clone()),
            upgraded: None,
            report: of.unmasked().into_iter().collect(),
        };
        self.finish(record, made_by, Beginning::Copied(Box::new(copied)), draft).await
    }

    /// Leaves in a copy of a branch, or of a generation, only what a server's own files are, and gives them to the import's user (G3).
    pub(super) fn take_over(&self, dir: &Path) -> Result<(), EngineError> {
        for entry in walkdir::WalkDir::new(dir) {
            self.interrupt.check()?;
            let entry = entry.map_err(|error| io_error("read", dir, &error.into()))?;
            let path = entry.path();
            let relative = path.strip_prefix(dir).unwrap_or(path);
            let kind = entry.file_type();
            if !kind.is_dir() && !kind.is_file() {
                return Err(refuse(relative, "it is neither a file nor a directory"));
            }
            let found = entry.metadata().map_err(|error| io_error("read", path, &error.into()))?;
            if kind.is_file() && found.nlink() > 1 {
                return Err(refuse(relative, "it has a second name"));
            }
            if kind.is_file() && is_of_its_server(relative) {
                fs::remove_file(path).map_err(|error| io_error("remove", path, &error))?;
            } else if found.uid() != self.user.uid() {
                self.user.own(path).map_err(|error| io_error("own", path, &error))?;
            }
        }
        Ok(())
    }
}

/// Whether a file says how the branch is entered, recovered or started, of which its copy has nothing.
fn is_of_its_server(relative: &Path) -> bool {
    let Some(name) = relative.file_name().and_then(|name| name.to_str()) else { return false };
    if name == KEPT_CACHE || name == "pg_internal.init" {
        return true;
    }
    let is_on_top = relative.components().count() == 1;
    is_on_top && (RECOVERY_FILES.contains(&name) || is_access_file(name))
}

fn refuse(relative: &Path, why: &str) -> EngineError {
    let message = format!(
        "the data directory holds {}, which no server makes: {why}; nothing was made of it, and the source is as it was",
        relative.display()
    );
    invalid("branch_tampered", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_says_how_a_branch_is_entered_or_recovered_is_left_out() {
        for left_out in [
            "pg_hba.read-write.conf",
            "pg_hba.role.conf",
            "pg_hba.ddl.all.conf",
            "backup_label",
            "tablespace_map",
            "global/pg_internal.init",
            "base/5/duramen_internal.init",
        ] {
            assert!(is_of_its_server(Path::new(left_out)), "{left_out}");
        }
        for kept in [
            "pg_hba.conf",
            "PG_VERSION",
            "base/5/1259",
            "base/5/backup_label",
            "pg_wal/000000010000000000000001",
        ] {
            assert!(!is_of_its_server(Path::new(kept)), "{kept}");
        }
    }
}
