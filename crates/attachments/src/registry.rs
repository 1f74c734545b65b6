//! Which attachments a home has. They are in one file, which is replaced as a whole before a change is acknowledged.

use duramen_api::{
    attachments::{AddAttachment, Attachment, AttachmentKind},
    names::{self, BadName},
};
use duramen_base::{clock, file};
use duramen_postgres::connection::{without_password, Target};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

/// The name of the file in a home.
const FILE: &str = "attachments.json";
/// URLs may hold passwords.
const FILE_MODE: u32 = 0o600;
/// The largest file that is read.
const FILE_MAX: u64 = 1 << 20;
/// How many there are at most.
pub const ATTACHMENTS_MAX: usize = 64;
/// The longest path or URL, in bytes.
pub const AT_MAX: usize = 4096;

/// Why something was not attached, or is not there.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// The name is none.
    #[error(transparent)]
    Name(#[from] BadName),
    /// The name is taken.
    #[error("{0} is attached already; `duramen attachment remove {0}` first, or choose another name")]
    Exists(String),
    /// There is none of that name.
    #[error("nothing is attached as {0:?}; `duramen attachment list` shows what is")]
    Unknown(String),
    /// It is another thing.
    #[error("{name} is a {found}, and this is asked of a {wanted}")]
    OtherKind {
        /// The name.
        name: String,
        /// What it is.
        found: AttachmentKind,
        /// What it would have to be.
        wanted: AttachmentKind,
    },
    /// It is not there, or not what it is said to be.
    #[error("{at} cannot be attached as a {kind}: {cause}")]
    Unfit {
        /// Where it should be.
        at: String,
        /// What it should be.
        kind: AttachmentKind,
        /// Why not.
        cause: String,
    },
    /// There are enough.
    #[error("{ATTACHMENTS_MAX} things are attached, and there are no more than that; `duramen attachment remove` one first")]
    Full,
    /// The change cannot be written down, or what is written cannot be read.
    #[error("{path}: {source}; make room or fix the file, and try again")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// The attachments of a home.
#[derive(Debug)]
pub struct Registry {
    path: PathBuf,
    kept: Mutex<BTreeMap<String, Kept>>,
}

/// Something attached, as the file has it: with its password.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    name: String,
    kind: AttachmentKind,
    at: String,
    attached_at: Timestamp,
}

impl std::fmt::Debug for Kept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kept").field("name", &self.name).field("kind", &self.kind).finish_non_exhaustive()
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    attachments: Vec<Kept>,
}

impl Kept {
    fn shown(&self) -> Attachment {
        let at = match self.kind {
            AttachmentKind::Functions => without_password(&self.at),
            AttachmentKind::Store | AttachmentKind::Pack | AttachmentKind::Lab => self.at.clone(),
        };
        Attachment { name: self.name.clone(), kind: self.kind, at, attached_at: self.attached_at }
    }
}

