//! The key of a home, from which every secret in it is derived.

use crate::{
    error::{EngineError, HomeError},
    files::{self, io_error},
    journal,
};
use duramen_base::entropy;
use duramen_postgres::Secret;
use serde::Deserialize;
use std::{
    fs,
    path::{Path, PathBuf},
};

/// The key of a home, which is never shown.
#[derive(Clone)]
pub(crate) struct Key([u8; 32]);

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key(..)")
    }
}

impl Key {
    /// Reads the key of a home, or makes one where there is none and nothing needs an earlier one.
    pub(crate) fn open(root: &Path) -> Result<Key, EngineError> {
        let path = root.join("key");
        let key = match fs::read(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                if let Some(made_under) = made_under_a_key(root)? {
                    return Err(HomeError::MissingKey { path, made_under }.into());
                }
                let key = entropy::random_bytes::<32>();
                files::replace(&path, &key).map_err(|error| io_error("write the key", &path, &error))?;
                return Ok(Key(key));
            }
            key => key.map_err(|error| io_error("read the key", &path, &error))?,
        };
        let length = key.len();
        Ok(<[u8; 32]>::try_from(key).map(Key).map_err(|_| HomeError::DamagedKey { path, length })?)
    }

    /// The secret that the key gives for a purpose.
    pub(crate) fn derive(&self, purpose: &str) -> Secret {
        Secret::derived(&self.0, purpose)
    }
}

/// A file that says that something in the home has secrets that were derived from a key: a lease or a generation of a
/// source. Those of version 0.1 have none. What cannot be read counts, because it may be one of them.
fn made_under_a_key(root: &Path) -> Result<Option<PathBuf>, EngineError> {
    let journal = root.join("leases.jsonl");
    let leases = match fs::read(&journal) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        leases => leases.map_err(|error| io_error("read", &journal, &error))?,
    };
    if journal::is_of_today(&leases) {
        return Ok(Some(journal));
    }
    let list = |dir: &Path| -> Result<Vec<PathBuf>, EngineError> {
        let entries = fs::read_dir(dir).and_then(|entries| entries.collect::<Result<Vec<_>, _>>());
        Ok(entries.map_err(|error| io_error("list", dir, &error))?.iter().map(fs::DirEntry::path).collect())
    };
    for source in list(&root.join("sources"))?.iter().filter(|path| path.is_dir()) {
        let is_manifest = |path: &&PathBuf| path.file_name().is_some_and(|name| name != "source.json");
        for manifest in list(source)?.iter().filter(is_manifest) {
            let text = fs::read(manifest).map_err(|error| io_error("read", manifest, &error))?;
            if serde_json::from_slice::<Format>(&text).map_or(true, |manifest| manifest.format > 0) {
                return Ok(Some(manifest.clone()));
            }
        }
    }
    Ok(None)
}

/// The part of a manifest that says whether its snapshot holds secrets; those of version 0.1 have no such field.
#[derive(Deserialize)]
struct Format {
    #[serde(default)]
    format: u32,
}
