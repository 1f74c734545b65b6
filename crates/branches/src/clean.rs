//! Whether a source is as it was imported: for who wants a branch of nothing else.

use crate::{
    engine::Engine,
    error::{EngineError, SourceError},
    source::fingerprint,
};

impl Engine {
    /// Refuses unless the snapshot's files have the digest of their import, and the live source the contents. All of both is read.
    ///
    /// # Errors
    /// When that is not so, or not known.
    pub(crate) async fn require_clean(&self, name: &str) -> Result<(), EngineError> {
        let generation = self.source(name)?.generation;
        let manifest = self.sealed(name, generation).await?;
        let not_clean = |reason: String| SourceError::NotClean { name: name.to_owned(), reason };
        if self.snapshot_digest(name, generation).await? != manifest.digest {
            return Err(
                not_clean("the files of its snapshot are not those that were imported".to_owned()).into()
            );
        }
        let then = &manifest.source_at_import;
        let now = match fingerprint::is_of_none(then) {
            true => then.clone(),
            false => self.fingerprint_source(name).await?,
        };
        let compared = fingerprint::compare(then, &now);
        if !compared.comparable {
            return Err(not_clean("the live source cannot be compared with what it was".to_owned()).into());
        }
        if !compared.unchanged {
            let reason = format!("the live source has changed since: {}", compared.differences.join("; "));
            return Err(not_clean(reason).into());
        }
        Ok(())
    }
}