impl Registry {
    /// Reads the attachments of a home.
    ///
    /// # Errors
    /// [`RegistryError::File`] when the file is there and cannot be read.
    ///
    /// # Examples
    /// ```
    /// use duramen_api::attachments::{AddAttachment, AttachmentKind};
    /// use duramen_attachments::registry::Registry;
    ///
    /// let home = tempfile::tempdir()?;
    /// let registry = Registry::open(home.path())?;
    /// let at = home.path().to_str().unwrap().to_owned();
    /// registry.add(AddAttachment { name: "measured".to_owned(), kind: AttachmentKind::Lab, at: at.clone() })?;
    /// assert_eq!(registry.find("measured", AttachmentKind::Lab)?, at);
    /// assert!(registry.find("measured", AttachmentKind::Store).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn open(home: &Path) -> Result<Registry, RegistryError> {
        let path = home.join(FILE);
        let kept = read(&path).map_err(|source| RegistryError::File { path: path.clone(), source })?;
        Ok(Registry { path, kept: Mutex::new(kept) })
    }

    /// All of them, by name.
    #[must_use]
    pub fn list(&self) -> Vec<Attachment> {
        self.lock().values().map(Kept::shown).collect()
    }

    /// Attaches something. That it is there and of its kind is looked at first.
    ///
    /// # Errors
    /// [`RegistryError`]: the name, what is at the place, or the file.
    pub fn add(&self, wanted: AddAttachment) -> Result<Attachment, RegistryError> {
        let AddAttachment { name, kind, at } = wanted;
        names::check("thing to attach", &name)?;
        check(kind, &at).map_err(|cause| RegistryError::Unfit { at: without_password(&at), kind, cause })?;
        let mut kept = self.lock();
        if kept.contains_key(&name) {
            return Err(RegistryError::Exists(name));
        }
        if kept.len() >= ATTACHMENTS_MAX {
            return Err(RegistryError::Full);
        }
        let fresh = Kept { name: name.clone(), kind, at, attached_at: clock::utc_now() };
        let shown = fresh.shown();
        let mut next = kept.clone();
        next.insert(name, fresh);
        self.write(&next)?;
        *kept = next;
        Ok(shown)
    }

    /// Takes something away; what was attached is left as it is.
    ///
    /// # Errors
    /// [`RegistryError::Unknown`], or the file.
    pub fn remove(&self, name: &str) -> Result<Attachment, RegistryError> {
        let mut kept = self.lock();
        let mut next = kept.clone();
        let gone = next.remove(name).ok_or_else(|| RegistryError::Unknown(name.to_owned()))?;
        self.write(&next)?;
        *kept = next;
        Ok(gone.shown())
    }

    /// Where the attachment of a name is, password included, if it is of a kind.
    ///
    /// # Errors
    /// [`RegistryError::Unknown`], [`RegistryError::OtherKind`].
    pub fn find(&self, name: &str, wanted: AttachmentKind) -> Result<String, RegistryError> {
        let kept = self.lock();
        let found = kept.get(name).ok_or_else(|| RegistryError::Unknown(name.to_owned()))?;
        if found.kind != wanted {
            return Err(RegistryError::OtherKind { name: name.to_owned(), found: found.kind, wanted });
        }
        Ok(found.at.clone())
    }

    /// What a store is shown of, and where: a store, or a pack, which may hold a branch of one.
    ///
    /// # Errors
    /// As [`find`](Self::find).
    pub fn find_store(&self, name: &str) -> Result<(AttachmentKind, String), RegistryError> {
        match self.find(name, AttachmentKind::Pack) {
            Ok(at) => Ok((AttachmentKind::Pack, at)),
            Err(_) => Ok((AttachmentKind::Store, self.find(name, AttachmentKind::Store)?)),
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, kept: &BTreeMap<String, Kept>) -> Result<(), RegistryError> {
        let fail = |source| RegistryError::File { path: self.path.clone(), source };
        let file = File { attachments: kept.values().cloned().collect() };
        let text = serde_json::to_vec_pretty(&file).map_err(|error| fail(error.into()))?;
        file::replace(&self.path, &text, FILE_MODE).map_err(fail)
    }
}

fn read(path: &Path) -> io::Result<BTreeMap<String, Kept>> {
    let text = match file::read_plain(path, FILE_MAX) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        text => text?,
    };
    let File { attachments } = serde_json::from_str(&text)?;
    Ok(attachments.into_iter().map(|kept| (kept.name.clone(), kept)).collect())
}

/// Why something at a place is not what it should be, if it is not.
fn check(kind: AttachmentKind, at: &str) -> Result<(), String> {
    if at.len() > AT_MAX {
        return Err(format!("it is longer than {AT_MAX} bytes"));
    }
    if kind == AttachmentKind::Functions {
        return Target::parse(at).map(|_| ()).map_err(|error| error.to_string());
    }
    let path = Path::new(at);
    if !path.is_absolute() {
        return Err("it is not an absolute path".to_owned());
    }
    let found = fs::metadata(path).map_err(|error| error.to_string())?;
    match kind {
        AttachmentKind::Pack if !found.is_file() => Err("it is not a file".to_owned()),
        AttachmentKind::Store | AttachmentKind::Lab if !found.is_dir() => {
            Err("it is not a directory".to_owned())
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
#[path = "../tests/unit/registry.rs"]
mod tests;
